// The element-wise entry points, over a map that applies a formula through strides.
//
// Map::run(formula, walk, y, sources...) stores in y[i], for every i of the walk, the formula of what the sources
// hold there. The reference's map is a loop, the device's a thread per few elements.
#pragma once

#include <cmath>

#include "contract/platform.h"
#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA {

template <ExactUnary op>
struct ExactUnaryFormula {
  ISOBIT_HOST_DEVICE float operator()(float x) const {
#define ISOBIT_IF(name, formula, ...) \
  if constexpr (op == ExactUnary::name) return formula;
    ISOBIT_EXACT_UNARY(ISOBIT_IF)
#undef ISOBIT_IF
  }
};
template <ExactBinary op>
struct ExactBinaryFormula {
  ISOBIT_HOST_DEVICE float operator()(float a, float b) const {
#define ISOBIT_IF(name, formula, ...) \
  if constexpr (op == ExactBinary::name) return formula;
    ISOBIT_EXACT_BINARY(ISOBIT_IF)
#undef ISOBIT_IF
  }
};
struct Same {
  ISOBIT_HOST_DEVICE float operator()(float x) const { return x; }
};
struct Threshold {
  float limit, value;
  ISOBIT_HOST_DEVICE float operator()(float x) const { return x <= limit ? value : x; }
};

// The shape with what lies side by side merged, the fastest dimension first.
template <int operands>
struct Walk {
  int rank = 0;
  std::int64_t count = 1;
  std::int64_t size[kMostDimensions] = {};
  std::int64_t stride[operands][kMostDimensions] = {};
};

template <class... Operands>
Walk<sizeof...(Operands)> walk_of(const ElementShape& shape, const Operands&... operands) {
  constexpr int kOperands = sizeof...(Operands);
  const Operand* const all[] = {&operands...};
  Walk<kOperands> walk;
  for (int d = shape.rank - 1; d >= 0; --d) {
    walk.count *= shape.size[d];
    if (shape.size[d] == 1) continue;
    const auto stride = [&](int k) { return all[k]->data != nullptr ? all[k]->stride[d] : 0; };
    const int last = walk.rank - 1;
    bool merges = walk.rank > 0;
    for (int k = 0; merges && k < kOperands; ++k) merges = stride(k) == walk.stride[k][last] * walk.size[last];
    if (merges) {
      walk.size[last] *= shape.size[d];
      continue;
    }
    walk.size[walk.rank] = shape.size[d];
    for (int k = 0; k < kOperands; ++k) walk.stride[k][walk.rank] = stride(k);
    ++walk.rank;
  }
  return walk;
}

// Of non-negative numbers; wide division is slow where it is not needed.
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if ((a | b) >> 32 != 0) return a / b;
  return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
}

// Where element i of the walk lies in each operand.
template <int operands>
struct Offsets {
  std::int64_t of[operands];
};
template <int operands>
[[nodiscard]] ISOBIT_HOST_DEVICE inline Offsets<operands> offsets(const Walk<operands>& walk, std::int64_t i) {
  Offsets<operands> at{};
  for (int d = 0; d < walk.rank; ++d) {
    const std::int64_t rest = d + 1 < walk.rank ? quotient(i, walk.size[d]) : 0;
    for (int k = 0; k < operands; ++k) at.of[k] += (i - rest * walk.size[d]) * walk.stride[k][d];
    i = rest;
  }
  return at;
}

struct Source {
  const float* data;
  float value;
  [[nodiscard]] ISOBIT_HOST_DEVICE float at(std::int64_t offset) const {
    return data != nullptr ? data[offset] : value;
  }
};

template <class Formula>
[[nodiscard]] ISOBIT_HOST_DEVICE inline float element(const Formula& formula, const Walk<1>& walk, std::int64_t i,
                                                      const Source& x) {
  return formula(x.at(offsets(walk, i).of[0]));
}
template <class Formula>
[[nodiscard]] ISOBIT_HOST_DEVICE inline float element(const Formula& formula, const Walk<2>& walk, std::int64_t i,
                                                      const Source& a, const Source& b) {
  const Offsets<2> at = offsets(walk, i);
  return formula(a.at(at.of[0]), b.at(at.of[1]));
}

template <class Map>
struct ElementwiseKernels {
  template <class Formula, class... Operands>
  static void run(const Formula& formula, const ElementShape& shape, float* y, const Operands&... operands) {
    Map::run(formula, walk_of(shape, operands...), y, Source{operands.data, operands.value}...);
  }

  static void exact_binary(ExactBinary op, const ElementShape& shape, const Operand& a, const Operand& b, float* y) {
    switch (op) {
#define ISOBIT_CASE(name, ...) \
  case ExactBinary::name: return run(ExactBinaryFormula<ExactBinary::name>{}, shape, y, a, b);
      ISOBIT_EXACT_BINARY(ISOBIT_CASE)
#undef ISOBIT_CASE
    }
  }
  static void exact_unary(ExactUnary op, const ElementShape& shape, const Operand& x, float* y) {
    switch (op) {
#define ISOBIT_CASE(name, ...) \
  case ExactUnary::name: return run(ExactUnaryFormula<ExactUnary::name>{}, shape, y, x);
      ISOBIT_EXACT_UNARY(ISOBIT_CASE)
#undef ISOBIT_CASE
    }
  }
  static void threshold(const ElementShape& shape, const Operand& x, float limit, float value, float* y) {
    run(Threshold{limit, value}, shape, y, x);
  }
  static void fill(float value, float* y, std::int64_t n) {
    run(Same{}, ElementShape{1, {n}}, y, Operand{nullptr, value, {}});
  }

  static void fill_table(KernelTable& t) {
    t.exact_binary = exact_binary;
    t.exact_unary = exact_unary;
    t.threshold = threshold;
    t.fill = fill;
  }
};

}  // namespace isobit::kernels::ISOBIT_ISA
