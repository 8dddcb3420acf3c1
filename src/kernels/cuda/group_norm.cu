// Group and layer normalisation on a device: rows' statistics and sums, and the channels' gradients, as ordered
// reductions; then one pass over the elements.
#include "kernels/group_norm.h"

#include "kernels/cuda/ordered_reduce.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;

ReduceShape per_row(const GroupShape& s) {
  ReduceShape shape;
  shape.kept_rank = shape.reduced_rank = 1;
  shape.kept_size[0] = s.rows(), shape.kept_stride[0] = s.per_row();
  shape.reduced_size[0] = s.per_row(), shape.reduced_stride[0] = 1;
  return shape;
}

ReduceShape per_channel(const GroupShape& s) { return channel_sums(s.n, s.c, s.inner); }

// Row and channel of an element of [n, c, inner].
struct Places {
  Divider row_size, inner, channels;

  explicit Places(const GroupShape& s)
      : row_size(s.per_row(), s.n * s.c * s.inner), inner(s.inner, s.n * s.c * s.inner), channels(s.c, s.n * s.c) {}
  [[nodiscard]] ISOBIT_DEVICE std::int64_t row(std::int64_t i) const { return row_size.quotient(i); }
  [[nodiscard]] ISOBIT_DEVICE std::int64_t channel(std::int64_t i) const {
    const std::int64_t line = inner.quotient(i);
    return line - channels.quotient(line) * channels.divisor();
  }
};

// y[i] = element(i)
template <class Element>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void each_of_group_kernel(Element element, std::int64_t count,
                                                                          float* y) {
  std::int64_t i = block_index() * (kThreads * kPerThread) + thread_index();
#pragma unroll
  for (int turn = 0; turn < kPerThread; ++turn, i += kThreads) {
    if (i < count) y[i] = element(i);
  }
}

template <class Element>
void for_each_element(const GroupShape& s, const Element& element, float* y) {
  const std::int64_t count = s.n * s.c * s.inner;
  launch(each_of_group_kernel<Element>, {ceil_div(count, kThreads * kPerThread), kThreads}, element, count, y);
}

// ---- forward

struct FinishRow {
  float *mean, *invstd;
  float eps;
  std::int64_t count;
  ISOBIT_DEVICE void operator()(std::int64_t r, contract::Moments moments) const {
    const float variance = count > 0 ? moments.m2 / static_cast<float>(count) : 0.0f;
    mean[r] = moments.mean;
    invstd[r] = 1.0f / ::sqrtf(variance + eps);
  }
};

struct ApplyGroup {
  const float *x, *weight, *bias, *mean, *invstd;
  Places places;
  ISOBIT_DEVICE float operator()(std::int64_t i) const {
    const std::int64_t r = places.row(i), c = places.channel(i);
    const float s = weight != nullptr ? weight[c] * invstd[r] : invstd[r];
    return ::fmaf(x[i] - mean[r], s, bias != nullptr ? bias[c] : 0.0f);
  }
};

void group_norm(const GroupNormForward& p) {
  ordered_reduce(per_row(p.shape), MomentsOp{p.x},
                 FinishRow{p.mean, p.invstd, static_cast<float>(p.eps), p.shape.per_row()});
  for_each_element(p.shape, ApplyGroup{p.x, p.weight, p.bias, p.mean, p.invstd, Places(p.shape)}, p.y);
}

// ---- backward

// a, the sum of g = dy * weight, and d, of g * (x - mean).
struct RowGradientOp {
  using Lane = Two;
  using Value = Two;
  using Context = float;  // the row's mean
  struct Loaded {
    float g, x;
  };
  const float *dy, *x, *weight, *mean;
  Places places;

