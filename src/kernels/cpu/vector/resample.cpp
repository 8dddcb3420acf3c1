// Weighted sums along one dimension: lanes are neighbours in memory. Along the last dimension they are neighbouring
// outputs, whose inputs are gathered; rows of different lengths end by mask, as a term that is none must not be added.
#include "kernels/resample.h"

#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/vector/lane_leaf.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

ISOBIT_INLINE FloatLanes gather(const float* base, IntLanes place) {
#if ISOBIT_LANES == 16 && defined(__AVX512F__)
  return (FloatLanes::Raw)_mm512_i32gather_ps((__m512i)place.v, base, 4);
#elif ISOBIT_LANES == 8
  return (FloatLanes::Raw)_mm256_i32gather_ps(base, (__m256i)place.v, 4);
#else
  FloatLanes r;
  for (int i = 0; i < kLanes; ++i) r.v[i] = base[place.v[i]];
  return r;
#endif
}

void along_rows(const AxisTable& t, std::int64_t outer, std::int64_t inner, const float* x, float* y) {
  const std::int64_t smallest = 4096 / (inner * (t.most + 1) + 1) + 1;
  parallel_for(0, outer * t.out, smallest, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* const from = x + i / t.out * t.in * inner;
      const std::int32_t first = t.begin[i % t.out], last = t.begin[i % t.out + 1];
      float* const to = y + i * inner;
      for_each_register(inner, [&](std::int64_t j, auto part) {
        FloatLanes sum(0.0f);
        for (std::int32_t e = first; e < last; ++e) {
          sum = fma(FloatLanes(t.weight[e]), fetch(from + t.source[e] * inner + j, part), sum);
        }
        put(to + j, sum, part);
      });
    }
  });
}

// The table turned: entry k of kLanes neighbouring outputs side by side. Lanes without a k-th entry repeat the input 0.
struct Turned {
  std::int32_t *count, *source;
  float* weight;
  std::int64_t width;
};
Turned turned(const AxisTable& t, Workspace& workspace) {
  const std::int64_t width = (t.out + kLanes - 1) / kLanes * kLanes;
  const Turned r{workspace.ints(width), workspace.ints(width * t.most), workspace.floats(width * t.most), width};
  for (std::int64_t o = 0; o < width; ++o) {
    const std::int32_t begin = o < t.out ? t.begin[o] : 0, count = o < t.out ? t.begin[o + 1] - begin : 0;
    r.count[o] = count;
    for (std::int64_t k = 0; k < t.most; ++k) {
      r.source[k * width + o] = k < count ? t.source[begin + k] : 0;
      r.weight[k * width + o] = k < count ? t.weight[begin + k] : 0.0f;
    }
  }
  return r;
}

template <bool kMasked>
ISOBIT_INLINE FloatLanes turned_sum(const Turned& r, std::int64_t most, std::int64_t o, const float* from) {
  FloatLanes sum(0.0f);
  const IntLanes count = load(r.count + o);
  for (std::int64_t k = 0; k < most; ++k) {
    const FloatLanes next = fma(load(r.weight + k * r.width + o), gather(from, load(r.source + k * r.width + o)), sum);
    sum = kMasked ? select(IntLanes(static_cast<std::int32_t>(k)) < count, next, sum) : next;
  }
  return sum;
}

// Output o of inputs 2 o and 2 o + 1, weights 1: the gradient of a doubling.
bool halves(const AxisTable& t) {
  if (t.most != 2 || t.in != 2 * t.out || t.begin[t.out] != t.in) return false;
  bool all = true;
  for (std::int64_t e = 0; e < t.in; ++e) all &= t.source[e] == e && t.weight[e] == 1.0f;
  for (std::int64_t o = 0; o < t.out; ++o) all &= t.begin[o] == 2 * o;
  return all;
}

// The rows of x, one after another, are one: pairs do not cross their ends.
void halve(std::int64_t n, const float* x, float* y) {
  parallel_for(0, n, 4096, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t o = begin;
    for (; o + kLanes <= end; o += kLanes) {
      FloatLanes even, odd;
      split_pairs(load(x + 2 * o), load(x + 2 * o + kLanes), even, odd);
      store(y + o, fma(FloatLanes(1.0f), odd, fma(FloatLanes(1.0f), even, FloatLanes(0.0f))));
    }
    for (; o < end; ++o) y[o] = __builtin_fmaf(1.0f, x[2 * o + 1], __builtin_fmaf(1.0f, x[2 * o], 0.0f));
  });
}

void along_last(const AxisTable& t, std::int64_t outer, const float* x, float* y) {
  if (halves(t)) return halve(outer * t.out, x, y);
  Workspace workspace;
  const Turned r = turned(t, workspace);
  bool same = true;
  for (std::int64_t o = 0; o < t.out; ++o) same &= r.count[o] == t.most;
  parallel_for(0, outer, 4096 / (t.out * (t.most + 1) + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* const from = x + i * t.in;
      float* const to = y + i * t.out;
      for_each_register(t.out, [&](std::int64_t o, auto part) {
        put(to + o, same ? turned_sum<false>(r, t.most, o, from) : turned_sum<true>(r, t.most, o, from), part);
      });
    }
  });
}

void resample_axis(const AxisTable& t, std::int64_t outer, std::int64_t inner, const float* x, float* y) {
  if (outer == 0 || t.out == 0 || inner == 0) return;
  if (t.in == 0 || t.most == 0) {
    for (std::int64_t i = 0; i < outer * t.out * inner; ++i) y[i] = 0.0f;
    return;
  }
  inner == 1 ? along_last(t, outer, x, y) : along_rows(t, outer, inner, x, y);
}

}  // namespace

void fill_resample(HostTable& t) { t.resample_axis = resample_axis; }

}  // namespace isobit::kernels::ISOBIT_ISA
