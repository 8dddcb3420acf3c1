// Group and layer normalisation, row after row and channel after channel, as group_norm.h writes it.
#include "kernels/group_norm.h"

#include <cmath>

#include "contract/lane_sum.h"
#include "contract/moments.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

// Channel of element j of row r.
std::int64_t channel_of(const GroupShape& s, std::int64_t r, std::int64_t j) {
  return r % s.groups * s.group_channels() + j / s.inner;
}

template <class Function>
void for_each(std::int64_t n, Function function) {
  parallel_for(0, n, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) function(i);
  });
}

void group_norm(const GroupNormForward& p) {
  const std::int64_t count = p.shape.per_row();
  for_each(p.shape.rows(), [&](std::int64_t r) {
    const float* const x = p.x + r * count;
    const contract::Moments moments = contract::moments(count, [&](std::int64_t j) { return x[j]; });
    const float variance = count > 0 ? moments.m2 / static_cast<float>(count) : 0.0f;
    const float invstd = 1.0f / std::sqrt(variance + static_cast<float>(p.eps));
    p.mean[r] = moments.mean;
    p.invstd[r] = invstd;
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t c = channel_of(p.shape, r, j);
      const float s = p.weight ? p.weight[c] * invstd : invstd;
      p.y[r * count + j] = std::fma(x[j] - moments.mean, s, p.bias ? p.bias[c] : 0.0f);
    }
  });
}

void input_gradient(const GroupNormBackward& p, std::int64_t r) {
  const std::int64_t count = p.shape.per_row();
  const float *const x = p.x + r * count, *const dy = p.dy + r * count;
  const float mean = p.mean[r], invstd = p.invstd[r];
  const auto gradient = [&](std::int64_t j) { return p.weight ? dy[j] * p.weight[channel_of(p.shape, r, j)] : dy[j]; };
  contract::LaneSum sum, dot;
  for (std::int64_t j = 0; j < count; ++j) {
    sum.add(gradient(j));
    dot.add_product(gradient(j), x[j] - mean);
  }
  const float n = static_cast<float>(count);
  const float a = sum.result() / n, k = dot.result() * invstd * invstd / n;
  for (std::int64_t j = 0; j < count; ++j) {
    p.dx[r * count + j] = std::fma(-(x[j] - mean), k, gradient(j) - a) * invstd;
  }
}

void channel_gradient(const GroupNormBackward& p, std::int64_t c) {
  const GroupShape& s = p.shape;
  contract::LaneSum sum, dot;
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

void group_norm_backward(const GroupNormBackward& p) {
  if (p.dx) for_each(p.shape.rows(), [&](std::int64_t r) { input_gradient(p, r); });
  if (p.dweight || p.dbias) for_each(p.shape.c, [&](std::int64_t c) { channel_gradient(p, c); });
}

}  // namespace

void fill_group_norm(KernelTable& t) {
  t.group_norm = group_norm;
  t.group_norm_backward = group_norm_backward;
}

}  // namespace isobit::kernels::reference
