// The entry points of activation.h, over a map that applies a formula to arrays (pointwise_kernels.h).
#pragma once

#include "contract/activations.h"
#include "kernels/cpu/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA {

template <UnaryWith op>
struct UnaryWithFormula {
  Parameters p;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane x) const {
    if constexpr (op == UnaryWith::elu) return contract::elu(x, Lane(p.a), Lane(p.b), Lane(p.c));
    if constexpr (op == UnaryWith::mish) return contract::mish(x);
    if constexpr (op == UnaryWith::softplus) return contract::softplus(x, Lane(p.a), Lane(p.b));
    if constexpr (op == UnaryWith::hardsigmoid) return contract::hardsigmoid(x);
    if constexpr (op == UnaryWith::hardswish) return contract::hardswish(x);
    if constexpr (op == UnaryWith::softshrink) return contract::softshrink(x, Lane(p.a));
    if constexpr (op == UnaryWith::hardshrink) return contract::shrink(x, x, Lane(p.a));
    if constexpr (op == UnaryWith::log_sigmoid) return contract::log_sigmoid(x);
  }
};

template <BinaryWith op>
struct BinaryWithFormula {
  Parameters p;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane u, Lane v) const {
    if constexpr (op == BinaryWith::elu_backward) return contract::elu_backward(u, v, Lane(p.a), Lane(p.b), Lane(p.c));
    if constexpr (op == BinaryWith::elu_backward_of_result) {
      return contract::elu_backward_of_result(u, v, Lane(p.a), Lane(p.b), Lane(p.c));
    }
    if constexpr (op == BinaryWith::mish_backward) return contract::mish_backward(u, v);
    if constexpr (op == BinaryWith::softplus_backward) return contract::softplus_backward(u, v, Lane(p.a), Lane(p.b));
    if constexpr (op == BinaryWith::hardsigmoid_backward) return contract::hardsigmoid_backward(u, v);
    if constexpr (op == BinaryWith::hardswish_backward) return contract::hardswish_backward(u, v);
    if constexpr (op == BinaryWith::shrink_backward) return contract::shrink(u, v, Lane(p.a));
    if constexpr (op == BinaryWith::log_sigmoid_backward) return contract::log_sigmoid_backward(u, v);
    if constexpr (op == BinaryWith::prelu) return contract::prelu(u, v);
    if constexpr (op == BinaryWith::prelu_slope_backward) return contract::prelu_slope_backward(u, v);
    if constexpr (op == BinaryWith::smooth_l1) return contract::smooth_l1(u, v, Lane(p.a));
    if constexpr (op == BinaryWith::huber) return contract::huber(u, v, Lane(p.a));
    if constexpr (op == BinaryWith::binary_cross_entropy) return contract::binary_cross_entropy(u, v);
    if constexpr (op == BinaryWith::xlogy) return contract::xlogy(u, v);
  }
};

template <TernaryWith op>
struct TernaryWithFormula {
  Parameters p;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane u, Lane v, Lane w) const {
    if constexpr (op == TernaryWith::prelu_backward) return contract::prelu_backward(u, v, w);
    if constexpr (op == TernaryWith::smooth_l1_backward) {
      return contract::smooth_l1_backward(u, v, w, Lane(p.a), Lane(p.b));
    }
    if constexpr (op == TernaryWith::huber_backward) return contract::huber_backward(u, v, w, Lane(p.a), Lane(p.b));
    if constexpr (op == TernaryWith::binary_cross_entropy_backward) {
      return contract::binary_cross_entropy_backward(u, v, w, Lane(p.b));
    }
  }
};

template <class Map>
struct ActivationKernels {
  static void unary_with(UnaryWith op, const Parameters& p, const float* x, float* y, std::int64_t n) {
#define ISOBIT_CASE(name) \
  case UnaryWith::name: return Map::run(UnaryWithFormula<UnaryWith::name>{p}, y, n, x)
    switch (op) {
      ISOBIT_CASE(elu);
      ISOBIT_CASE(mish);
      ISOBIT_CASE(softplus);
      ISOBIT_CASE(hardsigmoid);
      ISOBIT_CASE(hardswish);
      ISOBIT_CASE(softshrink);
      ISOBIT_CASE(hardshrink);
      ISOBIT_CASE(log_sigmoid);
    }
#undef ISOBIT_CASE
  }
  static void binary_with(BinaryWith op, const Parameters& p, const float* u, const float* v, float* y,
                          std::int64_t n) {
#define ISOBIT_CASE(name) \
  case BinaryWith::name: return Map::run(BinaryWithFormula<BinaryWith::name>{p}, y, n, u, v)
    switch (op) {
      ISOBIT_CASE(elu_backward);
      ISOBIT_CASE(elu_backward_of_result);
      ISOBIT_CASE(mish_backward);
      ISOBIT_CASE(softplus_backward);
      ISOBIT_CASE(hardsigmoid_backward);
      ISOBIT_CASE(hardswish_backward);
      ISOBIT_CASE(shrink_backward);
      ISOBIT_CASE(log_sigmoid_backward);
      ISOBIT_CASE(prelu);
      ISOBIT_CASE(prelu_slope_backward);
      ISOBIT_CASE(smooth_l1);
      ISOBIT_CASE(huber);
      ISOBIT_CASE(binary_cross_entropy);
      ISOBIT_CASE(xlogy);
    }
#undef ISOBIT_CASE
  }
  static void ternary_with(TernaryWith op, const Parameters& p, const float* u, const float* v, const float* w,
                           float* y, std::int64_t n) {
#define ISOBIT_CASE(name) \
  case TernaryWith::name: return Map::run(TernaryWithFormula<TernaryWith::name>{p}, y, n, u, v, w)
    switch (op) {
      ISOBIT_CASE(prelu_backward);
      ISOBIT_CASE(smooth_l1_backward);
      ISOBIT_CASE(huber_backward);
      ISOBIT_CASE(binary_cross_entropy_backward);
    }
#undef ISOBIT_CASE
  }

  static void fill(KernelTable& t) {
    t.unary_with = unary_with;
    t.binary_with = binary_with;
    t.ternary_with = ternary_with;
  }
};

}  // namespace isobit::kernels::ISOBIT_ISA
