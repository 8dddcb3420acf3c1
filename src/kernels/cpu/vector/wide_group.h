// A few registers of binary64 as one lane of the contract's formulas: as many as let a processor work on the next
// operation of one while that of another is on its way (contract/functions_binary64.h).
#pragma once

#include "contract/functions_binary64.h"
#include "kernels/cpu/vector/wide_memory.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

struct WideGroup {
  static constexpr int kRegisters = kWideLanes == 8 ? 4 : 2;
  static constexpr std::int64_t kSize = std::int64_t{kRegisters} * kWideLanes;
  WideDouble v[kRegisters];
  WideGroup() = default;
  explicit ISOBIT_INLINE WideGroup(double x) {
    for (WideDouble& one : v) one = wide_double(x);
  }
};
struct WideGroupMask {
#if defined(__AVX512F__)
  using One = __mmask8;
#else
  using One = WideDouble;  // all bits of a lane, or none
#endif
  One v[WideGroup::kRegisters];
};

// One operation of all registers before the next: the compiler would take one register through a whole formula, and
// what waits for another operation takes a place among the instructions that a processor looks at.
ISOBIT_INLINE void in_this_order(WideGroup& x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x.v[0]), "+v"(x.v[1]), "+v"(x.v[2]), "+v"(x.v[3]));
#else
  asm("" : "+x"(x.v[0]), "+x"(x.v[1]));
#endif
}
template <class Use>
ISOBIT_INLINE WideGroup each_register(Use use) {
  WideGroup y;
#pragma GCC unroll 4
  for (int i = 0; i < WideGroup::kRegisters; ++i) y.v[i] = use(i);
  in_this_order(y);
  return y;
}
template <class Use>
ISOBIT_INLINE WideGroupMask each_mask(Use use) {
  WideGroupMask y;
#pragma GCC unroll 4
  for (int i = 0; i < WideGroup::kRegisters; ++i) y.v[i] = use(i);
  return y;
}
#define ISOBIT_EACH(...) \
  [&](int i) __attribute__((always_inline)) { return __VA_ARGS__; }

ISOBIT_INLINE WideGroup operator+(const WideGroup& a, const WideGroup& b) {
  return each_register(ISOBIT_EACH(a.v[i] + b.v[i]));
}
ISOBIT_INLINE WideGroup operator-(const WideGroup& a, const WideGroup& b) {
  return each_register(ISOBIT_EACH(a.v[i] - b.v[i]));
}
ISOBIT_INLINE WideGroup operator*(const WideGroup& a, const WideGroup& b) {
  return each_register(ISOBIT_EACH(a.v[i] * b.v[i]));
}
ISOBIT_INLINE WideGroup operator/(const WideGroup& a, const WideGroup& b) {
  return each_register(ISOBIT_EACH(a.v[i] / b.v[i]));
}
ISOBIT_INLINE WideGroup operator-(const WideGroup& a) { return each_register(ISOBIT_EACH(-a.v[i])); }

#if defined(__AVX512F__)
#define ISOBIT_COMPARE(a, b, how) each_mask(ISOBIT_EACH(_mm512_cmp_pd_mask((a).v[i], (b).v[i], how)))
#else
#define ISOBIT_COMPARE(a, b, how) each_mask(ISOBIT_EACH(_mm256_cmp_pd((a).v[i], (b).v[i], how)))
#endif
ISOBIT_INLINE WideGroupMask operator<(const WideGroup& a, const WideGroup& b) {
  return ISOBIT_COMPARE(a, b, _CMP_LT_OQ);
}
ISOBIT_INLINE WideGroupMask operator>(const WideGroup& a, const WideGroup& b) {
  return ISOBIT_COMPARE(a, b, _CMP_GT_OQ);
}
ISOBIT_INLINE WideGroupMask operator==(const WideGroup& a, const WideGroup& b) {
  return ISOBIT_COMPARE(a, b, _CMP_EQ_OQ);
}
ISOBIT_INLINE WideGroupMask operator!=(const WideGroup& a, const WideGroup& b) {
  return ISOBIT_COMPARE(a, b, _CMP_NEQ_UQ);
}
#undef ISOBIT_COMPARE

