// Kernels on binary64 against the contract's orders written out once more, without its headers: lanes, leaves, trees
// and chains. Every instruction set and thread count; another order gives other bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kernels/activation.h"
#include "kernels/batch_norm.h"
#include "kernels/indexed.h"
#include "kernels/matmul.h"
#include "kernels/pointwise.h"
#include "kernels/random.h"
#include "kernels/reduce.h"
#include "kernels/scan.h"
#include "kernels/softmax.h"
#include "kernels/sort.h"
#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Doubles = std::vector<double>;

// Sixteen orders of magnitude; `wild`: zeros, subnormals, NaN and infinities among them.
Doubles values(std::int64_t n, unsigned seed, bool wild) {
  std::mt19937_64 engine(seed);
  std::uniform_int_distribution<int> exponent(-26, 26);
  std::uniform_real_distribution<double> mantissa(1.0, 2.0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kWild[] = {0.0, -0.0, 0x1p-1074, -0x1p-1030, kInfinity, std::numeric_limits<double>::quiet_NaN()};
  Doubles all(static_cast<std::size_t>(n));
  for (double& value : all) {
    value = std::ldexp(mantissa(engine), exponent(engine)) * (engine() & 1 ? 1.0 : -1.0);
    if (wild && engine() % 9 == 0) value = kWild[engine() % (engine() % 5 == 0 ? 6 : 4)];
  }
  return all;
}

bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}
void expect_same(const Doubles& got, const Doubles& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(same(got[i], expected[i])) << what << ": element " << i << " is " << got[i] << ", not " << expected[i];
  }
}
// compute() under every instruction set and thread count.
void expect_everywhere(const std::function<Doubles()>& compute, const Doubles& expected, const std::string& what) {
  for_each_host_implementation(
      [&](const std::string& where) { expect_same(compute(), expected, what + "; " + where); });
}

using Combine = double (*)(double, double);
double add(double a, double b) { return a + b; }
double multiply(double a, double b) { return a * b; }
// The first part holds the largest power of two leaves below all.
double tree(const Doubles& leaves, std::size_t first, std::size_t count, Combine combine) {
  if (count == 1) return leaves[first];
  std::size_t left = 1;
  while (left * 2 < count) left *= 2;
  return combine(tree(leaves, first, left, combine), tree(leaves, first + left, count - left, combine));
}
// leaf(begin, end) of every 512 elements.
double in_leaves(std::size_t n, double empty, Combine combine,
                 const std::function<double(std::size_t, std::size_t)>& leaf) {
  Doubles leaves;
  for (std::size_t begin = 0; begin < n; begin += 512) leaves.push_back(leaf(begin, std::min(n, begin + 512)));
  return leaves.empty() ? empty : tree(leaves, 0, leaves.size(), combine);
}
double lane_sum(const Doubles& x, bool squares) {
  return in_leaves(x.size(), 0.0, add,
                   [&](std::size_t begin, std::size_t end) {
                     double lane[32] = {};
                     for (std::size_t i = begin; i < end; ++i) {
                       double& t = lane[(i - begin) % 32];
                       t = squares ? std::fma(x[i], x[i], t) : t + x[i];
                     }
                     for (int w = 16; w >= 1; w /= 2) {
                       for (int j = 0; j < w; ++j) lane[j] = lane[j] + lane[j + w];
                     }
                     return lane[0];
                   }) +
         0.0;
}

ReduceShape whole(std::int64_t n, std::int64_t stride) {
  ReduceShape s;
  s.reduced_rank = 1, s.reduced_size[0] = n, s.reduced_stride[0] = stride;
  return s;
}

