// Two-dimensional convolution in contract order (section 3): forward, input gradient, weight gradient.
//
//   x [n, ci, h, w]   weight [co, ci / groups, kh, kw]   y [n, co, out_h, out_w]   all contiguous
//
// Orders: forward (ci, kh, kw) within the group, then one addition of the bias; weight gradient
// (n, oh, ow); input gradient (co, kh, kw) within the group, over the taps whose phase meets the element
// (a tap that falls outside the output is a +0 term; a tap of another phase is no term).
// The bias gradient is a section 4 sum over (n, oh, ow): see reduce.h.
// Outputs must not overlap inputs. Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

struct Conv2dShape {
  std::int64_t n = 0, ci = 0, h = 0, w = 0;
  std::int64_t co = 0, kh = 1, kw = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t groups = 1;
  // On hosts: the planes of x, in the input gradient of dy, [n][channels] in any places, nullptr one of +0; x, or dy,
  // is then not read. nullptr: they lie there.
  const float* const* planes = nullptr;

  [[nodiscard]] std::int64_t out_h() const { return (h + 2 * pad_h - dilation_h * (kh - 1) - 1) / stride_h + 1; }
  [[nodiscard]] std::int64_t out_w() const { return (w + 2 * pad_w - dilation_w * (kw - 1) - 1) / stride_w + 1; }
};

// bias: [co] or nullptr.
void conv2d_forward(const Conv2dShape& shape, const float* x, const float* weight, const float* bias, float* y);
void conv2d_input_gradient(const Conv2dShape& shape, const float* dy, const float* weight, float* dx);
void conv2d_weight_gradient(const Conv2dShape& shape, const float* x, const float* dy, float* dweight);

}  // namespace isobit::kernels