#if defined(__AVX512F__)
ISOBIT_INLINE WideGroup select(const WideGroupMask& m, const WideGroup& a, const WideGroup& b) {
  return each_register(ISOBIT_EACH(_mm512_mask_blend_pd(m.v[i], b.v[i], a.v[i])));
}
ISOBIT_INLINE WideGroup fma(const WideGroup& a, const WideGroup& b, const WideGroup& c) {
  return each_register(ISOBIT_EACH(_mm512_fmadd_pd(a.v[i], b.v[i], c.v[i])));
}
// Whether the sum's last bits, those of an integer, have that bit.
ISOBIT_INLINE WideGroupMask has_bit(const WideGroup& n, int bit) {
  const WideInt mask = wide_set(1ull << bit);
  return each_mask(ISOBIT_EACH(_mm512_test_epi64_mask(wide_bits(n.v[i] + wide_double(0x1.8p52)), mask)));
}
#else
ISOBIT_INLINE WideGroup select(const WideGroupMask& m, const WideGroup& a, const WideGroup& b) {
  return each_register(ISOBIT_EACH(_mm256_blendv_pd(b.v[i], a.v[i], m.v[i])));
}
ISOBIT_INLINE WideGroup fma(const WideGroup& a, const WideGroup& b, const WideGroup& c) {
  return each_register(ISOBIT_EACH(_mm256_fmadd_pd(a.v[i], b.v[i], c.v[i])));
}
// The bit in question as a sign, which is all that choosing looks at.
ISOBIT_INLINE WideGroupMask has_bit(const WideGroup& n, int bit) {
  return each_mask(ISOBIT_EACH(wide_as_double(wide_shift_left(wide_bits(n.v[i] + wide_double(0x1.8p52)), 63 - bit))));
}
#endif
ISOBIT_INLINE WideGroup power_of_two(const WideGroup& n) {
  const WideInt bias = wide_set(1023);
  return each_register(
      ISOBIT_EACH(wide_as_double(wide_shift_left(wide_add(wide_bits(n.v[i] + wide_double(0x1.8p52)), bias), 52))));
}
ISOBIT_INLINE WideGroup magnitude(const WideGroup& x) { return each_register(ISOBIT_EACH(wide_magnitude(x.v[i]))); }
ISOBIT_INLINE WideGroup with_sign_of(const WideGroup& y, const WideGroup& x) {
  const WideInt sign = wide_set(1ull << 63);
  return each_register(
      ISOBIT_EACH(wide_as_double(wide_or(wide_and_not(sign, wide_bits(y.v[i])), wide_and(sign, wide_bits(x.v[i]))))));
}
#undef ISOBIT_EACH

ISOBIT_INLINE WideGroup read_group(const double* p) {
  WideGroup x;
  for (std::int64_t i = 0; i < WideGroup::kRegisters; ++i) x.v[i] = wide_read(p + i * kWideLanes);
  return x;
}
ISOBIT_INLINE void write_group(double* p, const WideGroup& x) {
  for (std::int64_t i = 0; i < WideGroup::kRegisters; ++i) wide_write(p + i * kWideLanes, x.v[i]);
}

// y[i] = formula(inputs[i]...); y may be an input. What is lacking to a whole group is 0.
template <class Formula, class... Input>
ISOBIT_INLINE void map_groups(Formula formula, double* y, std::int64_t n, const Input*... inputs) {
  std::int64_t i = 0;
  for (; i + WideGroup::kSize <= n; i += WideGroup::kSize) write_group(y + i, formula(read_group(inputs + i)...));
  if (i == n) return;
  const auto rest = [&](const double* from) __attribute__((always_inline)) {
    double all[WideGroup::kSize] = {};
    std::memcpy(all, from + i, sizeof(double) * static_cast<std::size_t>(n - i));
    return read_group(all);
  };
  double last[WideGroup::kSize];
  write_group(last, formula(rest(inputs)...));
  std::memcpy(y + i, last, sizeof(double) * static_cast<std::size_t>(n - i));
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