TEST(Binary64, SumsTakeTheContractsOrder) {
  unsigned seed = 0;
  for (const std::int64_t n : {0, 1, 31, 33, 511, 512, 513, 1024, 1537, 5000}) {
    for (const bool wild : {false, true}) {
      const Doubles x = values(n, ++seed, wild);
      Doubles apart(static_cast<std::size_t>(3 * n + 1), 7.0);
      for (std::int64_t i = 0; i < n; ++i) apart[static_cast<std::size_t>(3 * i)] = x[static_cast<std::size_t>(i)];
      const double total = lane_sum(x, false), squares = lane_sum(x, true);
      const Doubles expected{total, total / static_cast<double>(n), std::sqrt(squares), total};
      expect_everywhere(
          [&] {
            Doubles y(4);
            sum(whole(n, 1), x.data(), &y[0]);
            mean(whole(n, 1), x.data(), &y[1]);
            norm2(whole(n, 1), x.data(), &y[2]);
            sum(whole(n, 3), apart.data(), &y[3]);
            return y;
          },
          expected, std::to_string(n) + " elements");
    }
  }
}

TEST(Binary64, AnotherOrderGivesOtherBits) {
  const Doubles x = values(5000, 3, false);
  double chain = 0;
  for (const double v : x) chain = chain + v;
  EXPECT_FALSE(same(lane_sum(x, false), chain));
  double narrow = 0;
  sum(whole(5000, 1), x.data(), &narrow);
  EXPECT_NE(narrow, static_cast<double>(static_cast<float>(narrow))) << "more than binary32's digits";
}

TEST(Binary64, ProductsOfMatricesAreChainsOfFma) {
  unsigned seed = 100;
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{1, 1, 0}, {1, 1, 700}, {3, 65, 513}, {66, 5, 1030}, {2, 3, 1}}) {
    for (const bool wild : {false, true}) {
      const Doubles a = values(m * k, ++seed, wild), b = values(k * n, seed + 50, false),
                    d = values(n, seed + 99, wild);
      Doubles expected;
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          const double product =
              in_leaves(static_cast<std::size_t>(k), 0.0, add,
                        [&](std::size_t begin, std::size_t end) {
                          double t = 0.0;
                          for (std::size_t q = begin; q < end; ++q) {
                            t = std::fma(a[static_cast<std::size_t>(i * k) + q],
                                         b[q * static_cast<std::size_t>(n) + static_cast<std::size_t>(j)], t);
                          }
                          return t;
                        }) +
              0.0;
          expected.push_back(-1.7 * d[static_cast<std::size_t>(j)] + 0.3 * product);
        }
      }
      expect_everywhere(
          [&] {
            Doubles c(expected.size());
            WideMatmulProblem p;
            p.m = m, p.n = n, p.k = k;
            p.a = {a.data(), 0, k, 1}, p.b = {b.data(), 0, n, 1}, p.addend = {d.data(), 0, 0, 1};
            p.alpha = 0.3, p.beta = -1.7;
            p.c = c.data(), p.c_row_stride = n;
            matmul(p);
            return c;
          },
          expected, std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k));
    }
  }
}

TEST(Binary64, ProductsAndRunningSums) {
  unsigned seed = 200;
  for (const std::int64_t n : {0, 1, 5, 512, 1300}) {
    const Doubles x = values(n, ++seed, true);
    Doubles running;
    double t = 0.0;
    for (const double v : x) running.push_back(t = t + v);
    Doubles expected{in_leaves(x.size(), 1.0, multiply, [&](std::size_t begin, std::size_t end) {
      double leaf = 1.0;
      for (std::size_t i = begin; i < end; ++i) leaf = leaf * x[i];
      return leaf;
    })};
    expected.insert(expected.end(), running.begin(), running.end());
    expect_everywhere(
        [&] {
          Doubles y(1), sums(x.size());
          product(1, n, 1, x.data(), y.data());
          cumulative(Cumulative::sum, 1, n, 1, x.data(), sums.data());
          y.insert(y.end(), sums.begin(), sums.end());
          return y;
        },
        expected, std::to_string(n));
  }
}

