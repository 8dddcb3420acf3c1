// Products of the exact tier (contract, section 17): every implementation against the oracle of exact_oracle.h, for
// every shape, layout, order of terms and number of threads.
#include "kernels/exact_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "contract/exact_products.h"
#include "kernels/exact_oracle.h"
#include "kernels/threads.h"
#include "kernels/product_plans.h"

namespace isobit::kernels {
namespace {

struct Product {
  std::int64_t m, n, k;
  bool a_transposed = false, b_transposed = false, c_transposed = false;

  [[nodiscard]] std::string text() const {
    return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + (a_transposed ? " At" : "") +
           (b_transposed ? " Bt" : "") + (c_transposed ? " Ct" : "");
  }
};

MatmulProblem problem_of(const Product& p, const Floats& a, const Floats& b, Floats& c) {
  MatmulProblem problem;
  problem.m = p.m, problem.n = p.n, problem.k = p.k;
  problem.a = {a.data(), 0, p.a_transposed ? 1 : p.k, p.a_transposed ? p.m : 1};
  problem.b = {b.data(), 0, p.b_transposed ? 1 : p.n, p.b_transposed ? p.k : 1};
  c.assign(static_cast<std::size_t>(p.m * p.n), 7.0f);
  problem.c = c.data();
  problem.c_row_stride = p.c_transposed ? 1 : p.n, problem.c_column_stride = p.c_transposed ? p.m : 1;
  return problem;
}

void run(const Implementation& implementation, const MatmulProblem& problem) {
  on(implementation, [&](const KernelTable& table) { table.exact3_matmul(problem); });
}

Floats product(const Implementation& isa, const Product& p, const Floats& a, const Floats& b) {
  Floats c;
  run(isa, problem_of(p, a, b, c));
  return c;
}

Floats oracle(const Product& p, const Floats& a, const Floats& b) {
  std::vector<OracleRow> rows, columns;
  for (std::int64_t i = 0; i < p.m; ++i) {
    Floats row;
    for (std::int64_t k = 0; k < p.k; ++k) row.push_back(a[p.a_transposed ? k * p.m + i : i * p.k + k]);
    rows.push_back(oracle_row(row));
  }
  for (std::int64_t j = 0; j < p.n; ++j) {
    Floats column;
    for (std::int64_t k = 0; k < p.k; ++k) column.push_back(b[p.b_transposed ? j * p.k + k : k * p.n + j]);
    columns.push_back(oracle_row(column));
  }
  Floats c(static_cast<std::size_t>(p.m * p.n));
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) c[p.c_transposed ? j * p.m + i : i * p.n + j] = oracle(rows[i], columns[j]);
  }
  return c;
}

TEST(ExactProducts, EveryImplementationGivesTheOraclesBits) {
  const Product products[] = {
      {0, 3, 4},     {3, 0, 4},    {3, 4, 0},      {1, 1, 1},      {1, 5, 7},
      {17, 33, 65},  {70, 3, 257}, {3, 70, 1025},  {33, 17, 4097}, {2, 3, 9000},
      {65, 300, 5},  {6, 6, 512},  {97, 35, 2300}, {40, 16, 2048},  // of two blocks, and of one
      {300, 7, 66},  {9, 600, 70}, {5, 560, 2100},                  // several panels packed together; parts resumed
      {33, 8210, 3}, {8210, 17, 3}};                                // more than are packed at a time
  unsigned seed = 0;
  for (Product p : products) {
    for (int layout = 0; layout<8; layout += p.m * p.n * p.k> 100'000 ? 3 : 1) {
      p.a_transposed = (layout & 1) != 0, p.b_transposed = (layout & 2) != 0, p.c_transposed = (layout & 4) != 0;
      const Values kind = static_cast<Values>(++seed % 5);
      const Floats a = values(p.m * p.k, kind, seed), b = values(p.k * p.n, kind, seed + 1000);
      const Floats expected = oracle(p, a, b);
      for (const Implementation& isa : implementations()) {
        const ThreadCountScope threads(1 + static_cast<int>(seed % 3));
        EXPECT_EQ(difference(expected, product(isa, p, a, b)), -1) << p.text() << " " << name(isa) << " " << seed;
      }
    }
  }
}

