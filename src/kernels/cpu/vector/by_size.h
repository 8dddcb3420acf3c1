// A table of a function template's instances, by a number that is known when it runs.
#pragma once

#include <type_traits>
#include <utility>

namespace isobit::kernels::ISOBIT_ISA {
namespace {

template <class Function, int kMost>
struct BySize {
  Function of[kMost + 1] = {};  // of[0] is none
};

// of[i] = at(std::integral_constant<int, i>()), 1 <= i <= kMost
template <int kMost, class At>
constexpr auto by_size(At at) {
  BySize<decltype(at(std::integral_constant<int, 1>())), kMost> table;
  [&]<int... i>(std::integer_sequence<int, i...>) {
    ((table.of[i + 1] = at(std::integral_constant<int, i + 1>())), ...);
  }(std::make_integer_sequence<int, kMost>());
  return table;
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
