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

template <class Map, class T = float>
struct PointwiseKernels {
  static void unary(Unary op, const T* x, T* y, std::int64_t n) {
    with_formula(op, [&](auto formula) { Map::run(formula, y, n, x); });
  }
  static void binary(Binary op, const T* a, const T* b, T* y, std::int64_t n) {
    with_formula(op, [&](auto formula) { Map::run(formula, y, n, a, b); });
  }

  static void add_scaled(const T* a, const T* b, T alpha, T* y, std::int64_t n) {
    Map::run(AddScaled<T>{alpha}, y, n, a, b);
  }
  static void addcmul(const T* a, const T* b, const T* c, T value, T* y, std::int64_t n) {
    Map::run(Addcmul<T>{value}, y, n, a, b, c);
  }
  static void addcdiv(const T* a, const T* b, const T* c, T value, T* y, std::int64_t n) {
    Map::run(Addcdiv<T>{value}, y, n, a, b, c);
  }
  static void lerp(const T* a, const T* b, T weight, T* y, std::int64_t n) { Map::run(Lerp<T>{weight}, y, n, a, b); }
  static bool power(const T* x, double p, T* y, std::int64_t n) {
    contract::ProductPower power;
    if (!contract::as_product_power(p, power)) return false;
    Map::run(Power{power}, y, n, x);
    return true;
  }
  static void general_power_each(const T* x, const T* p, T* y, std::int64_t n) {
    Map::run(GeneralPowerEach{}, y, n, x, p);
  }
  static void general_power_all(const T* x, T p, T* y, std::int64_t n) { Map::run(GeneralPowerAll<T>{p}, y, n, x); }
  static void clamp(const T* x, T low, T high, T* y, std::int64_t n) { Map::run(Clamp<T>{low, high}, y, n, x); }
  static void hardtanh_backward(const T* dy, const T* x, T low, T high, T* dx, std::int64_t n) {
    Map::run(HardtanhBackward<T>{low, high}, dx, n, dy, x);
  }
  static void leaky_relu(const T* x, T slope, T* y, std::int64_t n) { Map::run(LeakyRelu<T>{slope}, y, n, x); }
  static void leaky_relu_backward(const T* dy, const T* x, T slope, T* dx, std::int64_t n) {
    Map::run(LeakyReluBackward<T>{slope}, dx, n, dy, x);
  }

  template <class Table>
  static void fill(Table& t) {
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
  // The formulas that exist for single numbers only.
  template <class Table>
  static void fill_scalar(Table& t) {
    t.general_power_each = general_power_each;
    t.general_power_all = general_power_all;
  }
};

}  // namespace isobit::kernels::ISOBIT_ISA
