// Several registers of lanes as one: the steps of a formula then come in groups that do not wait for each other.
//
// A formula over FloatLanes is one long chain of steps, and a processor looks for the next elements' chain only as far
// ahead as it has registers to rename: of gelu's 57 steps with AVX2 it finds two and a half, and waits (Zen 3: 38
// cycles for eight elements, 28 with four registers side by side; the units would need 16). Each operation here is that
// of FloatLanes, once a register: same bits. For maps (lane_map.h).
#pragma once

#include "kernels/cpu/vector/lanes.h"

namespace isobit::kernels::ISOBIT_ISA {

// Two of something, lanes or pairs of them.
template <class Part>
struct IntPair {
  Part a, b;
  IntPair() = default;
  ISOBIT_INLINE IntPair(Part first, Part second) : a(first), b(second) {}
  ISOBIT_INLINE IntPair(std::int32_t value) : a(value), b(value) {}
};
template <class Part>
struct MaskPair {
  Part a, b;
  ISOBIT_INLINE MaskPair(Part first, Part second) : a(first), b(second) {}
};
template <class Part>
struct FloatPair {
  Part a, b;
  FloatPair() = default;
  ISOBIT_INLINE FloatPair(Part first, Part second) : a(first), b(second) {}
  ISOBIT_INLINE FloatPair(float value) : a(value), b(value) {}
};
using FloatGroup = FloatPair<FloatPair<FloatLanes>>;

template <class Floats>
inline constexpr int kLanesOf = 2 * kLanesOf<decltype(Floats().a)>;
template <>
inline constexpr int kLanesOf<FloatLanes> = kLanes;

template <class P>
ISOBIT_INLINE void read(const float* p, FloatPair<P>& x) {
  read(p, x.a), read(p + kLanesOf<P>, x.b);
}
template <class P>
ISOBIT_INLINE void store(float* p, FloatPair<P> x) {
  store(p, x.a), store(p + kLanesOf<P>, x.b);
}

#define ISOBIT_PAIRED(Result, Pair, op)                  \
  template <class P>                                     \
  ISOBIT_INLINE auto operator op(Pair<P> x, Pair<P> y) { \
    return Result{x.a op y.a, x.b op y.b};               \
  }
ISOBIT_PAIRED(FloatPair<P>, FloatPair, +)
ISOBIT_PAIRED(FloatPair<P>, FloatPair, -)
ISOBIT_PAIRED(FloatPair<P>, FloatPair, *)
ISOBIT_PAIRED(FloatPair<P>, FloatPair, /)
ISOBIT_PAIRED(MaskPair, FloatPair, <)
ISOBIT_PAIRED(MaskPair, FloatPair, <=)
ISOBIT_PAIRED(MaskPair, FloatPair, >)
ISOBIT_PAIRED(MaskPair, FloatPair, >=)
ISOBIT_PAIRED(MaskPair, FloatPair, ==)
ISOBIT_PAIRED(MaskPair, FloatPair, !=)
ISOBIT_PAIRED(MaskPair, IntPair, <)
ISOBIT_PAIRED(MaskPair, IntPair, >)
ISOBIT_PAIRED(MaskPair, IntPair, ==)
ISOBIT_PAIRED(MaskPair, IntPair, !=)
ISOBIT_PAIRED(MaskPair, MaskPair, &)
ISOBIT_PAIRED(MaskPair, MaskPair, |)
ISOBIT_PAIRED(IntPair<P>, IntPair, +)
ISOBIT_PAIRED(IntPair<P>, IntPair, -)
ISOBIT_PAIRED(IntPair<P>, IntPair, *)
ISOBIT_PAIRED(IntPair<P>, IntPair, &)
ISOBIT_PAIRED(IntPair<P>, IntPair, |)
ISOBIT_PAIRED(IntPair<P>, IntPair, ^)
#undef ISOBIT_PAIRED

#define ISOBIT_PAIRED(Pair, function)             \
  template <class P>                              \
  ISOBIT_INLINE auto function(Pair<P> x) {        \
    return Pair<P>{function(x.a), function(x.b)}; \
  }
ISOBIT_PAIRED(FloatPair, operator-)
ISOBIT_PAIRED(MaskPair, operator!)
ISOBIT_PAIRED(IntPair, operator~)
ISOBIT_PAIRED(FloatPair, sqrt)
#undef ISOBIT_PAIRED

template <class P>
ISOBIT_INLINE FloatPair<P> fma(FloatPair<P> x, FloatPair<P> y, FloatPair<P> z) {
  return {fma(x.a, y.a, z.a), fma(x.b, y.b, z.b)};
}
template <class M, class P>
ISOBIT_INLINE FloatPair<P> select(MaskPair<M> m, FloatPair<P> x, FloatPair<P> y) {
  return {select(m.a, x.a, y.a), select(m.b, x.b, y.b)};
}
template <class M, class P>
ISOBIT_INLINE IntPair<P> select(MaskPair<M> m, IntPair<P> x, IntPair<P> y) {
  return {select(m.a, x.a, y.a), select(m.b, x.b, y.b)};
}
template <class P>
ISOBIT_INLINE bool any(MaskPair<P> m) {
  return any(m.a | m.b);
}
template <class P>
ISOBIT_INLINE bool any_bit(IntPair<P> x) {
  return any_bit(x.a | x.b);
}
template <class P>
ISOBIT_INLINE auto as_int(FloatPair<P> x) {
  return IntPair{as_int(x.a), as_int(x.b)};
}
template <class P>
ISOBIT_INLINE auto as_float(IntPair<P> x) {
  return FloatPair{as_float(x.a), as_float(x.b)};
}
template <class P>
ISOBIT_INLINE auto to_float(IntPair<P> x) {
  return FloatPair{to_float(x.a), to_float(x.b)};
}
template <class P>
ISOBIT_INLINE IntPair<P> subtract_wrapping(IntPair<P> x, IntPair<P> y) {
  return x - y;
}
template <class P>
ISOBIT_INLINE IntPair<P> shift_left(IntPair<P> x, int bits) {
  return {shift_left(x.a, bits), shift_left(x.b, bits)};
}
template <class P>
ISOBIT_INLINE IntPair<P> shift_right(IntPair<P> x, int bits) {
  return {shift_right(x.a, bits), shift_right(x.b, bits)};
}
template <class P>
ISOBIT_INLINE IntPair<P> shift_right_logical(IntPair<P> x, int bits) {
  return {shift_right_logical(x.a, bits), shift_right_logical(x.b, bits)};
}
template <class P>
ISOBIT_INLINE void multiply_wide(IntPair<P> x, std::uint32_t m, IntPair<P>& high, IntPair<P>& low) {
  multiply_wide(x.a, m, high.a, low.a), multiply_wide(x.b, m, high.b, low.b);
}
#if ISOBIT_LANES == 8 || defined(__AVX512F__)
template <class P>
ISOBIT_INLINE FloatPair<P> at_most(FloatPair<P> x, FloatPair<P> limit) {
  return {at_most(x.a, limit.a), at_most(x.b, limit.b)};
}
template <class P>
ISOBIT_INLINE FloatPair<P> at_least(FloatPair<P> x, FloatPair<P> limit) {
  return {at_least(x.a, limit.a), at_least(x.b, limit.b)};
}
#endif
#if ISOBIT_LANES == 16 && defined(__AVX512F__)
template <class N, class P>
ISOBIT_INLINE FloatPair<P> scale(FloatPair<P> y, IntPair<N> n, FloatPair<P> whole) {
  return {scale(y.a, n.a, whole.a), scale(y.b, n.b, whole.b)};
}
template <class N, class P>
ISOBIT_INLINE FloatPair<P> scale_normal(FloatPair<P> y, IntPair<N> n, FloatPair<P> whole) {
  return {scale_normal(y.a, n.a, whole.a), scale_normal(y.b, n.b, whole.b)};
}
#endif

template <class P>
ISOBIT_INLINE auto look_up(const float* table, IntPair<P> index) {
  return FloatPair{look_up(table, index.a), look_up(table, index.b)};
}

// Work that goes lane by lane.
template <class P>
ISOBIT_INLINE float lane(FloatPair<P> x, int i) {
  return i < kLanesOf<P> ? lane(x.a, i) : lane(x.b, i - kLanesOf<P>);
}
template <class P>
ISOBIT_INLINE void set_lane(FloatPair<P>& x, int i, float value) {
  i < kLanesOf<P> ? set_lane(x.a, i, value) : set_lane(x.b, i - kLanesOf<P>, value);
}
template <class P>
ISOBIT_INLINE void set_lane(IntPair<P>& x, int i, std::int32_t value) {
  constexpr int kHalf = kLanesOf<decltype(as_float(x.a))>;
  i < kHalf ? set_lane(x.a, i, value) : set_lane(x.b, i - kHalf, value);
}
ISOBIT_INLINE constexpr int lanes_in(const MaskLanes&) { return kLanes; }
template <class P>
ISOBIT_INLINE constexpr int lanes_in(const MaskPair<P>& m) {
  return 2 * lanes_in(m.a);
}
template <class P, class Function>
ISOBIT_INLINE void each_lane(MaskPair<P> m, Function&& function) {
  each_lane(m.a, function);
  each_lane(m.b, [&](int i) { function(i + lanes_in(m.a)); });
}

}  // namespace isobit::kernels::ISOBIT_ISA
