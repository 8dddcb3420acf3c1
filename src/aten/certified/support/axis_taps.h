// Which inputs, with which weights, make the outputs along one dimension: interpolation, padding (contract, section
// 12).
//
// Tables are made on the host in binary64, weights rounded to binary32 at the end; so every device has the same.
// Private to this folder. Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace isobit::aten {

// Output o: entries begin[o] .. begin[o + 1] - 1, ascending in source but where an edge repeats.
struct AxisTaps {
  std::int64_t in = 0;
  std::vector<std::int32_t> begin{0}, source;
  std::vector<float> weight;

  [[nodiscard]] std::int64_t out() const { return static_cast<std::int64_t>(begin.size()) - 1; }
  [[nodiscard]] std::int64_t most() const;
  void add(std::int64_t from, double w);  // a weight of 0 is no entry
  void close() { begin.push_back(static_cast<std::int32_t>(source.size())); }
};

enum class Interpolation { nearest, nearest_exact, linear, cubic, linear_antialiased, cubic_antialiased };

// scale: the caller's factor out / in, where given and positive used instead of the sizes' quotient.
[[nodiscard]] AxisTaps interpolation_taps(Interpolation kind, std::int64_t in, std::int64_t out, bool align_corners,
                                          std::optional<double> scale);
// Positions -before .. in + after - 1, mirrored without repeating the edge, or held at the edge.
[[nodiscard]] AxisTaps padding_taps(bool reflect, std::int64_t in, std::int64_t before, std::int64_t after);

// The gradient's: outputs are the inputs, entries in ascending order of the former outputs.
[[nodiscard]] AxisTaps transposed(const AxisTaps& taps);

// The weighted sums along x's dimension; contiguous. On a device a composition of certified operators.
[[nodiscard]] at::Tensor apply_taps(const AxisTaps& taps, const at::Tensor& x, std::int64_t dim);
// apply_taps along the last but one dimension, then along the last, a plane after another where one fits a cache.
// Faster for short rows of the tables only: they are prepared for each plane.
[[nodiscard]] at::Tensor apply_grid(const AxisTaps& rows, const AxisTaps& columns, const at::Tensor& x);
// Copies instead of sums: every output has one entry. copy_grid: along the last two dimensions in one pass, on the host
// only.
[[nodiscard]] at::Tensor copy_taps(const AxisTaps& taps, const at::Tensor& x, std::int64_t dim);
[[nodiscard]] at::Tensor copy_grid(const AxisTaps& rows, const AxisTaps& columns, const at::Tensor& x);

}  // namespace isobit::aten
