// From a grid's numbers to taps: inputs, weights and slopes of an output (contract, section 12).
//
// binary32 throughout, one operation after the other as written, no fma. Host and device; included by every build of
// the kernels.
#pragma once

#include <cmath>

#include "contract/remainder.h"
#include "kernels/grid_sample.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// A place along one dimension, and its derivative by the grid's number.
struct GridPlace {
  float at, slope;
};

ISOBIT_HOST_DEVICE inline GridPlace unnormalized(float g, std::int64_t size, bool align) {
  const float n = static_cast<float>(size);
  if (align) return {(g + 1.0f) / 2.0f * (n - 1.0f), (n - 1.0f) / 2.0f};
  return {((g + 1.0f) * n - 1.0f) / 2.0f, n / 2.0f};
}

// Into [0, size - 1]; beyond the ends the derivative is 0. NaN becomes 0.
ISOBIT_HOST_DEVICE inline GridPlace held(GridPlace p, std::int64_t size) {
  const float last = static_cast<float>(size - 1);
  if (!(p.at > 0.0f)) return {0.0f, 0.0f};
  if (p.at >= last) return {last, 0.0f};
  return p;
}

// Mirrored at the ends: at elements' centres with aligned corners, else at their outer edges.
ISOBIT_HOST_DEVICE inline GridPlace mirrored(GridPlace p, std::int64_t size, bool align) {
  const float low = align ? 0.0f : -0.5f, span = static_cast<float>(align ? size - 1 : size);
  if (span == 0.0f) return {0.0f, 0.0f};
  float from = p.at - low, slope = p.slope;
  if (from < 0.0f) from = -from, slope = -slope;
  const float rest = contract::exact_fmod(from, span);
  const float flips = ::rintf((from - rest) / span);  // a whole number
  if (contract::exact_fmod(flips, 2.0f) == 0.0f) return {rest + low, slope};
  return {span - rest + low, -slope};
}

ISOBIT_HOST_DEVICE inline GridPlace resolved(const GridShape& s, GridPlace p, std::int64_t size) {
  if (s.padding == GridPadding::reflection) p = mirrored(p, size, s.align_corners);
  return s.padding == GridPadding::zeros ? p : held(p, size);
}

// Up to four taps along one dimension: -1 for one outside, weights and their derivatives by the place.
struct GridAxis {
  int count = 1;
  std::int32_t place[4] = {0, -1, -1, -1};
  float weight[4] = {1.0f, 0.0f, 0.0f, 0.0f}, change[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  float slope = 0.0f;  // of the place by the grid's number
};

ISOBIT_HOST_DEVICE inline std::int32_t inside(float at, std::int64_t size) {
  return at >= 0.0f && at < static_cast<float>(size) ? static_cast<std::int32_t>(at) : -1;
}

// Keys' kernel with a = -0.75 at a distance below 1, between 1 and 2, and their derivatives.
ISOBIT_HOST_DEVICE inline float cubic_near(float x) { return (1.25f * x - 2.25f) * x * x + 1.0f; }
ISOBIT_HOST_DEVICE inline float cubic_far(float x) { return ((-0.75f * x + 3.75f) * x - 6.0f) * x + 3.0f; }
ISOBIT_HOST_DEVICE inline float cubic_near_change(float x) { return (3.75f * x - 4.5f) * x; }
ISOBIT_HOST_DEVICE inline float cubic_far_change(float x) { return (-2.25f * x + 7.5f) * x - 6.0f; }

ISOBIT_HOST_DEVICE inline GridAxis grid_axis(const GridShape& s, float g, std::int64_t size) {
  const GridPlace raw = unnormalized(g, size, s.align_corners);
  GridAxis axis;
  if (s.filter == GridFilter::nearest) {
    axis.place[0] = inside(::rintf(resolved(s, raw, size).at), size);
    return axis;
  }
  if (s.filter == GridFilter::linear) {
    const GridPlace p = resolved(s, raw, size);
    const float below = ::floorf(p.at);
    axis.count = 2, axis.slope = p.slope;
    axis.place[0] = inside(below, size), axis.place[1] = inside(below + 1.0f, size);
    axis.weight[0] = (below + 1.0f) - p.at, axis.weight[1] = p.at - below;
    axis.change[0] = -1.0f, axis.change[1] = 1.0f;
    return axis;
  }
  const float below = ::floorf(raw.at), t = raw.at - below, rest = 1.0f - t;
  axis.count = 4, axis.slope = raw.slope;
  for (int k = 0; k < 4; ++k)
    axis.place[k] = inside(resolved(s, {below + static_cast<float>(k - 1), 1.0f}, size).at, size);
  axis.weight[0] = cubic_far(t + 1.0f), axis.weight[1] = cubic_near(t);
  axis.weight[2] = cubic_near(rest), axis.weight[3] = cubic_far(rest + 1.0f);
  axis.change[0] = cubic_far_change(t + 1.0f), axis.change[1] = cubic_near_change(t);
  axis.change[2] = -cubic_near_change(rest), axis.change[3] = -cubic_far_change(rest + 1.0f);
  return axis;
}

// The taps of some neighbouring outputs, tap k of output o at k * width + o; a place of -1 is no term.
struct GridTaps {
  std::int64_t width = 0;
  int count = 0;
  std::int32_t* place = nullptr;
  float* weight = nullptr;
  float* change[3] = {nullptr, nullptr, nullptr};  // by the place: width, height, depth; null: not asked
  float* slope[3] = {nullptr, nullptr, nullptr};   // of one output each
  const std::int32_t* paired = nullptr;            // a build's own note on groups of outputs
};

ISOBIT_HOST_DEVICE inline int taps_of(const GridShape& s) {
  if (s.filter == GridFilter::nearest) return 1;
  return s.filter == GridFilter::cubic ? 16 : s.rank == 2 ? 4 : 8;
}

// Outputs 0 .. width - 1 of the numbers at `grid`; taps in ascending (d, h, w).
ISOBIT_HOST_DEVICE inline void find_taps(const GridShape& s, const float* grid, const GridTaps& taps) {
  for (std::int64_t o = 0; o < taps.width; ++o, grid += s.rank) {
    const GridAxis x = grid_axis(s, grid[0], s.in[2]), y = grid_axis(s, grid[1], s.in[1]);
    const GridAxis z = s.rank == 3 ? grid_axis(s, grid[2], s.in[0]) : GridAxis{};
    std::int64_t at = o;
    for (int k = 0; k < z.count; ++k) {
      for (int j = 0; j < y.count; ++j) {
        for (int i = 0; i < x.count; ++i, at += taps.width) {
          const bool in = x.place[i] >= 0 && y.place[j] >= 0 && z.place[k] >= 0;
          taps.place[at] =
              in ? (z.place[k] * static_cast<std::int32_t>(s.in[1]) + y.place[j]) * static_cast<std::int32_t>(s.in[2]) +
                       x.place[i]
                 : -1;
          taps.weight[at] = x.weight[i] * y.weight[j] * z.weight[k];
          if (taps.change[0] == nullptr) continue;
          taps.change[0][at] = x.change[i] * y.weight[j] * z.weight[k];
          taps.change[1][at] = x.weight[i] * y.change[j] * z.weight[k];
          if (s.rank == 3) taps.change[2][at] = x.weight[i] * y.weight[j] * z.change[k];
        }
      }
    }
    if (taps.change[0] == nullptr) continue;
    taps.slope[0][o] = x.slope, taps.slope[1][o] = y.slope;
    if (s.rank == 3) taps.slope[2][o] = z.slope;
  }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
