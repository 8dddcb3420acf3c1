// Sampling at given places: a thread per output finds its taps and walks through some channels; the input's gradient a
// thread per element, which takes the taps that met it in their order.
#include "kernels/grid_sample.h"

#include <algorithm>

#include "contract/pairwise_tree.h"
#include "kernels/formulas/grid_places.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/incidence.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 128;

// One output's taps, in registers where loops over them are unrolled.
template <int taps>
struct Taps {
  std::int32_t place[taps];
  float weight[taps];
};
template <int taps>
ISOBIT_DEVICE Taps<taps> taps_at(const GridShape& s, const float* numbers) {
  Taps<taps> found;
  ISOBIT_ISA::GridTaps to;
  to.width = 1, to.count = taps;
  to.place = found.place, to.weight = found.weight;
  ISOBIT_ISA::find_taps(s, numbers, to);
  return found;
}

// Calls function(constant number of taps).
template <int n>
struct TapCount {
  static constexpr int value = n;
};
template <class Function>
void with_taps(const GridShape& s, Function function) {
  switch (ISOBIT_ISA::taps_of(s)) {
    case 1: return function(TapCount<1>{});
    case 4: return function(TapCount<4>{});
    case 8: return function(TapCount<8>{});
    default: return function(TapCount<16>{});
  }
}

// Blocks over images, pieces of their positions and pieces of their channels.
struct Pieces {
  std::int64_t pieces, channel_pieces, channels_each, blocks;

  Pieces(std::int64_t images, std::int64_t positions, std::int64_t channels) : pieces(ceil_div(positions, kThreads)) {
    const std::int64_t planes = images * pieces, wanted = std::int64_t{16} * multiprocessors();
    channel_pieces = std::clamp<std::int64_t>(ceil_div(wanted, std::max<std::int64_t>(planes, 1)), 1,
                                              std::max<std::int64_t>(channels, 1));
    channels_each = ceil_div(channels, channel_pieces);
    blocks = planes * channel_pieces;
  }
};
struct Piece {
  std::int64_t image, position, channel, channel_end;
};
ISOBIT_DEVICE Piece piece_of(const Pieces& p, std::int64_t channels) {
  const std::int64_t rest = block_index() / p.channel_pieces, image = rest / p.pieces;
  const std::int64_t channel = (block_index() - rest * p.channel_pieces) * p.channels_each,
                     end = channel + p.channels_each;
  return {image, (rest - image * p.pieces) * kThreads + thread_index(), channel, end < channels ? end : channels};
}

// ---- outputs

template <int taps>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void sample_kernel(GridShape s, std::int64_t plane, Pieces pieces,
                                                                   const float* x, const float* grid, float* y) {
  const Piece at = piece_of(pieces, s.channels);
  if (at.position >= s.out) return;
  const Taps<taps> t = taps_at<taps>(s, grid + (at.image * s.out + at.position) * s.rank);
  for (std::int64_t c = at.channel; c < at.channel_end; ++c) {
    const float* const from = x + (at.image * s.channels + c) * plane;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < taps; ++k) {
      if (t.place[k] < 0) continue;
      sum = taps == 1 ? from[t.place[k]] : ::fmaf(t.weight[k], from[t.place[k]], sum);
    }
    y[(at.image * s.channels + c) * s.out + at.position] = sum;
  }
}
void grid_sample(const GridShape& s, const float* x, const float* grid, float* y) {
  if (s.out == 0 || s.batch == 0 || s.channels == 0) return;
  const Pieces pieces(s.batch, s.out, s.channels);
  with_taps(s, [&](auto taps) {
    launch(sample_kernel<taps.value>, {pieces.blocks, kThreads}, s, s.plane(), pieces, x, grid, y);
  });
}

// ---- the input's gradient

// Tap k of output o of an image at o * taps + k.
template <int taps>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void taps_kernel(GridShape s, std::int64_t count, const float* grid,
                                                                 std::int32_t* place, float* weight) {
  const std::int64_t i = block_index() * kThreads + thread_index();
  if (i >= count) return;
  const Taps<taps> t = taps_at<taps>(s, grid + i * s.rank);
#pragma unroll
  for (int k = 0; k < taps; ++k) {
    place[i * taps + k] = t.place[k];
    weight[i * taps + k] = t.weight[k];
  }
}

struct TapPlace {
  const std::int32_t* place;
  Divider items;
  std::int64_t plane;
  [[nodiscard]] ISOBIT_DEVICE std::int64_t operator()(std::int64_t i) const {
    return place[i] < 0 ? -1 : items.quotient(i) * plane + place[i];
  }
};

template <int taps>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void input_gradient_kernel(GridShape s, std::int64_t plane,
                                                                           Pieces pieces, Incidences met,
                                                                           const float* weight, const float* dy,
                                                                           float* dx) {
  const Piece at = piece_of(pieces, s.channels);
  if (at.position >= plane) return;
  const std::int64_t place = at.image * plane + at.position, first = at.image * s.out * taps;
  const int* const list = met.order + met.begin[place];
  const int count = met.count[place];
  for (std::int64_t c = at.channel; c < at.channel_end; ++c) {
    const float* const from = dy + (at.image * s.channels + c) * s.out;
    float sum = 0.0f;
    for (int k = 0; k < count; ++k) sum = ::fmaf(weight[list[k]], from[(list[k] - first) / taps], sum);
    dx[(at.image * s.channels + c) * plane + at.position] = sum;
  }
}

