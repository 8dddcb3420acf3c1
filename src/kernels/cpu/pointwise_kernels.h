// The point-wise entry points, over a map that applies a formula to arrays.
//
// Map::run(formula, y, n, inputs...) stores formula(input elements) for n elements; the formula is a generic
// lambda over the lane type, and y may be one of the inputs. The reference's map goes element by element, the
// vector one lanes at a time: the formulas themselves exist once.
#pragma once

#include "contract/optimizer.h"
#include "contract/pointwise.h"
#include "kernels/cpu/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA {

template <class Map>
struct PointwiseKernels {
  static void unary(Unary op, const float* x, float* y, std::int64_t n) {
    const auto run = [&](auto formula) { Map::run(formula, y, n, x); };
    switch (op) {
      case Unary::exp:
        return run([](auto v) { return contract::exp(v); });
      case Unary::expm1:
        return run([](auto v) { return contract::expm1(v); });
      case Unary::log:
        return run([](auto v) { return contract::log(v); });
      case Unary::log1p:
        return run([](auto v) { return contract::log1p(v); });
      case Unary::tanh:
        return run([](auto v) { return contract::tanh(v); });
      case Unary::sigmoid:
        return run([](auto v) { return contract::sigmoid(v); });
      case Unary::erf:
        return run([](auto v) { return contract::erf(v); });
      case Unary::sin:
        return run([](auto v) { return contract::sin(v); });
      case Unary::cos:
        return run([](auto v) { return contract::cos(v); });
      case Unary::sinpi:
        return run([](auto v) { return contract::sinpi(v); });
      case Unary::cospi:
        return run([](auto v) { return contract::cospi(v); });
      case Unary::relu:
        return run([](auto v) { return contract::relu(v); });
      case Unary::rsqrt:
        return run([](auto v) { return contract::rsqrt(v); });
      case Unary::silu:
        return run([](auto v) { return contract::silu(v); });
      case Unary::gelu:
        return run([](auto v) { return contract::gelu(v); });
      case Unary::gelu_tanh:
        return run([](auto v) { return contract::gelu_tanh(v); });
      case Unary::square:
        return run([](auto v) { return v * v; });
      case Unary::reciprocal:
        return run([](auto v) { return decltype(v)(1.0f) / v; });
      case Unary::sqrt:
        return run([](auto v) {
          using contract::sqrt;
          return sqrt(v);
        });
    }
  }

  static void binary(Binary op, const float* a, const float* b, float* y, std::int64_t n) {
    const auto run = [&](auto formula) { Map::run(formula, y, n, a, b); };
    switch (op) {
      case Binary::maximum:
        return run([](auto u, auto v) { return contract::maximum(u, v); });
      case Binary::minimum:
        return run([](auto u, auto v) { return contract::minimum(u, v); });
      case Binary::relu_backward:
        return run([](auto u, auto v) { return contract::relu_backward(u, v); });
      case Binary::sigmoid_backward:
        return run([](auto u, auto v) { return contract::sigmoid_backward(u, v); });
      case Binary::tanh_backward:
        return run([](auto u, auto v) { return contract::tanh_backward(u, v); });
      case Binary::silu_backward:
        return run([](auto u, auto v) { return contract::silu_backward(u, v); });
      case Binary::gelu_backward:
        return run([](auto u, auto v) { return contract::gelu_backward(u, v); });
      case Binary::gelu_tanh_backward:
        return run([](auto u, auto v) { return contract::gelu_tanh_backward(u, v); });
    }
  }

  static void add_scaled(const float* a, const float* b, float alpha, float* y, std::int64_t n) {
    Map::run([=](auto u, auto v) { return contract::add_scaled(u, v, decltype(u)(alpha)); }, y, n, a, b);
  }
  static void addcmul(const float* a, const float* b, const float* c, float value, float* y, std::int64_t n) {
    Map::run([=](auto u, auto v, auto w) { return contract::addcmul(u, v, w, decltype(u)(value)); }, y, n, a,
             b, c);
  }
  static void addcdiv(const float* a, const float* b, const float* c, float value, float* y, std::int64_t n) {
    Map::run([=](auto u, auto v, auto w) { return contract::addcdiv(u, v, w, decltype(u)(value)); }, y, n, a,
             b, c);
  }
  static void lerp(const float* a, const float* b, float weight, float* y, std::int64_t n) {
    Map::run([=](auto u, auto v) { return contract::lerp_step(u, v, weight); }, y, n, a, b);
  }
  static bool power(const float* x, double p, float* y, std::int64_t n) {
    contract::ProductPower power;
    if (!contract::as_product_power(p, power)) return false;
    Map::run([=](auto v) { return contract::product_power(v, power); }, y, n, x);
    return true;
  }
  static void clamp(const float* x, float low, float high, float* y, std::int64_t n) {
    Map::run([=](auto v) { return contract::clamp(v, decltype(v)(low), decltype(v)(high)); }, y, n, x);
  }
  static void hardtanh_backward(const float* dy, const float* x, float low, float high, float* dx,
                                std::int64_t n) {
    Map::run([=](auto u,
                 auto v) { return contract::hardtanh_backward(u, v, decltype(v)(low), decltype(v)(high)); },
             dx, n, dy, x);
  }
  static void leaky_relu(const float* x, float slope, float* y, std::int64_t n) {
    Map::run([=](auto v) { return contract::leaky_relu(v, decltype(v)(slope)); }, y, n, x);
  }
  static void leaky_relu_backward(const float* dy, const float* x, float slope, float* dx, std::int64_t n) {
    Map::run([=](auto u, auto v) { return contract::leaky_relu_backward(u, v, decltype(v)(slope)); }, dx, n,
             dy, x);
  }

  static void fill(KernelTable& t) {
    t.unary = unary;
    t.binary = binary;
    t.add_scaled = add_scaled;
    t.addcmul = addcmul;
    t.addcdiv = addcdiv;
    t.lerp = lerp;
    t.power = power;
    t.clamp = clamp;
    t.hardtanh_backward = hardtanh_backward;
    t.leaky_relu = leaky_relu;
    t.leaky_relu_backward = leaky_relu_backward;
  }
};

}  // namespace isobit::kernels::ISOBIT_ISA
