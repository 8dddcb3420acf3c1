// Gamma, Dirichlet, Poisson and binomial numbers (contract, section 5), and gradients of Dirichlet numbers (section
// 10). On devices by CPU fallback.
#include "kernels/distributions.h"

#include <ATen/ExpandUtils.h>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/pointwise.h"
#include "aten/certified/support/random_key.h"

namespace isobit::aten {
namespace {

using at::Generator;
using at::Tensor;

Tensor standard_gamma(const Tensor& shape, std::optional<Generator> generator) {
  require_float("aten::_standard_gamma", shape);
  const Tensor rows = contiguous(shape);
  const std::uint64_t key = take_key("aten::_standard_gamma", generator);
  return write_new(shape.sizes(),
                   [&](float* out) { kernels::draw_gamma(key, rows.const_data_ptr<float>(), out, rows.numel()); });
}

Tensor sample_dirichlet(const Tensor& concentration, std::optional<Generator> generator) {
  constexpr const char* op = "aten::_sample_dirichlet";
  require_float(op, concentration);
  TORCH_CHECK(concentration.dim() >= 1, op, ": concentrations of at least one dimension expected");
  const Tensor rows = contiguous(concentration);
  const std::uint64_t key = take_key(op, generator);
  const std::int64_t width = rows.size(-1), count = width == 0 ? 0 : rows.numel() / width;
  return write_new(rows.sizes(),
                   [&](float* out) { kernels::draw_dirichlet(key, rows.const_data_ptr<float>(), out, count, width); });
}

Tensor poisson(const Tensor& rate, std::optional<Generator> generator) {
  require_float("aten::poisson", rate);
  const Tensor rows = contiguous(rate);
  TORCH_CHECK(rows.ge(0).all().item<bool>(), "aten::poisson: invalid Poisson rate, expected rate to be non-negative");
  const std::uint64_t key = take_key("aten::poisson", generator);
  return write_new(rate.sizes(),
                   [&](float* out) { kernels::draw_poisson(key, rows.const_data_ptr<float>(), out, rows.numel()); });
}

Tensor binomial(const Tensor& count, const Tensor& p, std::optional<Generator> generator) {
  require_float("aten::binomial", {&count, &p});
  const at::DimVector sizes = at::infer_size_dimvector(count.sizes(), p.sizes());
  const Tensor counts = contiguous(count.expand(sizes)), chances = contiguous(p.expand(sizes));
  const std::uint64_t key = take_key("aten::binomial", generator);
  return write_new(sizes, [&](float* out) {
    kernels::draw_binomial(key, counts.const_data_ptr<float>(), chances.const_data_ptr<float>(), out, counts.numel());
  });
}

Tensor dirichlet_grad(const Tensor& x, const Tensor& alpha, const Tensor& total) {
  return pointwise_new<3>("aten::_dirichlet_grad", {x, alpha, total},
                          [](std::array<const float*, 3> in, float* y, std::int64_t n) {
                            kernels::dirichlet_slope(in[0], in[1], in[2], y, n);
                          });
}

}  // namespace

std::vector<Entry> distribution_operators() {
  return {
      certify_by_host<standard_gamma>("aten::_standard_gamma", "", "5: Marsaglia and Tsang, an attempt a block"),
      certify_by_host<sample_dirichlet>("aten::_sample_dirichlet", "", "5: gamma numbers over their sum, in binary64"),
      certify_by_host<poisson>("aten::poisson", "", "5: by its running sum, or transformed rejection"),
      certify_by_host<binomial>("aten::binomial", "", "5: by its running sum, or transformed rejection"),
      certify_by_host<dirichlet_grad>("aten::_dirichlet_grad", "",
                                      "10: -(dI/da) / (dI/dx) / (1 - x), in binary64, rounded once"),
  };
}

}  // namespace isobit::aten