  [[nodiscard]] ISOBIT_DEVICE Two none() const { return {}; }
  [[nodiscard]] ISOBIT_DEVICE float context(std::int64_t r) const { return mean[r]; }
  [[nodiscard]] ISOBIT_DEVICE Loaded load(float, std::int64_t offset, std::int64_t) const {
    return {weight != nullptr ? dy[offset] * weight[places.channel(offset)] : dy[offset], x[offset]};
  }
  [[nodiscard]] ISOBIT_DEVICE Two take(Two t, Loaded v, float mean_of_row, std::int64_t) const {
    return {t.first + v.g, ::fmaf(v.g, v.x - mean_of_row, t.second)};
  }
};

struct RowCoefficients {
  float a, k;
};

struct FinishRowGradient {
  const float* invstd;
  RowCoefficients* of_row;
  float count;
  ISOBIT_DEVICE void operator()(std::int64_t r, Two sums) const {
    const float a = sums.first + 0.0f, d = sums.second + 0.0f;
    of_row[r] = {a / count, d * invstd[r] * invstd[r] / count};
  }
};

struct GroupInputGradient {
  const float *x, *dy, *weight, *mean, *invstd;
  const RowCoefficients* of_row;
  Places places;
  ISOBIT_DEVICE float operator()(std::int64_t i) const {
    const std::int64_t r = places.row(i);
    const float g = weight != nullptr ? dy[i] * weight[places.channel(i)] : dy[i];
    const RowCoefficients f = of_row[r];
    return ::fmaf(-(x[i] - mean[r]), f.k, g - f.a) * invstd[r];
  }
};

// Of a channel: the sum of dy, and of dy * ((x - mean) * invstd).
struct ChannelGradientOp {
  using Lane = Two;
  using Value = Two;
  using Context = std::int64_t;  // the channel's group
  struct Loaded {
    float dy, normal;
  };
  const float *dy, *x, *mean, *invstd;
  Divider inner, group_channels;
  std::int64_t groups;

  [[nodiscard]] ISOBIT_DEVICE Two none() const { return {}; }
  [[nodiscard]] ISOBIT_DEVICE Context context(std::int64_t c) const { return group_channels.quotient(c); }
  [[nodiscard]] ISOBIT_DEVICE Loaded load(Context group, std::int64_t offset, std::int64_t i) const {
    const std::int64_t r = inner.quotient(i) * groups + group;
    return {dy[offset], (x[offset] - mean[r]) * invstd[r]};
  }
  [[nodiscard]] ISOBIT_DEVICE Two take(Two t, Loaded v, Context, std::int64_t) const {
    return {t.first + v.dy, ::fmaf(v.dy, v.normal, t.second)};
  }
};

struct StoreChannelGradient {
  float *dweight, *dbias;
  ISOBIT_DEVICE void operator()(std::int64_t c, Two sums) const {
    if (dbias != nullptr) dbias[c] = sums.first + 0.0f;
    if (dweight != nullptr) dweight[c] = sums.second + 0.0f;
  }
};

void group_norm_backward(const GroupNormBackward& p) {
  const GroupShape& s = p.shape;
  const Places places(s);
  if (p.dx != nullptr) {
    const Scratch scratch(s.rows() * static_cast<std::int64_t>(sizeof(RowCoefficients)));
    auto* const of_row = scratch.as<RowCoefficients>();
    ordered_reduce(per_row(s), RowGradientOp{p.dy, p.x, p.weight, p.mean, places},
                   FinishRowGradient{p.invstd, of_row, static_cast<float>(s.per_row())});
    for_each_element(s, GroupInputGradient{p.x, p.dy, p.weight, p.mean, p.invstd, of_row, places}, p.dx);
  }
  if (p.dweight == nullptr && p.dbias == nullptr) return;
  ordered_reduce(per_channel(s),
                 ChannelGradientOp{p.dy, p.x, p.mean, p.invstd, Divider(s.inner, s.n * s.inner),
                                   Divider(s.group_channels(), s.c), s.groups},
                 StoreChannelGradient{p.dweight, p.dbias});
}

}  // namespace

void fill_group_norm(KernelTable& t) {
  t.group_norm = group_norm;
  t.group_norm_backward = group_norm_backward;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
