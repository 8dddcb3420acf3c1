// Exact convolutions on a device: what the two ways share (exact_conv2d.cu, exact_conv2d_few.cu). Private to this
// folder.
#pragma once

#include "kernels/conv2d.h"
#include "kernels/cuda/exact_slabs.h"

namespace isobit::kernels::ISOBIT_CUDA {

// [images][groups], each of `elements` side by side.
[[nodiscard]] inline Slabs of_images(std::int64_t images, std::int64_t elements) {
  Slabs s;
  s.inner = images, s.inner_stride = elements, s.n1 = elements;
  return s;
}
// Each channel over the batch.
[[nodiscard]] inline Slabs of_channels(std::int64_t n, std::int64_t channels, std::int64_t plane) {
  Slabs s;
  s.inner = channels, s.inner_stride = plane;
  s.n0 = n, s.stride0 = channels * plane, s.n1 = plane;
  return s;
}
// Each input channel of a group over its output channels and all taps.
[[nodiscard]] inline Slabs of_input_channels(const Conv2dShape& s) {
  const std::int64_t co = s.co / s.groups, ci = s.ci / s.groups, taps = s.kh * s.kw;
  Slabs slabs;
  slabs.outer = s.groups, slabs.outer_stride = co * ci * taps;
  slabs.inner = ci, slabs.inner_stride = taps;
  slabs.n0 = co, slabs.stride0 = ci * taps, slabs.n1 = taps;
  return slabs;
}

// By words; arguments as in kernels/exact_products.h. The caller has seen that outputs are not empty and indexable.
void few_conv2d_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y);
void few_conv2d_input_gradient(const Conv2dShape& s, const float* dy, const float* weight, float* dx);
void few_conv2d_weight_gradient(const Conv2dShape& s, const float* x, const float* dy, float* dweight);

// By chunks where they are at least half full, else by words.
void exact_conv2d_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y);
void exact_conv2d_input_gradient(const Conv2dShape& s, const float* dy, const float* weight, float* dx);
void exact_conv2d_weight_gradient(const Conv2dShape& s, const float* x, const float* dy, float* dweight);

}  // namespace isobit::kernels::ISOBIT_CUDA
