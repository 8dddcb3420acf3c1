// Factors and solutions of linear systems: the contract's order (section 14) written element by element, every
// implementation and thread count, wrong orders seen.
#include "kernels/linear_solvers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/householder.h"
#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Doubles = std::vector<double>;
using Bits = std::vector<std::int64_t>;

constexpr std::int64_t kNan = -1;
Bits bits_of(const Doubles& x) {
  Bits bits;
  for (const double value : x) bits.push_back(value != value ? kNan : std::bit_cast<std::int64_t>(value));
  return bits;
}
Doubles widened(const std::vector<float>& x) { return {x.begin(), x.end()}; }
std::size_t at(std::int64_t i, std::int64_t j, std::int64_t rows) { return static_cast<std::size_t>(j * rows + i); }

// Where halves, tiles, registers and their rests meet: 8, 16, 24 and 32 and their neighbours.
const std::int64_t kSizes[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 23, 25, 33, 47, 48, 65, 97, 130};

// ---- Cholesky

Doubles definite(std::int64_t n, unsigned seed, double shift) {
  const Doubles x = widened(normal_floats(n * n, seed));
  Doubles a(x.size());
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double t = i == j ? shift : 0.0;
      for (std::int64_t k = 0; k < n; ++k) t = t + x[at(i, k, n)] * x[at(j, k, n)];
      a[at(i, j, n)] = i < j ? 1e9 * t : t;  // what is above the diagonal is not read
    }
  }
  return a;
}
Bits cholesky(Doubles a, std::int64_t n) {
  const std::int32_t info = factor_cholesky(a.data(), n);
  Bits bits = bits_of(a);
  bits.push_back(info);
  return bits;
}
Bits plain_cholesky(Doubles a, std::int64_t n, bool descending = false) {
  std::int64_t info = 0;
  for (std::int64_t j = 0; j < n && info == 0; ++j) {
    for (std::int64_t i = j; i < n; ++i) {
      for (std::int64_t s = 0; s < j; ++s) {
        const std::int64_t k = descending ? j - 1 - s : s;
        a[at(i, j, n)] = a[at(i, j, n)] - a[at(i, k, n)] * a[at(j, k, n)];
      }
      if (i == j && !(a[at(j, j, n)] > 0.0)) info = j + 1;
      if (i == j && info == 0) a[at(j, j, n)] = std::sqrt(a[at(j, j, n)]);
      if (i > j) a[at(i, j, n)] = a[at(i, j, n)] / a[at(j, j, n)];
    }
  }
  for (std::int64_t j = info - 1; info > 0 && j < n; ++j) {
    for (std::int64_t i = j; i < n; ++i) a[at(i, j, n)] = std::nan("");
  }
  Bits bits = bits_of(a);
  bits.push_back(info);
  return bits;
}

TEST(Cholesky, EveryImplementationGivesTheChainsBits) {
  for (const std::int64_t n : kSizes) {
    const Doubles a = definite(n, 3, 0.5);
    const auto compute = [&] { return cholesky(a, n); };
    EXPECT_TRUE(same_bits(by_reference(compute), plain_cholesky(a, n))) << n;
    expect_host_reference_bits(compute, std::to_string(n));
  }
}

TEST(Cholesky, StopsWhereItIsNotDefiniteWithTheColumnsBeforeAsTheyAre) {
  constexpr std::int64_t kOrder = 61;
  for (const std::int64_t bad : {0, 1, 7, 8, 20, 31, 32, 33, 55, 60}) {
    for (const double value : {-1e6, std::nan("")}) {
      Doubles a = definite(kOrder, 5, 1.0);
      a[at(bad, bad, kOrder)] = value;
      const auto compute = [&] { return cholesky(a, kOrder); };
      const Bits expected = plain_cholesky(a, kOrder);
      EXPECT_EQ(expected.back(), bad + 1);
      EXPECT_TRUE(same_bits(by_reference(compute), expected)) << bad;
      expect_host_reference_bits(compute, "not definite at " + std::to_string(bad));
    }
  }
}

// ---- LU

