// Batch normalisation over the lane count.
//
// [n, c, inner]: channels in parallel. A channel's elements lie in n segments that rarely end with a leaf or
// a register, and far apart, often by a power of two, so that few of them stay in a cache. Channels that fit
// one are first copied to scratch; of larger ones, the leaves that cross segments. So lanes and elements meet
// as the contract says. The passes that write have no order and run over the segments. [n, c] (inner = 1):
// batch_norm_columns.h.
#include "contract/moments.h"
#include "contract/scalar_ops.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/vector/batch_norm_columns.h"
#include "kernels/cpu/vector/lane_leaf.h"
#include "kernels/cpu/vector/row_moments.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

using contract::kLeaf;
constexpr std::int64_t kPacked = 16384;  // elements of a channel that are copied to scratch; two: 128 KB

std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

float invstd_of_one(float variance, double eps) {
  using contract::sqrt;
  return 1.0f / sqrt(variance + static_cast<float>(eps));
}

// One channel: segment i is `inner` consecutive elements at data + i * stride.
struct Channel {
  const float* data;
  std::int64_t inner, stride, count;

  [[nodiscard]] const float* segment(std::int64_t i) const { return data + i * stride; }
};

// Copies of two channels, where they are small enough to be worth it.
struct ChannelScratch {
  Workspace workspace;
  float* block[2] = {};

  explicit ChannelScratch(const ChannelShape& s) {
    if (s.n < 2 || s.per_channel() > kPacked) return;
    for (float*& b : block) b = workspace.floats(s.per_channel() + kLanes);
  }
  Channel open(const ChannelShape& s, std::int64_t c, const float* x, int which) const {
    const Channel channel = {x + c * s.inner, s.inner, s.c * s.inner, s.per_channel()};
    float* const to = block[which];
    if (!to) return channel;
    for (std::int64_t i = 0; i < s.n; ++i) copy_loose(channel.segment(i), s.inner, to + i * s.inner);
    return {to, s.inner, s.inner, s.per_channel()};
  }
};

// A channel's elements [begin, begin + n), n <= kLeaf, consecutive in memory.
struct LeafBuffer {
  float data[kLeaf + kLanes];

  const float* gather(const Channel& x, std::int64_t begin, std::int64_t n) {
    if (x.stride == x.inner) return x.data + begin;
    std::int64_t i = begin / x.inner, at = begin % x.inner;
    if (at + n <= x.inner) return x.segment(i) + at;
    for (std::int64_t done = 0; done < n; ++i, at = 0) {
      const std::int64_t length = smaller(n - done, x.inner - at);
      copy_loose(x.segment(i) + at, length, data + done);
      done += length;
    }
    return data;
  }
};

// function(c, scratch)
template <class Function>
void for_each_channel(const ChannelShape& s, Function function) {
  parallel_for(0, s.c, rows_worth_a_thread(s.per_channel()), [&](std::int64_t begin, std::int64_t end) {
    const ChannelScratch scratch(s);
    for (std::int64_t c = begin; c < end; ++c) function(c, scratch);
  });
}

contract::Moments moments_of(const Channel& x) {
  LeafBuffer buffer;
  contract::MomentsTree tree;
  for (std::int64_t begin = 0; begin < x.count; begin += kLeaf) {
    const std::int64_t n = smaller(kLeaf, x.count - begin);
    tree.add(moments_of_leaf(buffer.gather(x, begin, n), n));
  }
  return tree.result();
}

// What one channel, or a register of channels, needs of its parameters.
template <class F>
struct ChannelScale {
  F mean, scale, shift;
};

template <class F>
ISOBIT_INLINE F normalised(F x, const ChannelScale<F>& by) {
  using contract::fma;
  return fma(x - by.mean, by.scale, by.shift);
}

void apply(const BatchNormForward& p, std::int64_t c, const Channel& x, float mean, float invstd) {
  const ChannelScale<FloatLanes> by = {mean, p.weight ? p.weight[c] * invstd : invstd, p.bias ? p.bias[c] : 0.0f};
  for (std::int64_t s = 0; s < p.shape.n; ++s) {
    const float* const from = x.segment(s);
    float* const to = p.y + (s * p.shape.c + c) * p.shape.inner;
    for_each_register(p.shape.inner,
                      [&](std::int64_t i, auto part) { put(to + i, normalised(fetch(from + i, part), by), part); });
  }
}

float invstd_of_moments(const BatchNormForward& p, float m2) {
  const std::int64_t n = p.shape.per_channel();
  return invstd_of_one(n > 0 ? m2 / static_cast<float>(n) : 0.0f, p.eps);
}

// What training keeps of all channels' moments: at the end, when no memory can be refused any more, for running values
// that had moved already would move again in a second try.
struct TrainedMoments {
  Workspace workspace;
  float *mean, *m2, *invstd;

  explicit TrainedMoments(std::int64_t channels)
      : mean(workspace.floats(channels)), m2(workspace.floats(channels)), invstd(workspace.floats(channels)) {}