template <int taps>
void image_gradients(GridShape s, const float* grid, const float* dy, float* dx) {
  const std::int64_t items = s.out * taps, count = s.batch * s.out, plane = s.plane();
  const Scratch scratch(2 * s.batch * items * static_cast<std::int64_t>(sizeof(float)));
  std::int32_t* const place = scratch.as<std::int32_t>();
  float* const weight = scratch.as<float>() + s.batch * items;
  launch(taps_kernel<taps>, {ceil_div(count, kThreads), kThreads}, s, count, grid, place, weight);
  const IncidenceLists met(s.batch, items, plane, TapPlace{place, Divider(items, s.batch * items), plane});
  const Pieces pieces(s.batch, plane, s.channels);
  launch(input_gradient_kernel<taps>, {pieces.blocks, kThreads}, s, plane, pieces, met.lists(), weight, dy, dx);
}

// Images in turns of about 256 MiB of lists.
void grid_sample_input_gradient(const GridShape& given, const float* grid, const float* dy, float* dx) {
  const std::int64_t plane = given.plane(), items = given.out * ISOBIT_ISA::taps_of(given);
  if (given.batch == 0 || given.channels == 0 || plane == 0) return;
  if (items >= kInt32End)
    throw DeviceError("grid_sample on a device: 2^31 positions or more of one image are too many");
  constexpr std::int64_t kMost = std::int64_t{256} << 20;
  const std::int64_t each = IncidenceLists::bytes_of(items, plane) + 8 * items;
  const std::int64_t most =
      std::min(std::max<std::int64_t>(kMost / each, 1), (kInt32End - 1) / std::max<std::int64_t>({items, plane, 1}));
  for (std::int64_t first = 0; first < given.batch; first += most) {
    GridShape s = given;
    s.batch = std::min(most, given.batch - first);
    with_taps(s, [&](auto taps) {
      image_gradients<taps.value>(s, grid + first * s.out * s.rank, dy + first * s.channels * s.out,
                                  dx + first * s.channels * plane);
    });
  }
}

// ---- the grid's gradient

// Tap k's ordered dot of inputs and gradients over the channels.
ISOBIT_DEVICE float channel_dot(const GridShape& s, std::int64_t plane, const float* x, const float* dy,
                                std::int32_t place) {
  contract::PairwiseTreeOf<float> tree;
  for (std::int64_t begin = 0; begin < s.channels; begin += contract::kLeaf) {
    const std::int64_t end = begin + contract::kLeaf < s.channels ? begin + contract::kLeaf : s.channels;
    float leaf = 0.0f;
    for (std::int64_t c = begin; c < end; ++c) leaf = ::fmaf(x[c * plane + place], dy[c * s.out], leaf);
    tree.add(leaf);
  }
  return tree.result();
}

template <int taps>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void grid_gradient_kernel(GridShape s, std::int64_t plane,
                                                                          const float* x, const float* grid,
                                                                          const float* dy, float* dgrid) {
  const std::int64_t i = block_index() * kThreads + thread_index();
  if (i >= s.batch * s.out) return;
  const std::int64_t image = i / s.out, o = i - image * s.out;
  Taps<taps> t;
  float change[3][taps], slope[3];
  ISOBIT_ISA::GridTaps to;
  to.width = 1, to.count = taps;
  to.place = t.place, to.weight = t.weight;
  for (int d = 0; d < s.rank; ++d) to.change[d] = change[d], to.slope[d] = slope + d;
  ISOBIT_ISA::find_taps(s, grid + i * s.rank, to);

  const float* const from = x + image * s.channels * plane;
  const float* const gradient = dy + image * s.channels * s.out + o;
  float dots[taps];
#pragma unroll
  for (int k = 0; k < taps; ++k) dots[k] = 0.0f;
  if (s.channels <= contract::kLeaf) {
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const float g = gradient[c * s.out];
#pragma unroll
      for (int k = 0; k < taps; ++k) {
        if (t.place[k] >= 0) dots[k] = ::fmaf(from[c * plane + t.place[k]], g, dots[k]);
      }
    }
  } else {
    for (int k = 0; k < taps; ++k) {
      if (t.place[k] >= 0) dots[k] = channel_dot(s, plane, from, gradient, t.place[k]);
    }
  }
  for (int d = 0; d < s.rank; ++d) {
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < taps; ++k) {
      if (t.place[k] >= 0) sum = ::fmaf(dots[k] + 0.0f, change[d][k], sum);
    }
    dgrid[i * s.rank + d] = sum * slope[d];
  }
}
void grid_sample_grid_gradient(const GridShape& s, const float* x, const float* grid, const float* dy, float* dgrid) {
  const std::int64_t count = s.batch * s.out;
  if (s.filter == GridFilter::nearest || s.channels == 0) {
    if (count > 0) fill_bytes(dgrid, 0, count * s.rank * static_cast<std::int64_t>(sizeof(float)));
    return;
  }
  with_taps(s, [&](auto taps) {
    launch(grid_gradient_kernel<taps.value>, {ceil_div(count, kThreads), kThreads}, s, s.plane(), x, grid, dy, dgrid);
  });
}

}  // namespace

void fill_grid_sample(KernelTable& t) {
  t.grid_sample = grid_sample;
  t.grid_sample_input_gradient = grid_sample_input_gradient;
  t.grid_sample_grid_gradient = grid_sample_grid_gradient;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
