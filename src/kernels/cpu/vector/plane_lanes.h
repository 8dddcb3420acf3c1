// Average pooling with planes as lanes: sixteen or eight of them side by side, [h][w][kLanes].
//
// Whatever the window, its taps are plain loads then, and so are the elements that a gradient is added to; outputs of
// one row, strides apart, would be gathered lane by lane.
#pragma once

#include "kernels/cpu/vector/lane_leaf.h"
#include "kernels/cpu/vector/packing.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/formulas/pool_windows.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kPlaneElements = 4096;  // of the turned planes that the second cache holds beside others

// Whether there are planes for most lanes, and they are small enough, on both sides.
ISOBIT_INLINE bool plane_lanes_pay(const Pool2dShape& s) {
  const std::int64_t rest = s.planes % kLanes;
  const bool filled = s.planes >= kLanes && (rest == 0 || 2 * rest >= kLanes || s.planes >= 4 * kLanes);
  return filled && s.h * s.w <= kPlaneElements && s.out_h * s.out_w <= kPlaneElements;
}
// Whether windows cover half of a plane: where they read less of it, turning all of it costs more than it saves.
ISOBIT_INLINE bool windows_cover(const Pool2dShape& s) { return 2 * s.out_h * s.out_w * s.kh * s.kw >= s.h * s.w; }

// work(first plane, planes <= kLanes) for all of them, on all threads.
template <class Work>
void for_each_lanes_of_planes(std::int64_t planes, std::int64_t elements, Work work) {
  const std::int64_t sets = (planes + kLanes - 1) / kLanes;
  parallel_for(0, sets, rows_worth_a_thread(elements * kLanes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      work(i * kLanes, planes - i * kLanes < kLanes ? planes - i * kLanes : kLanes);
  });
}

// output(where the window's output lies among the turned ones, window), in ascending order.
template <class WindowOf, class Output>
ISOBIT_INLINE void for_each_window(const Pool2dShape& s, WindowOf window_of, Output output) {
  std::int64_t at = 0;
  for (std::int64_t oh = 0; oh < s.out_h; ++oh)
    for (std::int64_t ow = 0; ow < s.out_w; ++ow, at += kLanes) output(at, window_of(oh, ow));
}
// tap(where it lies among the turned elements), in ascending order.
template <class Tap>
ISOBIT_INLINE void for_each_tap(const Pool2dShape& s, const Window& window, Tap tap) {
  for (std::int64_t ih = window.h0; ih < window.h1; ++ih)
    for (std::int64_t iw = window.w0; iw < window.w1; ++iw) tap((ih * s.w + iw) * kLanes);
}

// y = chain over each window / divisor; window_of(oh, ow).
template <class WindowOf>
void average_plane_lanes(const Pool2dShape& s, const float* x, float* y, WindowOf window_of) {
  const std::int64_t in = s.h * s.w, out = s.out_h * s.out_w;
  for_each_lanes_of_planes(s.planes, in + out, [&](std::int64_t first, std::int64_t planes) {
    Workspace workspace;
    float *const from = workspace.floats(in * kLanes), *const to = workspace.floats(out * kLanes);
    pack_transposed<kLanes>(x + first * in, in, in, planes, from);
    for_each_window(
        s, window_of, [=](std::int64_t o, const Window& window) __attribute__((always_inline)) {
          FloatLanes t(0.0f);
          for_each_tap(
              s, window, [&](std::int64_t i) __attribute__((always_inline)) { t = t + load(from + i); });
          store(to + o, window.empty() ? FloatLanes(0.0f) : t / FloatLanes(window.divisor));
        });
    store_transposed<kLanes>(to, out, planes, out, y + first * out);
  });
}

// Walking the outputs in ascending order adds to each element its windows in ascending order.
template <class WindowOf>
void average_backward_plane_lanes(const Pool2dShape& s, const float* dy, float* dx, WindowOf window_of) {
  const std::int64_t in = s.h * s.w, out = s.out_h * s.out_w;
  for_each_lanes_of_planes(s.planes, in + out, [&](std::int64_t first, std::int64_t planes) {
    Workspace workspace;
    float *const from = workspace.floats(out * kLanes), *const to = workspace.floats(in * kLanes);
    pack_transposed<kLanes>(dy + first * out, out, out, planes, from);
    for (std::int64_t i = 0; i < in * kLanes; i += kLanes) store(to + i, FloatLanes(0.0f));
    for_each_window(
        s, window_of, [=](std::int64_t o, const Window& window) __attribute__((always_inline)) {
          const FloatLanes share = load(from + o) / FloatLanes(window.divisor);
          for_each_tap(
              s, window, [=](std::int64_t i) __attribute__((always_inline)) { store(to + i, load(to + i) + share); });
        });
    store_transposed<kLanes>(to, in, planes, in, dx + first * in);
  });
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
