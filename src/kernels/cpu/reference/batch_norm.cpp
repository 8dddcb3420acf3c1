// Batch normalisation, channel after channel, as batch_norm.h writes it.
#include <algorithm>
#include <cmath>
#include <vector>

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

// A leaf's elements lie side by side but where it goes on in the next sample.
template <class T>
contract::MomentsOf<T> moments_of_channel(const ChannelShape& s, std::int64_t c, const T* x) {
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

// Channels that are worked on together: some where they are neighbours in memory, each of whose lines is then read
// once.
constexpr std::int64_t kTogether = 16;
struct Channels {
  std::int64_t first, count;
};
template <class Function>
void for_channels(const ChannelShape& s, Function function) {
  const std::int64_t together = s.inner == 1 ? kTogether : 1;
  parallel_for(0, (s.c + together - 1) / together, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) function(Channels{i * together, std::min(together, s.c - i * together)});
  });
}
// use(offset, j) of the elements of channel first + j, in the order of each channel.
template <class Use>
void for_elements(const ChannelShape& s, const Channels& at, const Use& use) {
  for (std::int64_t n = 0; n < s.n; ++n) {
    if (s.inner == 1) {
      for (std::int64_t j = 0; j < at.count; ++j) use(n * s.c + at.first + j, j);
      continue;
    }
    for (std::int64_t i = 0; i < s.inner; ++i) use((n * s.c + at.first) * s.inner + i, std::int64_t{0});
  }
}
template <class T>
void moments_of(const ChannelShape& s, const Channels& at, const T* x, contract::MomentsOf<T>* moments) {
  if (s.inner != 1) {
    moments[0] = moments_of_channel(s, at.first, x);
    return;
  }
  std::vector<T> columns(static_cast<std::size_t>(at.count * s.n));
  for (std::int64_t i = 0; i < s.n; ++i) {
    for (std::int64_t j = 0; j < at.count; ++j)
      columns[static_cast<std::size_t>(j * s.n + i)] = x[i * s.c + at.first + j];
  }
  for (std::int64_t j = 0; j < at.count; ++j)
    moments[j] = contract::moments<T>(s.n, [p = columns.data() + j * s.n](std::int64_t i) { return p[i]; });
}

template <class T>
T invstd_of_one(T variance, double eps) {
  return T(1) / std::sqrt(variance + static_cast<T>(eps));
}

template <class T>
void apply(const BatchNormForwardOf<T>& p, const Channels& at, const T* mean, const T* invstd) {
  T scale[kTogether], shift[kTogether];
  for (std::int64_t j = 0; j < at.count; ++j) {
    scale[j] = p.weight ? p.weight[at.first + j] * invstd[j] : invstd[j];
    shift[j] = p.bias ? p.bias[at.first + j] : T(0);
  }
  for_elements(p.shape, at, [&](std::int64_t offset, std::int64_t j) {
    p.y[offset] = std::fma(p.x[offset] - mean[j], scale[j], shift[j]);
  });
}

template <class T>
void update_running(T* running, T value, double momentum) {
  const T kept = static_cast<T>(1.0 - momentum) * *running;
  *running = kept + static_cast<T>(momentum) * value;
}

template <class T>
void batch_moments(const ChannelShape& shape, const T* x, T* mean, T* m2) {
  for_channels(shape, [&](const Channels& at) {
    contract::MomentsOf<T> moments[kTogether];
    moments_of(shape, at, x, moments);
    for (std::int64_t j = 0; j < at.count; ++j) mean[at.first + j] = moments[j].mean, m2[at.first + j] = moments[j].m2;
  });
}

template <class T>
void batch_norm_training(const BatchNormForwardOf<T>& p) {
  const std::int64_t n = p.shape.per_channel();
  for_channels(p.shape, [&](const Channels& at) {
    contract::MomentsOf<T> moments[kTogether];
    T mean[kTogether] = {}, invstd[kTogether] = {};
    moments_of(p.shape, at, p.x, moments);
    for (std::int64_t j = 0; j < at.count; ++j) {
      mean[j] = moments[j].mean;
      invstd[j] = invstd_of_one(n > 0 ? moments[j].m2 / static_cast<T>(n) : T(0), p.eps);
    }
    apply(p, at, mean, invstd);
    for (std::int64_t j = 0; j < at.count; ++j) {
      const std::int64_t c = at.first + j;
      if (p.saved_mean) p.saved_mean[c] = mean[j];
      if (p.saved_invstd) p.saved_invstd[c] = invstd[j];
      if (n == 0) continue;
      const T unbiased = n > 1 ? moments[j].m2 / static_cast<T>(n - 1) : moments[j].m2;
      if (p.running_mean) update_running(p.running_mean + c, mean[j], p.momentum);
      if (p.running_variance) update_running(p.running_variance + c, unbiased, p.momentum);
    }
  });
}

template <class T>
void batch_norm_inference(const BatchNormForwardOf<T>& p) {
  for_channels(p.shape, [&](const Channels& at) {
    T invstd[kTogether] = {};
    for (std::int64_t j = 0; j < at.count; ++j) invstd[j] = invstd_of_one(p.running_variance[at.first + j], p.eps);
    apply(p, at, p.running_mean + at.first, invstd);
  });
}

template <class T>
void backward_channels(const BatchNormBackwardOf<T>& p, const Channels& at) {
  const std::int64_t n = p.shape.per_channel();
  const T *const mean = p.mean + at.first, *const invstd = p.invstd + at.first;
  contract::LaneSumOf<T> sum[kTogether], dot[kTogether];
  for_elements(p.shape, at, [&](std::int64_t offset, std::int64_t j) {
    sum[j].add(p.dy[offset]);
    dot[j].add_product(p.dy[offset], p.x[offset] - mean[j]);
  });
  T scale[kTogether], g[kTogether], k[kTogether];
  for (std::int64_t j = 0; j < at.count; ++j) {
    const std::int64_t c = at.first + j;
    const T a = sum[j].result(), dweight = dot[j].result() * invstd[j];
    if (p.dbias) p.dbias[c] = a;
    if (p.dweight) p.dweight[c] = dweight;
    scale[j] = p.weight ? p.weight[c] * invstd[j] : invstd[j];
    g[j] = a / static_cast<T>(n);
    k[j] = dweight * invstd[j] / static_cast<T>(n);
  }
  if (!p.dx) return;
  for_elements(p.shape, at, [&](std::int64_t offset, std::int64_t j) {
    p.dx[offset] =
        p.training ? std::fma(-(p.x[offset] - mean[j]), k[j], p.dy[offset] - g[j]) * scale[j] : p.dy[offset] * scale[j];
  });
}

template <class T>
void batch_norm_backward(const BatchNormBackwardOf<T>& p) {
  for_channels(p.shape, [&](const Channels& at) { backward_channels(p, at); });
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
