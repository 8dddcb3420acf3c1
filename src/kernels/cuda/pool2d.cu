// Pooling: one thread per output, gradients one thread per element, which gathers from the windows that cover
// it in ascending (oh, ow): the chain that the contract writes, and no atomics on floats.
#include <algorithm>

#include "contract/extrema.h"
#include "contract/formula.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/divider.h"
#include "kernels/cuda/table.h"
#include "kernels/pool2d.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kSearchBlocks = 1024;

template <class Int>
struct Place {
  std::int64_t plane;
  Int row, column;
};

// Numbers the positions of planes of height * width, row-major.
struct Positions {
  Divider width, height;
  std::int64_t count;

  Positions(std::int64_t planes, std::int64_t h, std::int64_t w)
      : width(w, planes * h * w), height(h, planes * h), count(planes * h * w) {}
  template <class Int>
  [[nodiscard]] ISOBIT_DEVICE Place<Int> split(std::int64_t i) const {
    const std::int64_t line = width.quotient(i), plane = height.quotient(line);
    return {plane, static_cast<Int>(line - plane * height.divisor()), static_cast<Int>(i - line * width.divisor())};
  }
  [[nodiscard]] std::int64_t blocks() const { return ceil_div(count, kThreads); }
};

// [first, end)
template <class Int>
struct Range {
  Int first, end;
};

// Windows along one axis: output o covers o * stride - pad + i * dilation, 0 <= i < k.
template <class Int>
struct Axis {
  Int size, out, k, stride, pad, dilation;

  [[nodiscard]] ISOBIT_DEVICE Int start(Int o) const { return o * stride - pad; }
  // The window's elements inside the image, from .first in steps of dilation.
  [[nodiscard]] ISOBIT_DEVICE Range<Int> inside(Int o) const {
    const Int begin = start(o), end = begin + (k - 1) * dilation + 1;
    return {begin < 0 ? begin + (dilation - 1 - begin) / dilation * dilation : begin, end < size ? end : size};
  }
  // The outputs whose windows reach from at or before element i to at or behind it.
  [[nodiscard]] ISOBIT_DEVICE Range<Int> covering(Int i) const {
    const Int from = i + pad - (k - 1) * dilation, last = (i + pad) / stride + 1;
    return {from > 0 ? (from + stride - 1) / stride : Int{0}, last < out ? last : out};
  }
  [[nodiscard]] ISOBIT_DEVICE bool reaches(Int o, Int i) const {
    return i >= start(o) && i <= start(o) + (k - 1) * dilation;
  }
};

template <class Int>
struct Plane {
  Axis<Int> h, w;

  explicit Plane(const Pool2dShape& s)
      : h{Int(s.h), Int(s.out_h), Int(s.kh), Int(s.stride_h), Int(s.pad_h), Int(s.dilation_h)},
        w{Int(s.w), Int(s.out_w), Int(s.kw), Int(s.stride_w), Int(s.pad_w), Int(s.dilation_w)} {}
};

// Whether every number that a kernel forms fits 32 bits; the factors of adaptive windows included.
bool is_narrow(const Pool2dShape& s) {
  const auto reach = [](std::int64_t size, std::int64_t out, std::int64_t k, std::int64_t stride, std::int64_t pad,
                        std::int64_t dilation) {
    return std::max(out * stride + k * dilation + pad + size + stride, (out + 1) * (size + 1));
  };
  const std::int64_t largest = std::max({reach(s.h, s.out_h, s.kh, s.stride_h, s.pad_h, s.dilation_h),
                                         reach(s.w, s.out_w, s.kw, s.stride_w, s.pad_w, s.dilation_w), s.h * s.w,
                                         s.out_h * s.out_w, (s.kh + s.pad_h) * (s.kw + s.pad_w)});
  return largest < kInt32End;
}

Positions inputs_of(const Pool2dShape& s) { return {s.planes, s.h, s.w}; }
Positions outputs_of(const Pool2dShape& s) { return {s.planes, s.out_h, s.out_w}; }

