// Element-wise operators and their gradients on contiguous arrays (contract, sections 1, 2, 8, 10).
//
// One written formula per operator (docs/contract.md lists them); the scalar one is in contract/pointwise.h
// and contract/functions.h, the vector builds instantiate the same source. y may be one of the inputs.
// Thread-safe; uses the pool.
#pragma once

#include <cstdint>

#include "kernels/operators.h"
#include "kernels/pointwise_list.h"

namespace isobit::kernels {

ISOBIT_OPERATORS(Unary, ISOBIT_UNARY)
void unary(Unary op, const float* x, float* y, std::int64_t n);
void unary(Unary op, const double* x, double* y, std::int64_t n);

ISOBIT_OPERATORS(Binary, ISOBIT_BINARY)
void binary(Binary op, const float* a, const float* b, float* y, std::int64_t n);
void binary(Binary op, const double* a, const double* b, double* y, std::int64_t n);

// y = fma(alpha, b, a): add and sub with alpha other than 1 (sub passes -alpha).
void add_scaled(const float* a, const float* b, float alpha, float* y, std::int64_t n);
void add_scaled(const double* a, const double* b, double alpha, double* y, std::int64_t n);
// y = fma(value * b, c, a), value * b rounded.
void addcmul(const float* a, const float* b, const float* c, float value, float* y, std::int64_t n);
void addcmul(const double* a, const double* b, const double* c, double value, double* y, std::int64_t n);
// y = fma(value, b / c, a), b / c rounded.
void addcdiv(const float* a, const float* b, const float* c, float value, float* y, std::int64_t n);
void addcdiv(const double* a, const double* b, const double* c, double value, double* y, std::int64_t n);
// d = b - a;  |weight| < 0.5 ? fma(weight, d, a) : fma(weight - 1, d, b)
void lerp(const float* a, const float* b, float weight, float* y, std::int64_t n);
void lerp(const double* a, const double* b, double weight, double* y, std::int64_t n);
// Integer and half powers up to 32 as products and square roots (docs/contract.md, section 10); false, and y
// untouched, where p is another one.
[[nodiscard]] bool power(const float* x, double p, float* y, std::int64_t n);
[[nodiscard]] bool power(const double* x, double p, double* y, std::int64_t n);
// Any powers, element by element or all the same, by the binary64 formula of section 10 (contract/functions_power.h).
void general_power(const float* x, const float* p, float* y, std::int64_t n);
void general_power(const float* x, float p, float* y, std::int64_t n);
// Of binary64: correctly rounded (contract/host_power.h).
void general_power(const double* x, const double* p, double* y, std::int64_t n);
void general_power(const double* x, double p, double* y, std::int64_t n);
// t = x < low ? low : x;  t > high ? high : t (NaN stays); either bound may be infinite, neither NaN.
void clamp(const float* x, float low, float high, float* y, std::int64_t n);
void clamp(const double* x, double low, double high, double* y, std::int64_t n);
// x <= low or x >= high ? +0 : dy
void hardtanh_backward(const float* dy, const float* x, float low, float high, float* dx, std::int64_t n);
void hardtanh_backward(const double* dy, const double* x, double low, double high, double* dx, std::int64_t n);
// leaky_relu: x > 0 ? x : x * slope; its gradient x > 0 ? dy : dy * slope.
void leaky_relu(const float* x, float slope, float* y, std::int64_t n);
void leaky_relu(const double* x, double slope, double* y, std::int64_t n);
void leaky_relu_backward(const float* dy, const float* x, float slope, float* dx, std::int64_t n);
void leaky_relu_backward(const double* dy, const double* x, double slope, double* dx, std::int64_t n);

}  // namespace isobit::kernels
