#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include "contract/ordered_dot.h"
#include "dense_values.h"
#include "kernels/tuning.h"
#ifdef ISOBIT_EMULATED_CUDA
#include "kernels/cuda/emulation/emulation.h"
#endif

namespace isobit::kernels {
namespace {

using namespace testing;

enum class Layout { plain, transposed, strided, reversed, broadcast };

// An operand [batch, rows, columns] in memory of its own, laid out as asked.
struct Operand {
  Floats memory;
  MatmulOperand view;

  Operand(std::int64_t batch, std::int64_t rows, std::int64_t columns, Layout layout, unsigned seed, bool special) {
    const std::int64_t step = layout == Layout::strided ? 3 : 1;
    memory = hostile(std::max<std::int64_t>(1, batch * rows * columns * step), seed, special);
    view.data = memory.data();
    view.batch_stride = rows * columns * step;
    view.row_stride = columns * step;
    view.column_stride = step;
    if (layout == Layout::transposed) view.row_stride = 1, view.column_stride = rows;
    if (layout == Layout::broadcast) view.batch_stride = 0, view.row_stride = 0;
    if (layout == Layout::reversed && rows > 0 && columns > 0) {
      view.data += (rows - 1) * columns + columns - 1;
      view.row_stride = -columns;
      view.column_stride = -1;
    }
  }
  [[nodiscard]] float at(std::int64_t b, std::int64_t r, std::int64_t c) const {
    return view.data[b * view.batch_stride + r * view.row_stride + c * view.column_stride];
  }
};

struct Case {
  std::int64_t batch, m, n, k;
  Layout a = Layout::plain, b = Layout::plain;
  bool special = false, addend = false, transposed_output = false;
  float alpha = 1.0f, beta = 1.0f;
  Layout addend_layout = Layout::broadcast;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "batch " << c.batch << ", " << c.m << " x " << c.n << " x " << c.k << ", layouts "
             << static_cast<int>(c.a) << " " << static_cast<int>(c.b) << (c.special ? ", special" : "")
             << (c.addend ? ", addend" : "") << (c.transposed_output ? ", transposed output" : "");
}

struct Inputs {
  Operand a, b, addend;
  explicit Inputs(const Case& c)
      : a(c.batch, c.m, c.k, c.a, 1, c.special),
        b(c.batch, c.k, c.n, c.b, 2, c.special),
        addend(c.batch, c.m, c.n, c.addend_layout, 3, false) {}
};

Floats product(const Case& c, const Inputs& in) {
  Floats out(static_cast<std::size_t>(c.batch * c.m * c.n), -7.0f);
  MatmulProblem p;
  p.batch = c.batch, p.m = c.m, p.n = c.n, p.k = c.k;
  p.a = in.a.view, p.b = in.b.view;
  if (c.addend) p.addend = in.addend.view;
  p.alpha = c.alpha, p.beta = c.beta;
  p.c = out.data();
  p.c_batch_stride = c.m * c.n;
  p.c_row_stride = c.transposed_output ? 1 : c.n;
  p.c_column_stride = c.transposed_output ? c.m : 1;
  matmul(p);
  return out;
}

Floats product(const Case& c, const Inputs& in, Isa isa) {
  const IsaScope isa_scope(isa);
  return product(c, in);
}

// Small products in every order of threads, larger ones in one: emulated threads take their time.
void expect_same_on_emulated_device([[maybe_unused]] const Case& c, [[maybe_unused]] const Inputs& in,
                                    [[maybe_unused]] const Floats& expected) {
#ifdef ISOBIT_EMULATED_CUDA
  using emulated::ThreadOrder;
  for (const ThreadOrder order : {ThreadOrder::shuffled, ThreadOrder::ascending, ThreadOrder::descending}) {
    const emulated::EmulatedScope scope(order);
    ASSERT_EQ(first_difference(expected, product(c, in)), -1)
        << c << ": emulated device, order " << static_cast<int>(order);
    if (c.batch * c.m * c.n * c.k > 10000) return;
  }
#endif
}

void expect_same_everywhere(const Case& c) {
  const Inputs in(c);
  const Floats expected = product(c, in, Isa::reference);
  expect_same_on_emulated_device(c, in, expected);
  for (int threads : thread_counts()) {  // outermost: a new count rebuilds the pool
    const ThreadCountScope scope(threads);
    for (Isa isa : available_isas()) {
      const Floats found = product(c, in, isa);
      const std::int64_t i = first_difference(expected, found);
      ASSERT_EQ(i, -1) << c << ": " << name(isa) << ", " << threads << " threads: element " << i << " is "
                       << found[static_cast<std::size_t>(i)] << ", reference " << expected[static_cast<std::size_t>(i)];
    }
  }
}

TEST(Matmul, ReferenceIsTheOrderedDotProduct) {
  for (std::int64_t k : {0, 1, 2, 511, 512, 513, 1024, 1025, 1537, 5000}) {
    const Case c{.batch = 2, .m = 3, .n = 5, .k = k, .a = Layout::transposed};
    const Inputs in(c);
    const Floats found = product(c, in, Isa::reference);
    for (std::int64_t i = 0; i < c.batch * c.m * c.n; ++i) {
      contract::OrderedDot dot;
      for (std::int64_t t = 0; t < k; ++t) dot.add(in.a.at(i / 15, i / 5 % 3, t), in.b.at(i / 15, t, i % 5));
      ASSERT_EQ(canonical_bits(found[static_cast<std::size_t>(i)]), canonical_bits(dot.result())) << c;
    }
  }
}

// |error| <= (leaf length + tree depth) * 2^-24 * sum of |terms|: every partial sum is rounded once.
TEST(Matmul, ReferenceAgreesWithBinary64) {
  for (std::int64_t k : {1, 100, 512, 3000, 20000}) {
    const Floats a = ordinary(4 * k, 1), b = ordinary(4 * k, 2);
    Floats c(16);
    const IsaScope scope(Isa::reference);
    matmul(
        {.m = 4, .n = 4, .k = k, .a = {a.data(), 0, k, 1}, .b = {b.data(), 0, 1, k}, .c = c.data(), .c_row_stride = 4});
    for (std::int64_t i = 0; i < 16; ++i) {
      double exact = 0, magnitude = 0;
      for (std::int64_t t = 0; t < k; ++t) {
        const double term =
            double{a[static_cast<std::size_t>(i / 4 * k + t)]} * b[static_cast<std::size_t>(i % 4 * k + t)];
        exact += term;
        magnitude += std::abs(term);
      }
      const double steps = static_cast<double>(std::min<std::int64_t>(k, 512)) + std::ceil(std::log2(k / 512.0 + 1));
      EXPECT_NEAR(c[static_cast<std::size_t>(i)], exact, steps * 0x1p-24 * magnitude + 1e-40) << "k " << k;
    }
  }
}

TEST(Matmul, ShapesAgreeOnEveryInstructionSet) {
  for (std::int64_t m : {0, 1, 2, 5, 6, 7, 13, 31, 64})
    for (std::int64_t n : {0, 1, 3, 8, 15, 16, 17, 33, 70})
      for (std::int64_t k : {0, 1, 7, 65, 513}) expect_same_everywhere({.batch = 1, .m = m, .n = n, .k = k});
}

TEST(Matmul, LongSumsAgreeOnEveryInstructionSet) {
  for (std::int64_t k : {511, 512, 513, 1023, 1024, 1025, 1536, 2049, 5000})
    for (auto [m, n] : {std::pair{1, 1}, {1, 40}, {40, 1}, {7, 19}, {30, 66}})
      expect_same_everywhere({.batch = 1, .m = m, .n = n, .k = k});
}

// A row by a column along k: leaves in lanes, sixteen or 32 at a time, and what is left of them.
TEST(Matmul, DotsOfManyLeavesAgreeOnEveryInstructionSet) {
  for (const std::int64_t leaves : {2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 100, 257})
    for (const std::int64_t more : {0, 1, 511})
      expect_same_everywhere({.batch = 1, .m = 1, .n = 1, .k = leaves * 512 + more, .special = more == 1});
  for (const bool transposed : {false, true})
    expect_same_everywhere({.batch = 5,
                            .m = 1,
                            .n = 1,
                            .k = 9000,
                            .addend = true,
                            .transposed_output = transposed,
                            .alpha = 0.3f,
                            .beta = -1.7f});
}

// Matrix-vector products and the like read their matrix in place.
TEST(Matmul, FewRowsAgreeOnEveryInstructionSet) {
  for (std::int64_t m : {1, 2, 3, 4, 5})
    for (std::int64_t n : {1, 7, 8, 9, 23, 31, 32, 33, 100, 1500})
      for (std::int64_t k : {5, 16, 27, 519, 1024, 1100})
        for (Layout b : {Layout::plain, Layout::transposed})
          expect_same_everywhere({.batch = 1, .m = m, .n = n, .k = k, .b = b, .special = n == 33});
}

// An addend in the place of the result is read once for each output, wherever columns are worked on twice.
TEST(Matmul, FewRowsMayAddToTheirOwnPlace) {
  for (const std::int64_t n : {8, 17, 23, 40}) {
    const Floats a = ordinary(2 * 600, 1), b = ordinary(600 * n, 2), start = ordinary(2 * n, 3);
    const auto added = [&](Isa isa) {
      const IsaScope scope(isa);
      Floats c = start;
      matmul({.m = 2,
              .n = n,
              .k = 600,
              .a = {a.data(), 0, 600, 1},
              .b = {b.data(), 0, 1, 600},
              .addend = {c.data(), 0, n, 1},
              .c = c.data(),
              .c_row_stride = n});
      return c;
    };
    const Floats expected = added(Isa::reference);
    for (Isa isa : available_isas()) EXPECT_EQ(first_difference(expected, added(isa)), -1) << n << " " << name(isa);
  }
}

TEST(Matmul, LayoutsAgreeOnEveryInstructionSet) {
  for (Layout a : {Layout::plain, Layout::transposed, Layout::strided, Layout::reversed, Layout::broadcast})
    for (Layout b : {Layout::plain, Layout::transposed, Layout::strided, Layout::reversed, Layout::broadcast})
      for (auto [m, n, k] : {std::tuple{1, 37, 600}, {37, 1, 600}, {9, 35, 600}, {50, 50, 50}, {4, 130, 70}})
        for (bool transposed : {false, true})
          expect_same_everywhere({.batch = 3, .m = m, .n = n, .k = k, .a = a, .b = b, .transposed_output = transposed});
}

TEST(Matmul, NanAndInfinityAgreeOnEveryInstructionSet) {
  for (auto [m, n, k] : {std::tuple{1, 1, 3}, {1, 50, 100}, {50, 1, 100}, {20, 40, 700}, {33, 17, 40}})
    expect_same_everywhere({.batch = 2, .m = m, .n = n, .k = k, .special = true});
}

TEST(Matmul, AddendAndFactorsAgreeOnEveryInstructionSet) {
  for (float alpha : {1.0f, 0.3f, 0.0f})
    for (float beta : {1.0f, -1.7f, 0.0f})
      for (auto [m, n, k] : {std::tuple{1, 30, 20}, {30, 1, 20}, {13, 45, 600}, {5, 5, 0}})
        for (bool transposed : {false, true})
          expect_same_everywhere({.batch = 2,
                                  .m = m,
                                  .n = n,
                                  .k = k,
                                  .addend = true,
                                  .transposed_output = transposed,
                                  .alpha = alpha,
                                  .beta = beta});
}

TEST(Matmul, LargeProductsAgreeOnEveryInstructionSet) {
  expect_same_everywhere({.batch = 1, .m = 131, .n = 257, .k = 1100});
  expect_same_everywhere({.batch = 1, .m = 64, .n = 512, .k = 784, .b = Layout::transposed, .addend = true});
  expect_same_everywhere({.batch = 1, .m = 2500, .n = 20, .k = 520});
  expect_same_everywhere({.batch = 1, .m = 20, .n = 2500, .k = 520});
  expect_same_everywhere({.batch = 1, .m = 300, .n = 10, .k = 2100, .a = Layout::transposed});
}

// Their factors are read where they lie; borders of tiles and panels in every combination, and leaves after the first.
TEST(Matmul, FewColumnsAgreeOnEveryInstructionSet) {
  for (const Layout a : {Layout::plain, Layout::transposed})
    for (const Layout b : {Layout::plain, Layout::transposed})
      for (const std::int64_t m : {5, 7, 13, 15, 29, 50})
        for (const std::int64_t n : {15, 16, 31, 32, 33, 48, 63, 64, 65})
          for (const std::int64_t k : {1, 50, 130})
            expect_same_everywhere(
                {.batch = 2, .m = m, .n = n, .k = k, .a = a, .b = b, .special = (m + n + k) % 3 == 0});
  for (const Layout a : {Layout::plain, Layout::transposed})  // near, and too far
    for (auto [m, n, k] : {std::tuple{16, 16, 512}, {16, 16, 513}, {15, 32, 1100}, {160, 64, 52}, {170, 64, 52}})
      expect_same_everywhere({.batch = 2, .m = m, .n = n, .k = k, .a = a});
}

// More columns than are read in place: whole panels are packed with the first tile of the first rows, borders before.
// More rows than are packed at a time and columns that the second cache would not hold: panels of several leaves, whose
// sums are parked where not all leaves are packed together.
TEST(Matmul, ManyRowsOfManyColumnsAgreeOnEveryInstructionSet) {
  struct Leaves {
    explicit Leaves(std::int64_t together) {
      Tuning t;
      t.product_leaves = together;
      set_tuning(t);
    }
    ~Leaves() { set_tuning({}); }
  };
  for (const std::int64_t together : {1, 2, 4, 7}) {
    const Leaves leaves(together);
    for (auto [m, n, k] : {std::tuple{101, 530, 513}, {85, 135, 2561}, {197, 513, 1030}})
      ASSERT_NO_FATAL_FAILURE(expect_same_everywhere({1, m, n, k})) << together;
  }
  // Rows of many blocks, and terms a large power of two apart: columns are packed before they are multiplied.
  for (auto [m, n, k] : {std::tuple{430, 530, 513}, {90, 4096, 513}})
    ASSERT_NO_FATAL_FAILURE(expect_same_everywhere({1, m, n, k}));
  Case c{1, 99, 269, 1100};
  for (c.a = Layout::plain; c.a != Layout::broadcast; c.a = static_cast<Layout>(static_cast<int>(c.a) + 1)) {
    for (c.b = Layout::plain; c.b != Layout::broadcast; c.b = static_cast<Layout>(static_cast<int>(c.b) + 1))
      ASSERT_NO_FATAL_FAILURE(expect_same_everywhere(c));
  }
  for (const bool transposed : {false, true}) {
    for (const float beta : {1.0f, -0.5f}) {
      Case more{1, 99, 288, 1100};
      more.addend = more.special = true, more.transposed_output = transposed, more.alpha = 0.75f, more.beta = beta;
      ASSERT_NO_FATAL_FAILURE(expect_same_everywhere(more));
      more.alpha = 1.0f, more.addend_layout = Layout::plain;
      ASSERT_NO_FATAL_FAILURE(expect_same_everywhere(more));
    }
  }
}

// 33 to 64 columns of 16 lanes: rows are read where they lie, columns too where they are 64 that lie near.
TEST(Matmul, HeadsAgreeOnEveryInstructionSet) {
  for (const Layout a : {Layout::plain, Layout::transposed, Layout::strided}) {
    for (const std::int64_t n : {33, 48, 50, 63, 64, 65}) {
      for (const auto& [m, k] : {std::pair{1, 64}, {5, 7}, {7, 512}, {50, 50}, {13, 1100}, {8, 2049}, {64, 0}})
        ASSERT_NO_FATAL_FAILURE(expect_same_everywhere({2, m, n, k, a}));
    }
  }
  for (const bool transposed : {false, true}) {
    Case c{1, 29, 64, 600};
    c.special = c.addend = true, c.transposed_output = transposed, c.alpha = 0.75f, c.beta = 2.0f;
    ASSERT_NO_FATAL_FAILURE(expect_same_everywhere(c));
    c.a = Layout::transposed, c.addend_layout = Layout::plain, c.alpha = c.beta = 1.0f;
    ASSERT_NO_FATAL_FAILURE(expect_same_everywhere(c));
  }
}

// Columns of a wider matrix, the last of which ends where its memory does.
TEST(Matmul, HeadsOfAWiderMatrixAgreeOnEveryInstructionSet) {
  constexpr std::int64_t kRows = 40, kTerms = 70, kWidth = 192;
  const Floats a = hostile(kRows * kTerms, 4, false), b = hostile(kTerms * kWidth, 5, false);
  for (const std::int64_t columns : {40, 64}) {
    std::vector<Floats> found;
    for (const Isa isa : available_isas()) {
      const IsaScope scope(isa);
      MatmulProblem p;
      p.m = kRows, p.n = columns, p.k = kTerms;
      p.a.data = a.data(), p.a.row_stride = kTerms, p.a.column_stride = 1;
      p.b.data = b.data() + kWidth - columns, p.b.row_stride = kWidth, p.b.column_stride = 1;
      Floats c(kRows * columns);
      p.c = c.data(), p.c_row_stride = columns, p.c_column_stride = 1;
      matmul(p);
      found.push_back(std::move(c));
      EXPECT_EQ(first_difference(found.front(), found.back()), -1) << name(isa) << ", " << columns << " columns";
    }
  }
}

TEST(Matmul, ColumnsPackedOnTheWayAgreeOnEveryInstructionSet) {
  for (const std::int64_t m : {5, 6, 7, 14, 29, 96, 99, 200})
    for (const std::int64_t n : {65, 80, 96, 127})
      for (const std::int64_t k : {1, 130, 512, 515})
        if (m * n * k < 4'000'000 || m == 200)
          expect_same_everywhere({.batch = 1, .m = m, .n = n, .k = k, .special = (m + n + k) % 3 == 0});
  for (const Layout a : {Layout::transposed, Layout::strided, Layout::reversed})
    expect_same_everywhere({.batch = 2, .m = 30, .n = 1100, .k = 521, .a = a});
}

// Few rows of samples by weights that lie along the sum: computed with the sides exchanged, addends of any layout.
TEST(Matmul, ExchangedSidesAgreeOnEveryInstructionSet) {
  for (const Layout addend : {Layout::plain, Layout::transposed, Layout::strided, Layout::reversed, Layout::broadcast})
    for (const std::int64_t m : {8, 16, 31, 64})
      for (auto [alpha, beta] : {std::pair{1.0f, 1.0f}, {0.3f, 1.0f}, {1.0f, -1.7f}, {0.3f, -1.7f}})
        expect_same_everywhere({.batch = 2,
                                .m = m,
                                .n = 203,
                                .k = 75,
                                .b = Layout::transposed,
                                .addend = true,
                                .alpha = alpha,
                                .beta = beta,
                                .addend_layout = addend});
  for (const std::int64_t m : {12, 32, 64})
    expect_same_everywhere({.batch = 1, .m = m, .n = 300, .k = 600, .b = Layout::transposed, .special = true});
}

TEST(Matmul, BatchesAgreeOnEveryInstructionSet) {
  expect_same_everywhere({.batch = 40, .m = 17, .n = 17, .k = 24});
  expect_same_everywhere({.batch = 6, .m = 50, .n = 50, .k = 64, .b = Layout::transposed});  // of attention
  expect_same_everywhere({.batch = 6, .m = 50, .n = 64, .k = 50, .special = true});
  expect_same_everywhere({.batch = 2, .m = 130, .n = 33, .k = 600, .b = Layout::strided});
  expect_same_everywhere({.batch = 300, .m = 2, .n = 3, .k = 2});
  expect_same_everywhere({.batch = 7, .m = 1, .n = 64, .k = 64, .b = Layout::transposed});
}

// The formula of the addend: two rounded products and one addition, no fma.
TEST(Matmul, AddendFollowsItsFormula) {
  const float a = 3.0f, b = 1.1f, d = 0.7f;
  float c = 0;
  matmul({.m = 1,
          .n = 1,
          .k = 1,
          .a = {&a, 0, 1, 1},
          .b = {&b, 0, 1, 1},
          .addend = {&d, 0, 0, 0},
          .alpha = 0.3f,
          .beta = 1.7f,
          .c = &c});
  const volatile float left = 1.7f * d, right = 0.3f * (a * b);
  EXPECT_EQ(canonical_bits(c), canonical_bits(left + right));
}

TEST(Matmul, NeverReturnsMinusZero) {
  const Floats a(600, 0x1p-100f), b(600, -0x1p-100f);
  for (Isa isa : available_isas()) {
    const IsaScope scope(isa);
    for (std::int64_t n : {1, 20}) {
      Floats c(static_cast<std::size_t>(n), 1.0f);
      matmul({.m = 1, .n = n, .k = 1, .a = {a.data(), 0, 0, 1}, .b = {b.data(), 0, 0, 1}, .c = c.data()});
      for (float value : c) EXPECT_EQ(canonical_bits(value), 0u) << name(isa);
    }
  }
}

// Or the comparisons above could not fail: the same terms in other orders give other bits.
TEST(Matmul, OtherOrdersGiveOtherBits) {
  const std::int64_t k = 2000;
  const Floats a = ordinary(k, 5), b = ordinary(k, 6);
  float c = 0;
  matmul({.m = 1, .n = 1, .k = k, .a = {a.data(), 0, k, 1}, .b = {b.data(), 0, 1, 1}, .c = &c});
  float one_chain = 0, rounded_products = 0, backwards = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
    one_chain = std::fma(a[i], b[i], one_chain);
    const volatile float term = a[i] * b[i];
    rounded_products += term;
  }
  contract::OrderedDot reverse;
  for (std::size_t i = static_cast<std::size_t>(k); i-- > 0;) reverse.add(a[i], b[i]);
  backwards = reverse.result();
  EXPECT_NE(canonical_bits(c), canonical_bits(one_chain));
  EXPECT_NE(canonical_bits(c), canonical_bits(rounded_products));
  EXPECT_NE(canonical_bits(c), canonical_bits(backwards));
}

}  // namespace
}  // namespace isobit::kernels
