#include "kernels/wide_functions.h"

#include <cmath>

#include "contract/functions.h"
#include "contract/functions_wide.h"
#include "kernels/device.h"
#include "kernels/float_environment.h"
#include "kernels/threads.h"

namespace isobit::kernels {
namespace {

using contract::kInfinity;
using contract::kNan;

constexpr std::int64_t kSmallest = 512;

void on_host_only() {
  if (in_device_scope()) throw DeviceError("this function exists on the host only");
}

template <class Function>
void each(std::int64_t n, Function function) {
  const FloatEnvironment environment;
  parallel_for(0, n, kSmallest, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) function(i);
  });
}

float sinc(float x) { return x == 0.0f ? 1.0f : contract::sinpi(x) / (0x1.921fb6p+1f * x); }
float entropy(float x) {
  if (x != x) return kNan;
  return x > 0.0f ? -x * contract::log(x) : x == 0.0f ? 0.0f : -kInfinity;
}

// The language's own is exact (Annex F).
float exact_fmod(float a, float b) { return std::fmod(a, b); }
float remainder(float a, float b) {
  const float rest = exact_fmod(a, b);
  return rest != 0.0f && (b < 0.0f) != (rest < 0.0f) ? rest + b : rest;
}
float floor_divide(float a, float b) {
  if (b == 0.0f) return a / b;
  const float rest = exact_fmod(a, b);
  float quotient = (a - rest) / b;
  if (rest != 0.0f && (b < 0.0f) != (rest < 0.0f)) quotient = quotient - 1.0f;
  if (quotient == 0.0f) return std::copysign(0.0f, a / b);
  const float floor = std::floor(quotient);
  return quotient - floor > 0.5f ? floor + 1.0f : floor;
}
float copysign(float a, float b) { return b != b ? std::fabs(a) : std::copysign(a, b); }
float fmaximum(float a, float b) { return a != a ? b : b != b ? a : a < b ? b : a == 0.0f && b == 0.0f ? 0.0f : a; }
float fminimum(float a, float b) { return a != a ? b : b != b ? a : b < a ? b : a == 0.0f && b == 0.0f ? 0.0f : a; }
float heaviside(float a, float b) { return a != a ? kNan : a < 0.0f ? 0.0f : a > 0.0f ? 1.0f : b; }
float xlog1py(float a, float b) { return a == 0.0f && b == b ? 0.0f : a * contract::log1p(b); }
float logit_backward(float dy, float x) { return x >= 0.0f && x <= 1.0f ? dy / (x * (1.0f - x)) : kNan; }

float apply(WideUnary op, float x) {
  switch (op) {
    case WideUnary::log2: return contract::log2(x);
    case WideUnary::log10: return contract::log10(x);
    case WideUnary::exp2: return contract::exp2(x);
    case WideUnary::sinh: return contract::sinh(x);
    case WideUnary::cosh: return contract::cosh(x);
    case WideUnary::tan: return contract::tan(x);
    case WideUnary::asin: return contract::asin(x);
    case WideUnary::acos: return contract::acos(x);
    case WideUnary::atan: return contract::atan(x);
    case WideUnary::asinh: return contract::asinh(x);
    case WideUnary::acosh: return contract::acosh(x);
    case WideUnary::atanh: return contract::atanh(x);
    case WideUnary::erfc: return contract::erfc(x);
    case WideUnary::logit: return contract::logit(x);
    case WideUnary::sinc: return sinc(x);
    case WideUnary::entropy: return entropy(x);
  }
  return kNan;
}
float apply(WideBinary op, float a, float b) {
  switch (op) {
    case WideBinary::atan2: return contract::atan2(a, b);
    case WideBinary::hypot: return contract::hypot(a, b);
    case WideBinary::logaddexp: return contract::logaddexp(a, b);
    case WideBinary::logaddexp2: return contract::logaddexp2(a, b);
    case WideBinary::fmod: return exact_fmod(a, b);
    case WideBinary::remainder: return remainder(a, b);
    case WideBinary::floor_divide: return floor_divide(a, b);
    case WideBinary::trunc_divide: return std::trunc(a / b);
    case WideBinary::copysign: return copysign(a, b);
    case WideBinary::fmaximum: return fmaximum(a, b);
    case WideBinary::fminimum: return fminimum(a, b);
    case WideBinary::heaviside: return heaviside(a, b);
    case WideBinary::xlog1py: return xlog1py(a, b);
    case WideBinary::nextafter: return std::nextafter(a, b);
    case WideBinary::logit_backward: return logit_backward(a, b);
  }
  return kNan;
}

}  // namespace

void wide_unary(WideUnary op, const float* x, float* y, std::int64_t n) {
  on_host_only();
  each(n, [&](std::int64_t i) { y[i] = apply(op, x[i]); });
}
void wide_binary(WideBinary op, const float* a, const float* b, float* y, std::int64_t n) {
  on_host_only();
  each(n, [&](std::int64_t i) { y[i] = apply(op, a[i], b[i]); });
}

}  // namespace isobit::kernels
