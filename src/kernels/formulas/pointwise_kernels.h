// The point-wise entry points, over a map that applies a formula to arrays.
//
// Map::run(formula, y, n, inputs...) stores formula(input elements) for n elements; the formula is a function
// object over the lane type (pointwise_formulas.h), and y may be one of the inputs. The reference's map goes
// element by element, the vector one lanes at a time, the device's a thread per few elements: the formulas
// themselves exist once.
#pragma once

#include "kernels/dispatch/kernel_table.h"
#include "kernels/formulas/pointwise_formulas.h"

namespace isobit::kernels::ISOBIT_ISA {

template <class Map>
struct PointwiseKernels {
  static void unary(Unary op, const float* x, float* y, std::int64_t n) {
    with_formula(op, [&](auto formula) { Map::run(formula, y, n, x); });
  }
  static void binary(Binary op, const float* a, const float* b, float* y, std::int64_t n) {
    with_formula(op, [&](auto formula) { Map::run(formula, y, n, a, b); });
  }

  static void add_scaled(const float* a, const float* b, float alpha, float* y, std::int64_t n) {
    Map::run(AddScaled{alpha}, y, n, a, b);
  }
  static void addcmul(const float* a, const float* b, const float* c, float value, float* y, std::int64_t n) {
    Map::run(Addcmul{value}, y, n, a, b, c);
  }
  static void addcdiv(const float* a, const float* b, const float* c, float value, float* y, std::int64_t n) {
    Map::run(Addcdiv{value}, y, n, a, b, c);
  }
  static void lerp(const float* a, const float* b, float weight, float* y, std::int64_t n) {
    Map::run(Lerp{weight}, y, n, a, b);
  }
  static bool power(const float* x, double p, float* y, std::int64_t n) {
    contract::ProductPower power;
    if (!contract::as_product_power(p, power)) return false;
    Map::run(Power{power}, y, n, x);
    return true;
  }
  static void general_power_each(const float* x, const float* p, float* y, std::int64_t n) {
    Map::run(GeneralPowerEach{}, y, n, x, p);
  }
  static void general_power_all(const float* x, float p, float* y, std::int64_t n) {
    Map::run(GeneralPowerAll{p}, y, n, x);
  }
  static void clamp(const float* x, float low, float high, float* y, std::int64_t n) {
    Map::run(Clamp{low, high}, y, n, x);
  }
  static void hardtanh_backward(const float* dy, const float* x, float low, float high, float* dx, std::int64_t n) {
    Map::run(HardtanhBackward{low, high}, dx, n, dy, x);
  }
  static void leaky_relu(const float* x, float slope, float* y, std::int64_t n) { Map::run(LeakyRelu{slope}, y, n, x); }
  static void leaky_relu_backward(const float* dy, const float* x, float slope, float* dx, std::int64_t n) {
    Map::run(LeakyReluBackward{slope}, dx, n, dy, x);
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
  // The formulas that exist for single floats only.
  static void fill_scalar(KernelTable& t) {
    t.general_power_each = general_power_each;
    t.general_power_all = general_power_all;
  }
};

}  // namespace isobit::kernels::ISOBIT_ISA
