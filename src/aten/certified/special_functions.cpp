// Functions composed of others (contract, section 10): the multivariate ln Gamma, the sign bit, mantissa and exponent.
#include <ATen/ops/arange.h>
#include <ATen/ops/copysign.h>
#include <ATen/ops/ones.h>

#include <cstdint>
#include <tuple>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "aten/device_work.h"
#include "contract/pointwise.h"

namespace isobit::aten {
namespace {

using at::Tensor;

// PyTorch's composition: the sum of lgamma(x + k / 2), k from -(p - 1) up, and p (p - 1) ln(pi) / 4.
Tensor multivariate_lgamma(const Tensor& x, std::int64_t p) {
  constexpr const char* op = "aten::mvlgamma";
  constexpr double kQuarterLogPi = 0x1.250d048e7a1bdp-2;
  TORCH_CHECK(p >= 1, op, ": p must be at least 1, got ", p);
  const Tensor from = is_integral(x) ? x.to(at::kFloat) : x;
  require_float(op, from);
  const double count = static_cast<double>(p);
  const Tensor steps = at::arange(0.5 * (1.0 - count), 0.5, 0.5, from.options());
  return from.unsqueeze(-1).add(steps).lgamma_().sum(-1).add(count * (count - 1.0) * kQuarterLogPi);
}
Tensor& multivariate_lgamma_out(const Tensor& x, std::int64_t p, Tensor& out) {
  return float_out("aten::mvlgamma", multivariate_lgamma(x, p), out);
}
Tensor& multivariate_lgamma_(Tensor& x, std::int64_t p) { return x.copy_(multivariate_lgamma(x, p)); }

// A NaN counts as positive, as copysign has it.
Tensor sign_bit(const Tensor& x) {
  if (is_integral(x)) return x.lt(0);
  require_computed("aten::signbit", x.scalar_type());
  return at::copysign(at::ones({}, x.options()), x).lt(0);
}
Tensor& signbit_out(const Tensor& x, Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kBool, "aten::signbit: the result is bool, got out of type ", out.scalar_type());
  copy_out(out, sign_bit(x));
  return out;
}

// x = mantissa * 2^exponent, 1/2 <= abs(mantissa) < 1; of zeros, infinities and NaN the number itself and 0.
std::int32_t split_float(float x, float& mantissa) {
  std::uint32_t bits = contract::bits_of(x);
  mantissa = x != x ? contract::kNan : x;
  if (x == 0.0f || (bits & 0x7f800000u) == 0x7f800000u) return 0;
  std::int32_t below = 0;
  if ((bits & 0x7f800000u) == 0) bits = contract::bits_of(x * 0x1p24f), below = 24;
  mantissa = contract::float_of((bits & 0x807fffffu) | 126u << 23);
  return static_cast<std::int32_t>(bits >> 23 & 0xff) - 126 - below;
}
std::tuple<Tensor&, Tensor&> frexp_out(const Tensor& x, Tensor& mantissa, Tensor& exponent) {
  require_float("aten::frexp", {&x, &mantissa});
  TORCH_CHECK(exponent.scalar_type() == at::kInt, "aten::frexp: the exponent is int32, got ", exponent.scalar_type());
  const Tensor from = contiguous(x), parts = new_tensor(x.sizes()), powers = new_tensor(x.sizes(), at::kInt);
  const float* in = from.const_data_ptr<float>();
  float* out = parts.mutable_data_ptr<float>();
  std::int32_t* power = powers.mutable_data_ptr<std::int32_t>();
  for (std::int64_t i = 0; i < from.numel(); ++i) power[i] = split_float(in[i], out[i]);
  copy_out(mantissa, parts), copy_out(exponent, powers);
  return {mantissa, exponent};
}

}  // namespace

std::vector<Entry> special_function_operators() {
  constexpr std::string_view sum = "10: the sum of lgamma(x + k / 2) and p (p - 1) ln(pi) / 4";
  constexpr std::string_view sign = "10: copysign(1, x) < 0, of a NaN false";
  return {
      certify<multivariate_lgamma>("aten::mvlgamma", "", sum),
      certify<multivariate_lgamma_out>("aten::mvlgamma", "out", sum),
      certify<multivariate_lgamma_>("aten::mvlgamma_", "", sum),
      certify<sign_bit>("aten::signbit", "", sign),
      certify<signbit_out>("aten::signbit", "out", sign),
      certify_by_host<frexp_out>("aten::frexp", "Tensor_out", "10: exact; of what is not finite the number and 0"),
  };
}

}  // namespace isobit::aten