  void keep(const BatchNormForward& p) const {
    const std::int64_t n = p.shape.per_channel();
    const float kept = static_cast<float>(1.0 - p.momentum), added = static_cast<float>(p.momentum);
    for (std::int64_t c = 0; c < p.shape.c; ++c) {
      if (p.saved_mean) p.saved_mean[c] = mean[c];
      if (p.saved_invstd) p.saved_invstd[c] = invstd[c];
      if (n == 0) continue;
      const float unbiased = n > 1 ? m2[c] / static_cast<float>(n - 1) : m2[c];
      if (p.running_mean) p.running_mean[c] = kept * p.running_mean[c] + added * mean[c];
      if (p.running_variance) p.running_variance[c] = kept * p.running_variance[c] + added * unbiased;
    }
  }
};

// Sums of the backward pass and what follows from them.
struct ChannelGradient {
  float mean, scale, g, k;
};

ChannelGradient finish_backward(const BatchNormBackward& p, std::int64_t c, float a, float d) {
  const float n = static_cast<float>(p.shape.per_channel()), invstd = p.invstd[c];
  const float dweight = d * invstd;
  if (p.dbias) p.dbias[c] = a;
  if (p.dweight) p.dweight[c] = dweight;
  return {p.mean[c], p.weight ? p.weight[c] * invstd : invstd, a / n, dweight * invstd / n};
}

template <class F>
ISOBIT_INLINE F input_gradient(bool training, F x, F dy, F mean, F scale, F g, F k) {
  return training ? fma(-(x - mean), k, dy - g) * scale : dy * scale;
}

void backward_channel(const BatchNormBackward& p, std::int64_t c, const ChannelScratch& scratch) {
  const Channel x = scratch.open(p.shape, c, p.x, 0), dy = scratch.open(p.shape, c, p.dy, 1);
  const FloatLanes center(p.mean[c]);
  LeafBuffer x_buffer, dy_buffer;
  contract::PairwiseTreeOf<float> sums, dots;
  for (std::int64_t begin = 0; begin < x.count; begin += kLeaf) {
    const std::int64_t n = smaller(kLeaf, x.count - begin);
    const float *const x_leaf = x_buffer.gather(x, begin, n), *const dy_leaf = dy_buffer.gather(dy, begin, n);
    const TwoSums leaf = leaf_two_sums(n, [=](FloatLanes& sum, FloatLanes& dot, std::int64_t i, auto part) {
      const FloatLanes gradient = fetch(dy_leaf + i, part);
      sum = sum + gradient;
      dot = fma(gradient, keep(fetch(x_leaf + i, part) - center, part), dot);
    });
    sums.add(leaf.first);
    dots.add(leaf.second);
  }
  const ChannelGradient by = finish_backward(p, c, sums.result() + 0.0f, dots.result() + 0.0f);
  if (!p.dx) return;
  const FloatLanes scale(by.scale), g(by.g), k(by.k);
  for (std::int64_t s = 0; s < p.shape.n; ++s) {
    const float *const x_from = x.segment(s), *const dy_from = dy.segment(s);
    float* const to = p.dx + (s * p.shape.c + c) * p.shape.inner;
    for_each_register(p.shape.inner, [&](std::int64_t i, auto part) {
      const FloatLanes xs = fetch(x_from + i, part), dys = fetch(dy_from + i, part);
      put(to + i, input_gradient(p.training, xs, dys, center, scale, g, k), part);
    });
  }
}

// ---- [n, c]: a register of channels at a time -------------------------------------------------------------

ISOBIT_INLINE std::int64_t lanes_of(Whole) { return kLanes; }
ISOBIT_INLINE std::int64_t lanes_of(Part part) { return part.count; }

void apply_columns(const BatchNormForward& p, const float* means, const float* invstd) {
  const auto prepare = [&](std::int64_t c, auto part) __attribute__((always_inline)) {
    const FloatLanes inverse = fetch(invstd + c, part);
    const FloatLanes scale = p.weight ? fetch(p.weight + c, part) * inverse : inverse;
    return ChannelScale<FloatLanes>{fetch(means + c, part), scale, p.bias ? fetch(p.bias + c, part) : FloatLanes(0.0f)};
  };
  for_each_element(
      p.shape.n, p.shape.c,
      prepare, [&](std::int64_t i, const ChannelScale<FloatLanes>& by, auto part) __attribute__((always_inline)) {
        put(p.y + i, normalised(fetch(p.x + i, part), by), part);
      });
}

void train_columns(const BatchNormForward& p) {
  const TrainedMoments all(p.shape.c);
  for_each_tile(p.shape.n, p.shape.c, [&](const ColumnTile& tile, Workspace& scratch) {
    tile_moments(tile, p.x, p.shape.n, scratch, [&](std::int64_t c, auto part, const MomentLanes& moments) {
      put(all.mean + c, moments.mean, part);
      put(all.m2 + c, moments.m2, part);
    });
  });
  for (std::int64_t c = 0; c < p.shape.c; ++c) all.invstd[c] = invstd_of_moments(p, all.m2[c]);
  apply_columns(p, all.mean, all.invstd);
  all.keep(p);
}

