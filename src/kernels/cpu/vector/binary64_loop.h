// Formulas of single numbers of binary64 over arrays: loops that the compiler turns into vectors where it can.
#pragma once

#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

template <std::int64_t smallest>  // elements worth a thread
struct LoopMap {
  template <class Formula, class... Input>
  static void run(Formula formula, double* y, std::int64_t n, const Input*... inputs) {
    parallel_for(0, n, smallest, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = formula(inputs[i]...);
    });
  }
};

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
