// Batch normalisation, channel after channel, as batch_norm.h writes it.
#include <algorithm>
#include <cmath>

#include "contract/lane_sum.h"
#include "contract/moments.h"
#include "kernels/cpu/reference/plain.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_PLAIN {
namespace {

// Offset of the element with number i of channel c, 0 <= i < n * inner.
std::int64_t offset_of(const ChannelShape& s, std::int64_t c, std::int64_t i) {
  return (i / s.inner * s.c + c) * s.inner + i % s.inner;
}

// use(offset) of channel c's elements in their order, without a division for each.
template <class Use>
void for_each_element(const ChannelShape& s, std::int64_t c, const Use& use) {
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t i = 0; i < s.inner; ++i) use((n * s.c + c) * s.inner + i);
}

// A leaf's elements lie side by side but where it goes on in the next sample.
template <class T>
contract::MomentsOf<T> moments_of(const ChannelShape& s, std::int64_t c, const T* x) {
  if (s.inner == 1) return contract::moments<T>(s.n, [=](std::int64_t i) { return x[i * s.c + c]; });
  contract::PairwiseTreeOf<contract::MomentsOf<T>> tree;
  for (std::int64_t begin = 0, n = s.per_channel(); begin < n; begin += contract::kLeaf) {
    const std::int64_t count = std::min(contract::kLeaf, n - begin);
    const T* const p = x + offset_of(s, c, begin);
    tree.add(begin % s.inner + count <= s.inner
                 ? contract::leaf_moments<T>(count, [=](std::int64_t i) { return p[i]; })
                 : contract::leaf_moments<T>(count, [&](std::int64_t i) { return x[offset_of(s, c, begin + i)]; }));
  }
  return tree.result();
}

template <class T>
T invstd_of_one(T variance, double eps) {
  return T(1) / std::sqrt(variance + static_cast<T>(eps));
}

template <class Function>
void for_each_channel(const ChannelShape& s, Function function) {
  parallel_for(0, s.c, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) function(c);
  });
}

template <class T>
void apply(const BatchNormForwardOf<T>& p, std::int64_t c, T mean, T invstd) {
  const T scale = p.weight ? p.weight[c] * invstd : invstd;
  const T shift = p.bias ? p.bias[c] : T(0);
  for_each_element(p.shape, c, [&](std::int64_t at) { p.y[at] = std::fma(p.x[at] - mean, scale, shift); });
}

template <class T>
void update_running(T* running, T value, double momentum) {
  const T kept = static_cast<T>(1.0 - momentum) * *running;
  *running = kept + static_cast<T>(momentum) * value;
}

template <class T>
void batch_moments(const ChannelShape& shape, const T* x, T* mean, T* m2) {
  for_each_channel(shape, [&](std::int64_t c) {
    const contract::MomentsOf<T> moments = moments_of(shape, c, x);
    mean[c] = moments.mean;
    m2[c] = moments.m2;
  });
}

template <class T>
void batch_norm_training(const BatchNormForwardOf<T>& p) {
  const std::int64_t n = p.shape.per_channel();
  for_each_channel(p.shape, [&](std::int64_t c) {
    const contract::MomentsOf<T> moments = moments_of(p.shape, c, p.x);
    const T variance = n > 0 ? moments.m2 / static_cast<T>(n) : T(0);
    const T invstd = invstd_of_one(variance, p.eps);
    apply(p, c, moments.mean, invstd);
    if (p.saved_mean) p.saved_mean[c] = moments.mean;
    if (p.saved_invstd) p.saved_invstd[c] = invstd;
    if (n == 0) return;
    const T unbiased = n > 1 ? moments.m2 / static_cast<T>(n - 1) : moments.m2;
    if (p.running_mean) update_running(p.running_mean + c, moments.mean, p.momentum);
    if (p.running_variance) update_running(p.running_variance + c, unbiased, p.momentum);
  });
}

template <class T>
void batch_norm_inference(const BatchNormForwardOf<T>& p) {
  for_each_channel(
      p.shape, [&](std::int64_t c) { apply(p, c, p.running_mean[c], invstd_of_one(p.running_variance[c], p.eps)); });
}

template <class T>
void backward_channel(const BatchNormBackwardOf<T>& p, std::int64_t c) {
  const std::int64_t n = p.shape.per_channel();
  const T mean = p.mean[c], invstd = p.invstd[c];
  contract::LaneSumOf<T> sum, dot;
  for_each_element(p.shape, c, [&](std::int64_t at) {
    sum.add(p.dy[at]);
    dot.add_product(p.dy[at], p.x[at] - mean);
  });
  const T a = sum.result(), d = dot.result();
  const T dweight = d * invstd;
  if (p.dbias) p.dbias[c] = a;
  if (p.dweight) p.dweight[c] = dweight;
  if (!p.dx) return;

  const T scale = p.weight ? p.weight[c] * invstd : invstd;
  const T g = a / static_cast<T>(n);
  const T k = dweight * invstd / static_cast<T>(n);
  for_each_element(p.shape, c, [&](std::int64_t at) {
    p.dx[at] = p.training ? std::fma(-(p.x[at] - mean), k, p.dy[at] - g) * scale : p.dy[at] * scale;
  });
}

template <class T>
void batch_norm_backward(const BatchNormBackwardOf<T>& p) {
  for_each_channel(p.shape, [&](std::int64_t c) { backward_channel(p, c); });
}

template <class T>
void invstd_of(const T* variance, double eps, T* invstd, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) invstd[i] = invstd_of_one(variance[i], eps);
}

template <class T, class Table>
void fill(Table& t) {
  t.batch_moments = batch_moments<T>;
  t.batch_norm_training = batch_norm_training<T>;
  t.batch_norm_inference = batch_norm_inference<T>;
  t.batch_norm_backward = batch_norm_backward<T>;
  t.invstd_of = invstd_of<T>;
}

}  // namespace

#ifndef ISOBIT_LANES
void fill_batch_norm(KernelTable& t) { fill<float>(t); }
#endif
void fill_batch_norm(HostTable& t) { fill<double>(t); }

}  // namespace isobit::kernels::ISOBIT_PLAIN
