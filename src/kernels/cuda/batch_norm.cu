// Batch normalisation on a device: statistics and gradients' sums as ordered reductions whose finish works
// out the channel's coefficients, then one pass over the elements.
#include "kernels/batch_norm.h"
#include "kernels/cuda/ordered_reduce.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;

ReduceShape per_channel(const ChannelShape& s) { return channel_sums(s.n, s.c, s.inner); }

// The channel of element i of [n, c, inner].
struct Channels {
  Divider inner, c;
  std::int64_t count;

  explicit Channels(const ChannelShape& s)
      : inner(s.inner, s.n * s.c * s.inner), c(s.c, s.n * s.c), count(s.n * s.c * s.inner) {}
  [[nodiscard]] ISOBIT_DEVICE std::int64_t operator()(std::int64_t i) const {
    const std::int64_t line = inner.quotient(i);
    return line - c.quotient(line) * c.divisor();
  }
};

// y[i] = element(i, channel)
template <class Element>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void each_kernel(Channels channels, Element element, float* y) {
  std::int64_t i = block_index() * (kThreads * kPerThread) + thread_index();
#pragma unroll
  for (int turn = 0; turn < kPerThread; ++turn, i += kThreads) {
    if (i < channels.count) y[i] = element(i, channels(i));
  }
}

template <class Element>
void for_each_element(const ChannelShape& shape, const Element& element, float* y) {
  const Channels channels(shape);
  launch(each_kernel<Element>, {ceil_div(channels.count, kThreads * kPerThread), kThreads}, channels, element, y);
}

// function(c) for every channel, a thread each.
template <class Function>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void channel_kernel(Function function, std::int64_t channels) {
  const std::int64_t c = block_index() * kThreads + thread_index();
  if (c < channels) function(c);
}

template <class Function>
void for_each_channel(std::int64_t channels, const Function& function) {
  launch(channel_kernel<Function>, {ceil_div(channels, kThreads), kThreads}, function, channels);
}

ISOBIT_DEVICE float invstd_of_one(float variance, float eps) { return 1.0f / ::sqrtf(variance + eps); }

// ---- forward ---------------------------------------------------------------------------------------------

struct StoreMoments {
  float *mean, *m2;
  ISOBIT_DEVICE void operator()(std::int64_t c, contract::Moments moments) const {
    mean[c] = moments.mean;
    m2[c] = moments.m2;
  }
};

void batch_moments(const ChannelShape& shape, const float* x, float* mean, float* m2) {
  ordered_reduce(per_channel(shape), MomentsOp{x}, StoreMoments{mean, m2});
}

// y = fma(x - mean, s, bias), of a channel.
struct Coefficients {
  float mean, s, bias;
};

struct Apply {
  const float* x;
  const Coefficients* of_channel;
  ISOBIT_DEVICE float operator()(std::int64_t i, std::int64_t c) const {
    const Coefficients f = of_channel[c];
    return ::fmaf(x[i] - f.mean, f.s, f.bias);
  }
};

// A channel's statistics to its coefficients; returns invstd.
struct Prepare {
  const float *weight, *bias;
  float eps;
  Coefficients* of_channel;

  ISOBIT_DEVICE float operator()(std::int64_t c, float mean, float variance) const {
    const float invstd = invstd_of_one(variance, eps);
    of_channel[c] = {mean, weight != nullptr ? weight[c] * invstd : invstd, bias != nullptr ? bias[c] : 0.0f};
    return invstd;
  }
};

Prepare preparation(const BatchNormForward& p, const Scratch& coefficients) {
  return {p.weight, p.bias, static_cast<float>(p.eps), coefficients.as<Coefficients>()};
}

struct Running {
  float *mean, *variance;
  float kept_share, new_share;

  ISOBIT_DEVICE void update(float* running, float value) const {
    const float kept = kept_share * *running;
    *running = kept + new_share * value;
  }
};

struct FinishTraining {
  Prepare prepare;
  Running running;
  float *saved_mean, *saved_invstd;
  std::int64_t n;

  ISOBIT_DEVICE void operator()(std::int64_t c, contract::Moments moments) const {
    const float variance = n > 0 ? moments.m2 / static_cast<float>(n) : 0.0f;
    const float invstd = prepare(c, moments.mean, variance);
    if (saved_mean != nullptr) saved_mean[c] = moments.mean;
    if (saved_invstd != nullptr) saved_invstd[c] = invstd;
    if (n == 0) return;
    const float unbiased = n > 1 ? moments.m2 / static_cast<float>(n - 1) : moments.m2;
    if (running.mean != nullptr) running.update(running.mean + c, moments.mean);
    if (running.variance != nullptr) running.update(running.variance + c, unbiased);
  }
};

