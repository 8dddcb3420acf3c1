// The kernels of grid_sample.h, for every vector build: some neighbouring outputs at a time, their taps found once for
// all channels; a build says how it takes a channel through them (vector/paired_taps.h, PlainTaps for what is left of
// it).
#pragma once

#include "kernels/formulas/grid_places.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kGridBlock = 256;

inline GridTaps taps_in(const GridShape& s, std::int64_t first, bool with_change, Workspace& workspace) {
  GridTaps taps;
  taps.width = s.out - first < kGridBlock ? s.out - first : kGridBlock;
  taps.count = taps_of(s);
  taps.place = workspace.ints(taps.count * taps.width);
  taps.weight = workspace.floats(taps.count * taps.width);
  for (int d = 0; with_change && d < s.rank; ++d) {
    taps.change[d] = workspace.floats(taps.count * taps.width);
    taps.slope[d] = workspace.floats(taps.width);
  }
  return taps;
}

// find_taps for a whole block at once, one dimension after the other, where loops without branches do: all but cubic
// filters.
struct BlockAxis {
  float at[kGridBlock], slope[kGridBlock];
  std::int32_t place[2][kGridBlock];
  float weight[2][kGridBlock];
};
inline std::int32_t place_inside(float at, float size) {  // inside(), without a conversion that could overflow
  const float held = (at >= 0.0f) & (at < size) ? at : -1.0f;
  return static_cast<std::int32_t>(held);
}
inline void find_axis(const GridShape& s, const float* __restrict grid, int dimension, std::int64_t width,
                      BlockAxis& axis) {
  const std::int64_t size = s.in[2 - dimension], stride = s.rank;
  const float n = static_cast<float>(size);
  for (std::int64_t o = 0; o < width; ++o) {
    const GridPlace raw = unnormalized(grid[o * stride + dimension], size, s.align_corners);
    axis.at[o] = raw.at, axis.slope[o] = raw.slope;
  }
  if (s.padding != GridPadding::zeros) {
    for (std::int64_t o = 0; o < width; ++o) {
      const GridPlace place = resolved(s, {axis.at[o], axis.slope[o]}, size);
      axis.at[o] = place.at, axis.slope[o] = place.slope;
    }
  }
  if (s.filter == GridFilter::nearest) {
    for (std::int64_t o = 0; o < width; ++o) {
      axis.place[0][o] = place_inside(::rintf(axis.at[o]), n);
      axis.weight[0][o] = 1.0f, axis.slope[o] = 0.0f;
    }
    return;
  }
  for (std::int64_t o = 0; o < width; ++o) {
    const float at = axis.at[o], below = ::floorf(at), above = below + 1.0f;
    axis.place[0][o] = place_inside(below, n), axis.place[1][o] = place_inside(above, n);
    axis.weight[0][o] = above - at, axis.weight[1][o] = at - below;
  }
}

// Of places along the depth (null: one, of weight 1), the height and the width.
struct TapOf {
  const std::int32_t *z, *y, *x;
  const float *wz, *wy, *wx;
};
inline void combine(const GridShape& s, const TapOf& from, int i, int j, int k, const GridTaps& taps, std::int64_t at) {
  const auto rows = static_cast<std::int32_t>(s.in[1]), columns = static_cast<std::int32_t>(s.in[2]);
  std::int32_t* __restrict const place = taps.place + at;
  float* __restrict const weight = taps.weight + at;
  for (std::int64_t o = 0; o < taps.width; ++o) {
    const std::int32_t z = from.z == nullptr ? 0 : from.z[o], number = (z * rows + from.y[o]) * columns + from.x[o];
    place[o] = (z | from.y[o] | from.x[o]) < 0 ? -1 : number;
    weight[o] = from.wx[o] * from.wy[o] * (from.wz == nullptr ? 1.0f : from.wz[o]);
  }
  if (taps.change[0] == nullptr) return;
  const auto sign = [](int side) { return side == 0 ? -1.0f : 1.0f; };
  for (std::int64_t o = 0; o < taps.width; ++o) {
    const float wz = from.wz == nullptr ? 1.0f : from.wz[o];
    taps.change[0][at + o] = sign(i) * from.wy[o] * wz;
    taps.change[1][at + o] = from.wx[o] * sign(j) * wz;
    if (from.wz != nullptr) taps.change[2][at + o] = from.wx[o] * from.wy[o] * sign(k);
  }
}

