// What refusals advise: what operators of a family serve, and what computes the same with operators that are not
// refused.
//
// A family is named by the beginning of its operators' names. Operators that no family has get a search for names
// alike, and only one that finds operators that may run (remedies_test.cpp tries all). Thread-safe.
#pragma once

#include <span>
#include <string_view>

namespace isobit::aten {

struct Family {
  std::string_view names;    // beginnings, with a space between: "hann_window hamming_window", "c10d::"
  std::string_view purpose;  // "windows of spectra"; may be empty
  std::string_view remedy;   // what to do instead
  std::string_view instead;  // the operators of aten that the remedy names, with a space between: none of them refused
};

[[nodiscard]] std::span<const Family> families();

// By a full name, "aten::hann_window.periodic"; null where no family has it.
[[nodiscard]] const Family* family_of(std::string_view op);

// What to search for among the operators: as much of the name as some certified operator begins with. Empty where that
// would find nothing.
[[nodiscard]] std::string_view search_word(std::string_view op);

}  // namespace isobit::aten
