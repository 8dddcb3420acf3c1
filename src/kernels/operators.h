// An enum of operators from its list: one line per operator, from which everything that goes over all of them is made.
//
//   #define ISOBIT_THINGS(f)  f(name, columns...)  f(...)    each line's first column is the enumerator
//   ISOBIT_OPERATORS(Thing, ISOBIT_THINGS)
// makes
//   enum class Thing { ... };
//   kAllThing     an array of all enumerators, in the list's order: what tests and golden values go over
//   name(Thing)   the enumerator as text
// A switch over such an enum is written by the list, or has no `default:`: a missing case does not compile.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#ifndef __CUDACC__
#pragma GCC diagnostic error "-Wswitch"
#endif

namespace isobit::kernels {

template <class Op, std::size_t count>
constexpr std::array<Op, count> first_enumerators() {
  std::array<Op, count> all{};
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<Op>(i);
  return all;
}

}  // namespace isobit::kernels

#define ISOBIT_ENUMERATOR(name, ...) name,
#define ISOBIT_COUNTED(...) +1
#define ISOBIT_QUOTED(name, ...) #name,

#define ISOBIT_OPERATORS(Op, list)                                                                     \
  enum class Op { list(ISOBIT_ENUMERATOR) };                                                           \
  inline constexpr auto kAll##Op = ::isobit::kernels::first_enumerators<Op, 0 list(ISOBIT_COUNTED)>(); \
  [[nodiscard]] constexpr std::string_view name(Op op) {                                               \
    constexpr std::string_view names[] = {list(ISOBIT_QUOTED)};                                        \
    return names[static_cast<std::size_t>(op)];                                                        \
  }
