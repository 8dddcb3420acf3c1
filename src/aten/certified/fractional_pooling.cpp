// Maxima over windows at random places (contract, sections 1 and 4): PyTorch's places, computed in binary32 from the
// given samples; gradients are those of other maxima.
#include <ATen/ops/cat.h>

#include <tuple>
#include <vector>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "kernels/pool3d.h"

namespace isobit::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;
using Pair = std::tuple<Tensor, Tensor>;
using OutPair = std::tuple<Tensor&, Tensor&>;

template <std::int64_t rank>
constexpr const char* kName = rank == 2 ? "aten::fractional_max_pool2d" : "aten::fractional_max_pool3d";
template <std::int64_t rank>
constexpr const char* kBackward =
    rank == 2 ? "aten::fractional_max_pool2d_backward" : "aten::fractional_max_pool3d_backward";

template <std::int64_t rank>
Pair pool(const Tensor& given, IntArrayRef window, IntArrayRef out, const Tensor& given_samples) {
  constexpr const char* op = kName<rank>;
  const std::int64_t planes = planes_of(op, given, rank);
  if (given_samples.scalar_type() != at::kDouble)
    require_float(op, given_samples);  // binary64 ones are rounded to binary32
  TORCH_CHECK(static_cast<std::int64_t>(window.size()) == rank && static_cast<std::int64_t>(out.size()) == rank, op,
              ": ", rank, " window and output sizes expected, got ", window, " and ", out);
  TORCH_CHECK(given_samples.dim() == 3 && given_samples.size(-1) == rank && given_samples.numel() >= planes * rank, op,
              ": ", rank, " samples for each of ", planes, " images expected, got ", given_samples.sizes());
  kernels::FractionalPool p;
  p.planes = planes;
  const Tensor x = contiguous(given);
  at::DimVector sizes(x.sizes());
  for (std::int64_t d = 0; d < rank; ++d) {
    const std::int64_t to = 3 - rank + d;
    const auto from = static_cast<std::size_t>(d);
    p.in[to] = x.size(d - rank), p.out[to] = out[from], p.window[to] = window[from];
    TORCH_CHECK(window[from] > 0 && out[from] > 0 && out[from] + window[from] - 1 <= p.in[to], op, ": a window of ",
                window, " and outputs ", out, " do not fit ", x.sizes());
    sizes[static_cast<std::size_t>(x.dim() - rank + d)] = out[from];
  }
  // Two dimensions: the width's sample comes first.
  Tensor samples = given_samples.to(at::kFloat).reshape({-1, rank}).narrow(0, 0, planes);
  if (rank == 2) samples = at::cat({new_tensor({planes, 1}).zero_(), samples.flip(1)}, 1);
  samples = contiguous(samples);
  Tensor y = new_tensor(sizes), index = new_tensor(sizes, at::kLong);
  kernels::fractional_max_pool(p, samples.const_data_ptr<float>(), x.const_data_ptr<float>(),
                               y.mutable_data_ptr<float>(), index.mutable_data_ptr<std::int64_t>());
  return {y, index};
}
template <std::int64_t rank>
OutPair pool_out(const Tensor& x, IntArrayRef window, IntArrayRef out, const Tensor& samples, Tensor& y,
                 Tensor& index) {
  const Pair results = pool<rank>(x, window, out, samples);
  float_out(kName<rank>, std::get<0>(results), y);
  copy_out(index, std::get<1>(results));
  return {y, index};
}

template <std::int64_t rank>
Tensor pool_backward(const Tensor& given_dy, const Tensor& x, IntArrayRef, IntArrayRef, const Tensor& indices) {
  constexpr const char* op = kBackward<rank>;
  const std::int64_t planes = planes_of(op, x, rank);
  require_float(op, given_dy);
  TORCH_CHECK(indices.scalar_type() == at::kLong && indices.sizes() == given_dy.sizes() && given_dy.dim() == x.dim(),
              op, ": grad_output ", given_dy.sizes(), " or indices ", indices.sizes(), " do not fit input ", x.sizes());
  const Tensor dy = contiguous(given_dy), index = contiguous(indices);
  return write_new(x.sizes(), [&](float* dx) {
    if (planes == 0) return;
    kernels::max_pool_gradient(planes, x.numel() / planes, dy.numel() / planes, dy.const_data_ptr<float>(),
                               index.const_data_ptr<std::int64_t>(), dx);
  });
}
template <std::int64_t rank>
Tensor& pool_backward_out(const Tensor& dy, const Tensor& x, IntArrayRef window, IntArrayRef out, const Tensor& indices,
                          Tensor& dx) {
  return float_out(kBackward<rank>, pool_backward<rank>(dy, x, window, out, indices), dx);
}

constexpr DeviceRules kDoubleSamples{.doubles = true};

template <std::int64_t rank>
void add_rank(std::vector<Entry>& all) {
  constexpr std::string_view maximum = "4: windows at places from the samples, in binary32; section 1's maximum";
  constexpr std::string_view gradient = "4: over covering windows in ascending order";
  all.push_back(certify<pool<rank>, kDoubleSamples>(kName<rank>, "", maximum));
  all.push_back(certify<pool_out<rank>, kDoubleSamples>(kName<rank>, "output", maximum));
  all.push_back(certify<pool_backward<rank>>(kBackward<rank>, "", gradient));
  all.push_back(certify<pool_backward_out<rank>>(kBackward<rank>, "grad_input", gradient));
}

}  // namespace

std::vector<Entry> fractional_pooling_operators() {
  std::vector<Entry> all;
  add_rank<2>(all);
  add_rank<3>(all);
  return all;
}

}  // namespace isobit::aten