// Calls function(Int{}) with the integers that the shape needs.
template <class Function>
void with_integers(const Pool2dShape& s, Function function) {
  is_narrow(s) ? function(std::int32_t{}) : function(std::int64_t{});
}

// ---- maximum ---------------------------------------------------------------------------------------------

template <class Int>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void max_kernel(Positions outputs, Plane<Int> s, const float* x,
                                                                float* y, std::int64_t* index) {
  const std::int64_t o = block_index() * kThreads + thread_index();
  if (o >= outputs.count) return;
  const Place<Int> place = outputs.template split<Int>(o);
  const float* const in = x + place.plane * s.h.size * s.w.size;
  const Range<Int> rows = s.h.inside(place.row), columns = s.w.inside(place.column);
  Int best = -1;
  float value = -contract::kInfinity;
  for (Int ih = rows.first; ih < rows.end; ih += s.h.dilation) {
    for (Int iw = columns.first; iw < columns.end; iw += s.w.dilation) {
      const Int at = ih * s.w.size + iw;
      const float candidate = in[at];
      if (best < 0 || contract::is_better_maximum(candidate, value)) {
        best = at;
        value = candidate;
      }
    }
  }
  y[o] = value;
  index[o] = best;
}

void max_pool2d(const Pool2dShape& s, const float* x, float* y, std::int64_t* index) {
  const Positions outputs = outputs_of(s);
  with_integers(s, [&](auto zero) {
    using Int = decltype(zero);
    launch(max_kernel<Int>, {outputs.blocks(), kThreads}, outputs, Plane<Int>(s), x, y, index);
  });
}

// An index may name any element of the plane, and pooling itself names one of the window. Each block also
// looks at its share of the outputs and notes in *strays whether one names an element that its window does
// not reach.
template <class Int>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void max_backward_kernel(Positions inputs, Positions outputs,
                                                                         std::int64_t share, Plane<Int> s,
                                                                         const float* dy, const std::int64_t* index,
                                                                         float* dx, int* strays) {
  const std::int64_t share_end = (block_index() + 1) * share;
  for (std::int64_t o = block_index() * share + thread_index(); o < share_end && o < outputs.count; o += kThreads) {
    const std::int64_t at = index[o];
    if (at < 0 || at >= static_cast<std::int64_t>(s.h.size) * s.w.size) continue;
    const Place<Int> place = outputs.template split<Int>(o), target = inputs.template split<Int>(at);
    if (!s.h.reaches(place.row, target.row) || !s.w.reaches(place.column, target.column)) atomic_max(strays, 1);
  }

  const std::int64_t i = block_index() * kThreads + thread_index();
  if (i >= inputs.count) return;
  const Place<Int> place = inputs.template split<Int>(i);
  const Int self = place.row * s.w.size + place.column;
  const std::int64_t first = place.plane * s.h.out * s.w.out;
  const Range<Int> rows = s.h.covering(place.row), columns = s.w.covering(place.column);
  float t = 0.0f;
  for (Int oh = rows.first; oh < rows.end; ++oh) {
    for (Int ow = columns.first; ow < columns.end; ++ow) {
      const Int at = oh * s.w.out + ow;
      if (index[first + at] == self) t = t + dy[first + at];
    }
  }
  dx[i] = t;
}

// Where there are strays: every element asks every output of its plane.
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void max_backward_search_kernel(const int* strays, std::int64_t count,
                                                                                Divider in_plane,
                                                                                std::int64_t out_plane, const float* dy,
                                                                                const std::int64_t* index, float* dx) {
  if (*strays == 0) return;
  const std::int64_t stride = block_count() * kThreads;
  for (std::int64_t i = block_index() * kThreads + thread_index(); i < count; i += stride) {
    const std::int64_t plane = in_plane.quotient(i), self = i - plane * in_plane.divisor();
    float t = 0.0f;
    for (std::int64_t o = plane * out_plane; o < (plane + 1) * out_plane; ++o) {
      if (index[o] == self) t = t + dy[o];
    }
    dx[i] = t;
  }
}

