// Pooling over planes [planes, d, h, w], contiguous, by windows given per dimension: what pool2d.h has for two
// dimensions, adaptive windows and maxima with them (contract, sections 1 and 4).
//
// Window order (kd, kh, kw), windows ascending (od, oh, ow); rules as in pool2d.h. The windows' arrays lie on the host
// on every device; planes have less than 2^31 elements and outputs. Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

// One dimension: window o takes begin[o], begin[o] + step, ... below end[o], all inside; extent[o] counts what it would
// take of the padded image.
struct PoolAxis {
  std::int64_t in = 1, out = 1, step = 1;
  const std::int64_t *begin = nullptr, *end = nullptr, *extent = nullptr;  // [out]
};
struct PoolWindows {
  std::int64_t planes = 0;
  PoolAxis d, h, w;
  [[nodiscard]] std::int64_t in() const { return d.in * h.in * w.in; }
  [[nodiscard]] std::int64_t out() const { return d.out * h.out * w.out; }
};

// index: (id * h + ih) * w + iw of the element; -1, and y -inf, where the window is empty.
void max_pool3d(const PoolWindows& windows, const float* x, float* y, std::int64_t* index);

// Windows at places computed in binary32 from samples [planes, 3] in [0, 1): along a dimension of n elements, of `out`
// outputs the last ends with the image, output o before it begins at int((o + sample) * a) - int(sample * a), a = (n -
// window) / (out - 1).
struct FractionalPool {
  std::int64_t planes = 0;
  std::int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, window[3] = {1, 1, 1};  // depth, height, width
};
void fractional_max_pool(const FractionalPool& pool, const float* samples, const float* x, float* y,
                         std::int64_t* index);

// Any maximum's gradient: dx [planes, in], dy and index [planes, out]; indices outside are no element's.
void max_pool_gradient(std::int64_t planes, std::int64_t in, std::int64_t out, const float* dy,
                       const std::int64_t* index, float* dx);

// What a window's sum is divided by: the count of its elements in the image, of the padded image, or `fixed`. Steps
// are 1.
enum class Divisor { inside, with_padding, fixed };
void average_pool3d(const PoolWindows& windows, Divisor divisor, std::int64_t fixed, const float* x, float* y);
void average_pool3d_backward(const PoolWindows& windows, Divisor divisor, std::int64_t fixed, const float* dy,
                             float* dx);

// y [planes, out] = +0 but x [planes, in] at its index in the plane; of two at one place the later. Returns the first
// index (of all in order) that is outside a plane, -1 where all are inside; y is then undefined.
std::int64_t unpool(std::int64_t planes, std::int64_t in, std::int64_t out, const float* x, const std::int64_t* index,
                    float* y);

}  // namespace isobit::kernels
