// Max, average and adaptive average pooling over planes [planes, h, w], contiguous (contract, sections 1, 4).
//
// Maximum: the first NaN in window order, else the first of the largest (-0 equals +0); value and index
// (ih * w + iw) are those of that element; padding is never chosen; a window with no element inside gives
// -inf and index -1. Average: chain of additions from +0 over (kh, kw) of the elements inside, divided by
// RN(divisor); no element inside: +0. Gradients: t = +0; over windows in ascending (oh, ow), t += dy
// (maximum, where the index is this element; an index outside the plane is no element's) or t += dy /
// RN(divisor) (average). Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

struct Pool2dShape {
  std::int64_t planes = 0, h = 0, w = 0, out_h = 0, out_w = 0;
  std::int64_t kh = 1, kw = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
};

void max_pool2d(const Pool2dShape& shape, const float* x, float* y, std::int64_t* index);
void max_pool2d_backward(const Pool2dShape& shape, const float* dy, const std::int64_t* index, float* dx);

// divisor_override 0: kernel size clipped to the padded image if count_include_pad, else elements inside.
void average_pool2d(const Pool2dShape& shape, bool count_include_pad, std::int64_t divisor_override, const float* x,
                    float* y);
void average_pool2d_backward(const Pool2dShape& shape, bool count_include_pad, std::int64_t divisor_override,
                             const float* dy, float* dx);

// Window of output o: [floor(o * size / out), ceil((o + 1) * size / out)); only planes, h, w, out_* are read.
void adaptive_average_pool2d(const Pool2dShape& shape, const float* x, float* y);
void adaptive_average_pool2d_backward(const Pool2dShape& shape, const float* dy, float* dx);

}  // namespace isobit::kernels