void max_pool2d_backward(const Pool2dShape& s, const float* dy, const std::int64_t* index, float* dx) {
  const Positions inputs = inputs_of(s), outputs = outputs_of(s);
  const std::int64_t blocks = inputs.blocks();
  if (blocks == 0) return;
  const Scratch scratch(sizeof(int));
  int* const strays = scratch.as<int>();
  fill_bytes(strays, 0, sizeof(int));
  with_integers(s, [&](auto zero) {
    using Int = decltype(zero);
    launch(max_backward_kernel<Int>, {blocks, kThreads}, inputs, outputs, ceil_div(outputs.count, blocks),
           Plane<Int>(s), dy, index, dx, strays);
  });
  launch(max_backward_search_kernel, {std::min(blocks, kSearchBlocks), kThreads}, strays, inputs.count,
         Divider(s.h * s.w, inputs.count), s.out_h * s.out_w, dy, index, dx);
}

// ---- average ---------------------------------------------------------------------------------------------

template <class Int>
struct Window {  // clipped to the image, and what its sum is divided by
  Range<Int> rows, columns;
  float divisor;
};

template <class Int>
struct AverageWindows {
  Plane<Int> s;
  bool count_include_pad, overridden;
  float divisor;

  AverageWindows(const Pool2dShape& shape, bool include, std::int64_t override_by)
      : s(shape), count_include_pad(include), overridden(override_by != 0), divisor(static_cast<float>(override_by)) {
    s.h.dilation = s.w.dilation = 1;
  }

  [[nodiscard]] ISOBIT_DEVICE static Int padded_length(const Axis<Int>& a, Int o) {
    const Int end = a.start(o) + a.k, padded_end = a.size + a.pad;
    return (end < padded_end ? end : padded_end) - a.start(o);
  }
  [[nodiscard]] ISOBIT_DEVICE static Range<Int> clipped(const Axis<Int>& a, Int o) {
    const Int begin = a.start(o), end = begin + a.k;
    return {begin > 0 ? begin : Int{0}, end < a.size ? end : a.size};
  }
  [[nodiscard]] ISOBIT_DEVICE Window<Int> window(Int oh, Int ow) const {
    Window<Int> window{clipped(s.h, oh), clipped(s.w, ow), divisor};
    if (overridden) return window;
    const Int inside = (window.rows.end - window.rows.first) * (window.columns.end - window.columns.first);
    window.divisor = static_cast<float>(count_include_pad ? padded_length(s.h, oh) * padded_length(s.w, ow) : inside);
    return window;
  }
  [[nodiscard]] ISOBIT_DEVICE static Range<Int> covering(const Axis<Int>& a, Int i) { return a.covering(i); }
};

template <class Int>
struct AdaptiveWindows {
  Plane<Int> s;

  [[nodiscard]] ISOBIT_DEVICE static Range<Int> clipped(const Axis<Int>& a, Int o) {
    return {o * a.size / a.out, ((o + 1) * a.size + a.out - 1) / a.out};
  }
  [[nodiscard]] ISOBIT_DEVICE Window<Int> window(Int oh, Int ow) const {
    const Range<Int> rows = clipped(s.h, oh), columns = clipped(s.w, ow);
    return {rows, columns, static_cast<float>((rows.end - rows.first) * (columns.end - columns.first))};
  }
  // floor(o * size / out) <= i < ceil((o + 1) * size / out), solved for o.
  [[nodiscard]] ISOBIT_DEVICE static Range<Int> covering(const Axis<Int>& a, Int i) {
    return {i * a.out / a.size, ((i + 1) * a.out + a.size - 1) / a.size};
  }
};