// Sums over samples with a million outputs and more, which may go past the caches: lines of memory that are whole, and
// rows that begin within one.
TEST(ExactProducts, LargeOutputsOfSumsOverSamples) {
  for (const std::int64_t n : {1040, 1041}) {
    const Product p{1010, n, 5, true};
    const Floats a = values(p.m * p.k, Values::decades, 1), b = values(p.k * p.n, Values::decades, 2);
    const Floats expected = oracle(p, a, b);
    Floats memory(expected.size() + 16);
    for (const Implementation& isa : implementations()) {
      const ThreadCountScope threads(2);
      Floats unused;
      MatmulProblem problem = problem_of(p, a, b, unused);
      std::fill(memory.begin(), memory.end(), 7.0f);
      problem.c = memory.data();
      while (reinterpret_cast<std::uintptr_t>(problem.c) % 64 != 0) ++problem.c;
      run(isa, problem);
      const std::ptrdiff_t first = problem.c - memory.data();
      EXPECT_EQ(difference(expected, Floats(problem.c, problem.c + expected.size())), -1) << n << " " << name(isa);
      for (std::ptrdiff_t i = 0; i < std::ssize(memory); ++i) {
        const bool outside = i < first || i >= first + std::ssize(expected);
        ASSERT_TRUE(!outside || memory[i] == 7.0f) << i;
      }
    }
  }
}

