// Prototype of the exact tier (docs/design/exact-tier.md): matrix products from integer slices.
//
//   exact_tier [--size N] [--rounds R]
//
// Checks that the VNNI product, a plain 64-bit integer product and one with k shuffled give the same bits, then
// prints the error against binary64 and the rate for 2, 3 and 4 slices beside isobit's ordered binary32 product.
// One thread. Needs AVX-512 VNNI for the rates; the checks run everywhere.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "kernels/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

constexpr int kDigitBits = 7;

// S slices of an [r, k] matrix (k fastest), digits in [-64, 64], and each row's exponent:
// |x| < 2^(e - 1), x = 2^e * sum of digit[s] * 2^(-7 (s + 1)) + a rest of at most 2^(e - 7 S - 1).
struct Slices {
  int count = 0;
  std::int64_t rows = 0, k = 0;
  std::vector<std::vector<std::int8_t>> digit;  // [S][rows * k]
  std::vector<int> exponent;                    // [rows]
};

Slices slice(const std::vector<float>& x, std::int64_t rows, std::int64_t k, int count) {
  Slices s{count, rows, k, std::vector<std::vector<std::int8_t>>(static_cast<std::size_t>(count)), {}};
  for (auto& plane : s.digit) plane.resize(x.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    float largest = 0;
    for (std::int64_t j = 0; j < k; ++j) largest = std::max(largest, std::fabs(x[i * k + j]));
    const int e = largest > 0 ? std::ilogb(largest) + 2 : 0;
    s.exponent.push_back(e);
    for (std::int64_t j = 0; j < k; ++j) {
      double rest = std::ldexp(static_cast<double>(x[i * k + j]), -e);  // exact, as all below
      for (int t = 0; t < count; ++t) {
        rest *= 1 << kDigitBits;
        const double d = std::rint(rest);
        s.digit[t][i * k + j] = static_cast<std::int8_t>(d);
        rest -= d;
      }
    }
  }
  return s;
}

// sum over g of 2^(-7 g) * group[g], one rounding to binary32.
float finish(const std::int64_t* group, int slices, int exponent) {
  std::int64_t value = 0;  // in units of 2^(-7 (S + 1)); |value| < 2^62 for k <= 2^19 and S <= 4
  for (int g = 2; g <= slices + 1; ++g) value = value * (1 << kDigitBits) + group[g];
  // 64 bits to 53 with the last one odd where anything is cut, so that the rounding to binary32 is the only one.
  std::int64_t odd = value;
  const std::int64_t magnitude = std::abs(value);
  if (magnitude >> 53) {
    const int cut = 64 - __builtin_clzll(static_cast<unsigned long long>(magnitude)) - 53;
    const std::int64_t kept = magnitude >> cut << cut;
    const std::int64_t sticky = kept == magnitude ? kept : kept | std::int64_t{1} << cut;
    odd = value < 0 ? -sticky : sticky;
  }
  return static_cast<float>(std::ldexp(static_cast<double>(odd), exponent - kDigitBits * (slices + 1))) + 0.0f;
}

// The definition: pairs of slices with t + u <= S + 1 (counted from 1), in any order of k.
std::vector<float> plain_product(const Slices& a, const Slices& b, const std::vector<std::int64_t>& k_order) {
  std::vector<float> c(static_cast<std::size_t>(a.rows * b.rows));
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < b.rows; ++j) {
      std::int64_t group[10] = {};
      for (int t = 1; t <= a.count; ++t) {
        for (int u = 1; t + u <= a.count + 1; ++u) {
          for (const std::int64_t k : k_order) {
            group[t + u] += a.digit[t - 1][i * a.k + k] * b.digit[u - 1][j * b.k + k];
          }
        }
      }
      c[i * b.rows + j] = finish(group, a.count, a.exponent[i] + b.exponent[j]);
    }
  }
  return c;
}

#if defined(__AVX512VNNI__)
// Tiles of 4 x 16 outputs: b packed [j / 16][k / 4][16][4], a broadcast 4 digits at a time. vpdpbusd multiplies
// unsigned by signed: a's digits are raised by 64 and 64 * (sum of b's digits) is taken away at the end.
struct Packed {
  std::vector<std::vector<std::uint8_t>> a;       // [S][rows * k]
  std::vector<std::vector<std::int8_t>> b;        // [S][rows * k], packed
  std::vector<std::vector<std::int32_t>> b_sums;  // [S][rows], times 64
};