void batch_norm_training(const BatchNormForward& p) {
  const Scratch coefficients(p.shape.c * static_cast<std::int64_t>(sizeof(Coefficients)));
  const Running running{p.running_mean, p.running_variance, static_cast<float>(1.0 - p.momentum),
                        static_cast<float>(p.momentum)};
  ordered_reduce(
      per_channel(p.shape), MomentsOp{p.x},
      FinishTraining{preparation(p, coefficients), running, p.saved_mean, p.saved_invstd, p.shape.per_channel()});
  for_each_element(p.shape, Apply{p.x, coefficients.as<Coefficients>()}, p.y);
}

struct PrepareInference {
  Prepare prepare;
  const float *mean, *variance;
  ISOBIT_DEVICE void operator()(std::int64_t c) const { (void)prepare(c, mean[c], variance[c]); }
};

void batch_norm_inference(const BatchNormForward& p) {
  const Scratch coefficients(p.shape.c * static_cast<std::int64_t>(sizeof(Coefficients)));
  for_each_channel(p.shape.c, PrepareInference{preparation(p, coefficients), p.running_mean, p.running_variance});
  for_each_element(p.shape, Apply{p.x, coefficients.as<Coefficients>()}, p.y);
}

struct StoreInvstd {
  const float* variance;
  float eps;
  float* invstd;
  ISOBIT_DEVICE void operator()(std::int64_t i) const { invstd[i] = invstd_of_one(variance[i], eps); }
};

void invstd_of(const float* variance, double eps, float* invstd, std::int64_t n) {
  for_each_channel(n, StoreInvstd{variance, static_cast<float>(eps), invstd});
}

// ---- backward --------------------------------------------------------------------------------------------

// a, the sum of dy, and d, of dy * (x - mean).
struct GradientOp {
  using Lane = Two;
  using Value = Two;
  using Context = float;  // the channel's mean
  struct Loaded {
    float dy, x;
  };
  const float *dy, *x, *mean;

  [[nodiscard]] ISOBIT_DEVICE Two none() const { return {}; }
  [[nodiscard]] ISOBIT_DEVICE float context(std::int64_t c) const { return mean[c]; }
  [[nodiscard]] ISOBIT_DEVICE Loaded load(float, std::int64_t offset, std::int64_t) const {
    return {dy[offset], x[offset]};
  }
  [[nodiscard]] ISOBIT_DEVICE Two take(Two t, Loaded v, float mean_of_channel, std::int64_t) const {
    return {t.first + v.dy, ::fmaf(v.dy, v.x - mean_of_channel, t.second)};
  }
};

// dx = fma(-(x - mean), k, dy - g) * s
struct GradientCoefficients {
  float mean, k, g, s;
};

struct FinishGradient {
  const float *weight, *mean, *invstd;
  float *dweight, *dbias;
  GradientCoefficients* of_channel;
  float n;

  ISOBIT_DEVICE void operator()(std::int64_t c, Two sums) const {
    const float a = sums.first + 0.0f, d = sums.second + 0.0f, inverse = invstd[c];
    const float weight_gradient = d * inverse;
    if (dbias != nullptr) dbias[c] = a;
    if (dweight != nullptr) dweight[c] = weight_gradient;
    of_channel[c] = {mean[c], weight_gradient * inverse / n, a / n, weight != nullptr ? weight[c] * inverse : inverse};
  }
};

struct TrainingGradient {
  const float *x, *dy;
  const GradientCoefficients* of_channel;
  ISOBIT_DEVICE float operator()(std::int64_t i, std::int64_t c) const {
    const GradientCoefficients f = of_channel[c];
    return ::fmaf(-(x[i] - f.mean), f.k, dy[i] - f.g) * f.s;
  }
};

struct InferenceGradient {
  const float *dy, *weight, *invstd;
  ISOBIT_DEVICE float operator()(std::int64_t i, std::int64_t c) const {
    return dy[i] * (weight != nullptr ? weight[c] * invstd[c] : invstd[c]);
  }
};

void batch_norm_backward(const BatchNormBackward& p) {
  const bool needs_sums = p.dweight != nullptr || p.dbias != nullptr || (p.dx != nullptr && p.training);
  const Scratch coefficients(needs_sums ? p.shape.c * static_cast<std::int64_t>(sizeof(GradientCoefficients)) : 0);
  auto* const of_channel = coefficients.as<GradientCoefficients>();
  if (needs_sums) {
    ordered_reduce(per_channel(p.shape), GradientOp{p.dy, p.x, p.mean},
                   FinishGradient{p.weight, p.mean, p.invstd, p.dweight, p.dbias, of_channel,
                                  static_cast<float>(p.shape.per_channel())});
  }
  if (p.dx == nullptr) return;
  if (p.training) {
    for_each_element(p.shape, TrainingGradient{p.x, p.dy, of_channel}, p.dx);
  } else {
    for_each_element(p.shape, InferenceGradient{p.dy, p.weight, p.invstd}, p.dx);
  }
}

}  // namespace

void fill_batch_norm(KernelTable& t) {
  t.batch_moments = batch_moments;
  t.batch_norm_training = batch_norm_training;
  t.batch_norm_inference = batch_norm_inference;
  t.batch_norm_backward = batch_norm_backward;
  t.invstd_of = invstd_of;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
