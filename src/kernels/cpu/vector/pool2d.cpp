// Maximum and average pooling over the lane count: a register holds neighbouring outputs of one row.
//
// Outputs whose window lies inside the image from left to right go by registers; those at the left and right
// border, and rows with no tap inside, one by one. Strides 1 and 2 load whole registers. Averages of other strides,
// adaptive ones and the gradients of both have planes as lanes (plane_lanes.h). The maximum's gradient keeps the
// reference's function: it scatters.
#include <cmath>

#include "contract/extrema.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/vector/lane_leaf.h"
#include "kernels/cpu/vector/plane_lanes.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kWorthAThread = 16384;  // elements

std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
std::int64_t larger(std::int64_t a, std::int64_t b) { return a < b ? b : a; }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }  // a >= 0

// Taps [first, last) of a window that starts at `origin`, `dilation` apart, which lie in [0, size).
struct Taps {
  std::int64_t first, last;
};
Taps taps_inside(std::int64_t origin, std::int64_t taps, std::int64_t dilation, std::int64_t size) {
  const std::int64_t first = origin < 0 ? ceil_div(-origin, dilation) : 0;
  const std::int64_t last = origin < size ? smaller(taps, ceil_div(size - origin, dilation)) : 0;
  return {first, larger(first, last)};
}

// Output columns [first, last) all of whose taps lie inside.
Taps inner_columns(const Pool2dShape& s) {
  const std::int64_t first = smaller(ceil_div(s.pad_w, s.stride_w), s.out_w);
  const std::int64_t room = s.w - 1 + s.pad_w - (s.kw - 1) * s.dilation_w;
  const std::int64_t last = room < 0 ? 0 : smaller(room / s.stride_w + 1, s.out_w);
  return {first, larger(first, last)};
}

// ---- p[0], p[kStride], ...; nothing past the last of them is read
// ------------------------------------------------

