// Operators of one IEEE operation per element: products, quotients, signs (contract, section 1).
//
// On the CPU stock's kernels are exact and stay (exact_operators.h, ExactRule::rounds); on a device these take their
// place. Integers alone stay with stock, but for quotients, which are of floats.
#include <ATen/core/Tensor.h>

#include "aten/certified/entry.h"
#include "aten/certified/pointwise.h"
#include "kernels/pointwise.h"

namespace isobit::aten {
namespace {

using at::Tensor;

// TODO: by kernels/elementwise.h, without a tensor of zeros.
template <class Kernel>
Tensor with_zeros(const char* op, const Tensor& a, const Tensor& b, Kernel kernel) {
  Tensor zero = new_tensor({}).fill_(-0.0);  // fma(p, q, -0) is p * q, the sign of a zero included
  return pointwise_new<3>(op, {zero, a, b}, [&](std::array<const float*, 3> x, float* y, std::int64_t n) {
    kernel(x[0], x[1], x[2], 1.0f, y, n);
  });
}

Tensor mul(const Tensor& a, const Tensor& b) { return with_zeros("aten::mul", a, b, kernels::addcmul); }
Tensor& mul_out(const Tensor& a, const Tensor& b, Tensor& out) {
  copy_out(out, isobit::aten::mul(a, b));
  return out;
}
Tensor& mul_(Tensor& a, const Tensor& b) { return a.copy_(isobit::aten::mul(a, b)); }

Tensor div(const Tensor& a, const Tensor& b) { return with_zeros("aten::div", a, b, kernels::addcdiv); }
Tensor& div_out(const Tensor& a, const Tensor& b, Tensor& out) {
  copy_out(out, isobit::aten::div(a, b));
  return out;
}
Tensor& div_(Tensor& a, const Tensor& b) { return a.copy_(isobit::aten::div(a, b)); }

Tensor neg(const Tensor& x) { return isobit::aten::mul(x, new_tensor({}).fill_(-1.0)); }
Tensor& abs_out(const Tensor& x, Tensor& out) {
  copy_out(out, x.maximum(isobit::aten::neg(x)));
  return out;
}

}  // namespace

std::vector<Entry> rounding_operators() {
  return {
      certify_on_device<mul, kElementwiseOrStock>("aten::mul", "Tensor", "1: a * b"),
      certify_on_device<mul_out, kElementwiseOrStock>("aten::mul", "out", "1: a * b"),
      certify_on_device<mul_, kElementwiseOrStock>("aten::mul_", "Tensor", "1: a * b"),
      certify_on_device<div, kElementwise>("aten::div", "Tensor", "1: a / b"),
      certify_on_device<div_out, kElementwise>("aten::div", "out", "1: a / b"),
      certify_on_device<div_, kElementwise>("aten::div_", "Tensor", "1: a / b"),
      certify_on_device<neg, kIntegersByStock>("aten::neg", "", "1: -x"),
      certify_on_device<abs_out, kIntegersByStock>("aten::abs", "out", "1: |x|"),
  };
}

}  // namespace isobit::aten
