// The point-wise operators as function objects over the lane type: what every implementation maps over arrays.
//
// The formulas are those of contract/functions.h and contract/pointwise.h, chosen by the operator in pointwise_list.h;
// scalars are members of the arrays' type. Host and device; no state.
#pragma once

#include "contract/functions_power.h"
#include "contract/optimizer.h"
#include "contract/pointwise.h"
#include "kernels/pointwise.h"

namespace isobit::kernels::ISOBIT_ISA {

template <Unary op>
struct UnaryFormula {
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane v) const {
    using contract::sqrt;
#define ISOBIT_IF(name, formula, ...) \
  if constexpr (op == Unary::name) return formula;
    ISOBIT_UNARY(ISOBIT_IF)
#undef ISOBIT_IF
  }
};

template <Binary op>
struct BinaryFormula {
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane u, Lane v) const {
#define ISOBIT_IF(name, formula, ...) \
  if constexpr (op == Binary::name) return formula;
    ISOBIT_BINARY(ISOBIT_IF)
#undef ISOBIT_IF
  }
};

// with_formula(op, f) calls f(formula of op).
template <class Function>
void with_formula(Unary op, Function&& f) {
  switch (op) {
#define ISOBIT_CASE(name, ...) \
  case Unary::name: return f(UnaryFormula<Unary::name>());
    ISOBIT_UNARY(ISOBIT_CASE)
#undef ISOBIT_CASE
  }
}
template <class Function>
void with_formula(Binary op, Function&& f) {
  switch (op) {
#define ISOBIT_CASE(name, ...) \
  case Binary::name: return f(BinaryFormula<Binary::name>());
    ISOBIT_BINARY(ISOBIT_CASE)
#undef ISOBIT_CASE
  }
}

template <class T>
struct AddScaled {
  T alpha;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane u, Lane v) const {
    return contract::add_scaled(u, v, Lane(alpha));
  }
};
template <class T>
struct Addcmul {
  T value;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane u, Lane v, Lane w) const {
    return contract::addcmul(u, v, w, Lane(value));
  }
};
template <class T>
struct Addcdiv {
  T value;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane u, Lane v, Lane w) const {
    return contract::addcdiv(u, v, w, Lane(value));
  }
};
template <class T>
struct Lerp {
  T weight;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane u, Lane v) const {
    return contract::lerp_step(u, v, weight);
  }
};
struct Power {
  contract::ProductPower power;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane v) const {
    return contract::product_power(v, power);
  }
};
struct GeneralPowerEach {
  template <class T>
  ISOBIT_FORMULA T operator()(T v, T p) const {
    return contract::power(v, p);
  }
};
template <class T>
struct GeneralPowerAll {
  T p;
  ISOBIT_FORMULA T operator()(T v) const { return contract::power(v, p); }
};
template <class T>
struct Clamp {
  T low, high;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane v) const {
    return contract::clamp(v, Lane(low), Lane(high));
  }
};
template <class T>
struct HardtanhBackward {
  T low, high;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane dy, Lane x) const {
    return contract::hardtanh_backward(dy, x, Lane(low), Lane(high));
  }
};
template <class T>
struct LeakyRelu {
  T slope;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane v) const {
    return contract::leaky_relu(v, Lane(slope));
  }
};
template <class T>
struct LeakyReluBackward {
  T slope;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane dy, Lane x) const {
    return contract::leaky_relu_backward(dy, x, Lane(slope));
  }
};

}  // namespace isobit::kernels::ISOBIT_ISA