ISOBIT_INLINE FloatLanes evens(FloatLanes a, FloatLanes b) {  // of a, then the odds of b
#if ISOBIT_LANES == 16
  return __builtin_shufflevector(a.v, b.v, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
#else
  return __builtin_shufflevector(a.v, b.v, 0, 2, 4, 6, 9, 11, 13, 15);
#endif
}

template <int kStride>  // 1, 2, or 0: any
ISOBIT_INLINE FloatLanes fetch_strided(const float* p, std::int64_t stride, Whole) {
  if constexpr (kStride == 1) return load(p);
  if constexpr (kStride == 2) return evens(load(p), load(p + kLanes - 1));
  FloatLanes r;
  for (int l = 0; l < kLanes; ++l) r.v[l] = p[l * stride];
  return r;
}
template <int kStride>
ISOBIT_INLINE FloatLanes fetch_strided(const float* p, std::int64_t stride, Part part) {
  if constexpr (kStride == 1) return load_first(p, part.count);
  if constexpr (kStride == 2) {
    const std::int64_t reach = 2 * part.count - 1;
    if (reach <= kLanes) return evens(load_first(p, reach), FloatLanes(0.0f));
    return evens(load(p), load_first(p + kLanes - 1, reach - (kLanes - 1)));
  }
  FloatLanes r(0.0f);
  for (int l = 0; l < part.count; ++l) r.v[l] = p[l * stride];
  return r;
}

typedef std::int64_t WideLanes __attribute__((vector_size(8 * ISOBIT_LANES)));
ISOBIT_INLINE void put_wide(std::int64_t* p, IntLanes x, Whole) {
  const WideLanes wide = __builtin_convertvector(x.v, WideLanes);
  std::memcpy(p, &wide, sizeof wide);
}
ISOBIT_INLINE void put_wide(std::int64_t* p, IntLanes x, Part part) {
  const WideLanes wide = __builtin_convertvector(x.v, WideLanes);
  std::memcpy(p, &wide, static_cast<std::size_t>(part.count) * sizeof(std::int64_t));
}

// ---- maximum
// ------------------------------------------------------------------------------------------------

// A row of outputs: its taps inside from top to bottom, and the image they lie in.
struct Row {
  const float* image;
  std::int64_t top;  // of the window; may lie above the image
  Taps taps;
};

void max_of_window(const Pool2dShape& s, const Row& row, std::int64_t ow, float* y, std::int64_t* index) {
  const std::int64_t left = ow * s.stride_w - s.pad_w;
  const Taps columns = taps_inside(left, s.kw, s.dilation_w, s.w);
  std::int64_t best = -1;
  for (std::int64_t kh = row.taps.first; kh < row.taps.last; ++kh) {
    for (std::int64_t kw = columns.first; kw < columns.last; ++kw) {
      const std::int64_t at = (row.top + kh * s.dilation_h) * s.w + left + kw * s.dilation_w;
      if (best < 0 || contract::is_better_maximum(row.image[at], row.image[best])) best = at;
    }
  }
  *y = best < 0 ? -INFINITY : row.image[best];
  *index = best;
}

// contract::is_better_maximum per lane: best is no NaN, and x is one or larger.
template <int kStride, class Extent>
ISOBIT_INLINE void max_of_windows(const Pool2dShape& s, const Row& row, std::int64_t ow, Extent part, float* y,
                                  std::int64_t* index) {
  const std::int64_t left = ow * s.stride_w - s.pad_w;
  const IntLanes steps = lane_index() * IntLanes(static_cast<std::int32_t>(s.stride_w));
  std::int64_t line = (row.top + row.taps.first * s.dilation_h) * s.w + left;
  FloatLanes best = fetch_strided<kStride>(row.image + line, s.stride_w, part);
  IntLanes place = IntLanes(static_cast<std::int32_t>(line));
  for (std::int64_t kh = row.taps.first; kh < row.taps.last; ++kh, line += s.dilation_h * s.w) {
    for (std::int64_t kw = 0; kw < s.kw; ++kw) {
      const std::int64_t at = line + kw * s.dilation_w;
      const FloatLanes x = fetch_strided<kStride>(row.image + at, s.stride_w, part);
      const MaskLanes better = (best == best) & !(x <= best);
      best = select(better, x, best);
      place = select(better, IntLanes(static_cast<std::int32_t>(at)), place);
    }
  }
  put(y, best, part);
  put_wide(index, place + steps, part);
}

template <int kStride>
void max_row(const Pool2dShape& s, const Row& row, Taps inner, float* y, std::int64_t* index) {
  if (row.taps.first == row.taps.last) inner = {0, 0};
  for (std::int64_t ow = 0; ow < inner.first; ++ow) max_of_window(s, row, ow, y + ow, index + ow);
  for_each_register(inner.last - inner.first, [&](std::int64_t i, auto part) {
    const std::int64_t ow = inner.first + i;
    max_of_windows<kStride>(s, row, ow, part, y + ow, index + ow);
  });
  for (std::int64_t ow = inner.last; ow < s.out_w; ++ow) max_of_window(s, row, ow, y + ow, index + ow);
}

template <int kStride>
void max_planes(const Pool2dShape& s, const float* x, float* y, std::int64_t* index) {
  const bool narrow = s.h * s.w < std::int64_t{1} << 31;  // places fit 32 bits
  const Taps inner = narrow ? inner_columns(s) : Taps{0, 0};
  parallel_for(0, s.planes, kWorthAThread / (s.h * s.w + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      for (std::int64_t oh = 0; oh < s.out_h; ++oh) {
        const std::int64_t top = oh * s.stride_h - s.pad_h, out = (plane * s.out_h + oh) * s.out_w;
        const Row row = {x + plane * s.h * s.w, top, taps_inside(top, s.kh, s.dilation_h, s.h)};
        max_row<kStride>(s, row, inner, y + out, index + out);
      }
    }
  });
}

void max_pool2d(const Pool2dShape& s, const float* x, float* y, std::int64_t* index) {
  if (s.stride_w == 1) return max_planes<1>(s, x, y, index);
  if (s.stride_w == 2) return max_planes<2>(s, x, y, index);
  max_planes<0>(s, x, y, index);
}

// ---- average
// ------------------------------------------------------------------------------------------------

// What the sum over the window of output column ow is divided by.
float divisor_of(const Pool2dShape& s, const AverageRule& rule, const Row& row, std::int64_t ow) {
  if (rule.divisor_override != 0) return static_cast<float>(rule.divisor_override);
  const std::int64_t left = ow * s.stride_w - s.pad_w;
  if (rule.count_include_pad) {
    const std::int64_t height = smaller(s.kh, s.h + s.pad_h - row.top), width = smaller(s.kw, s.w + s.pad_w - left);
    return static_cast<float>(height * width);
  }
  const Taps columns = taps_inside(left, s.kw, 1, s.w);
  return static_cast<float>((row.taps.last - row.taps.first) * (columns.last - columns.first));
}

float average_of_window(const Pool2dShape& s, const AverageRule& rule, const Row& row, std::int64_t ow) {
  const std::int64_t left = ow * s.stride_w - s.pad_w;
  const Taps columns = taps_inside(left, s.kw, 1, s.w);
  if (row.taps.first == row.taps.last || columns.first == columns.last) return 0.0f;
  float t = 0.0f;
  for (std::int64_t kh = row.taps.first; kh < row.taps.last; ++kh) {
    for (std::int64_t kw = columns.first; kw < columns.last; ++kw) t = t + row.image[(row.top + kh) * s.w + left + kw];
  }
  return t / divisor_of(s, rule, row, ow);
}