inline void find_block(const GridShape& s, const float* grid, const GridTaps& taps) {
  if (s.filter == GridFilter::cubic) return find_taps(s, grid, taps);
  BlockAxis axes[3];
  for (int d = 0; d < s.rank; ++d) {
    find_axis(s, grid, d, taps.width, axes[d]);
    if (taps.change[0] == nullptr) continue;
    for (std::int64_t o = 0; o < taps.width; ++o) taps.slope[d][o] = axes[d].slope[o];
  }
  const int sides = s.filter == GridFilter::nearest ? 1 : 2;
  std::int64_t at = 0;
  for (int k = 0; k < (s.rank == 3 ? sides : 1); ++k) {
    for (int j = 0; j < sides; ++j) {
      for (int i = 0; i < sides; ++i, at += taps.width) {
        TapOf from{nullptr, axes[1].place[j], axes[0].place[i], nullptr, axes[1].weight[j], axes[0].weight[i]};
        if (s.rank == 3) from.z = axes[2].place[k], from.wz = axes[2].weight[k];
        combine(s, from, i, j, k, taps, at);
      }
    }
  }
}

// Outputs begin .. end of one channel. Places outside read element 0 and keep the sum: the loops have no branch.
struct PlainTaps {
  static void prepare(GridTaps&, Workspace&) {}

  static void sample(const GridTaps& taps, bool copy, std::int64_t begin, std::int64_t end, const float* __restrict x,
                     float* __restrict y) {
    for (std::int64_t o = begin; o < end; ++o) y[o] = 0.0f;
    for (int k = 0; k < taps.count; ++k) {
      const std::int32_t* __restrict const place = taps.place + k * taps.width;
      const float* __restrict const weight = taps.weight + k * taps.width;
      for (std::int64_t o = begin; o < end; ++o) {
        const float value = x[place[o] < 0 ? 0 : place[o]];
        const float next = copy ? value : ::fmaf(weight[o], value, y[o]);
        y[o] = place[o] < 0 ? y[o] : next;
      }
    }
  }
  static void sample(const GridTaps& taps, bool copy, const float* x, float* y) {
    sample(taps, copy, 0, taps.width, x, y);
  }

  // dots[k, o] = fma(input at the tap, dy[o], dots[k, o])
  static void add_products(const GridTaps& taps, std::int64_t begin, std::int64_t end, const float* __restrict x,
                           const float* __restrict dy, float* __restrict dots) {
    for (int k = 0; k < taps.count; ++k) {
      const std::int32_t* __restrict const place = taps.place + k * taps.width;
      float* __restrict const sum = dots + k * taps.width;
      for (std::int64_t o = begin; o < end; ++o) {
        const float next = ::fmaf(x[place[o] < 0 ? 0 : place[o]], dy[o], sum[o]);
        sum[o] = place[o] < 0 ? sum[o] : next;
      }
    }
  }
  static void add_products(const GridTaps& taps, const float* x, const float* dy, float* dots) {
    add_products(taps, 0, taps.width, x, dy, dots);
  }
};

inline std::int64_t blocks_of(const GridShape& s) { return (s.out + kGridBlock - 1) / kGridBlock; }

template <class Channels>
void grid_sample(const GridShape& s, const float* x, const float* grid, float* y) {
  if (s.out == 0 || s.batch == 0 || s.channels == 0) return;
  const std::int64_t blocks = blocks_of(s);
  parallel_for(0, s.batch * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / blocks, first = i % blocks * kGridBlock;
      Workspace workspace;
      GridTaps taps = taps_in(s, first, false, workspace);
      find_block(s, grid + (n * s.out + first) * s.rank, taps);
      Channels::prepare(taps, workspace);
      for (std::int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
        Channels::sample(taps, s.filter == GridFilter::nearest, x + c * s.plane(), y + c * s.out + first);
      }
    }
  });
}