TEST(Binary64, MomentsOfOneLeafAndOfNothing) {
  for (const std::int64_t n : {1, 2, 77, 512}) {
    const Doubles x = values(n, static_cast<unsigned>(n), false);
    const double centre = lane_sum(x, false) / static_cast<double>(n);
    Doubles apart = x;
    for (double& v : apart) v = v - centre;
    expect_everywhere(
        [&] {
          Doubles y(2);
          batch_moments({1, 1, n}, x.data(), &y[0], &y[1]);
          return y;
        },
        {centre, lane_sum(apart, true)}, std::to_string(n));
  }
  Doubles nothing(2, 5.0);
  batch_moments({0, 1, 1}, nothing.data(), &nothing[0], &nothing[1]);
  expect_same(nothing, {0.0, 0.0}, "nothing");
}

// A mean a million deviations away: binary64 keeps the digits that its own one-pass sums lose.
TEST(Binary64, VarianceKeepsItsDigits) {
  Doubles x(4000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1e9 + 1e-3 * (i % 2 == 0 ? 1.0 : -1.0);
  double centre = 0, squares = 0;
  batch_moments({1, 1, 4000}, x.data(), &centre, &squares);
  EXPECT_NEAR(squares / 4000.0, 1e-6, 1e-9);
}

TEST(Binary64, RandomNumbersMayBeCutAnywhere) {
  Doubles u(9001), z(9000);
  fill_uniform(7, 0, -0.25, 0.75, u.data(), 9001);
  fill_normal(7, 0, 0.5, 2.0, z.data(), 9000);
  expect_everywhere(
      [&] {
        Doubles part(9001);
        fill_uniform(7, 0, -0.25, 0.75, part.data(), 4001);
        fill_uniform(7, 4001, -0.25, 0.75, part.data() + 4001, 5000);
        return part;
      },
      u, "uniform");
  expect_everywhere(
      [&] {
        Doubles part(9000);
        fill_normal(7, 0, 0.5, 2.0, part.data(), 4002);
        fill_normal(7, 4002, 0.5, 2.0, part.data() + 4002, 4998);
        return part;
      },
      z, "normal");
  for (const double v : u) ASSERT_TRUE(v >= -0.25 && v < 0.75);
}

// Compiled for each instruction set, as vectors where the compiler can: any bits there are, and counts that leave a
// rest.
Doubles any_bits(std::int64_t n, unsigned seed) {
  Doubles x = values(n, seed, true);
  std::mt19937_64 engine(seed + 1);
  std::uniform_real_distribution<double> usual(-40.0, 40.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % 3 == 0) x[i] = std::bit_cast<double>(static_cast<std::uint64_t>(engine()));
    if (i % 3 == 1) x[i] = usual(engine);
  }
  return x;
}
template <class Operators, class Compute>
void expect_formulas_everywhere(const Operators& operators, Compute compute) {
  for (const std::int64_t n : {1, 7, 16, 37, 3001}) {
    const Doubles x = any_bits(n, 41), y = any_bits(n, 43), z = any_bits(n, 47);
    for (const auto op : operators) {
      const auto result = [&] {
        Doubles out(x.size());
        compute(op, x, y, z, out);
        return out;
      };
      expect_everywhere(result, by_reference(result), std::string(name(op)) + " of " + std::to_string(n));
    }
  }
}
TEST(Binary64, FormulasHaveTheReferencesBitsOnEveryInstructionSet) {
  const ParametersOf<double> parameters{0.75, 1.25, 0.5};
  expect_formulas_everywhere(kAllUnary, [](Unary op, const Doubles& x, const Doubles&, const Doubles&, Doubles& out) {
    unary(op, x.data(), out.data(), static_cast<std::int64_t>(out.size()));
  });
  expect_formulas_everywhere(kAllBinary,
                             [](Binary op, const Doubles& x, const Doubles& y, const Doubles&, Doubles& out) {
                               binary(op, x.data(), y.data(), out.data(), static_cast<std::int64_t>(out.size()));
                             });
  expect_formulas_everywhere(kAllUnaryWith,
                             [&](UnaryWith op, const Doubles& x, const Doubles&, const Doubles&, Doubles& out) {
                               unary_with(op, parameters, x.data(), out.data(), static_cast<std::int64_t>(out.size()));
                             });
  expect_formulas_everywhere(
      kAllBinaryWith, [&](BinaryWith op, const Doubles& x, const Doubles& y, const Doubles&, Doubles& out) {
        binary_with(op, parameters, x.data(), y.data(), out.data(), static_cast<std::int64_t>(out.size()));
      });
  expect_formulas_everywhere(
      kAllTernaryWith, [&](TernaryWith op, const Doubles& x, const Doubles& y, const Doubles& z, Doubles& out) {
        ternary_with(op, parameters, x.data(), y.data(), z.data(), out.data(), static_cast<std::int64_t>(out.size()));
      });
}

