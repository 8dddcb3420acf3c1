// Exact operators: stock kernels whose results need no contract, because IEEE-754 leaves them no choice.
//
// An allowlist per overload, each with the reason; a type alone is no reason (randperm returns integers, and
// draws). Most hold under a condition, the rule, which the guard checks at each call. tests/aten/exact_test.cpp
// runs each on hostile inputs under every CPU capability and thread count that stock has.
// On CUDA devices a part of the list holds: what copies, views, compares, selects, or computes with integers. No stock
// floating-point arithmetic is passed there. Thread-safe.
#pragma once

#include <string_view>
#include <vector>

namespace isobit::aten {

enum class ExactRule {
  moves,         // values are copied, viewed or described: never rounded, nothing to check
  allocates,     // memory without values: what the program asks for is filled with NaN (uninitialised.h)
  inspects,      // compared, selected or converted: correct wherever subnormals are kept
  converts,      // copies that may change the type: floats beyond an integer type are saturated (contract, section 1)
  reinterprets,  // the same bits as another type: of floats only where every NaN is the canonical one
  real,          // exact on real numbers of every width: changes the sign or drops digits
  collects,      // between processes: integers, or any values where the group has one rank
  rounds,        // one correctly rounded operation: binary32 and binary64 (no 16-bit floats, no complex)
  integers,      // integers and bool only: no floating tensor, dtype or scalar takes part
  places,        // writes by index: duplicates are resolved in ascending order
  sorts,         // sorts, made stable
};

struct ExactOperator {
  std::string_view name;  // "aten::add.Tensor"
  ExactRule rule;
  std::string_view reason;
  bool on_device;                  // allowed for CUDA tensors too
  std::string_view device_reason;  // where not: why
};

// Sorted by name.
[[nodiscard]] const std::vector<ExactOperator>& exact_operators();

// nullptr where the list has no such operator.
[[nodiscard]] const ExactOperator* find_exact(std::string_view full_name);

}  // namespace isobit::aten
