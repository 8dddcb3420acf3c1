// Maxima over windows at random places (contract, sections 1 and 4): PyTorch's places, computed in binary32 from the given
// samples; gradients are those of other maxima.
#include <array>
#include <tuple>
#include <vector>

#include "aten/certified/entry.h"
#include "aten/certified/tensors.h"
#include "contract/extrema.h"
#include "kernels/float_environment.h"
#include "kernels/pool3d.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;
using Pair = std::tuple<Tensor, Tensor>;
using OutPair = std::tuple<Tensor&, Tensor&>;

template <std::int64_t rank>
constexpr const char* kName = rank == 2 ? "aten::fractional_max_pool2d" : "aten::fractional_max_pool3d";
template <std::int64_t rank>
constexpr const char* kBackward = rank == 2 ? "aten::fractional_max_pool2d_backward" : "aten::fractional_max_pool3d_backward";

// Where the window of output o begins; the last one ends with the image.
std::int64_t window_begin(float sample, std::int64_t in, std::int64_t out, std::int64_t window, std::int64_t o) {
  if (o == out - 1) return in - window;
  const float alpha = static_cast<float>(in - window) / static_cast<float>(out - 1);
  return static_cast<std::int64_t>((static_cast<float>(o) + sample) * alpha) - static_cast<std::int64_t>(sample * alpha);
}

struct Sizes {
  std::array<std::int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, window{1, 1, 1};
};

void pool_plane(const Sizes& s, const std::array<float, 3>& sample, const float* x, float* y, std::int64_t* index) {
  const auto begin = [&](int d, std::int64_t o) { return window_begin(sample[d], s.in[d], s.out[d], s.window[d], o); };
  for (std::int64_t i = 0; i < s.out[0]; ++i) {
    for (std::int64_t j = 0; j < s.out[1]; ++j) {
      for (std::int64_t k = 0; k < s.out[2]; ++k, ++y, ++index) {
        const std::int64_t di = begin(0, i), dj = begin(1, j), dk = begin(2, k);
        std::int64_t best = (di * s.in[1] + dj) * s.in[2] + dk;
        for (std::int64_t a = di; a < di + s.window[0]; ++a) {
          for (std::int64_t b = dj; b < dj + s.window[1]; ++b) {
            for (std::int64_t c = dk; c < dk + s.window[2]; ++c) {
              const std::int64_t at = (a * s.in[1] + b) * s.in[2] + c;
              if (contract::is_better_maximum(x[at], x[best])) best = at;
            }
          }
        }
        *y = x[best], *index = best;
      }
    }
  }
}

template <std::int64_t rank>
Pair pool(const Tensor& given, IntArrayRef window, IntArrayRef out, const Tensor& given_samples) {
  constexpr const char* op = kName<rank>;
  const std::int64_t planes = planes_of(op, given, rank);
  if (given_samples.scalar_type() != at::kDouble) require_float(op, given_samples);  // binary64 ones are rounded to binary32
  TORCH_CHECK(static_cast<std::int64_t>(window.size()) == rank && static_cast<std::int64_t>(out.size()) == rank, op, ": ", rank,
              " window and output sizes expected, got ", window, " and ", out);
  TORCH_CHECK(given_samples.dim() == 3 && given_samples.size(-1) == rank && given_samples.numel() >= planes * rank, op, ": ", rank,
              " samples for each of ", planes, " images expected, got ", given_samples.sizes());
  const Tensor x = contiguous(given), samples = contiguous(given_samples.to(at::kFloat));
  Sizes s;
  at::DimVector sizes(x.sizes());
  for (std::int64_t d = 0; d < rank; ++d) {
    const auto to = static_cast<std::size_t>(3 - rank + d), from = static_cast<std::size_t>(d);
    s.in[to] = x.size(d - rank), s.out[to] = out[from], s.window[to] = window[from];
    TORCH_CHECK(window[from] > 0 && out[from] > 0 && out[from] + window[from] - 1 <= s.in[to], op, ": a window of ", window,
                " and outputs ", out, " do not fit ", x.sizes());
    sizes[static_cast<std::size_t>(x.dim() - rank + d)] = out[from];
  }
  Tensor y = new_tensor(sizes), index = new_tensor(sizes, at::kLong);
  const std::int64_t in_plane = s.in[0] * s.in[1] * s.in[2], out_plane = s.out[0] * s.out[1] * s.out[2];
  const float* const sample = samples.const_data_ptr<float>();
  const kernels::FloatEnvironment environment;
  kernels::parallel_for(0, planes, 8192 / (in_plane + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      // Two dimensions: the width's sample comes first.
      const float* const r = sample + p * rank;
      const std::array<float, 3> places = rank == 2 ? std::array{0.0f, r[1], r[0]} : std::array{r[0], r[1], r[rank - 1]};
      pool_plane(s, places, x.const_data_ptr<float>() + p * in_plane, y.mutable_data_ptr<float>() + p * out_plane,
                 index.mutable_data_ptr<std::int64_t>() + p * out_plane);
    }
  });
  return {y, index};
}
template <std::int64_t rank>
OutPair pool_out(const Tensor& x, IntArrayRef window, IntArrayRef out, const Tensor& samples, Tensor& y, Tensor& index) {
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
  TORCH_CHECK(indices.scalar_type() == at::kLong && indices.sizes() == given_dy.sizes() && given_dy.dim() == x.dim(), op,
              ": grad_output ", given_dy.sizes(), " or indices ", indices.sizes(), " do not fit input ", x.sizes());
  const Tensor dy = contiguous(given_dy), index = contiguous(indices);
  return write_new(x.sizes(), [&](float* dx) {
    if (planes == 0) return;
    kernels::max_pool_gradient(planes, x.numel() / planes, dy.numel() / planes, dy.const_data_ptr<float>(),
                               index.const_data_ptr<std::int64_t>(), dx);
  });
}
template <std::int64_t rank>
Tensor& pool_backward_out(const Tensor& dy, const Tensor& x, IntArrayRef window, IntArrayRef out, const Tensor& indices, Tensor& dx) {
  return float_out(kBackward<rank>, pool_backward<rank>(dy, x, window, out, indices), dx);
}

template <std::int64_t rank>
void add_rank(std::vector<Entry>& all) {
  constexpr std::string_view maximum = "4: windows at places from the samples, in binary32; section 1's maximum";
  constexpr std::string_view gradient = "4: over covering windows in ascending order";
  all.push_back(certify_on_host<pool<rank>>(kName<rank>, "", maximum));
  all.push_back(certify_on_host<pool_out<rank>>(kName<rank>, "output", maximum));
  all.push_back(certify_on_host<pool_backward<rank>>(kBackward<rank>, "", gradient));
  all.push_back(certify_on_host<pool_backward_out<rank>>(kBackward<rank>, "grad_input", gradient));
}

}  // namespace

std::vector<Entry> fractional_pooling_operators() {
  std::vector<Entry> all;
  add_rank<2>(all);
  add_rank<3>(all);
  return all;
}

}  // namespace isobit::aten
