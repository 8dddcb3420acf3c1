// A formula over arrays, a register of lanes at a time.
#pragma once

#include "kernels/cpu/vector/lanes.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

struct LaneMap {
  template <class Formula, class... Input>
  static void run(Formula formula, float* y, std::int64_t n, const Input*... inputs) {
    parallel_for(0, n, 8192, [=](std::int64_t begin, std::int64_t end) {
      std::int64_t i = begin;
      for (; i + kLanes <= end; i += kLanes) store(y + i, formula(load(inputs + i)...));
      const std::int64_t rest = end - i;  // absent lanes hold 1, which no formula makes slow
      if (rest > 0) store_first(y + i, formula(load_first(inputs + i, rest, 1.0f)...), rest);
    });
  }
};

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