// Sums of digits at their ends over more terms than an int32 holds, and over more than a binary64 does.
TEST(ExactProducts, LongSumsDoNotOverflow) {
  for (const std::int64_t k : {std::int64_t{70'001}, (std::int64_t{1} << 23) + 3}) {
    const bool very_long = k > 1 << 20;
    const Product p{very_long ? 1 : 2, very_long ? 1 : 3, k};
    Floats a = values(p.m * k, Values::largest, 1), b = values(k * p.n, Values::largest, 2);
    for (std::int64_t i = 0; i < k; ++i) a[i] = 8355711.0f, b[i * p.n] = -8355711.0f;  // all of a sign
    const Floats expected = oracle(p, a, b);
    for (const Implementation& isa : implementations()) {
      const bool quick = isa.isa == Isa::reference || isa.isa == Isa::avx2 || isa.isa == best_product_isa();
      if (very_long && (isa.on_device() || !quick)) continue;  // minutes
      EXPECT_EQ(difference(expected, product(isa, p, a, b)), -1) << k << " " << name(isa);
    }
  }
}

// A device is told to cut the terms no further than it must.
TEST(ExactProducts, TermsThatAreCutAsLittleAsPossibleDoNotOverflow) {
  const std::int64_t k = 70'001, batch = 4;
  const Floats a(static_cast<std::size_t>(k), 8355711.0f), b(static_cast<std::size_t>(k), -8355711.0f);
  const Floats expected(static_cast<std::size_t>(batch), oracle(oracle_row(a), oracle_row(b)));
  for (const Implementation& isa : implementations()) {
    Floats c(expected.size());
    MatmulProblem p;
    p.batch = batch, p.m = 1, p.n = 1, p.k = k;
    p.a = {a.data(), 0, k, 1}, p.b = {b.data(), 0, 1, 1};
    p.c = c.data(), p.c_batch_stride = 1, p.c_row_stride = 1;
    force_product_plan({2, 1});
    run(isa, p);
    force_product_plan({});
    EXPECT_EQ(difference(expected, c), -1) << name(isa);
  }
}

// What the ordered tier cannot do: its chain of fma gives other bits.
TEST(ExactProducts, TheOrderOfTermsIsNothing) {
  const Product p{5, 9, 3000, false, true, false};
  const Floats a = values(p.m * p.k, Values::normal, 11), b = values(p.n * p.k, Values::normal, 12);
  std::vector<std::size_t> order(static_cast<std::size_t>(p.k));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(13));
  const auto shuffled = [&](const Floats& x) {
    Floats all;
    for (std::size_t row = 0; row < x.size(); row += order.size()) {
      const Floats one = permuted(Floats(x.begin() + static_cast<std::ptrdiff_t>(row),
                                         x.begin() + static_cast<std::ptrdiff_t>(row + order.size())),
                                  order);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  const Floats a2 = shuffled(a), b2 = shuffled(b);
  ASSERT_NE(difference(a, a2), -1);
  const Floats expected = oracle(p, a, b);
  for (const Implementation& isa : implementations())
    EXPECT_EQ(difference(expected, product(isa, p, a2, b2)), -1) << name(isa);
  Floats ordered, other;
  const FloatEnvironment environment;
  table_of(Isa::reference).matmul(problem_of(p, a, b, ordered));
  table_of(Isa::reference).matmul(problem_of(p, a2, b2, other));
  EXPECT_NE(difference(ordered, other), -1);
}

// T of parts, added in any order, is T: what a device or several workers may do.
TEST(ExactProducts, AnySplitOfTheTermsGivesTheSum) {
  const Product p{1, 1, 777};
  const Floats a = values(p.k, Values::decades, 21), b = values(p.k, Values::normal, 22);
  const OracleRow row = oracle_row(a), column = oracle_row(b);
  const std::size_t cuts[] = {0, 1, 300, 512, 777};
  std::int64_t sum = 0;
  for (const int part : {2, 0, 3, 1}) {
    for (std::size_t k = cuts[part]; k < cuts[part + 1]; ++k) {
      const auto x = contract::exact_digits(contract::exact_integer(contract::bits_of(a[k]), row.exponent));
      const auto y = contract::exact_digits(contract::exact_integer(contract::bits_of(b[k]), column.exponent));
      sum += std::int64_t{x.first} * y.first * 65536 + (x.first * y.second + x.second * y.first) * 256 +
             x.first * y.third + x.second * y.second + x.third * y.first;
    }
  }
  const float expected = contract::exact_rounded(sum, row.exponent + column.exponent - 32);
  for (const Implementation& isa : implementations()) EXPECT_EQ(product(isa, p, a, b)[0], expected) << name(isa);
}

TEST(ExactProducts, RowsThatAreNotFiniteMakeTheirOutputsNaN) {
  for (int layout = 0; layout < 16; ++layout) {  // of one panel each, and of several
    Product p{9, 20, 70, (layout & 1) != 0, (layout & 2) != 0, (layout & 4) != 0};
    if ((layout & 8) != 0) p.m = 290, p.n = 310;
    const auto at_a = [&](std::int64_t i, std::int64_t k) { return p.a_transposed ? k * p.m + i : i * p.k + k; };
    Floats a = values(p.m * p.k, Values::normal, 31), b = values(p.k * p.n, Values::normal, 32);
    a[at_a(4, 69)] = std::numeric_limits<float>::infinity();
    b[p.b_transposed ? 17 * p.k : 17] = std::numeric_limits<float>::quiet_NaN();
    for (std::int64_t k = 0; k < p.k; ++k) a[at_a(2, k)] = -0.0f;  // a row of zeros: +0, but beside NaN
    for (const Implementation& isa : implementations()) {
      const Floats c = product(isa, p, a, b);
      for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t j = 0; j < p.n; ++j) {
          const float value = c[p.c_transposed ? j * p.m + i : i * p.n + j];
          EXPECT_EQ(value != value, i == 4 || j == 17) << p.text() << " " << name(isa) << " " << i << " " << j;
          if (i == 2 && j != 17) {
            EXPECT_EQ(contract::bits_of(value), 0u) << p.text() << " " << name(isa);
          }
        }
      }
    }
  }
}

// Results at the ends of binary32: one rounding, to a subnormal, to +0 (never -0), to infinity.
TEST(ExactProducts, OneRoundingAtTheEndsOfTheRange) {
  const struct {
    float a, b, expected;
  } cases[] = {
      {0x1p-75f, 0x1p-75f, 0.0f},   // a tie between 0 and the smallest: to even
      {-0x1p-80f, 0x1p-80f, 0.0f},  // -0 is +0
      {0x1.8p-75f, 0x1p-75f, 0x1p-149f},
      {0x1.8p-75f, -0x1p-74f, -0x1p-148f},  // 3/4 and 3/2 of the smallest
      {0x1p64f, 0x1p64f, std::numeric_limits<float>::infinity()},
      {-0x1p64f, 0x1.fffff8p63f, -0x1.fffff8p127f},
      {std::numeric_limits<float>::max(), 1.0f, std::numeric_limits<float>::infinity()},  // V has 23 bits of 24
      {std::numeric_limits<float>::denorm_min(), 0x1p100f, 0x1p-49f},
      {3.0f, 5.0f, 15.0f},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(contract::bits_of(oracle(oracle_row({c.a}), oracle_row({c.b}))), contract::bits_of(c.expected)) << c.a;
    for (const Implementation& isa : implementations())
      EXPECT_EQ(contract::bits_of(product(isa, {1, 1, 1}, {c.a}, {c.b})[0]), contract::bits_of(c.expected))
          << name(isa) << " " << c.a << " * " << c.b;
  }
}

TEST(ExactProducts, AddendsAlphaBatchesAndBroadcastRows) {
  const std::int64_t batch = 3, m = 39, n = 50, k = 40;
  const Floats a = values(m * k, Values::normal, 41), b = values(batch * k * n, Values::normal, 42);
  const Floats d = values(m * n, Values::normal, 43);
  Floats plain;
  for (std::int64_t q = 0; q < batch; ++q) {
    const Floats member(b.begin() + q * k * n, b.begin() + (q + 1) * k * n);
    const Floats one = oracle(Product{m, n, k}, a, member);
    plain.insert(plain.end(), one.begin(), one.end());
  }
  for (const auto& [alpha, beta] : {std::pair{0.3f, 0.7f}, {1.0f, 1.0f}, {1.0f, 0.7f}, {0.3f, 1.0f}}) {
    for (const std::int64_t row_stride : {std::int64_t{0}, n}) {  // an addend of one row for all, or of rows
      Floats expected(plain.size());
      for (std::int64_t i = 0; i < batch * m * n; ++i) {
        const float scaled = alpha * plain[i], addend = beta * d[row_stride * (i / n % m) + i % n];
        expected[i] = addend + scaled;
      }
      for (const Implementation& isa : implementations()) {
        Floats c(expected.size());
        MatmulProblem p;
        p.batch = batch, p.m = m, p.n = n, p.k = k;
        p.a = {a.data(), 0, k, 1}, p.b = {b.data(), k * n, n, 1}, p.addend = {d.data(), 0, row_stride, 1};
        p.alpha = alpha, p.beta = beta;
        p.c = c.data(), p.c_batch_stride = m * n, p.c_row_stride = n;
        run(isa, p);
        EXPECT_EQ(difference(expected, c), -1) << name(isa) << " " << alpha << " " << beta << " " << row_stride;
      }
    }
  }
  for (const Implementation& isa : implementations()) {  // every row of A the first, its elements backwards
    Floats c;
    MatmulProblem p = problem_of({m, n, k}, a, b, c);
    p.a = {a.data() + k - 1, 0, 0, -1};
    run(isa, p);
    Floats backwards(a.begin(), a.begin() + k), rows;
    std::reverse(backwards.begin(), backwards.end());
    for (std::int64_t i = 0; i < m; ++i) rows.insert(rows.end(), backwards.begin(), backwards.end());
    EXPECT_EQ(difference(oracle(Product{m, n, k}, rows, b), c), -1) << name(isa);
  }
}

// The contract's bound, against binary64, on values of like and of very different magnitudes.
TEST(ExactProducts, TheErrorIsWithinItsBound) {
  for (const Values kind : {Values::normal, Values::decades, Values::largest}) {
    const Product p{6, 10, 800, false, true, false};
    const Floats a = values(p.m * p.k, kind, 51), b = values(p.n * p.k, kind, 52);
    const Floats c = product(best_product_isa(), p, a, b);
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        long double exact = 0;
        float a_largest = 0, b_largest = 0;
        for (std::int64_t q = 0; q < p.k; ++q) {
          exact += static_cast<long double>(a[i * p.k + q]) * b[j * p.k + q];
          a_largest = std::max(a_largest, std::fabs(a[i * p.k + q]));
          b_largest = std::max(b_largest, std::fabs(b[j * p.k + q]));
        }
        const int e = contract::exact_exponent(contract::bits_of(a_largest)),
                  f = contract::exact_exponent(contract::bits_of(b_largest));
        const long double bound = p.k * std::ldexp(1.0L + 0x1p-8L, e + f - 24) + std::fabs(exact) * 0x1p-24L;
        EXPECT_LE(std::fabs(c[i * p.n + j] - exact), bound);
      }
    }
  }
}

TEST(ExactProducts, DigitsAndExponentsOfAllMagnitudes) {
  for (std::int64_t bits = 0; bits < 0x7f800000; bits += 104729) {
    const float x = contract::float_of(static_cast<std::uint32_t>(bits));
    const OracleRow row = oracle_row({x});
    const int e = contract::exact_exponent(static_cast<std::uint32_t>(bits));
    ASSERT_EQ(e, row.exponent) << x;
    const auto d = contract::exact_digits(contract::exact_integer(contract::bits_of(-x), e));
    const OracleRow negative = oracle_row({-x});
    ASSERT_EQ(d.first, negative.first[0]) << x;
    ASSERT_EQ(d.second, negative.second[0]) << x;
    ASSERT_EQ(d.third, negative.third[0]) << x;
  }
}

}  // namespace
}  // namespace isobit::kernels
