// A leaf of a section 4 reduction in registers: the contract's 32 lanes are kSlots registers of kLanes.
//
// Loops over n contiguous elements come in whole registers and one part of a register; what is done with both
// is written once, as a generic lambda over Whole and Part. Everything is inlined and without state.
#pragma once

#include "contract/platform.h"
#include "kernels/cpu/vector/lanes.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr int kSlots = static_cast<int>(contract::kSumLanes) / kLanes;

struct Whole {};
struct Part {
  std::int64_t count;  // the first lanes, 1 <= count < kLanes
};

[[maybe_unused]] ISOBIT_INLINE FloatLanes fetch(const float* p, Whole, float = 0.0f) { return load(p); }
[[maybe_unused]] ISOBIT_INLINE FloatLanes fetch(const float* p, Part part, float fill = 0.0f) {
  return load_first(p, part.count, fill);
}
[[maybe_unused]] ISOBIT_INLINE void put(float* p, FloatLanes x, Whole) { store(p, x); }
[[maybe_unused]] ISOBIT_INLINE void put(float* p, FloatLanes x, Part part) { store_first(p, x, part.count); }
// +0 in the lanes that hold no element.
[[maybe_unused]] ISOBIT_INLINE FloatLanes keep(FloatLanes x, Whole) { return x; }
[[maybe_unused]] ISOBIT_INLINE FloatLanes keep(FloatLanes x, Part part) {
  return select(lane_index() < IntLanes(static_cast<std::int32_t>(part.count)), x, FloatLanes(0.0f));
}

// function(i, Whole or Part) for elements [i, i + kLanes) of [0, n).
template <class Function>
ISOBIT_INLINE void for_each_register(std::int64_t n, Function function) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) function(i, Whole{});
  if (i < n) function(i, Part{n - i});
}

// Lane l of the result is lane l + kShift of x, for l + kShift < kLanes; the others are of no interest.
template <int kShift>
ISOBIT_INLINE FloatLanes shifted_down(FloatLanes x) {
  constexpr auto from = [](int lane) { return lane + kShift < kLanes ? lane + kShift : lane; };
#if ISOBIT_LANES == 16
  return __builtin_shufflevector(x.v, x.v, from(0), from(1), from(2), from(3), from(4), from(5), from(6), from(7),
                                 from(8), from(9), from(10), from(11), from(12), from(13), from(14), from(15));
#else
  return __builtin_shufflevector(x.v, x.v, from(0), from(1), from(2), from(3), from(4), from(5), from(6), from(7));
#endif
}

// Lane j = merge(lane j, lane j + w), w = 16, 8, 4, 2, 1 over the 32 lanes; lane 0.
template <class Merge>
ISOBIT_INLINE float fold(FloatLanes (&t)[kSlots], Merge merge) {
  for (int w = kSlots / 2; w >= 1; w /= 2) {
    for (int s = 0; s < w; ++s) t[s] = merge(t[s], t[s + w]);
  }
  FloatLanes x = t[0];
  if constexpr (kLanes == 16) x = merge(x, shifted_down<8>(x));
  x = merge(x, shifted_down<4>(x));
  x = merge(x, shifted_down<2>(x));
  x = merge(x, shifted_down<1>(x));
  return x.v[0];
}

// The leaf's value: every lane starts at `start` and takes its elements by t = step(t, i, Whole or Part), i
// the register's first element in the leaf; then the fold. n <= kLeaf, or any n where order does not matter.
template <class Step, class Merge>
ISOBIT_INLINE float leaf_value(std::int64_t n, float start, Step step, Merge merge) {
  FloatLanes t[kSlots];
  for (int s = 0; s < kSlots; ++s) t[s] = FloatLanes(start);
  std::int64_t i = 0;
  for (; i + contract::kSumLanes <= n; i += contract::kSumLanes) {
    for (int s = 0; s < kSlots; ++s) t[s] = step(t[s], i + s * kLanes, Whole{});
  }
  for (int s = 0; s < kSlots; ++s, i += kLanes) {
    if (i + kLanes <= n) {
      t[s] = step(t[s], i, Whole{});
    } else if (i < n) {
      t[s] = step(t[s], i, Part{n - i});
    }
  }
  return fold(t, merge);
}

struct Plus {
  template <class T>
  ISOBIT_INLINE T operator()(T a, T b) const {
    return a + b;
  }
};

template <class Step>
ISOBIT_INLINE float leaf_sum(std::int64_t n, Step step) {
  return leaf_value(n, 0.0f, step, Plus{});
}

