// A formula over arrays, several registers of lanes at a time.
#pragma once

#include <type_traits>

#include "kernels/cpu/vector/lane_group.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// [i, end) as far as whole groups go; returns the first element left.
template <class Group, class Formula, class... Input>
ISOBIT_INLINE std::int64_t map_groups(Formula formula, float* y, std::int64_t i, std::int64_t end,
                                      const Input*... inputs) {
  const auto group = [](const float* p) __attribute__((always_inline)) {
    Group x;
    read(p, x);
    return x;
  };
  for (; i + kLanesOf<Group> <= end; i += kLanesOf<Group>) store(y + i, formula(group(inputs + i)...));
  return i;
}

// y[i] = formula(inputs[i]...) for i in [begin, end), on the calling thread.
template <class Group, class Formula, class... Input>
ISOBIT_INLINE void map_range(Formula formula, float* y, std::int64_t begin, std::int64_t end, const Input*... inputs) {
  std::int64_t i = begin;
  if constexpr (!std::is_same_v<Group, FloatLanes>) i = map_groups<Group>(formula, y, i, end, inputs...);
  i = map_groups<FloatLanes>(formula, y, i, end, inputs...);
  const std::int64_t rest = end - i;  // absent lanes hold 1, which no formula makes slow
  if (rest > 0) store_first(y + i, formula(load_first(inputs + i, rest, 1.0f)...), rest);
}

// How many elements of a formula are computed at a time, as a type of lanes.
template <class Formula>
struct GroupOf {
  using type = FloatGroup;
};

struct LaneMap {
  template <class Formula, class... Input>
  static void run(Formula formula, float* y, std::int64_t n, const Input*... inputs) {
    using Group = typename GroupOf<Formula>::type;
    constexpr bool kGrouped = std::is_invocable_v<Formula, std::enable_if_t<sizeof(Input) != 0, Group>...>;
    parallel_for(0, n, 8192, [=](std::int64_t begin, std::int64_t end) {
      map_range<std::conditional_t<kGrouped, Group, FloatLanes>>(formula, y, begin, end, inputs...);
    });
  }
};

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
