// grid_sample: values of images at places given by a grid, and both gradients (contract, section 12).
#include <algorithm>
#include <array>
#include <tuple>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "kernels/grid_sample.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using kernels::GridShape;

constexpr const char* name_of(int rank) { return rank == 2 ? "aten::grid_sampler_2d" : "aten::grid_sampler_3d"; }
constexpr const char* backward_name_of(int rank) {
  return rank == 2 ? "aten::grid_sampler_2d_backward" : "aten::grid_sampler_3d_backward";
}

// PyTorch's numbers of the modes: bilinear, nearest, bicubic; zeros, border, reflection.
GridShape shape_of(const char* op, int rank, const Tensor& x, const Tensor& grid, std::int64_t filter,
                   std::int64_t padding, bool align_corners) {
  require_float(op, {&x, &grid});
  TORCH_CHECK(x.dim() == rank + 2 && grid.dim() == rank + 2 && grid.size(-1) == rank && x.size(0) == grid.size(0), op,
              ": an input of ", rank + 2, " dimensions and a grid of ", rank, " numbers for each output expected, got ",
              x.sizes(), " and ", grid.sizes());
  TORCH_CHECK(filter >= 0 && filter <= (rank == 2 ? 2 : 1) && padding >= 0 && padding <= 2, op,
              ": unknown interpolation mode ", filter, " or padding mode ", padding);
  GridShape s;
  s.rank = rank, s.batch = x.size(0), s.channels = x.size(1);
  s.out = 1;
  for (int d = 0; d < rank; ++d) {
    s.out *= grid.size(d + 1);
    s.in[3 - rank + d] = x.size(d + 2);
    TORCH_CHECK(x.size(d + 2) > 0, op, ": a non-empty image expected, got ", x.sizes());
  }
  TORCH_CHECK(s.plane() < (std::int64_t{1} << 31), op, ": the image must have fewer than 2^31 elements");
  constexpr std::array kFilters{kernels::GridFilter::linear, kernels::GridFilter::nearest, kernels::GridFilter::cubic};
  constexpr std::array kPaddings{kernels::GridPadding::zeros, kernels::GridPadding::border,
                                 kernels::GridPadding::reflection};
  s.filter = kFilters[static_cast<std::size_t>(filter)], s.padding = kPaddings[static_cast<std::size_t>(padding)];
  s.align_corners = align_corners;
  return s;
}

at::DimVector output_sizes(const Tensor& x, const Tensor& grid) {
  at::DimVector sizes{x.size(0), x.size(1)};
  for (std::int64_t d = 1; d + 1 < grid.dim(); ++d) sizes.push_back(grid.size(d));
  return sizes;
}

template <int rank>
Tensor sample(const Tensor& given, const Tensor& given_grid, std::int64_t filter, std::int64_t padding, bool align) {
  const GridShape s = shape_of(name_of(rank), rank, given, given_grid, filter, padding, align);
  const Tensor x = contiguous(given), grid = contiguous(given_grid);
  return write_new(output_sizes(x, grid), [&](float* y) {
    kernels::grid_sample(s, x.const_data_ptr<float>(), grid.const_data_ptr<float>(), y);
  });
}

template <int rank>
std::tuple<Tensor, Tensor> sample_backward(const Tensor& given_dy, const Tensor& given, const Tensor& given_grid,
                                           std::int64_t filter, std::int64_t padding, bool align,
                                           std::array<bool, 2> wanted) {
  constexpr const char* op = backward_name_of(rank);
  const GridShape s = shape_of(op, rank, given, given_grid, filter, padding, align);
  require_float(op, given_dy);
  TORCH_CHECK(given_dy.sizes() == at::IntArrayRef(output_sizes(given, given_grid)), op, ": grad_output has sizes ",
              given_dy.sizes(), ", not those of the output");
  const Tensor dy = contiguous(given_dy), x = contiguous(given), grid = contiguous(given_grid);
  Tensor dx, dgrid;
  if (wanted[0]) {
    dx = write_new(x.sizes(), [&](float* to) {
      kernels::grid_sample_input_gradient(s, grid.const_data_ptr<float>(), dy.const_data_ptr<float>(), to);
    });
  }
  if (wanted[1]) {
    dgrid = write_new(grid.sizes(), [&](float* to) {
      kernels::grid_sample_grid_gradient(s, x.const_data_ptr<float>(), grid.const_data_ptr<float>(),
                                         dy.const_data_ptr<float>(), to);
    });
  }
  return {dx, dgrid};
}

}  // namespace

std::vector<Entry> grid_sampling_operators() {
  constexpr std::string_view values = "12: chain of fma over the taps inside the image";
  constexpr std::string_view gradients =
      "12: chains over outputs and taps in ascending order; the grid's by dots over channels";
  return {
      certify<sample<2>>(name_of(2), "", values),
      certify<sample<3>>(name_of(3), "", values),
      certify<sample<2>>("aten::_grid_sampler_2d_cpu_fallback", "", values),
      certify<sample_backward<2>>(backward_name_of(2), "", gradients),
      certify<sample_backward<3>>(backward_name_of(3), "", gradients),
  };
}

}  // namespace isobit::aten
