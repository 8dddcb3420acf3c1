// Composite operators: stock code that produces floating-point values only by calling other operators.
//
// An allowlist per overload. Being a composite to PyTorch is not enough (many compute by themselves, or reach
// kernels that are refused); tests/aten/composite_test.cpp runs them under an observer. Thread-safe.
#pragma once

#include <string_view>
#include <vector>

namespace isobit::aten {

// Full names ("aten::reshape", "aten::to.dtype"), sorted.
[[nodiscard]] const std::vector<std::string_view>& composite_operators();

// PyTorch's operators written in Python: they compute by calling operators, and can do nothing else. In the dispatcher
// once Python has defined them; tests/python/composite_test.py runs them. Sorted, none of the list above.
[[nodiscard]] const std::vector<std::string_view>& python_composites();

// Of either list.
[[nodiscard]] bool is_composite(std::string_view full_name);

}  // namespace isobit::aten