// Planes are independent; within one the outputs come in ascending order whatever the cut.
inline void grid_sample_input_gradient(const GridShape& s, const float* grid, const float* dy, float* dx) {
  parallel_for(0, s.batch * s.channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * s.plane(); i < end * s.plane(); ++i) dx[i] = 0.0f;
    for (std::int64_t plane = begin; plane < end && s.out > 0;) {
      const std::int64_t n = plane / s.channels, after = (n + 1) * s.channels < end ? (n + 1) * s.channels : end;
      for (std::int64_t first = 0; first < s.out; first += kGridBlock) {
        Workspace workspace;
        const GridTaps taps = taps_in(s, first, false, workspace);
        find_block(s, grid + (n * s.out + first) * s.rank, taps);
        for (std::int64_t c = plane; c < after; ++c) {
          float* const to = dx + c * s.plane();
          const float* const from = dy + c * s.out + first;
          for (std::int64_t o = 0; taps.count == 1 && o < taps.width; ++o) {  // nearest: weights are 1
            if (taps.place[o] >= 0) to[taps.place[o]] = from[o] + to[taps.place[o]];
          }
          for (std::int64_t o = 0; taps.count > 1 && o < taps.width; ++o) {
            for (int k = 0; k < taps.count; ++k) {
              const std::int32_t place = taps.place[k * taps.width + o];
              if (place >= 0) to[place] = ::fmaf(taps.weight[k * taps.width + o], from[o], to[place]);
            }
          }
        }
      }
      plane = after;
    }
  });
}

// dots[k, o] = the ordered dot of inputs and gradients over channels [begin, end), the tree by halves as section 3 cuts
// it.
template <class Channels>
void channel_dots(const GridShape& s, const GridTaps& taps, const float* x, const float* dy, std::int64_t begin,
                  std::int64_t end, float* dots) {
  const std::int64_t count = taps.count * taps.width, leaves = (end - begin + contract::kLeaf - 1) / contract::kLeaf;
  if (leaves > 1) {
    std::int64_t first = 1;
    while (2 * first < leaves) first *= 2;
    const std::int64_t middle = begin + first * contract::kLeaf;
    Workspace workspace;
    float* const rest = workspace.floats(count);
    channel_dots<Channels>(s, taps, x, dy, begin, middle, dots);
    channel_dots<Channels>(s, taps, x, dy, middle, end, rest);
    for (std::int64_t i = 0; i < count; ++i) dots[i] = dots[i] + rest[i];
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) dots[i] = 0.0f;
  for (std::int64_t c = begin; c < end; ++c) Channels::add_products(taps, x + c * s.plane(), dy + c * s.out, dots);
}

// Along dimension d: over the taps a chain of the dots times the slopes of the weights, times the place's own slope.
inline void place_gradients(const GridTaps& taps, const float* __restrict dots, int d, float* to, std::int64_t stride) {
  float sum[kGridBlock] = {};
  for (int k = 0; k < taps.count; ++k) {
    const std::int32_t* __restrict const place = taps.place + k * taps.width;
    const float* __restrict const change = taps.change[d] + k * taps.width;
    for (std::int64_t o = 0; o < taps.width; ++o) {
      const float next = ::fmaf(dots[k * taps.width + o] + 0.0f, change[o], sum[o]);
      sum[o] = place[o] < 0 ? sum[o] : next;
    }
  }
  for (std::int64_t o = 0; o < taps.width; ++o) to[o * stride] = sum[o] * taps.slope[d][o];
}

template <class Channels>
void grid_sample_grid_gradient(const GridShape& s, const float* x, const float* grid, const float* dy, float* dgrid) {
  if (s.filter == GridFilter::nearest || s.channels == 0) {
    for (std::int64_t i = 0; i < s.batch * s.out * s.rank; ++i) dgrid[i] = 0.0f;
    return;
  }
  const std::int64_t blocks = blocks_of(s);
  parallel_for(0, s.batch * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / blocks, first = i % blocks * kGridBlock;
      Workspace workspace;
      GridTaps taps = taps_in(s, first, true, workspace);
      const float* const numbers = grid + (n * s.out + first) * s.rank;
      find_block(s, numbers, taps);
      Channels::prepare(taps, workspace);
      float* const dots = workspace.floats(taps.count * taps.width);
      channel_dots<Channels>(s, taps, x + n * s.channels * s.plane(), dy + n * s.channels * s.out + first, 0,
                             s.channels, dots);
      for (int d = 0; d < s.rank; ++d) place_gradients(taps, dots, d, dgrid + (numbers - grid) + d, s.rank);
    }
  });
}

template <class Channels>
void fill_grid_kernels(KernelTable& t) {
  t.grid_sample = grid_sample<Channels>;
  t.grid_sample_input_gradient = grid_sample_input_gradient;
  t.grid_sample_grid_gradient = grid_sample_grid_gradient<Channels>;
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
