// Philox4x32-10 fills (contract, section 5). key: the 64-bit number the operator took from its generator.
//
// Element e is made from word e mod 4 of block e div 4, e of 64 bits; normal pairs take elements (2i, 2i + 1)
// from words (w0, w1) or (w2, w3) of their block. `first` shifts e, so a fill may be cut anywhere (at even e
// for normals). Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

// fma(u, high - low, low), u = (w >> 8) * 2^-24
void fill_uniform(std::uint64_t key, std::int64_t first, float low, float high, float* out, std::int64_t n);
void fill_uniform(std::uint64_t key, std::int64_t first, double low, double high, double* out, std::int64_t n);
// fma(z, deviation, mean)
void fill_normal(std::uint64_t key, std::int64_t first, float mean, float deviation, float* out, std::int64_t n);
void fill_normal(std::uint64_t key, std::int64_t first, double mean, double deviation, double* out, std::int64_t n);
// 1 where w < RN(p * 2^32) (p >= 1: always), else 0
void fill_bernoulli(std::uint64_t key, std::int64_t first, double p, float* out, std::int64_t n);
// The same, each element with its own p; out may be p.
void fill_bernoulli_each(std::uint64_t key, std::int64_t first, const float* p, float* out, std::int64_t n);
// y = keep ? x * RN(1 / RN(keep)) : +0 with the mask of fill_bernoulli(key, first, keep); dropout in one pass.
void dropout(std::uint64_t key, std::int64_t first, double keep, const float* x, float* y, std::int64_t n);

// Integers, on the host for every device (src/kernels/random_integers.cpp).
// low + floor(w * range / 2^64), element e from words (w0, w1) or (w2, w3) of block e div 2; range 0 stands for 2^64.
void fill_integers(std::uint64_t key, std::int64_t first, std::int64_t low, std::uint64_t range, std::int64_t* out,
                   std::int64_t n);
// Positions first .. first + n - 1 of the order `shuffled` of 0 .. count - 1 with the key as seed, epoch 0
// (contract, section 6).
void fill_permutation(std::uint64_t key, std::int64_t first, std::int64_t count, std::int64_t* out, std::int64_t n);

}  // namespace isobit::kernels
