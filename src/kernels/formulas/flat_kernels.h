// The entry points of flat_elements.h, over a map that applies a formula to arrays (as pointwise_kernels.h).
#pragma once

#include "kernels/dispatch/kernel_table.h"
#include "kernels/formulas/pointwise_formulas.h"

namespace isobit::kernels::ISOBIT_ISA {

template <ExactBinary op>
struct FlatFormula {
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane a, Lane b) const {
#define ISOBIT_IF(name, formula, ...) \
  if constexpr (op == ExactBinary::name) return formula;
    ISOBIT_EXACT_BINARY(ISOBIT_IF)
#undef ISOBIT_IF
  }
};
template <ExactBinary op, bool number_first>
struct WithNumber {
  float number;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane a) const {
    return number_first ? FlatFormula<op>()(Lane(number), a) : FlatFormula<op>()(a, Lane(number));
  }
};

template <class Map>
struct FlatKernels {
  static void flat_binary(ExactBinary op, const float* a, const float* b, float* y, std::int64_t n) {
    switch (op) {
#define ISOBIT_CASE(name, ...) \
  case ExactBinary::name: return Map::run(FlatFormula<ExactBinary::name>(), y, n, a, b);
      ISOBIT_EXACT_BINARY(ISOBIT_CASE)
#undef ISOBIT_CASE
    }
  }
  static void flat_with_number(ExactBinary op, const float* a, float number, bool number_first, float* y,
                               std::int64_t n) {
    switch (op) {
#define ISOBIT_CASE(name, ...)                                                           \
  case ExactBinary::name:                                                                \
    return number_first ? Map::run(WithNumber<ExactBinary::name, true>{number}, y, n, a) \
                        : Map::run(WithNumber<ExactBinary::name, false>{number}, y, n, a);
      ISOBIT_EXACT_BINARY(ISOBIT_CASE)
#undef ISOBIT_CASE
    }
  }
  static void fill(HostTable& t) {
    t.flat_binary = flat_binary;
    t.flat_with_number = flat_with_number;
  }
};

}  // namespace isobit::kernels::ISOBIT_ISA
