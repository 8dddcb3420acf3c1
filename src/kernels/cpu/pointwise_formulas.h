// The point-wise operators as function objects over the lane type: what every implementation maps over arrays.
//
// The formulas are those of contract/functions.h and contract/pointwise.h, chosen by the operator; scalars are
// binary32 members. Host and device; no state.
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
    if constexpr (op == Unary::square) return v * v;
    if constexpr (op == Unary::reciprocal) return Lane(1.0f) / v;
    if constexpr (op == Unary::sqrt) return sqrt(v);
    if constexpr (op == Unary::exp) return contract::exp(v);
    if constexpr (op == Unary::expm1) return contract::expm1(v);
    if constexpr (op == Unary::log) return contract::log(v);
    if constexpr (op == Unary::log1p) return contract::log1p(v);
    if constexpr (op == Unary::tanh) return contract::tanh(v);
    if constexpr (op == Unary::sigmoid) return contract::sigmoid(v);
    if constexpr (op == Unary::erf) return contract::erf(v);
    if constexpr (op == Unary::sin) return contract::sin(v);
    if constexpr (op == Unary::cos) return contract::cos(v);
    if constexpr (op == Unary::sinpi) return contract::sinpi(v);
    if constexpr (op == Unary::cospi) return contract::cospi(v);
    if constexpr (op == Unary::relu) return contract::relu(v);
    if constexpr (op == Unary::rsqrt) return contract::rsqrt(v);
    if constexpr (op == Unary::silu) return contract::silu(v);
    if constexpr (op == Unary::gelu) return contract::gelu(v);
    if constexpr (op == Unary::gelu_tanh) return contract::gelu_tanh(v);
  }
};

template <Binary op>
struct BinaryFormula {
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane u, Lane v) const {
    if constexpr (op == Binary::maximum) return contract::maximum(u, v);
    if constexpr (op == Binary::minimum) return contract::minimum(u, v);
    if constexpr (op == Binary::relu_backward) return contract::relu_backward(u, v);
    if constexpr (op == Binary::sigmoid_backward) return contract::sigmoid_backward(u, v);
    if constexpr (op == Binary::tanh_backward) return contract::tanh_backward(u, v);
    if constexpr (op == Binary::silu_backward) return contract::silu_backward(u, v);
    if constexpr (op == Binary::gelu_backward) return contract::gelu_backward(u, v);
    if constexpr (op == Binary::gelu_tanh_backward) return contract::gelu_tanh_backward(u, v);
  }
};

// with_formula(op, f) calls f(formula of op).
template <class Function>
void with_formula(Unary op, Function&& f) {
  switch (op) {
    case Unary::exp: return f(UnaryFormula<Unary::exp>());
    case Unary::expm1: return f(UnaryFormula<Unary::expm1>());
    case Unary::log: return f(UnaryFormula<Unary::log>());
    case Unary::log1p: return f(UnaryFormula<Unary::log1p>());
    case Unary::tanh: return f(UnaryFormula<Unary::tanh>());
    case Unary::sigmoid: return f(UnaryFormula<Unary::sigmoid>());
    case Unary::erf: return f(UnaryFormula<Unary::erf>());
    case Unary::sin: return f(UnaryFormula<Unary::sin>());
    case Unary::cos: return f(UnaryFormula<Unary::cos>());
    case Unary::sinpi: return f(UnaryFormula<Unary::sinpi>());
    case Unary::cospi: return f(UnaryFormula<Unary::cospi>());
    case Unary::relu: return f(UnaryFormula<Unary::relu>());
    case Unary::rsqrt: return f(UnaryFormula<Unary::rsqrt>());
    case Unary::silu: return f(UnaryFormula<Unary::silu>());
    case Unary::gelu: return f(UnaryFormula<Unary::gelu>());
    case Unary::gelu_tanh: return f(UnaryFormula<Unary::gelu_tanh>());
    case Unary::square: return f(UnaryFormula<Unary::square>());
    case Unary::reciprocal: return f(UnaryFormula<Unary::reciprocal>());
    case Unary::sqrt: return f(UnaryFormula<Unary::sqrt>());
  }
}
template <class Function>
void with_formula(Binary op, Function&& f) {
  switch (op) {
    case Binary::maximum: return f(BinaryFormula<Binary::maximum>());
    case Binary::minimum: return f(BinaryFormula<Binary::minimum>());
    case Binary::relu_backward: return f(BinaryFormula<Binary::relu_backward>());
    case Binary::sigmoid_backward: return f(BinaryFormula<Binary::sigmoid_backward>());
    case Binary::tanh_backward: return f(BinaryFormula<Binary::tanh_backward>());
    case Binary::silu_backward: return f(BinaryFormula<Binary::silu_backward>());
    case Binary::gelu_backward: return f(BinaryFormula<Binary::gelu_backward>());
    case Binary::gelu_tanh_backward: return f(BinaryFormula<Binary::gelu_tanh_backward>());
  }
}

struct AddScaled {
  float alpha;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane u, Lane v) const {
    return contract::add_scaled(u, v, Lane(alpha));
  }
};
struct Addcmul {
  float value;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane u, Lane v, Lane w) const {
    return contract::addcmul(u, v, w, Lane(value));
  }
};
struct Addcdiv {
  float value;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane u, Lane v, Lane w) const {
    return contract::addcdiv(u, v, w, Lane(value));
  }
};
struct Lerp {
  float weight;
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
  ISOBIT_FORMULA float operator()(float v, float p) const { return contract::power(v, p); }
};
struct GeneralPowerAll {
  float p;
  ISOBIT_FORMULA float operator()(float v) const { return contract::power(v, p); }
};
struct Clamp {
  float low, high;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane v) const {
    return contract::clamp(v, Lane(low), Lane(high));
  }
};
struct HardtanhBackward {
  float low, high;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane dy, Lane x) const {
    return contract::hardtanh_backward(dy, x, Lane(low), Lane(high));
  }
};
struct LeakyRelu {
  float slope;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane v) const {
    return contract::leaky_relu(v, Lane(slope));
  }
};
struct LeakyReluBackward {
  float slope;
  template <class Lane>
  ISOBIT_FORMULA Lane operator()(Lane dy, Lane x) const {
    return contract::leaky_relu_backward(dy, x, Lane(slope));
  }
};

}  // namespace isobit::kernels::ISOBIT_ISA