void backward_columns(const BatchNormBackward& p) {
  Workspace workspace;
  float *const scale = workspace.floats(p.shape.c), *const g = workspace.floats(p.shape.c);
  float* const k = workspace.floats(p.shape.c);
  for_each_tile(p.shape.n, p.shape.c, [&](const ColumnTile& tile, Workspace& scratch) {
    const auto finish = [&](std::int64_t c, auto part, FloatLanes sum, FloatLanes dot) {
      for (std::int64_t l = 0; l < lanes_of(part); ++l) {
        const ChannelGradient by = finish_backward(p, c + l, sum.v[l], dot.v[l]);
        scale[c + l] = by.scale, g[c + l] = by.g, k[c + l] = by.k;
      }
    };
    tile_gradient_sums(tile, p.x, p.dy, p.mean, p.shape.n, scratch, finish);
  });
  if (!p.dx) return;
  struct Of {
    FloatLanes mean, scale, g, k;
  };
  const auto prepare = [&](std::int64_t c, auto part) __attribute__((always_inline)) {
    return Of{fetch(p.mean + c, part), fetch(scale + c, part), fetch(g + c, part), fetch(k + c, part)};
  };
  for_each_element(
      p.shape.n, p.shape.c, prepare, [&](std::int64_t i, const Of& of, auto part) __attribute__((always_inline)) {
        const FloatLanes x = fetch(p.x + i, part), dy = fetch(p.dy + i, part);
        put(p.dx + i, input_gradient(p.training, x, dy, of.mean, of.scale, of.g, of.k), part);
      });
}

// ---- entry points
// -------------------------------------------------------------------------------------------

void batch_moments(const ChannelShape& s, const float* x, float* mean, float* m2) {
  if (s.inner == 1) {
    return for_each_tile(s.n, s.c, [&](const ColumnTile& tile, Workspace& scratch) {
      tile_moments(tile, x, s.n, scratch, [&](std::int64_t c, auto part, const MomentLanes& moments) {
        put(mean + c, moments.mean, part);
        put(m2 + c, moments.m2, part);
      });
    });
  }
  for_each_channel(s, [&](std::int64_t c, const ChannelScratch& scratch) {
    const contract::Moments moments = moments_of(scratch.open(s, c, x, 0));
    mean[c] = moments.mean;
    m2[c] = moments.m2;
  });
}

void batch_norm_training(const BatchNormForward& p) {
  if (p.shape.inner == 1) return train_columns(p);
  const TrainedMoments all(p.shape.c);
  for_each_channel(p.shape, [&](std::int64_t c, const ChannelScratch& scratch) {
    const Channel x = scratch.open(p.shape, c, p.x, 0);
    const contract::Moments moments = moments_of(x);
    all.mean[c] = moments.mean, all.m2[c] = moments.m2;
    all.invstd[c] = invstd_of_moments(p, moments.m2);
    apply(p, c, x, moments.mean, all.invstd[c]);
  });
  all.keep(p);
}

void invstd_of(const float* variance, double eps, float* invstd, std::int64_t n) {
  for_each_register(n, [&](std::int64_t i, auto part) {
    const FloatLanes sum = fetch(variance + i, part) + FloatLanes(static_cast<float>(eps));
    put(invstd + i, FloatLanes(1.0f) / sqrt(sum), part);
  });
}

void batch_norm_inference(const BatchNormForward& p) {
  if (p.shape.inner == 1) {
    Workspace workspace;
    float* const invstd = workspace.floats(p.shape.c);
    invstd_of(p.running_variance, p.eps, invstd, p.shape.c);
    return apply_columns(p, p.running_mean, invstd);
  }
  for_each_channel(p.shape, [&](std::int64_t c, const ChannelScratch&) {
    const Channel x = {p.x + c * p.shape.inner, p.shape.inner, p.shape.c * p.shape.inner, p.shape.per_channel()};
    apply(p, c, x, p.running_mean[c], invstd_of_one(p.running_variance[c], p.eps));
  });
}

void batch_norm_backward(const BatchNormBackward& p) {
  if (p.shape.inner == 1) return backward_columns(p);
  for_each_channel(p.shape, [&](std::int64_t c, const ChannelScratch& scratch) { backward_channel(p, c, scratch); });
}

}  // namespace

void fill_batch_norm(KernelTable& t) {
  t.batch_moments = batch_moments;
  t.batch_norm_training = batch_norm_training;
  t.batch_norm_inference = batch_norm_inference;
  t.batch_norm_backward = batch_norm_backward;
  t.invstd_of = invstd_of;
}

}  // namespace isobit::kernels::ISOBIT_ISA
