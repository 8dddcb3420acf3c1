// Batch normalisation, channel after channel, as batch_norm.h writes it.
#include <cmath>

#include "contract/lane_sum.h"
#include "contract/moments.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

// Offset of the element with number i of channel c, 0 <= i < n * inner.
std::int64_t offset_of(const ChannelShape& s, std::int64_t c, std::int64_t i) {
  return (i / s.inner * s.c + c) * s.inner + i % s.inner;
}

contract::Moments moments_of(const ChannelShape& s, std::int64_t c, const float* x) {
  return contract::moments(s.per_channel(), [&](std::int64_t i) { return x[offset_of(s, c, i)]; });
}

float invstd_of_one(float variance, double eps) { return 1.0f / std::sqrt(variance + static_cast<float>(eps)); }

template <class Function>
void for_each_channel(const ChannelShape& s, Function function) {
  parallel_for(0, s.c, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) function(c);
  });
}

void apply(const BatchNormForward& p, std::int64_t c, float mean, float invstd) {
  const float scale = p.weight ? p.weight[c] * invstd : invstd;
  const float shift = p.bias ? p.bias[c] : 0.0f;
  for (std::int64_t i = 0; i < p.shape.per_channel(); ++i) {
    const std::int64_t at = offset_of(p.shape, c, i);
    p.y[at] = std::fma(p.x[at] - mean, scale, shift);
  }
}

void update_running(float* running, float value, double momentum) {
  const float kept = static_cast<float>(1.0 - momentum) * *running;
  *running = kept + static_cast<float>(momentum) * value;
}

void batch_moments(const ChannelShape& shape, const float* x, float* mean, float* m2) {
  for_each_channel(shape, [&](std::int64_t c) {
    const contract::Moments moments = moments_of(shape, c, x);
    mean[c] = moments.mean;
    m2[c] = moments.m2;
  });
}

void batch_norm_training(const BatchNormForward& p) {
  const std::int64_t n = p.shape.per_channel();
  for_each_channel(p.shape, [&](std::int64_t c) {
    const contract::Moments moments = moments_of(p.shape, c, p.x);
    const float variance = n > 0 ? moments.m2 / static_cast<float>(n) : 0.0f;
    const float invstd = invstd_of_one(variance, p.eps);
    apply(p, c, moments.mean, invstd);
    if (p.saved_mean) p.saved_mean[c] = moments.mean;
    if (p.saved_invstd) p.saved_invstd[c] = invstd;
    if (n == 0) return;
    const float unbiased = n > 1 ? moments.m2 / static_cast<float>(n - 1) : moments.m2;
    if (p.running_mean) update_running(p.running_mean + c, moments.mean, p.momentum);
    if (p.running_variance) update_running(p.running_variance + c, unbiased, p.momentum);
  });
}

void batch_norm_inference(const BatchNormForward& p) {
  for_each_channel(
      p.shape, [&](std::int64_t c) { apply(p, c, p.running_mean[c], invstd_of_one(p.running_variance[c], p.eps)); });
}

void backward_channel(const BatchNormBackward& p, std::int64_t c) {
  const std::int64_t n = p.shape.per_channel();
  const float mean = p.mean[c], invstd = p.invstd[c];
  contract::LaneSum sum, dot;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t at = offset_of(p.shape, c, i);
    sum.add(p.dy[at]);
    dot.add_product(p.dy[at], p.x[at] - mean);
  }
  const float a = sum.result(), d = dot.result();
  const float dweight = d * invstd;
  if (p.dbias) p.dbias[c] = a;
  if (p.dweight) p.dweight[c] = dweight;
  if (!p.dx) return;

  const float scale = p.weight ? p.weight[c] * invstd : invstd;
  const float g = a / static_cast<float>(n);
  const float k = dweight * invstd / static_cast<float>(n);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t at = offset_of(p.shape, c, i);
    p.dx[at] = p.training ? std::fma(-(p.x[at] - mean), k, p.dy[at] - g) * scale : p.dy[at] * scale;
  }
}

void batch_norm_backward(const BatchNormBackward& p) {
  for_each_channel(p.shape, [&](std::int64_t c) { backward_channel(p, c); });
}

void invstd_of(const float* variance, double eps, float* invstd, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) invstd[i] = invstd_of_one(variance[i], eps);
}

}  // namespace

void fill_batch_norm(KernelTable& t) {
  t.batch_moments = batch_moments;
  t.batch_norm_training = batch_norm_training;
  t.batch_norm_inference = batch_norm_inference;
  t.batch_norm_backward = batch_norm_backward;
  t.invstd_of = invstd_of;
}

}  // namespace isobit::kernels::reference
