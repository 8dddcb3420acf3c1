// Additions by index and running sums: every implementation's bits, the contract's order written plainly, wrong orders
// seen.
#include "kernels/indexed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "contract/platform.h"
#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;

struct Problem {
  std::int64_t outer, rows, source_rows, inner;
  float alpha;
  Integers index, begin, order;
  Floats source, destination;
};

Problem problem(std::int64_t outer, std::int64_t rows, std::int64_t source_rows, std::int64_t inner, float alpha,
                bool hostile) {
  Problem p{outer, rows, source_rows, inner, alpha, {}, Integers(static_cast<std::size_t>(rows) + 1), {}, {}, {}};
  std::mt19937 engine(static_cast<unsigned>(rows * 7 + source_rows));
  for (std::int64_t k = 0; k < source_rows; ++k) {
    // Row 0 is met by most, so that it takes several leaves; some rows by none.
    const std::int64_t row = static_cast<std::int64_t>(engine()) % rows;
    p.index.push_back(engine() % 3 == 0 ? row : 0);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < source_rows; ++k) {
      if (p.index[static_cast<std::size_t>(k)] == r) p.order.push_back(k);
    }
    p.begin[static_cast<std::size_t>(r) + 1] = static_cast<std::int64_t>(p.order.size());
  }
  const auto floats = [&](std::int64_t n, unsigned seed) {
    return hostile ? hostile_floats(n, seed, seed % 2 == 0) : wide_floats(n, seed);
  };
  p.source = floats(outer * source_rows * inner, static_cast<unsigned>(source_rows + inner));
  p.destination = floats(outer * rows * inner, 9);
  return p;
}

Floats run(const Problem& p) {
  Floats y = p.destination;
  indexed_add({p.rows, p.begin.data(), p.order.data()}, p.outer, p.source_rows, p.inner, p.alpha, p.source.data(),
              y.data());
  return y;
}

float tree(const Floats& leaves, std::size_t first, std::size_t count) {
  if (count == 0) return 0.0f;
  if (count == 1) return leaves[first];
  std::size_t p = 1;
  while (2 * p < count) p *= 2;
  return tree(leaves, first, p) + tree(leaves, first + p, count - p);
}

// The contract's sentence; `leaf` elements a leaf.
Floats plainly(const Problem& p, std::size_t leaf = contract::kLeaf) {
  Floats y = p.destination;
  for (std::int64_t at = 0; at < p.outer * p.rows * p.inner; ++at) {
    const std::int64_t o = at / (p.rows * p.inner), r = at / p.inner % p.rows, i = at % p.inner;
    Floats leaves;
    std::size_t met = 0;
    for (std::int64_t k = 0; k < p.source_rows; ++k) {
      if (p.index[static_cast<std::size_t>(k)] != r) continue;
      if (met++ % leaf == 0) leaves.push_back(0.0f);
      leaves.back() += p.source[static_cast<std::size_t>((o * p.source_rows + k) * p.inner + i)];
    }
    if (met == 0) continue;
    float& to = y[static_cast<std::size_t>(at)];
    const float sum = tree(leaves, 0, leaves.size());
    to = p.alpha == 1.0f ? to + sum : std::fma(p.alpha, sum, to);
  }
  return y;
}

TEST(IndexedAdd, EveryImplementationGivesTheReferencesBits) {
  struct Shape {
    std::int64_t outer, rows, source_rows, inner;
  };
  for (const Shape& s : {Shape{1, 1, 0, 3}, Shape{1, 5, 1, 1}, Shape{2, 7, 40, 33}, Shape{3, 4, 1100, 5},
                         Shape{1, 3, 3000, 17}, Shape{1, 600, 900, 1}, Shape{0, 3, 4, 5}, Shape{2, 3, 4, 0}}) {
    for (const bool hostile : {false, true}) {
      for (const float alpha : {1.0f, -0.3f}) {
        const Problem p = problem(s.outer, s.rows, s.source_rows, s.inner, alpha, hostile);
        const std::string what = std::to_string(s.source_rows) + " to " + std::to_string(s.rows);
        EXPECT_TRUE(same_bits(by_reference([&] { return run(p); }), plainly(p))) << what;
        expect_reference_bits([&] { return run(p); }, what);
      }
    }
  }
}