template <class Int, class Windows>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void average_kernel(Positions outputs, Windows windows, const float* x,
                                                                    float* y) {
  const std::int64_t o = block_index() * kThreads + thread_index();
  if (o >= outputs.count) return;
  const Place<Int> place = outputs.template split<Int>(o);
  const Window<Int> window = windows.window(place.row, place.column);
  const Int w = windows.s.w.size;
  const float* const in = x + place.plane * windows.s.h.size * w;
  float t = 0.0f;
  for (Int ih = window.rows.first; ih < window.rows.end; ++ih) {
    for (Int iw = window.columns.first; iw < window.columns.end; ++iw) t = t + in[ih * w + iw];
  }
  const bool is_empty = window.rows.first >= window.rows.end || window.columns.first >= window.columns.end;
  y[o] = is_empty ? 0.0f : t / window.divisor;
}

template <class Int, class Windows>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void average_backward_kernel(Positions inputs, Windows windows,
                                                                             const float* dy, float* dx) {
  const std::int64_t i = block_index() * kThreads + thread_index();
  if (i >= inputs.count) return;
  const Place<Int> place = inputs.template split<Int>(i);
  const Int out_w = windows.s.w.out;
  const float* const out = dy + place.plane * windows.s.h.out * out_w;
  const Range<Int> rows = Windows::covering(windows.s.h, place.row);
  const Range<Int> columns = Windows::covering(windows.s.w, place.column);
  float t = 0.0f;
  for (Int oh = rows.first; oh < rows.end; ++oh) {
    for (Int ow = columns.first; ow < columns.end; ++ow) {
      const float share = out[oh * out_w + ow] / windows.window(oh, ow).divisor;
      t = t + share;
    }
  }
  dx[i] = t;
}

void average_pool2d(const Pool2dShape& s, bool count_include_pad, std::int64_t divisor_override, const float* x,
                    float* y) {
  const Positions outputs = outputs_of(s);
  with_integers(s, [&](auto zero) {
    using Int = decltype(zero);
    const AverageWindows<Int> windows(s, count_include_pad, divisor_override);
    launch(average_kernel<Int, AverageWindows<Int>>, {outputs.blocks(), kThreads}, outputs, windows, x, y);
  });
}

void average_pool2d_backward(const Pool2dShape& s, bool count_include_pad, std::int64_t divisor_override,
                             const float* dy, float* dx) {
  const Positions inputs = inputs_of(s);
  with_integers(s, [&](auto zero) {
    using Int = decltype(zero);
    const AverageWindows<Int> windows(s, count_include_pad, divisor_override);
    launch(average_backward_kernel<Int, AverageWindows<Int>>, {inputs.blocks(), kThreads}, inputs, windows, dy, dx);
  });
}

void adaptive_average_pool2d(const Pool2dShape& s, const float* x, float* y) {
  const Positions outputs = outputs_of(s);
  with_integers(s, [&](auto zero) {
    using Int = decltype(zero);
    const AdaptiveWindows<Int> windows{Plane<Int>(s)};
    launch(average_kernel<Int, AdaptiveWindows<Int>>, {outputs.blocks(), kThreads}, outputs, windows, x, y);
  });
}

void adaptive_average_pool2d_backward(const Pool2dShape& s, const float* dy, float* dx) {
  const Positions inputs = inputs_of(s);
  with_integers(s, [&](auto zero) {
    using Int = decltype(zero);
    const AdaptiveWindows<Int> windows{Plane<Int>(s)};
    launch(average_backward_kernel<Int, AdaptiveWindows<Int>>, {inputs.blocks(), kThreads}, inputs, windows, dy, dx);
  });
}

}  // namespace

void fill_pool2d(KernelTable& t) {
  t.max_pool2d = max_pool2d;
  t.max_pool2d_backward = max_pool2d_backward;
  t.average_pool2d = average_pool2d;
  t.average_pool2d_backward = average_pool2d_backward;
  t.adaptive_average_pool2d = adaptive_average_pool2d;
  t.adaptive_average_pool2d_backward = adaptive_average_pool2d_backward;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
