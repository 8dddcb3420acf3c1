#include "bench/machine_peak.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "bench/affinity.h"
#include "bench/timing.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace isobit::bench {
namespace {

constexpr int kTurns = 4000000;

// Each returns the operations done; `sink` keeps the compiler from dropping them. Every loop over the sums is unrolled,
// so that none of them lies in memory: there a sum would take three times as long from one turn to the next.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) double multiply_avx512(float* sink) {
  __m512 sum[24];
#pragma GCC unroll 24
  for (__m512& s : sum) s = _mm512_set1_ps(1.0f);
  const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
  for (int i = 0; i < kTurns; ++i) {
#pragma GCC unroll 24
    for (__m512& s : sum) s = _mm512_fmadd_ps(a, s, b);
  }
#pragma GCC unroll 24
  for (int i = 1; i < 24; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  *sink = _mm512_cvtss_f32(sum[0]);
  return 2.0 * 16 * 24 * kTurns;
}

__attribute__((target("avx2,fma"))) double multiply_avx2(float* sink) {
  __m256 sum[12];
#pragma GCC unroll 12
  for (__m256& s : sum) s = _mm256_set1_ps(1.0f);
  const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
  for (int i = 0; i < kTurns; ++i) {
#pragma GCC unroll 12
    for (__m256& s : sum) s = _mm256_fmadd_ps(a, s, b);
  }
#pragma GCC unroll 12
  for (int i = 1; i < 12; ++i) sum[0] = _mm256_add_ps(sum[0], sum[i]);
  *sink = _mm256_cvtss_f32(sum[0]);
  return 2.0 * 8 * 12 * kTurns;
}
#endif

double multiply_plain(float* sink) {
  float sum[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  for (int i = 0; i < kTurns; ++i) {
    for (float& s : sum) s = 0.5f * s + 0.25f;
  }
  *sink = sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
  return 2.0 * 8 * kTurns;
}

// What `threads` threads do together per nanosecond; work returns how much it did. Each has a CPU of its own where
// there are so many, and they begin together: some systems let a new thread wait for ten milliseconds and more on the
// CPU of the one that made it, while others idle.
double rate(int threads, const std::function<double(int)>& work) {
  using Clock = std::chrono::steady_clock;
  struct Turn {
    double done = 0;
    Clock::time_point begin, end;  // by the thread's own clock: who waits for it may be late himself
  };
  std::vector<double> rates;
  for (int round = 0; round < 5; ++round) {
    std::vector<Turn> turns(static_cast<std::size_t>(threads));
    std::barrier together(threads);
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        if (threads > 1) pin_to_allowed_cpu(t);
        Turn& turn = turns[static_cast<std::size_t>(t)];
        together.arrive_and_wait();
        turn.begin = Clock::now();
        turn.done = work(t);
        turn.end = Clock::now();
      });
    }
    for (std::thread& thread : all) thread.join();
    double done = 0;
    Clock::time_point begin = turns[0].begin, end = turns[0].end;
    for (const Turn& turn : turns)
      done += turn.done, begin = std::min(begin, turn.begin), end = std::max(end, turn.end);
    rates.push_back(done / std::chrono::duration<double, std::nano>(end - begin).count());
  }
  return quantile(rates, 0.5);
}

}  // namespace

double peak_gflops(int threads, const std::string& isa) {
  static std::map<std::pair<int, std::string>, double> known;
  double& peak = known[{threads, isa}];
  if (peak > 0) return peak;
  std::function<double(float*)> multiply = multiply_plain;
#if defined(__x86_64__)
  if (isa == "avx512" || isa == "avx512vnni" || isa == "amx") multiply = multiply_avx512;
  if (isa == "avx2") multiply = multiply_avx2;
#endif
  return peak = rate(threads, [&](int) {
           volatile float kept;
           float sink = 0;
           const double done = multiply(&sink);
           kept = sink;
           (void)kept;
           return done;
         });
}

double memory_gbytes(int threads) {
  static std::map<int, double> known;
  double& bandwidth = known[threads];
  if (bandwidth > 0) return bandwidth;
  constexpr std::size_t kBytes = std::size_t{96} << 20;
  std::vector<std::vector<char>> from(static_cast<std::size_t>(threads), std::vector<char>(kBytes, 1)), to = from;
  return bandwidth = rate(threads, [&](int t) {
           std::memcpy(to[static_cast<std::size_t>(t)].data(), from[static_cast<std::size_t>(t)].data(), kBytes);
           return 2.0 * static_cast<double>(kBytes);
         });
}

}  // namespace isobit::bench
