// The entry points of activation.h, over a map that applies a formula to arrays (pointwise_kernels.h).
#pragma once

#include "contract/activations.h"
#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA {

template <UnaryWith op, class T>
struct UnaryWithFormula {
  ParametersOf<T> p;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane x) const {
    [[maybe_unused]] const Lane a(p.a), b(p.b), c(p.c);
#define ISOBIT_IF(name, formula, ...) \
  if constexpr (op == UnaryWith::name) return formula;
    ISOBIT_UNARY_WITH(ISOBIT_IF)
#undef ISOBIT_IF
  }
};

template <BinaryWith op, class T>
struct BinaryWithFormula {
  ParametersOf<T> p;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane u, Lane v) const {
    [[maybe_unused]] const Lane a(p.a), b(p.b), c(p.c);
#define ISOBIT_IF(name, formula, ...) \
  if constexpr (op == BinaryWith::name) return formula;
    ISOBIT_BINARY_WITH(ISOBIT_IF)
#undef ISOBIT_IF
  }
};

template <TernaryWith op, class T>
struct TernaryWithFormula {
  ParametersOf<T> p;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane u, Lane v, Lane w) const {
    [[maybe_unused]] const Lane a(p.a), b(p.b), c(p.c);
#define ISOBIT_IF(name, formula, ...) \
  if constexpr (op == TernaryWith::name) return formula;
    ISOBIT_TERNARY_WITH(ISOBIT_IF)
#undef ISOBIT_IF
  }
};

template <class Map, class T = float>
struct ActivationKernels {
  static void unary_with(UnaryWith op, const ParametersOf<T>& p, const T* x, T* y, std::int64_t n) {
    switch (op) {
#define ISOBIT_CASE(name, ...) \
  case UnaryWith::name: return Map::run(UnaryWithFormula<UnaryWith::name, T>{p}, y, n, x);
      ISOBIT_UNARY_WITH(ISOBIT_CASE)
#undef ISOBIT_CASE
    }
  }
  static void binary_with(BinaryWith op, const ParametersOf<T>& p, const T* u, const T* v, T* y, std::int64_t n) {
    switch (op) {
#define ISOBIT_CASE(name, ...) \
  case BinaryWith::name: return Map::run(BinaryWithFormula<BinaryWith::name, T>{p}, y, n, u, v);
      ISOBIT_BINARY_WITH(ISOBIT_CASE)
#undef ISOBIT_CASE
    }
  }
  static void ternary_with(TernaryWith op, const ParametersOf<T>& p, const T* u, const T* v, const T* w, T* y,
                           std::int64_t n) {
    switch (op) {
#define ISOBIT_CASE(name, ...) \
  case TernaryWith::name: return Map::run(TernaryWithFormula<TernaryWith::name, T>{p}, y, n, u, v, w);
      ISOBIT_TERNARY_WITH(ISOBIT_CASE)
#undef ISOBIT_CASE
    }
  }

  template <class Table>
  static void fill(Table& t) {
    t.unary_with = unary_with;
    t.binary_with = binary_with;
    t.ternary_with = ternary_with;
  }
};

}  // namespace isobit::kernels::ISOBIT_ISA