Packed pack(const Slices& a, const Slices& b) {
  Packed p;
  for (int s = 0; s < a.count; ++s) {
    p.a.emplace_back(a.digit[s].size());
    std::transform(a.digit[s].begin(), a.digit[s].end(), p.a[s].begin(), [](int d) { return d + 64; });
    p.b.emplace_back(b.digit[s].size());
    p.b_sums.emplace_back(static_cast<std::size_t>(b.rows));
    for (std::int64_t j = 0; j < b.rows; ++j) {
      for (std::int64_t k = 0; k < b.k; ++k) {
        const std::int8_t d = b.digit[s][j * b.k + k];
        p.b[s][((j / 16) * (b.k / 4) + k / 4) * 64 + j % 16 * 4 + k % 4] = d;
        p.b_sums[s][j] += 64 * d;
      }
    }
  }
  return p;
}

template <int kSlices>
void vnni_product(const Packed& p, const Slices& a, const Slices& b, float* c) {
  constexpr int kRows = 4;
  const std::int64_t quads = a.k / 4;
  for (std::int64_t j = 0; j < b.rows; j += 16) {
    for (std::int64_t i = 0; i < a.rows; i += kRows) {
      __m512i sum[kSlices][kRows];
      for (int g = 0; g < kSlices; ++g) {
        __m512i correction = _mm512_setzero_si512();
        for (int u = 0; u <= g; ++u) {
          correction = _mm512_add_epi32(correction, _mm512_loadu_si512(p.b_sums[u].data() + j));
        }
        for (int r = 0; r < kRows; ++r) sum[g][r] = _mm512_sub_epi32(_mm512_setzero_si512(), correction);
      }
      for (std::int64_t q = 0; q < quads; ++q) {
        __m512i right[kSlices];
        for (int u = 0; u < kSlices; ++u) right[u] = _mm512_loadu_si512(p.b[u].data() + (j / 16 * quads + q) * 64);
        for (int r = 0; r < kRows; ++r) {
          for (int t = 0; t < kSlices; ++t) {
            std::int32_t four;
            std::memcpy(&four, p.a[t].data() + (i + r) * a.k + q * 4, 4);
            const __m512i left = _mm512_set1_epi32(four);
            for (int u = 0; t + u < kSlices; ++u) sum[t + u][r] = _mm512_dpbusd_epi32(sum[t + u][r], left, right[u]);
          }
        }
      }
      for (int r = 0; r < kRows; ++r) {
        alignas(64) std::int32_t parts[kSlices][16];
        for (int g = 0; g < kSlices; ++g) _mm512_store_si512(parts[g], sum[g][r]);
        for (int l = 0; l < 16; ++l) {
          std::int64_t group[10] = {};
          for (int g = 0; g < kSlices; ++g) group[g + 2] = parts[g][l];
          c[(i + r) * b.rows + j + l] = finish(group, kSlices, a.exponent[i + r] + b.exponent[j + l]);
        }
      }
    }
  }
}

void vnni_product(const Packed& p, const Slices& a, const Slices& b, float* c) {
  switch (a.count) {
    case 2: return vnni_product<2>(p, a, b, c);
    case 3: return vnni_product<3>(p, a, b, c);
    case 4: return vnni_product<4>(p, a, b, c);
  }
}
#endif

std::vector<float> normals(std::int64_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& v : x) v = normal(engine);
  return x;
}

// c = a * b^T of [n, k] matrices by the ordered product.
void ordered_product(const std::vector<float>& a, const std::vector<float>& b, std::int64_t n, std::int64_t k,
                     float* c) {
  isobit::kernels::MatmulProblem problem;
  problem.m = problem.n = n, problem.k = k;
  problem.a = {a.data(), 0, k, 1};
  problem.b = {b.data(), 0, 1, k};
  problem.c = c, problem.c_row_stride = n;
  isobit::kernels::matmul(problem);
}

float to_tf32(float x) {  // round to nearest even at 10 fraction bits
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits += 0xfff + (bits >> 13 & 1);
  bits &= ~0x1fffu;
  std::memcpy(&x, &bits, 4);
  return x;
}

