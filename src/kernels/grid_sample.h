// Sampling of images at given places: grid_sample and its gradients (contract, section 12).
//
// An output is a chain of t = fma(weight, input, t) from +0 over the taps inside the image, in their order (nearest:
// the element itself, or +0). Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

enum class GridFilter { linear, nearest, cubic };  // cubic: two dimensions only
enum class GridPadding { zeros, border, reflection };
inline constexpr int kGridTaps = 16;  // of one output, at most

// x [batch, channels, in], grid [batch, out, rank], y [batch, channels, out]. in: depth (1 where rank is 2), height,
// width; a grid's numbers are width first. Sizes are positive where there are outputs, in's product below 2^31.
struct GridShape {
  int rank = 2;
  std::int64_t batch = 0, channels = 0, out = 0;
  std::int64_t in[3] = {1, 1, 1};
  GridFilter filter = GridFilter::linear;
  GridPadding padding = GridPadding::zeros;
  bool align_corners = false;

  [[nodiscard]] std::int64_t plane() const { return in[0] * in[1] * in[2]; }
};

void grid_sample(const GridShape& shape, const float* x, const float* grid, float* y);
// dx: from +0, over the outputs in ascending order, their taps in order: t = fma(weight, dy, t). Writes all of dx.
void grid_sample_input_gradient(const GridShape& shape, const float* grid, const float* dy, float* dx);
// Of every tap the ordered dot of inputs and dy over the channels (section 3); over the taps a chain of fma(dot, slope,
// t); times the place's own slope. Nearest: +0.
void grid_sample_grid_gradient(const GridShape& shape, const float* x, const float* grid, const float* dy,
                               float* dgrid);

}  // namespace isobit::kernels
