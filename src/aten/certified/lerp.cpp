// lerp with a tensor of weights: the formula of the contract's section 8, element by element.
#include <ATen/ops/addcmul.h>
#include <ATen/ops/where.h>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"

namespace isobit::aten {
namespace {

using at::Tensor;

constexpr const char* kLerp = "aten::lerp";
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  require_computed(kLerp, {&a, &b, &weight});
  const Tensor d = b.sub(a);
  return at::where(weight.abs().lt(0.5), at::addcmul(a, weight, d), at::addcmul(b, weight.sub(1), d));
}
Tensor& lerp_out(const Tensor& a, const Tensor& b, const Tensor& weight, Tensor& out) {
  return float_out(kLerp, lerp(a, b, weight), out);
}
Tensor& lerp_(Tensor& a, const Tensor& b, const Tensor& weight) {
  const Tensor result = lerp(a, b, weight);
  TORCH_CHECK(result.sizes() == a.sizes(), kLerp, ": cannot write a result of sizes ", result.sizes(), " into ",
              a.sizes());
  return a.copy_(result);
}

}  // namespace

std::vector<Entry> lerp_operators() {
  constexpr std::string_view mix = "8: fma(w, d, a) or fma(RN(w - 1), d, b)";
  return {
      certify<lerp>(kLerp, "Tensor", mix),
      certify<lerp_out>(kLerp, "Tensor_out", mix),
      certify<lerp_>("aten::lerp_", "Tensor", mix),
  };
}

}  // namespace isobit::aten
