// Exact, order-free sums of the grains' gradients (contract, section 7).
//
// Digits: limb i has weight 2^(45 i - 21), i = -3..3. t is the largest limb with a non-zero digit in any
// element of any grain of that tensor in the step; the int64 sums of digits t and t - 1 are kept. Two passes:
// first top_limb of every grain (their maximum is t), then add_digits of every grain into hi and lo, in any
// order and on any worker (int64 sums commute), at last round_digits. At most 2^17 grains.
// Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

inline constexpr int kLowestLimb = -3, kHighestLimb = 3;
inline constexpr int kNoLimb = -4;          // every element is zero
inline constexpr int kNotFinite = 1 << 20;  // some element is NaN or infinite

[[nodiscard]] int top_limb(const float* x, std::int64_t n);
// hi[i] += digit t of x[i], lo[i] += digit t - 1. Precondition: top_limb(x, n) <= t, finite.
void add_digits(const float* x, int t, std::int64_t* hi, std::int64_t* lo, std::int64_t n);
// out[i] = RN(hi[i] * weight(t) + lo[i] * weight(t - 1)), a zero is +0.
void round_digits(const std::int64_t* hi, const std::int64_t* lo, int t, float* out, std::int64_t n);

// What add_digits of each of `count` terms into zeros and round_digits give, without the digits in memory: out[i] of
// terms[0][i], terms[1][i], ... Preconditions: top_limb of each <= t, finite; `out` is none of the terms. Host only.
void sum_terms(const float* const* terms, std::int64_t count, int t, float* out, std::int64_t n);

// Sums of digits as binary64 numbers, in multiples of weight(t - 1): half the bytes, and as exact where terms of an
// element lie less than some 2^29 apart. Each stops with false where one of its numbers would not be exact (`out`,
// `sum` then hold anything); whether it does may depend on the instruction set, the values of what is exact do not. On
// the calling thread, meant for blocks that stay in the cache. Host only.
//
// out[i] = hi[i] * 2^45 + lo[i]; a null pointer is a row of zeros.
[[nodiscard]] bool join_digits(const std::int64_t* hi, const std::int64_t* lo, double* out, std::int64_t n);
// sum[i] += term[i]
[[nodiscard]] bool add_joined(const double* term, double* sum, std::int64_t n);
// sum[i] += what add_digits of x[i] adds. Preconditions as there.
[[nodiscard]] bool add_widened(const float* x, int t, double* sum, std::int64_t n);
// out[i] = RN(sum[i] * weight(t - 1)), a zero is +0.
void round_joined(const double* sum, int t, float* out, std::int64_t n);
// The digits of joined numbers: hi[i] += RNE(sum[i] / 2^45), lo[i] += the rest. False, and nothing added, where a
// number is no integer below 2^107.
[[nodiscard]] bool split_joined(const double* sum, std::int64_t* hi, std::int64_t* lo, std::int64_t n);

}  // namespace isobit::kernels