// Two sums over one sweep: step(a, b, i, Whole or Part) takes the elements into the lanes of both.
struct TwoSums {
  float first, second;
};
template <class Step>
ISOBIT_INLINE TwoSums leaf_two_sums(std::int64_t n, Step step) {
  FloatLanes a[kSlots], b[kSlots];
  for (int s = 0; s < kSlots; ++s) a[s] = b[s] = FloatLanes(0.0f);
  std::int64_t i = 0;
  for (; i + contract::kSumLanes <= n; i += contract::kSumLanes) {
    for (int s = 0; s < kSlots; ++s) step(a[s], b[s], i + s * kLanes, Whole{});
  }
  for (int s = 0; s < kSlots; ++s, i += kLanes) {
    if (i + kLanes <= n) {
      step(a[s], b[s], i, Whole{});
    } else if (i < n) {
      step(a[s], b[s], i, Part{n - i});
    }
  }
  return {fold(a, Plus{}), fold(b, Plus{})};
}

// Short rows are taken some at a time, all of them a step further before the next step: a row's steps wait for each
// other (a sum is folded, then needed), another row's do not. Long ones hide that themselves, and would leave the
// cache.
constexpr std::int64_t kRowsTogether = 8;
[[maybe_unused]] ISOBIT_INLINE std::int64_t rows_together(std::int64_t row) {
  return row <= 4 * static_cast<std::int64_t>(contract::kLeaf) ? kRowsTogether : 1;
}
// function(first row, rows) for rows [begin, end) of so many elements.
template <class Function>
ISOBIT_INLINE void rows_in_turn(std::int64_t row, std::int64_t begin, std::int64_t end, Function function) {
  const std::int64_t together = rows_together(row);
  for (std::int64_t r = begin; r < end; r += together) function(r, end - r < together ? end - r : together);
}

// The leaf's value for kWide registers of columns at once: register w of row(r) is row r of columns w *
// kLanes... step(t, r, w) as above; lanes are rows mod 32. Lanes that no row has hold `start`, which merge leaves as it
// is but for the sign of a zero, and that goes at the root: fewer rows take fewer merges.
template <int kWide, class Step, class Merge>
ISOBIT_INLINE void column_leaf(std::int64_t rows, float start, Step step, Merge merge, FloatLanes (&out)[kWide]) {
  constexpr int kRows = static_cast<int>(contract::kSumLanes);
  FloatLanes lane[kRows][kWide];
  int count = rows < kRows ? static_cast<int>(rows) : kRows;
  if (count == 0) {
    for (int w = 0; w < kWide; ++w) out[w] = FloatLanes(start);
    return;
  }
  for (int j = 0; j < count; ++j) {
    FloatLanes t[kWide];
    for (int w = 0; w < kWide; ++w) t[w] = FloatLanes(start);
    for (std::int64_t r = j; r < rows; r += kRows) {
      for (int w = 0; w < kWide; ++w) t[w] = step(t[w], r, w);
    }
    for (int w = 0; w < kWide; ++w) lane[j][w] = t[w];
  }
  for (int half = kRows / 2; half >= 1; half /= 2) {
    for (int j = 0; j + half < count; ++j) {
      for (int w = 0; w < kWide; ++w) lane[j][w] = merge(lane[j][w], lane[j + half][w]);
    }
    if (count > half) count = half;
  }
  for (int w = 0; w < kWide; ++w) out[w] = lane[0][w];
}

// A few elements, element(j) each a float or a register of outputs': the lanes that they fill, merged as the
// fold does. Rule is its start, its step and, called, its merge.
constexpr std::int64_t kShort = 16;
template <class Rule, class T, class Element>
ISOBIT_INLINE T short_leaf(std::int64_t n, Element element) {
  T t[kShort];
  for (std::int64_t j = 0; j < n; ++j) t[j] = Rule::step(T(Rule::kStart), element(j));
#pragma GCC unroll 4
  for (std::int64_t half = kShort / 2; half >= 1; half /= 2) {
    for (std::int64_t j = 0; j + half < n; ++j) t[j] = Rule{}(t[j], t[j + half]);
    if (n > half) n = half;
  }
  return t[0];
}

// Rows of so many elements that are worth a thread's waking, where little is done with each element.
[[maybe_unused]] ISOBIT_INLINE std::int64_t rows_worth_a_thread(std::int64_t elements) {
  return 16384 / (elements + 1) + 1;
}

// n floats to `to`; up to kLanes floats past the end of `to` are overwritten.
[[maybe_unused]] ISOBIT_INLINE void copy_loose(const float* from, std::int64_t n, float* to) {
  for_each_register(n, [&](std::int64_t i, auto part) { store(to + i, fetch(from + i, part)); });
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