// Pieces of 64, 16 and fewer elements of a row, and what is left of them.
TEST(IndexedAdd, RowsOfEveryWidth) {
  for (const std::int64_t inner : {2, 15, 16, 17, 63, 64, 65, 80, 129, 256, 345}) {
    const Problem p = problem(2, 4, 1100, inner, 1.0f, inner % 2 == 0);
    expect_reference_bits([&] { return run(p); }, "width " + std::to_string(inner));
    EXPECT_TRUE(same_bits(run(p), plainly(p))) << inner;
  }
}

// The rows of p in a destination with three times as many: row r's list is row 3 r + 1's.
struct Spread {
  Integers row;
  Floats destination;
};
Spread spread(const Problem& p, const Floats& values) {
  Spread s{{}, Floats(values.size() * 3, -0.0f)};
  for (std::int64_t r = 0; r < p.rows; ++r) s.row.push_back(3 * r + 1);
  for (std::int64_t line = 0; line < p.outer * p.rows; ++line) {
    const std::int64_t to = (line / p.rows * 3 * p.rows + 3 * (line % p.rows) + 1) * p.inner;
    std::copy_n(values.begin() + line * p.inner, p.inner, s.destination.begin() + to);
  }
  return s;
}

TEST(IndexedAdd, ListsOfSomeRowsOfALargerDestination) {
  for (const std::int64_t inner : {1, 5, 64, 90}) {
    const Problem p = problem(2, 7, 1300, inner, -0.3f, true);
    const Spread expected = spread(p, plainly(p)), given = spread(p, p.destination);
    const auto compute = [&] {
      Floats y = given.destination;
      indexed_add({p.rows, p.begin.data(), p.order.data(), given.row.data(), 3 * p.rows}, p.outer, p.source_rows,
                  p.inner, p.alpha, p.source.data(), y.data());
      return y;
    };
    EXPECT_TRUE(same_bits(compute(), expected.destination)) << inner;
    expect_reference_bits(compute, "rows of " + std::to_string(inner));
  }
}

TEST(IndexedAdd, AWrongOrderIsSeen) {
  const Problem p = problem(1, 3, 3000, 17, 1.0f, false);
  EXPECT_FALSE(same_bits(run(p), plainly(p, 256)));
}

TEST(IndexedAdd, RowsThatDoNotOccurAreLeftAlone) {
  Problem p = problem(1, 3, 4, 2, 1.0f, false);
  p.index = {2, 2, 0, 2}, p.begin = {0, 1, 1, 4}, p.order = {2, 0, 1, 3};
  p.destination = {1, 1, -0.0f, NAN, 1, 1};
  const Floats y = run(p);
  EXPECT_TRUE(same(y[2], -0.0f));
  EXPECT_TRUE(std::isnan(y[3]));
}

// Reductions by index of each element of a row, as the contract has them.
Floats plainly_reduced(IndexReduction op, const Problem& p, bool include_self, std::size_t leaf = contract::kLeaf) {
  Floats y = p.destination;
  for (std::int64_t at = 0; at < p.rows * p.inner; ++at) {
    Floats met;
    for (std::int64_t k = 0; k < p.source_rows; ++k) {
      if (p.index[static_cast<std::size_t>(k)] == at / p.inner)
        met.push_back(p.source[static_cast<std::size_t>(k * p.inner + at % p.inner)]);
    }
    if (met.empty()) continue;
    float& to = y[static_cast<std::size_t>(at)];
    if (op == IndexReduction::sum || op == IndexReduction::mean) {
      Floats leaves;
      for (std::size_t i = 0; i < met.size(); ++i) {
        if (i % leaf == 0) leaves.push_back(0.0f);
        leaves.back() += met[i];
      }
      const float sum = tree(leaves, 0, leaves.size()) + 0.0f;
      to = include_self ? to + sum : sum;
      if (op == IndexReduction::mean) to = to / static_cast<float>(met.size() + (include_self ? 1 : 0));
      continue;
    }
    if (include_self) met.insert(met.begin(), to);
    float t = op == IndexReduction::product ? 1.0f : met[0];
    for (const float v : met) {
      if (op == IndexReduction::product) {
        t = t * v;
      } else if (std::isnan(t) || std::isnan(v)) {
        t = NAN;
      } else {
        t = (op == IndexReduction::maximum ? std::max(t, v) : std::min(t, v)) + 0.0f;
      }
    }
    to = t;
  }
  return y;
}
Floats reduced(IndexReduction op, const Problem& p, bool include_self) {
  Floats y = p.destination;
  indexed_reduce(op, {p.rows, p.begin.data(), p.order.data()}, p.inner, include_self, p.source.data(), y.data());
  return y;
}