Bits lu(Doubles a, std::int64_t m, std::int64_t n) {
  std::vector<std::int32_t> pivots(static_cast<std::size_t>(std::min(m, n)));
  const std::int32_t info = factor_lu(a.data(), m, n, pivots.data());
  Bits bits = bits_of(a);
  bits.insert(bits.end(), pivots.begin(), pivots.end());
  bits.push_back(info);
  return bits;
}
Bits plain_lu(Doubles a, std::int64_t m, std::int64_t n) {
  Bits pivots;
  std::int64_t info = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t k = 0; k < std::min(i, j); ++k)
        a[at(i, j, m)] = a[at(i, j, m)] - a[at(i, k, m)] * a[at(k, j, m)];
    }
    if (j >= std::min(m, n)) continue;
    std::int64_t best = j;
    for (std::int64_t i = j + 1; i < m; ++i) {
      if (std::fabs(a[at(i, j, m)]) > std::fabs(a[at(best, j, m)])) best = i;
    }
    pivots.push_back(best + 1);
    for (std::int64_t c = 0; c < n; ++c) std::swap(a[at(j, c, m)], a[at(best, c, m)]);
    const double pivot = a[at(j, j, m)];
    if (pivot == 0.0 && info == 0) info = j + 1;
    for (std::int64_t i = j + 1; pivot != 0.0 && i < m; ++i) a[at(i, j, m)] = a[at(i, j, m)] / pivot;
  }
  Bits bits = bits_of(a);
  bits.insert(bits.end(), pivots.begin(), pivots.end());
  bits.push_back(info);
  return bits;
}

TEST(Lu, EveryImplementationGivesTheChainsBits) {
  for (const std::int64_t m : kSizes) {
    for (const std::int64_t n : {m, m / 2, m + 19, std::int64_t{1}}) {
      for (const int kind : {0, 1, 2}) {
        const auto seed = static_cast<unsigned>(m + n);
        Doubles a = widened(kind == 0 ? normal_floats(m * n, seed) : hostile_floats(m * n, seed, kind == 2));
        if (kind == 1 && m > 4 && n > 4) {  // columns of zeros and equal ones: pivots of 0, ties
          std::fill_n(a.begin() + m, m, 0.0);
          std::fill_n(a.begin() + 2 * m, 2 * m, -2.5);
        }
        const std::string what = std::to_string(m) + " x " + std::to_string(n) + ", kind " + std::to_string(kind);
        const auto compute = [&] { return lu(a, m, n); };
        EXPECT_TRUE(same_bits(by_reference(compute), plain_lu(a, m, n))) << what;
        expect_host_reference_bits(compute, what);
      }
    }
  }
}

// ---- substitution

struct Solved {
  Triangle t;
  std::int64_t columns;
};
Bits solution(const Solved& s, Doubles x) {
  solve_triangle(s.t, x.data(), s.columns);
  return bits_of(x);
}
Bits plain_solution(const Solved& s, Doubles x, bool against = false) {
  const std::int64_t n = s.t.n;
  const auto element = [&](std::int64_t i, std::int64_t k) {
    return s.t.a[s.t.transposed ? at(k, i, n) : at(i, k, n)];
  };
  const bool down = s.t.upper == s.t.transposed;
  for (std::int64_t c = 0; c < s.columns; ++c) {
    for (std::int64_t step = 0; step < n; ++step) {
      const std::int64_t i = down ? step : n - 1 - step;
      double t = x[static_cast<std::size_t>(i * s.columns + c)];
      for (std::int64_t b = 0; b < step; ++b) {
        const std::int64_t before = against ? step - 1 - b : b, k = down ? before : n - 1 - before;
        t = t - element(i, k) * x[static_cast<std::size_t>(k * s.columns + c)];
      }
      x[static_cast<std::size_t>(i * s.columns + c)] = s.t.unit ? t : t / element(i, i);
    }
  }
  return bits_of(x);
}
// The triangle alone, the diagonal too unless it is 1; everything else is NaN, and would be seen.
Doubles triangle_of(std::int64_t n, bool upper, bool unit, unsigned seed, bool hostile) {
  Doubles a = widened(hostile ? hostile_floats(n * n, seed, true) : normal_floats(n * n, seed));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const bool read = i == j ? !unit : (i < j) == upper;
      if (!read) a[at(i, j, n)] = std::nan("");
      if (i == j && read && !hostile) a[at(i, j, n)] += i % 2 == 0 ? 4.0 : -4.0;
    }
  }
  return a;
}