template <int kStride>
void average_row(const Pool2dShape& s, const AverageRule& rule, const Row& row, Taps inner, float* y) {
  if (row.taps.first == row.taps.last) inner = {0, 0};
  for (std::int64_t ow = 0; ow < inner.first; ++ow) y[ow] = average_of_window(s, rule, row, ow);
  const FloatLanes divisor(inner.first < inner.last ? divisor_of(s, rule, row, inner.first) : 1.0f);
  for_each_register(inner.last - inner.first, [&](std::int64_t i, auto part) {
    const std::int64_t ow = inner.first + i;
    const float* const corner = row.image + row.top * s.w + ow * s.stride_w - s.pad_w;
    FloatLanes t(0.0f);
    for (std::int64_t kh = row.taps.first; kh < row.taps.last; ++kh) {
      for (std::int64_t kw = 0; kw < s.kw; ++kw)
        t = t + fetch_strided<kStride>(corner + kh * s.w + kw, s.stride_w, part);
    }
    put(y + ow, t / divisor, part);
  });
  for (std::int64_t ow = inner.last; ow < s.out_w; ++ow) y[ow] = average_of_window(s, rule, row, ow);
}

template <int kStride>
void average_planes(const Pool2dShape& s, const AverageRule& rule, const float* x, float* y) {
  const Taps inner = inner_columns(s);
  parallel_for(0, s.planes, kWorthAThread / (s.h * s.w + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      for (std::int64_t oh = 0; oh < s.out_h; ++oh) {
        const std::int64_t top = oh * s.stride_h - s.pad_h;
        const Row row = {x + plane * s.h * s.w, top, taps_inside(top, s.kh, 1, s.h)};
        average_row<kStride>(s, rule, row, inner, y + (plane * s.out_h + oh) * s.out_w);
      }
    }
  });
}

void average_pool2d(const Pool2dShape& shape, bool count_include_pad, std::int64_t divisor_override, const float* x,
                    float* y) {
  Pool2dShape s = shape;
  s.dilation_h = s.dilation_w = 1;  // averages have none
  const AverageRule rule = {count_include_pad, divisor_override};
  if (s.stride_w == 1) return average_planes<1>(s, rule, x, y);
  if (s.stride_w == 2) return average_planes<2>(s, rule, x, y);
  const auto window_of = [&](std::int64_t oh, std::int64_t ow) { return average_window(s, rule, oh, ow); };
  if (plane_lanes_pay(s) && windows_cover(s)) return average_plane_lanes(s, x, y, window_of);
  average_planes<0>(s, rule, x, y);
}

void average_pool2d_backward(const Pool2dShape& s, bool count_include_pad, std::int64_t divisor_override,
                             const float* dy, float* dx) {
  if (!plane_lanes_pay(s) || !windows_cover(s))
    return table_of(Isa::reference).average_pool2d_backward(s, count_include_pad, divisor_override, dy, dx);
  average_backward_plane_lanes(s, dy, dx, [&](std::int64_t oh, std::int64_t ow) {
    return average_window(s, {count_include_pad, divisor_override}, oh, ow);
  });
}

void adaptive_average_pool2d(const Pool2dShape& s, const float* x, float* y) {
  if (!plane_lanes_pay(s)) return table_of(Isa::reference).adaptive_average_pool2d(s, x, y);
  average_plane_lanes(s, x, y, [&](std::int64_t oh, std::int64_t ow) { return adaptive_window(s, oh, ow); });
}

void adaptive_average_pool2d_backward(const Pool2dShape& s, const float* dy, float* dx) {
  if (!plane_lanes_pay(s)) return table_of(Isa::reference).adaptive_average_pool2d_backward(s, dy, dx);
  average_backward_plane_lanes(s, dy, dx, [&](std::int64_t oh, std::int64_t ow) { return adaptive_window(s, oh, ow); });
}

}  // namespace

void fill_pool2d(KernelTable& t) {
  t.max_pool2d = max_pool2d;
  t.average_pool2d = average_pool2d;
  t.average_pool2d_backward = average_pool2d_backward;
  t.adaptive_average_pool2d = adaptive_average_pool2d;
  t.adaptive_average_pool2d_backward = adaptive_average_pool2d_backward;
}

}  // namespace isobit::kernels::ISOBIT_ISA