TEST(IndexedReduce, EveryImplementationGivesTheReferencesBits) {
  struct Shape {
    std::int64_t rows, sources, inner;
  };
  for (const Shape& s : {Shape{1, 0, 1}, Shape{5, 1, 1}, Shape{7, 40, 1}, Shape{3, 3000, 1}, Shape{600, 900, 1},
                         Shape{7, 40, 3}, Shape{2, 1200, 81}, Shape{30, 90, 64}, Shape{3, 4, 0}}) {
    for (const bool hostile : {false, true}) {
      const Problem p = problem(1, s.rows, s.sources, s.inner, 1.0f, hostile);
      for (int op = 0; op < 5; ++op) {
        for (const bool include_self : {false, true}) {
          const auto compute = [&] { return reduced(static_cast<IndexReduction>(op), p, include_self); };
          const std::string what = "reduction " + std::to_string(op) + ", " + std::to_string(s.sources) + " to " +
                                   std::to_string(s.rows) + " of " + std::to_string(s.inner);
          EXPECT_TRUE(
              same_bits(by_reference(compute), plainly_reduced(static_cast<IndexReduction>(op), p, include_self)))
              << what;
          expect_reference_bits(compute, what);
        }
      }
    }
  }
}

TEST(IndexedReduce, AWrongOrderIsSeen) {
  const Problem p = problem(1, 3, 3000, 1, 1.0f, false);
  EXPECT_FALSE(same_bits(reduced(IndexReduction::sum, p, true), plainly_reduced(IndexReduction::sum, p, true, 256)));
}

Floats scanned(Cumulative op, std::int64_t outer, std::int64_t size, std::int64_t inner, const Floats& x,
               bool in_place) {
  Floats y = in_place ? x : Floats(x.size(), 7);
  cumulative(op, outer, size, inner, in_place ? y.data() : x.data(), y.data());
  return y;
}

TEST(Cumulative, EveryImplementationGivesTheChainsBits) {
  for (const auto& [outer, size, inner] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{1, 1, 1},
                                           {3, 0, 2},
                                           {1, 1000, 1},
                                           {9, 31, 1},
                                           {5, 33, 1},
                                           {2, 40, 17},
                                           {3, 7, 300},
                                           {300, 5, 1}}) {
    for (const bool hostile : {false, true}) {
      const auto seed = static_cast<unsigned>(size + inner);
      const std::int64_t n = outer * size * inner;
      const Floats x = hostile ? hostile_floats(n, seed, true) : normal_floats(n, seed);
      for (const Cumulative op : {Cumulative::sum, Cumulative::product}) {
        Floats expected(x.size());
        for (std::int64_t line = 0; line < outer * inner; ++line) {
          float t = op == Cumulative::sum ? 0.0f : 1.0f;
          for (std::int64_t k = 0; k < size; ++k) {
            const auto at = static_cast<std::size_t>((line / inner * size + k) * inner + line % inner);
            t = op == Cumulative::sum ? t + x[at] : t * x[at];
            expected[at] = t;
          }
        }
        for (const bool in_place : {false, true}) {
          const std::string what = std::to_string(outer) + " x " + std::to_string(size) + " x " + std::to_string(inner);
          EXPECT_TRUE(same_bits(by_reference([&] { return scanned(op, outer, size, inner, x, in_place); }), expected))
              << what;
          expect_reference_bits([&] { return scanned(op, outer, size, inner, x, in_place); }, what);
        }
      }
    }
  }
}

}  // namespace
}  // namespace isobit::kernels