TEST(Substitution, EveryImplementationGivesTheChainsBits) {
  for (const std::int64_t n : kSizes) {
    for (const std::int64_t columns : {0, 1, 3, 7, 8, 9, 25, 100}) {
      for (const int form : {0, 1, 2, 3, 4, 5, 6, 7}) {
        const bool upper = form & 1, transposed = form & 2, unit = form & 4, hostile = (n + columns) % 3 == 0;
        const Doubles a = triangle_of(n, upper, unit, static_cast<unsigned>(n), hostile);
        const Solved s{{a.data(), n, upper, transposed, unit}, columns};
        const Doubles x = widened(normal_floats(n * columns, static_cast<unsigned>(columns)));
        const auto compute = [&] { return solution(s, x); };
        const std::string what =
            std::to_string(n) + ", " + std::to_string(columns) + " columns, form " + std::to_string(form);
        EXPECT_TRUE(same_bits(by_reference(compute), plain_solution(s, x))) << what;
        if (n < 66 || columns % 8 == 1) expect_host_reference_bits(compute, what);
      }
    }
  }
}

// More terms than are taken at a time, which are taken up again: 512 and what is left.
TEST(LinearSolvers, LargeOnesHaveTheReferencesBits) {
  constexpr std::int64_t kOrder = 1100;
  const Doubles square = widened(normal_floats(kOrder * kOrder, 9));
  Doubles a = square;
  for (std::int64_t i = 0; i < kOrder; ++i) a[at(i, i, kOrder)] = 1200.0;  // definite as far as the lower triangle says
  const Solved lower{{a.data(), kOrder, false, false, false}, 9}, upper{{a.data(), kOrder, false, true, false}, 1};
  const Doubles x = widened(normal_floats(kOrder * 9, 10));
  const auto compute = [&] {
    Bits bits = cholesky(a, kOrder);
    const Bits factors = lu(square, kOrder, kOrder), down = solution(lower, x),
               up = solution(upper, Doubles(x.begin(), x.begin() + kOrder));
    for (const Bits* more : {&factors, &down, &up}) bits.insert(bits.end(), more->begin(), more->end());
    return bits;
  };
  const Bits expected = by_reference(compute);
  for (const Isa isa : available_isas()) {
    const IsaScope isa_scope(isa);
    const ThreadCountScope thread_scope(2);
    EXPECT_TRUE(same_bits(compute(), expected)) << name(isa);
  }
}

TEST(LinearSolvers, AWrongOrderIsSeen) {
  constexpr std::int64_t kOrder = 40;
  const Doubles a = definite(kOrder, 3, 0.5);
  EXPECT_FALSE(same_bits(cholesky(a, kOrder), plain_cholesky(a, kOrder, /*descending=*/true)));
  const Doubles triangle = triangle_of(kOrder, false, false, 7, false), x = widened(normal_floats(kOrder * 9, 8));
  const Solved s{{triangle.data(), kOrder, false, false, false}, 9};
  EXPECT_FALSE(same_bits(solution(s, x), plain_solution(s, x, /*against=*/true)));
}

// ---- QR

TEST(Householder, EveryImplementationGivesTheReferencesBits) {
  for (const std::int64_t m : {1, 2, 9, 17, 33, 40, 70}) {
    for (const std::int64_t n : {1, 3, 16, 17, 32, 33, 65}) {
      for (const int kind : {0, 1, 2}) {
        std::vector<float> a = kind == 0 ? normal_floats(m * n, 3) : hostile_floats(m * n, 4, kind == 2);
        for (std::int64_t c = 2; kind == 1 && c < n; c += 3)  // nothing below the diagonal: no reflection
          for (std::int64_t i = 0; i < m; ++i) a[at(i, c, m)] = i <= c / 2 ? -0.5f : 0.0f;
        const auto compute = [&] {
          std::vector<float> q(static_cast<std::size_t>(m * m)), r(static_cast<std::size_t>(m * n));
          householder_qr({.m = m,
                          .n = n,
                          .a = a.data(),
                          .row_stride = 1,
                          .column_stride = m,
                          .q_columns = m,
                          .q = q.data(),
                          .r_rows = m,
                          .r = r.data()});
          q.insert(q.end(), r.begin(), r.end());
          return q;
        };
        expect_host_reference_bits(compute,
                                   std::to_string(m) + " x " + std::to_string(n) + ", kind " + std::to_string(kind));
      }
    }
  }
}

}  // namespace
}  // namespace isobit::kernels
