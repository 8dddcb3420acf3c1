// The first operator that gave other outputs for the same inputs, between two traces of one program.
//
// Operators are matched by their key (step, phase, module, name, occurrence) over the steps that both traces have, in
// the order of the first. Inputs are equal where the arguments are and every tensor's fingerprint is; one without a
// fingerprint that matters makes an operator's inputs unknown, and it is never named. Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "study/ulp_distance.h"
#include "trace/trace_file.h"

namespace isobit::study {

struct OperatorDifference {
  trace::OperatorKey key;
  std::size_t output = 0;  // the first that differs
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::optional<ValueDifference> values;  // where both traces keep them
};

struct InputDifference {
  trace::OperatorKey key;
  std::string what;  // "input 1", "the arguments (2,0.5 | 2,0.25)"
};

struct TraceComparison {
  std::int64_t steps = 0, operators = 0;             // in both
  std::int64_t differing = 0;                        // of those: with other outputs
  std::int64_t unknown = 0;                          // of those: with tensors that have no fingerprint
  std::optional<OperatorDifference> first;           // inputs equal, outputs not
  std::optional<InputDifference> inputs;             // the first whose inputs differ, before `first` or without one
  std::optional<trace::OperatorKey> only_a, only_b;  // the first that the other one lacks
  std::vector<std::int64_t> steps_only_a, steps_only_b;

  [[nodiscard]] bool comparable() const { return steps > 0; }
  [[nodiscard]] bool equal() const { return differing == 0 && !inputs && !only_a && !only_b; }
};

[[nodiscard]] TraceComparison compare_operators(const trace::Trace& a, const trace::Trace& b);

// Elementwise, from the files of values beside the traces; nothing where they do not keep this output.
[[nodiscard]] std::optional<ValueDifference> compare_kept_values(const trace::Trace& a, const trace::Trace& b,
                                                                 const trace::OperatorKey& key, std::size_t output);

}  // namespace isobit::study
