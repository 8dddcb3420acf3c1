// linalg_qr (contract, section 13), which nn.init.orthogonal_ is made of. Its derivative is PyTorch's formula, by
// linear_algebra.cpp's substitution.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "kernels/householder.h"

namespace isobit::aten {
namespace {

using at::Tensor;
constexpr const char* kQr = "aten::linalg_qr";

// Matrices in a batch lie column after column, as PyTorch's do.
Tensor new_matrices(const Tensor& like, std::int64_t rows, std::int64_t columns) {
  at::DimVector sizes(like.sizes());
  sizes[sizes.size() - 2] = columns, sizes[sizes.size() - 1] = rows;
  return new_tensor(sizes, like.scalar_type()).mT();
}

std::tuple<Tensor, Tensor> qr(const Tensor& a, c10::string_view mode) {
  const at::ScalarType type = require_computed(kQr, a.scalar_type());
  TORCH_CHECK(a.dim() >= 2, kQr, ": a matrix or a batch of them expected, got ", a.sizes());
  TORCH_CHECK(mode == "reduced" || mode == "complete" || mode == "r", kQr,
              ": mode must be reduced, complete or r, not ", std::string(mode));
  const Tensor rows = contiguous(a);
  const std::int64_t m = a.size(-2), n = a.size(-1), least = std::min(m, n);
  const std::int64_t side = mode == "complete" ? m : least;
  const Tensor q = mode == "r" ? new_tensor({0}, type) : new_matrices(a, m, side), r = new_matrices(a, side, n);
  std::int64_t batch = 1;
  for (const std::int64_t size : a.sizes().slice(0, static_cast<std::size_t>(a.dim() - 2))) batch *= size;
  for (std::int64_t b = 0; b < batch; ++b) {
    kernels::QrProblem p{.m = m, .n = n, .row_stride = n, .column_stride = 1, .r_rows = side};
    if (mode != "r") p.q_columns = side;
    if (type == at::kDouble) {
      p.wide_a = rows.const_data_ptr<double>() + b * m * n;
      if (mode != "r") p.wide_q = q.mutable_data_ptr<double>() + b * m * side;
      p.wide_r = r.mutable_data_ptr<double>() + b * side * n;
    } else {
      p.a = rows.const_data_ptr<float>() + b * m * n;
      if (mode != "r") p.q = q.mutable_data_ptr<float>() + b * m * side;
      p.r = r.mutable_data_ptr<float>() + b * side * n;
    }
    kernels::householder_qr(p);
  }
  return {q, r};
}
std::tuple<Tensor&, Tensor&> qr_out(const Tensor& a, c10::string_view mode, Tensor& q, Tensor& r) {
  const auto [new_q, new_r] = qr(a, mode);
  float_out(kQr, new_q, q), float_out(kQr, new_r, r);
  return {q, r};
}

}  // namespace

std::vector<Entry> factorisation_operators() {
  constexpr std::string_view householder = "13: Householder's reflections in binary64, rounded once to float32";
  return {certify_by_host<qr>(kQr, "", householder), certify_by_host<qr_out>(kQr, "out", householder)};
}

}  // namespace isobit::aten