// Formulas whose way depends on the number: all ways side by side in one array, and arrays of one way.
TEST(Binary64, FormulasOfSeveralWaysHaveTheReferencesBits) {
  Doubles x;
  for (int i = -3500; i <= 3500; ++i) x.push_back(0.002 * i + 1e-9 * i);
  for (const double edge : {1.0, 1.5, 6.0, 0x1p20, 22.0, 0x1p-54, 0x1p-28, 40.0, 720.0}) {
    for (const double at : {std::nextafter(edge, 0.0), edge, std::nextafter(edge, 1e300)})
      x.push_back(at), x.push_back(-at);
  }
  for (const double odd :
       {0.0, -0.0, 1e300, 0x1p-1074, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    x.push_back(odd), x.push_back(-odd);
  for (int i = 0; i < 700; ++i) x.push_back(1.6 + 0.006 * i);  // erf by its fraction alone
  const Doubles dy = values(static_cast<std::int64_t>(x.size()), 77, false);
  const ParametersOf<double> p{1.5, 20.0, 0.0};
  for (const std::size_t n : {x.size(), std::size_t{255}, std::size_t{257}, std::size_t{1}}) {
    const auto count = static_cast<std::int64_t>(n);
    const double* const from = x.data() + (x.size() - n);
    const auto result = [&] {
      Doubles out(9 * n);
      double* to = out.data();
      for (const Unary op : {Unary::erf, Unary::gelu, Unary::sin, Unary::cos, Unary::log1p})
        unary(op, from, to, count), to += n;
      for (const UnaryWith op : {UnaryWith::softplus, UnaryWith::log_sigmoid, UnaryWith::mish})
        unary_with(op, p, from, to, count), to += n;
      binary(Binary::gelu_backward, dy.data(), from, to, count);
      return out;
    };
    expect_everywhere(result, by_reference(result), std::to_string(n));
    const auto in_place = [&] {
      Doubles y(from, from + n);
      unary(Unary::sin, y.data(), y.data(), count);
      return y;
    };
    expect_everywhere(in_place, by_reference(in_place), "in place, " + std::to_string(n));
  }
}

TEST(Binary64, SumsAndSoftmaxOfRowsHaveTheReferencesBits) {
  for (const std::int64_t n : {1, 31, 32, 33, 511, 512, 513, 1600}) {
    for (const bool wild : {false, true}) {
      const Doubles x = values(5 * n, static_cast<unsigned>(n), wild);
      const auto result = [&] {
        Doubles out(static_cast<std::size_t>(20 + 10 * n));
        ReduceShape rows = whole(n, 1);
        rows.kept_rank = 1, rows.kept_size[0] = 5, rows.kept_stride[0] = n;
        sum(rows, x.data(), out.data()), mean(rows, x.data(), out.data() + 5);
        rows.kept_stride[0] = 0;  // a row that is repeated
        sum(rows, x.data(), out.data() + 10);
        softmax({.outer = 5, .size = n, .inner = 1}, x.data(), out.data() + 20);
        log_softmax({.outer = 5, .size = n, .inner = 1}, x.data(), out.data() + 20 + 5 * n);
        return out;
      };
      expect_everywhere(result, by_reference(result), std::to_string(n));
    }
  }
}

// Tiles, their borders, pieces of work, leaves and every way in which operands lie.
TEST(Binary64, ProductsOfAllShapesHaveTheReferencesBits) {
  struct Shape {
    std::int64_t m, n, k;
  };
  const Shape shapes[] = {{1, 1, 1},      {12, 16, 4},     {13, 17, 127},  {11, 300, 129}, {200, 270, 65},
                          {70, 40, 1100}, {1, 90, 600},    {90, 1, 600},   {17, 15, 512},  {0, 5, 3},
                          {5, 0, 3},      {33, 31, 0},     {25, 24, 1537}, {6, 8, 511},    {130, 33, 350},
                          {230, 40, 700}, {129, 20, 1024}, {120, 600, 20}, {7, 520, 1100}};
  unsigned seed = 700;
  for (const Shape& s : shapes) {
    for (const int form : {0, 1, 2, 3, 4}) {
      const std::int64_t batch = form == 3 ? 3 : 1;
      const bool wild = form == 4;
      const Doubles a = values(batch * s.m * s.k, ++seed, wild), b = values(batch * s.k * s.n, ++seed, wild),
                    d = values(batch * s.m * s.n, ++seed, wild);
      const auto result = [&] {
        Doubles c(static_cast<std::size_t>(batch * s.m * s.n) * 2, 0.5);
        WideMatmulProblem p;
        p.batch = batch, p.m = s.m, p.n = s.n, p.k = s.k;
        p.a = {a.data(), s.m * s.k, s.k, 1}, p.b = {b.data(), s.k * s.n, s.n, 1};
        p.c = c.data(), p.c_batch_stride = s.m * s.n, p.c_row_stride = s.n;
        if (form == 1) p.a = {a.data(), 0, 1, s.m}, p.b = {b.data(), 0, 1, s.k};  // both turned
        if (form == 2) p.c_row_stride = 1, p.c_column_stride = s.m, p.addend = {d.data(), 0, 1, s.m}, p.beta = 0.7;
        if (form == 3) p.b.batch_stride = 0, p.addend = {d.data(), s.m * s.n, s.n, 1}, p.alpha = -2.5;
        if (form == 4) p.c_row_stride = 2 * s.n, p.c_column_stride = 2;
        matmul(p);
        return c;
      };
      expect_everywhere(result, by_reference(result),
                        std::to_string(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k) + ", form " +
                            std::to_string(form));
    }
  }
}

// More terms than packed columns are kept of, by several blocks of rows: all outputs are one, since the operands' rows
// and columns are.
TEST(Binary64, VeryLongProductsHaveTheBitsOfOne) {
  constexpr std::int64_t kTerms = 70'000, kRows = 130, kColumns = 65;
  const Doubles a = values(kTerms, 1, false), b = values(kTerms, 2, false);
  const auto product = [&](std::int64_t rows, std::int64_t columns) {
    Doubles c(static_cast<std::size_t>(rows * columns));
    WideMatmulProblem p;
    p.m = rows, p.n = columns, p.k = kTerms;
    p.a = {a.data(), 0, 0, 1}, p.b = {b.data(), 0, 1, 0};
    p.c = c.data(), p.c_row_stride = columns;
    matmul(p);
    return c;
  };
  const Doubles one = by_reference([&] { return product(1, 1); });
  for_each_host_implementation([&](const std::string& where) {
    if (!where.starts_with("reference"))
      expect_same(product(kRows, kColumns), Doubles(std::size_t{kRows} * kColumns, one[0]), where);
  });
}

// Kept neighbours: [outer, terms, inner], [terms, outer, inner] and, over two dimensions, [terms, outer, 2, inner].
TEST(Binary64, ReductionsOverOtherDimensionsHaveTheReferencesBits) {
  for (const std::int64_t inner : {1, 3, 4, 31, 32, 33, 70}) {
    for (const std::int64_t terms : {0, 1, 2, 31, 33, 512, 513, 1100}) {
      for (const int form : {0, 1, 2}) {
        constexpr std::int64_t kOuter = 2;
        const std::int64_t more = form == 2 ? 2 : 1;
        const Doubles x =
            values(kOuter * terms * more * inner + 1, static_cast<unsigned>(inner + terms), terms % 2 != 0);
        ReduceShape s;
        s.kept_rank = 2, s.kept_size[0] = kOuter, s.kept_size[1] = inner, s.kept_stride[1] = 1;
        s.kept_stride[0] = form == 0 ? terms * inner : more * inner;
        s.reduced_rank = 1, s.reduced_size[0] = terms, s.reduced_stride[0] = form == 0 ? inner : kOuter * more * inner;
        if (form == 2) s.reduced_rank = 2, s.reduced_size[1] = 2, s.reduced_stride[1] = inner;
        const auto result = [&] {
          const auto count = static_cast<std::size_t>(kOuter * inner);
          Doubles out(6 * count);
          std::vector<std::int64_t> places(count);
          sum(s, x.data(), out.data()), mean(s, x.data(), out.data() + count),
              norm2(s, x.data(), out.data() + 2 * count);
          if (terms == 0) return out;
          maximum(s, x.data(), out.data() + 3 * count), minimum(s, x.data(), out.data() + 4 * count);
          argmax(s, x.data(), places.data());
          for (std::size_t i = 0; i < count; ++i) out[5 * count + i] = static_cast<double>(places[i]);
          return out;
        };
        expect_everywhere(
            result, by_reference(result),
            std::to_string(inner) + " columns of " + std::to_string(terms) + ", form " + std::to_string(form));
      }
    }
  }
}

TEST(Binary64, ExtremaOfRowsAndKnownPowers) {
  for (const std::int64_t n : {1, 2, 31, 32, 33, 700}) {
    for (const bool wild : {false, true}) {
      const Doubles x = values(4 * n, static_cast<unsigned>(900 + n), wild);
      const auto result = [&] {
        Doubles out(static_cast<std::size_t>(16 + 8 * 4 * n));
        std::vector<std::int64_t> places(4);
        ReduceShape rows = whole(n, 1);
        rows.kept_rank = 1, rows.kept_size[0] = 4, rows.kept_stride[0] = n;
        maximum(rows, x.data(), out.data()), minimum(rows, x.data(), out.data() + 4);
        norm2(rows, x.data(), out.data() + 8), argmax(rows, x.data(), places.data());
        for (std::size_t i = 0; i < 4; ++i) out[12 + i] = static_cast<double>(places[i]);
        double* to = out.data() + 16;
        for (const double p : {2.0, 3.0, 4.0, 0.5, -1.0, -0.5, 7.5, 0.0}) {
          EXPECT_TRUE(power(x.data(), p, to, 4 * n));
          to += 4 * n;
        }
        return out;
      };
      expect_everywhere(result, by_reference(result), std::to_string(n));
    }
  }
}

TEST(Binary64, SortsAreStableAndSelectionsKeepTheirRules) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Doubles x{3.0, nan, -0.0, 0.0, -1e300, nan, 3.0};
  Doubles sorted(7);
  std::vector<std::int64_t> places(7);
  sort_rows(false, 1, 7, x.data(), sorted.data(), places.data());
  EXPECT_EQ(places, (std::vector<std::int64_t>{4, 2, 3, 0, 6, 1, 5}));
  std::int64_t first = 0;
  argmax(whole(7, 1), x.data(), &first);
  EXPECT_EQ(first, 1);
  double top = 0;
  maximum(whole(2, 1), x.data() + 2, &top);
  EXPECT_FALSE(std::signbit(top));
  const Doubles bounds{-0.0, 5.0, nan};
  Doubles cut(3);
  clamp(bounds.data(), 0.0, 1.0, cut.data(), 3);
  expect_same(cut, {-0.0, 1.0, nan}, "clamp");
}

}  // namespace
}  // namespace isobit::kernels
