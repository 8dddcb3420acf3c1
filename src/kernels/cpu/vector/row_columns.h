// Rows in lanes, four of their elements at a time: for chains along rows, of which each lane has one.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>

#include "kernels/cpu/vector/lanes.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// Rows that lie evenly: what a pointer for each would cost is as much as the elements themselves.
struct EvenRows {
  const float* first;
  std::int64_t apart;
  ISOBIT_INLINE const float* operator[](std::int64_t l) const { return first + l * apart; }
};
ISOBIT_INLINE EvenRows operator+(EvenRows rows, std::int64_t l) { return {rows[l], rows.apart}; }

// Elements [k, k + 4) of rows row[0], row[4], ... side by side: brought together as they are read, which takes no unit
// that shuffles.
template <class Rows>
ISOBIT_INLINE FloatLanes every_fourth_row(Rows row, std::int64_t k) {
#if ISOBIT_LANES == 16 && defined(__AVX512F__)
  __m512 r = _mm512_castps128_ps512(_mm_loadu_ps(row[0] + k));
  r = _mm512_insertf32x4(r, _mm_loadu_ps(row[4] + k), 1);
  r = _mm512_insertf32x4(r, _mm_loadu_ps(row[8] + k), 2);
  return FloatLanes((FloatLanes::Raw)_mm512_insertf32x4(r, _mm_loadu_ps(row[12] + k), 3));
#else
  FloatLanes r;
  for (int l = 0; l < kLanes; l += 4) std::memcpy(reinterpret_cast<float*>(&r.v) + l, row[l] + k, 4 * sizeof(float));
  return r;
#endif
}

// Of each four lanes two of a and two of b: those at kFirst and kFirst + 1, in turns (kTurns) or a's first.
template <int kFirst, bool kTurns, std::size_t... kLane>
ISOBIT_INLINE FloatLanes pick(FloatLanes a, FloatLanes b, std::index_sequence<kLane...>) {
  constexpr auto place = [](std::size_t lane) {
    const int i = static_cast<int>(lane % 4), four = static_cast<int>(lane) - i;
    const bool of_b = kTurns ? i % 2 != 0 : i >= 2, later = kTurns ? i >= 2 : i % 2 != 0;
    return (of_b ? kLanes : 0) + four + kFirst + (later ? 1 : 0);
  };
  return FloatLanes(__builtin_shufflevector(a.v, b.v, place(kLane)...));
}
template <int kFirst, bool kTurns>
ISOBIT_INLINE FloatLanes pick(FloatLanes a, FloatLanes b) {
  return pick<kFirst, kTurns>(a, b, std::make_index_sequence<kLanes>());
}

// to[i] lane l = row[l][k + i], i < 4.
template <class Rows>
ISOBIT_INLINE void read_four_columns(Rows row, std::int64_t k, FloatLanes (&to)[4]) {
  FloatLanes r[4];
  for (int i = 0; i < 4; ++i) r[i] = every_fourth_row(row + i, k);
  const FloatLanes low0 = pick<0, true>(r[0], r[1]), high0 = pick<2, true>(r[0], r[1]);
  const FloatLanes low1 = pick<0, true>(r[2], r[3]), high1 = pick<2, true>(r[2], r[3]);
  to[0] = pick<0, false>(low0, low1), to[1] = pick<2, false>(low0, low1);
  to[2] = pick<0, false>(high0, high1), to[3] = pick<2, false>(high0, high1);
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
