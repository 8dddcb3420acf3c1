// Group and layer normalisation over the lane count.
//
// A row lies in one piece, so its leaves are loads; its channels' factors vary along it (inner = 1) or by segments. The
// channels' gradients: with inner = 1 and one group a register holds channels, else a leaf is gathered first.
#include "kernels/group_norm.h"

#include "contract/scalar_ops.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/vector/lane_leaf.h"
#include "kernels/cpu/vector/layer_norm_backward.h"
#include "kernels/cpu/vector/norm_input_gradients.h"
#include "kernels/cpu/vector/row_moments.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

using contract::kLeaf;

std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// function(i, Whole or Part, first channel of these elements) over a row's elements: each register's channels lie side
// by side (inner = 1: lane l has channel c + l) or are one (else).
template <class Function>
ISOBIT_INLINE void along_row(const GroupShape& s, std::int64_t r, Function function) {
  const std::int64_t first = r % s.groups * s.group_channels();
  if (s.inner == 1) {
    for_each_register(s.per_row(), [&](std::int64_t i, auto part) { function(i, part, first + i); });
    return;
  }
  for (std::int64_t c = 0; c < s.group_channels(); ++c) {
    for_each_register(s.inner, [&](std::int64_t i, auto part) { function(c * s.inner + i, part, first + c); });
  }
}

// The channels' values there.
template <class Extent>
ISOBIT_INLINE FloatLanes of_channels(const GroupShape& s, const float* values, std::int64_t c, Extent part) {
  return s.inner == 1 ? fetch(values + c, part) : FloatLanes(values[c]);
}

void normalise_row(const GroupNormForward& p, std::int64_t r, contract::Moments moments) {
  const std::int64_t count = p.shape.per_row();
  const float* const x = p.x + r * count;
  float* const y = p.y + r * count;
  const float variance = count > 0 ? moments.m2 / static_cast<float>(count) : 0.0f;
  const float invstd = 1.0f / contract::sqrt(variance + static_cast<float>(p.eps));
  p.mean[r] = moments.mean;
  p.invstd[r] = invstd;
  const FloatLanes center(moments.mean), inverse(invstd);
  along_row(p.shape, r, [&](std::int64_t i, auto part, std::int64_t c) {
    const FloatLanes s = p.weight ? of_channels(p.shape, p.weight, c, part) * inverse : inverse;
    const FloatLanes shift = p.bias ? of_channels(p.shape, p.bias, c, part) : FloatLanes(0.0f);
    put(y + i, fma(fetch(x + i, part) - center, s, shift), part);
  });
}

void normalise_rows(const GroupNormForward& p, std::int64_t first, std::int64_t rows) {
  const std::int64_t count = p.shape.per_row();
  contract::MomentsTree moments[kRowsTogether];
  for (std::int64_t begin = 0; begin < count; begin += kLeaf) {
    const std::int64_t n = smaller(kLeaf, count - begin);
    const float* const x = p.x + first * count + begin;
    float mean[kRowsTogether];
    for (std::int64_t r = 0; r < rows; ++r) mean[r] = leaf_mean(x + r * count, n);
    for (std::int64_t r = 0; r < rows; ++r) moments[r].add({n, mean[r], leaf_squares(x + r * count, n, mean[r])});
  }
  for (std::int64_t r = 0; r < rows; ++r) normalise_row(p, first + r, moments[r].result());
}

void group_norm(const GroupNormForward& p) {
  parallel_for(0, p.shape.rows(), rows_worth_a_thread(p.shape.per_row()), [&](std::int64_t begin, std::int64_t end) {
    rows_in_turn(p.shape.per_row(), begin, end, [&](std::int64_t r, std::int64_t rows) { normalise_rows(p, r, rows); });
  });
}

// scratch: of so many rows, where there is a weight.
void input_gradients(const GroupNormBackward& p, std::int64_t first, std::int64_t rows, float* scratch) {
  const std::int64_t count = p.shape.per_row();
  const float* const dy = p.dy + first * count;
  for (std::int64_t r = 0; p.weight && r < rows; ++r) {
    along_row(p.shape, first + r, [&](std::int64_t i, auto part, std::int64_t c) {
      const std::int64_t at = r * count + i;
      put(scratch + at, fetch(dy + at, part) * of_channels(p.shape, p.weight, c, part), part);
    });
  }
  const float* const g = p.weight ? scratch : dy;
  const auto gradient = [=](std::int64_t r) {
    return [row = g + r * count](std::int64_t i, auto part) { return fetch(row + i, part); };
  };
  norm_input_gradients(p, first, rows, rows, gradient, SeenByNobody{});
}

// ---- gradients of weight and bias