// Largest and root mean square error over the largest magnitude of the result, against binary64.
void print_error(const char* name, const std::vector<float>& c, const std::vector<double>& exact) {
  double largest = 0, worst = 0, squares = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    largest = std::max(largest, std::fabs(exact[i]));
    worst = std::max(worst, std::fabs(c[i] - exact[i]));
    squares += (c[i] - exact[i]) * (c[i] - exact[i]);
  }
  std::printf("  %-18s largest %.2e, rms %.2e of the largest result\n", name, worst / largest,
              std::sqrt(squares / static_cast<double>(c.size())) / largest);
}

double median_seconds(int rounds, const std::function<void()>& work) {
  std::vector<double> times;
  for (int r = 0; r < rounds; ++r) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

bool check_bits() {
  const std::int64_t n = 32, k = 1000;
  std::vector<float> a = normals(n * k, 1), b = normals(n * k, 2);
  a[5] = 1e6f, b[7] = -0.0f;
  std::vector<std::int64_t> order(k);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::int64_t> shuffled = order;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(3));
  bool good = true;
  for (const int s : {2, 3, 4}) {
    const Slices left = slice(a, n, k, s), right = slice(b, n, k, s);
    const std::vector<float> c = plain_product(left, right, order);
    good &= c == plain_product(left, right, shuffled);
#if defined(__AVX512VNNI__)
    std::vector<float> fast(c.size());
    vnni_product(pack(left, right), left, right, fast.data());
    good &= fast == c;
#endif
  }
  std::printf("same bits for k in order, shuffled and by VNNI: %s\n", good ? "yes" : "NO");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t n = 1024;
  int rounds = 9;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--size") == 0) n = std::atol(argv[i + 1]) / 64 * 64;
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
  }
  if (n < 64 || rounds < 1)
    return std::fprintf(stderr, "exact_tier: --size of at least 64, --rounds of at least 1\n"), 2;
  isobit::kernels::set_thread_count(1);
  if (!check_bits()) return 1;

  const std::vector<float> a = normals(n * n, 4), b = normals(n * n, 5);
  std::vector<float> ordered(a.size());
  ordered_product(a, b, n, n, ordered.data());
  const std::int64_t rows = std::min<std::int64_t>(n, 64);  // for the errors
  std::vector<float> few_a(a.begin(), a.begin() + rows * n), few_b(b.begin(), b.begin() + rows * n);
  std::vector<double> exact;
  std::vector<float> binary32, tf32;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < rows; ++j) {
      double sum = 0, rounded = 0;
      for (std::int64_t k = 0; k < n; ++k) {
        sum += static_cast<double>(a[i * n + k]) * b[j * n + k];
        rounded += static_cast<double>(to_tf32(a[i * n + k])) * to_tf32(b[j * n + k]);
      }
      exact.push_back(sum);
      tf32.push_back(static_cast<float>(rounded));
      binary32.push_back(ordered[i * n + j]);
    }
  }
  std::printf("normal values, k = %lld\n", static_cast<long long>(n));
  print_error("ordered binary32", binary32, exact);
  print_error("TF32 operands", tf32, exact);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (const int s : {2, 3, 4}) {
    char name[20];
    std::snprintf(name, sizeof name, "%d slices", s);
    print_error(name, plain_product(slice(few_a, rows, n, s), slice(few_b, rows, n, s), order), exact);
  }

  const double flops = 2.0 * static_cast<double>(n) * n * n;
  const double base = median_seconds(rounds, [&] { ordered_product(a, b, n, n, ordered.data()); });
  std::printf("rates, one thread, %lld cubed (%s)\n", static_cast<long long>(n),
              std::string(name(isobit::kernels::active_isa())).c_str());
  std::printf("  %-18s %7.1f GFLOP/s\n", "ordered binary32", flops / base / 1e9);
#if defined(__AVX512VNNI__)
  for (const int s : {2, 3, 4}) {
    const Slices left = slice(a, n, n, s), right = slice(b, n, n, s);
    const Packed packed = pack(left, right);
    const double t = median_seconds(rounds, [&] { vnni_product(packed, left, right, ordered.data()); });
    std::printf("  %d slices, VNNI     %7.1f GFLOP/s (%.2fx), %.0f GOP/s of int8, without slicing and packing\n", s,
                flops / t / 1e9, base / t, flops * s * (s + 1) / 2 / t / 1e9);
  }
#else
  std::printf("  no AVX-512 VNNI in this build: no rates\n");
#endif
  return 0;
}
