// What this machine's cores reach at most, measured: the roof that benchmarks print shares of.
//
// Both are medians of a few short runs on `threads` threads of their own; the first call for a setting takes some 0.1
// s, later ones nothing. Not thread-safe.
#pragma once

#include <string>

namespace isobit::bench {

// Binary32 fused multiply-adds in registers, in GFLOP/s (two operations each), with the vectors of `isa`
// ("avx512", "avx2", else the compiler's).
[[nodiscard]] double peak_gflops(int threads, const std::string& isa);

// Reading and writing arrays larger than the caches, in GB/s: bytes read and bytes written both count.
[[nodiscard]] double memory_gbytes(int threads);

}  // namespace isobit::bench
