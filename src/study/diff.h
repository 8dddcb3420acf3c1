// Two runs, or two traces, compared: what was put in, what came out, and where they part (isobit diff).
//
// Results are what was computed: steps, measurements, checkpoints, final weights; of traces the operators' outputs.
// They alone make the verdict. Differences of experiment and data are listed with `counts` where results may depend on
// them; those of code, environment and hardware never count. No step in common, or a run that is not finished and equal
// so far: unknown. Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "study/compared_run.h"
#include "study/operator_difference.h"

namespace isobit::study {

enum class Results { equal, differ, unknown };
[[nodiscard]] const char* to_string(Results results);

struct DiffSide {
  std::string id, name, path, contract;
};

struct InputDifferenceOfRuns {
  std::string part;  // "experiment", "data", "code", "environment", "hardware"
  std::string key, a, b;
  bool counts = false;
};

struct Compared {
  std::int64_t steps = 0, metrics = 0, checkpoints = 0, operators = 0;
};

struct FirstStep {
  std::int64_t step = 0, epoch = 0;
  std::string field;  // "batch", "loss", "gradients", "weights", "optimizer"
  std::string a, b;   // "": that run has no such step
};

struct Diff {
  Results results = Results::unknown;
  DiffSide a, b;
  std::vector<InputDifferenceOfRuns> differences;
  std::string code_diff;
  Compared compared;
  std::optional<FirstStep> first_step;
  std::optional<OperatorDifference> first_operator;
  std::string not_looked_into;     // why no operator could be named
  std::vector<std::string> notes;  // what the verdict rests on, and what else differs, in words
  // After this step both runs had recorded the same weights: what makes them part comes later.
  std::int64_t equal_weights_after = 0;
};

[[nodiscard]] Diff compare_runs(const ComparedRun& a, const ComparedRun& b);
[[nodiscard]] Diff compare_traces(const trace::Trace& a, const trace::Trace& b);

// The object of docs/cli.md, "isobit-diff-1", on one line without its newline; ASCII.
[[nodiscard]] std::string to_json(const Diff& diff);

}  // namespace isobit::study