// inner = 1, one group: kWide registers of channels from c, rows in leaves; both gradients in one sweep.
template <int kWide, class Extent>
void column_gradients(const GroupNormBackward& p, std::int64_t c, Extent part) {
  const std::int64_t stride = p.shape.c;
  contract::PairwiseTreeOf<FloatLanes> sums[kWide], dots[kWide];
  for (std::int64_t begin = 0; begin < p.shape.n; begin += kLeaf) {
    const std::int64_t n = smaller(kLeaf, p.shape.n - begin);
    const float *const dy = p.dy + begin * stride + c, *const x = p.x + begin * stride + c;
    // Registers of sums, then those of products.
    const auto step = [&](FloatLanes t, std::int64_t r, int w) __attribute__((always_inline)) {
      const std::int64_t at = r * stride + static_cast<std::int64_t>(w % kWide) * kLanes;
      const FloatLanes gradient = fetch(dy + at, part);
      if (w < kWide) return t + gradient;
      const FloatLanes mean(p.mean[begin + r]), inverse(p.invstd[begin + r]);
      return fma(gradient, (fetch(x + at, part) - mean) * inverse, t);
    };
    FloatLanes leaf[2 * kWide];
    column_leaf<2 * kWide>(n, 0.0f, step, Plus{}, leaf);
    for (int w = 0; w < kWide; ++w) sums[w].add(leaf[w]), dots[w].add(leaf[kWide + w]);
  }
  const FloatLanes zero(0.0f);
  for (std::int64_t w = 0; w < kWide; ++w) {
    const std::int64_t at = c + w * kLanes;
    if (p.dbias) put(p.dbias + at, (p.shape.n > 0 ? sums[w].result() : zero) + zero, part);
    if (p.dweight) put(p.dweight + at, (p.shape.n > 0 ? dots[w].result() : zero) + zero, part);
  }
}

// kLine channels at a time: what one line of the cache holds.
void column_gradients(const GroupNormBackward& p, std::int64_t begin, std::int64_t end) {
  std::int64_t c = begin;
  for (; c + kLine <= end; c += kLine) column_gradients<kLine / kLanes>(p, c, Whole{});
  for_each_register(end - c, [&](std::int64_t i, auto part) { column_gradients<1>(p, c + i, part); });
}

// Any shape: the leaf's dy and normalised x are gathered.
void channel_gradients(const GroupNormBackward& p, std::int64_t c) {
  const GroupShape& s = p.shape;
  const std::int64_t group = c / s.group_channels(), count = s.n * s.inner;
  contract::PairwiseTreeOf<float> sums, dots;
  float dy[kLeaf + kLanes], normal[kLeaf + kLanes];
  for (std::int64_t begin = 0; begin < count; begin += kLeaf) {
    const std::int64_t n = smaller(kLeaf, count - begin);
    std::int64_t sample = begin / s.inner, at = begin % s.inner;
    for (std::int64_t done = 0; done < n; ++sample, at = 0) {
      const std::int64_t length = smaller(n - done, s.inner - at), from = (sample * s.c + c) * s.inner + at;
      const FloatLanes mean(p.mean[sample * s.groups + group]), inverse(p.invstd[sample * s.groups + group]);
      for_each_register(length, [&](std::int64_t i, auto part) {
        store(dy + done + i, fetch(p.dy + from + i, part));
        store(normal + done + i, (fetch(p.x + from + i, part) - mean) * inverse);
      });
      done += length;
    }
    const TwoSums leaf = leaf_two_sums(n, [&](FloatLanes& sum, FloatLanes& dot, std::int64_t i, auto part) {
      const FloatLanes gradient = fetch(dy + i, part);
      sum = sum + gradient;
      dot = fma(gradient, fetch(normal + i, part), dot);
    });
    sums.add(leaf.first);
    dots.add(leaf.second);
  }
  if (p.dbias) p.dbias[c] = sums.result() + 0.0f;
  if (p.dweight) p.dweight[c] = dots.result() + 0.0f;
}

void layer_norm_backward(const GroupNormBackward& p) {
  LayerNormBackward(p).run();
  if (LayerNormBackward::takes_channels(p) || (!p.dweight && !p.dbias)) return;
  const GroupShape& s = p.shape;
  parallel_for(
      0, (s.c + kLine - 1) / kLine, rows_worth_a_thread(s.n * kLine),
      [&](std::int64_t begin, std::int64_t end) { column_gradients(p, begin * kLine, smaller(end * kLine, s.c)); });
}

void group_norm_backward(const GroupNormBackward& p) {
  const GroupShape& s = p.shape;
  if (s.inner == 1 && s.groups == 1) return layer_norm_backward(p);
  if (p.dx) {
    parallel_for(0, s.rows(), rows_worth_a_thread(s.per_row()), [&](std::int64_t begin, std::int64_t end) {
      Workspace workspace;
      float* const scratch = p.weight ? workspace.floats(rows_together(s.per_row()) * s.per_row()) : nullptr;
      rows_in_turn(s.per_row(), begin, end,
                   [&](std::int64_t r, std::int64_t rows) { input_gradients(p, r, rows, scratch); });
    });
  }
  if (!p.dweight && !p.dbias) return;
  parallel_for(0, s.c, rows_worth_a_thread(s.n * s.inner), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) channel_gradients(p, c);
  });
}

}  // namespace

void fill_group_norm(KernelTable& t) {
  t.group_norm = group_norm;
  t.group_norm_backward = group_norm_backward;
}

}  // namespace isobit::kernels::ISOBIT_ISA
