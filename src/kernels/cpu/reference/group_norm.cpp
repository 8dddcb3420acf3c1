// Group and layer normalisation, row after row and channel after channel, as group_norm.h writes it.
#include "kernels/group_norm.h"

#include <cmath>

#include "contract/lane_sum.h"
#include "contract/moments.h"
#include "kernels/cpu/reference/plain.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_PLAIN {
namespace {

// use(j, channel) for the elements of row r in their order.
template <class Use>
void for_elements(const GroupShape& s, std::int64_t r, const Use& use) {
  const std::int64_t first = r % s.groups * s.group_channels();
  if (s.inner == 1) {
    for (std::int64_t j = 0; j < s.group_channels(); ++j) use(j, first + j);
    return;
  }
  for (std::int64_t c = 0; c < s.group_channels(); ++c)
    for (std::int64_t i = 0; i < s.inner; ++i) use(c * s.inner + i, first + c);
}

template <class Function>
void for_each(std::int64_t n, Function function) {
  parallel_for(0, n, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) function(i);
  });
}

template <class T>
void group_norm(const GroupNormForwardOf<T>& p) {
  const std::int64_t count = p.shape.per_row();
  for_each(p.shape.rows(), [&](std::int64_t r) {
    const T* const x = p.x + r * count;
    const contract::MomentsOf<T> moments = contract::moments<T>(count, [&](std::int64_t j) { return x[j]; });
    const T variance = count > 0 ? moments.m2 / static_cast<T>(count) : T(0);
    const T invstd = T(1) / std::sqrt(variance + static_cast<T>(p.eps));
    p.mean[r] = moments.mean;
    p.invstd[r] = invstd;
    T* const y = p.y + r * count;
    for_elements(p.shape, r, [&, mean = moments.mean](std::int64_t j, std::int64_t c) {
      const T s = p.weight ? p.weight[c] * invstd : invstd;
      y[j] = std::fma(x[j] - mean, s, p.bias ? p.bias[c] : T(0));
    });
  });
}

template <class T>
void input_gradient(const GroupNormBackwardOf<T>& p, std::int64_t r) {
  const std::int64_t count = p.shape.per_row();
  const T *const x = p.x + r * count, *const dy = p.dy + r * count;
  const T mean = p.mean[r], invstd = p.invstd[r];
  const auto gradient = [&](std::int64_t j, std::int64_t c) { return p.weight ? dy[j] * p.weight[c] : dy[j]; };
  contract::LaneSumOf<T> sum, dot;
  for_elements(p.shape, r, [&](std::int64_t j, std::int64_t c) {
    const T g = gradient(j, c);
    sum.add(g);
    dot.add_product(g, x[j] - mean);
  });
  const T n = static_cast<T>(count);
  const T a = sum.result() / n, k = dot.result() * invstd * invstd / n;
  T* const dx = p.dx + r * count;
  for_elements(p.shape, r, [&](std::int64_t j, std::int64_t c) {
    dx[j] = std::fma(-(x[j] - mean), k, gradient(j, c) - a) * invstd;
  });
}

template <class T>
void channel_gradient(const GroupNormBackwardOf<T>& p, std::int64_t c) {
  const GroupShape& s = p.shape;
  contract::LaneSumOf<T> sum, dot;
  for (std::int64_t n = 0; n < s.n; ++n) {
    const std::int64_t r = n * s.groups + c / s.group_channels();
    for (std::int64_t i = 0; i < s.inner; ++i) {
      const std::int64_t at = (n * s.c + c) * s.inner + i;
      sum.add(p.dy[at]);
      dot.add_product(p.dy[at], (p.x[at] - p.mean[r]) * p.invstd[r]);
    }
  }
  if (p.dbias) p.dbias[c] = sum.result();
  if (p.dweight) p.dweight[c] = dot.result();
}

template <class T>
void group_norm_backward(const GroupNormBackwardOf<T>& p) {
  if (p.dx) for_each(p.shape.rows(), [&](std::int64_t r) { input_gradient(p, r); });
  if (p.dweight || p.dbias) for_each(p.shape.c, [&](std::int64_t c) { channel_gradient(p, c); });
}

template <class T, class Table>
void fill_group_norm(Table& t) {
  t.group_norm = group_norm<T>;
  t.group_norm_backward = group_norm_backward<T>;
}

}  // namespace

#ifndef ISOBIT_LANES
void fill_group_norm(KernelTable& t) { fill_group_norm<float>(t); }
#endif
void fill_group_norm(HostTable& t) { fill_group_norm<double>(t); }

}  // namespace isobit::kernels::ISOBIT_PLAIN
