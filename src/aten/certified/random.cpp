// Random fills (contract, section 5): each takes one 64-bit number from its generator as Philox key.
#include "kernels/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <mutex>
#include <optional>
#include <tuple>

#include "aten/certified/entry.h"
#include "aten/certified/tensors.h"
#include "aten/refusal.h"

namespace isobit::aten {
namespace {

using at::Generator;
using at::Tensor;

// From the default CPU generator on every device, so that all draw the same.
std::uint64_t take_key(const char* op, const std::optional<Generator>& generator) {
  if (generator && generator->defined() && generator->device().type() != at::kCPU) {
    refuse(op, "draws its key from a CPU generator on every device, got one of " + generator->device().str(),
           "give a CPU generator, or none");
  }
  auto* source =
      at::get_generator_or_default<at::CPUGeneratorImpl>(generator, at::detail::getDefaultCPUGenerator());
  const std::lock_guard lock(source->mutex_);
  return source->random64();
}

// fill(float*, count) in row-major order of the logical elements, whatever the strides.
template <class Fill>
Tensor& fill_in_order(const Tensor& constant_self, Fill&& fill) {
  Tensor& self = const_cast<Tensor&>(constant_self);
  at::assert_no_internal_overlap(self);
  if (is_float(self) && self.is_contiguous()) {
    fill(self.mutable_data_ptr<float>(), self.numel());
  } else {
    const Tensor values = new_tensor(self.sizes());
    fill(values.mutable_data_ptr<float>(), values.numel());
    self.copy_(values);
  }
  return self;
}

Tensor& uniform_(Tensor& self, double low, double high, std::optional<Generator> generator) {
  require_float("aten::uniform_", self);
  TORCH_CHECK(low <= high, "aten::uniform_: from (", low, ") must not be above to (", high, ")");
  const std::uint64_t key = take_key("aten::uniform_", generator);
  return fill_in_order(self, [&](float* out, std::int64_t n) {
    kernels::fill_uniform(key, 0, static_cast<float>(low), static_cast<float>(high), out, n);
  });
}

Tensor& normal_(Tensor& self, double mean, double deviation, std::optional<Generator> generator) {
  require_float("aten::normal_", self);
  TORCH_CHECK(deviation >= 0, "aten::normal_: std must not be negative, got ", deviation);
  const std::uint64_t key = take_key("aten::normal_", generator);
  return fill_in_order(self, [&](float* out, std::int64_t n) {
    kernels::fill_normal(key, 0, static_cast<float>(mean), static_cast<float>(deviation), out, n);
  });
}

// Zeros and ones are exact in every type.
Tensor& bernoulli_(Tensor& self, double p, std::optional<Generator> generator) {
  TORCH_CHECK(p >= 0 && p <= 1, "aten::bernoulli_: p must be in [0, 1], got ", p);
  const std::uint64_t key = take_key("aten::bernoulli_", generator);
  return fill_in_order(self, [&](float* out, std::int64_t n) { kernels::fill_bernoulli(key, 0, p, out, n); });
}

// The composition that F.dropout computes: mask = bernoulli(1 - p); (mask / (1 - p)) * x.
std::tuple<Tensor, Tensor> native_dropout(const Tensor& x, double p, std::optional<bool> train) {
  require_float("aten::native_dropout", x);
  TORCH_CHECK(p >= 0 && p <= 1, "aten::native_dropout: p must be in [0, 1], got ", p);
  if (train && !*train) {
    Tensor ones = new_tensor(x.sizes(), at::kBool);
    return {x.clone(), ones.fill_(true)};
  }
  Tensor keep = new_tensor(x.sizes());
  bernoulli_(keep, 1 - p, std::nullopt);
  const double scale = p == 1 ? 0.0 : 1.0 / static_cast<float>(1 - p);
  return {x.mul(keep).mul_(scale), keep.to(at::kBool)};
}
Tensor native_dropout_backward(const Tensor& dy, const Tensor& mask, double scale) {
  require_float("aten::native_dropout_backward", dy);
  return dy.mul(mask).mul_(scale);
}

}  // namespace

std::vector<Entry> random_operators() {
  return {
      certify<uniform_>("aten::uniform_", "", "5: fma(u, high - low, low), u = (w >> 8) * 2^-24"),
      certify<normal_>("aten::normal_", "", "5: fma(z, deviation, mean), z by Box-Muller pairs"),
      certify<bernoulli_>("aten::bernoulli_", "float", "5: 1 where w < RN(p * 2^32)"),
      certify<native_dropout>("aten::native_dropout", "", "5: bernoulli mask, x * mask * (1 / keep)"),
      certify<native_dropout_backward>("aten::native_dropout_backward", "", "5: dy * mask * scale"),
  };
}

}  // namespace isobit::aten
