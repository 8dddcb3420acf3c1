// linalg_qr: the contract's order written plainly, LAPACK's signs, threads and strides, refusals.
#include <cmath>
#include <limits>
#include <tuple>

#include "operator_cases.h"

namespace isobit::test {
namespace {

struct Factors {
  Tensor q, r;
};
Factors qr_of(const Tensor& a, const char* mode = "reduced") {
  const auto [q, r] = at::linalg_qr(a, mode);
  return {q, r};
}
bool same(const Factors& a, const Factors& b) { return same_bits(a.q, b.q) && same_bits(a.r, b.r); }

// The contract's sentences, column by column. `backwards`: another order of the chains.
Factors plain(const Tensor& given, std::int64_t side, bool backwards = false) {
  const Tensor wide = given.to(at::kDouble).contiguous().clone();
  const std::int64_t m = given.size(0), n = given.size(1), k = std::min(m, n);
  double* const a = wide.mutable_data_ptr<double>();
  const Tensor out = at::eye(m, at::kDouble);
  double* const q = out.mutable_data_ptr<double>();
  std::vector<std::vector<double>> vectors;
  std::vector<double> taus;
  // Column c of a matrix of `width` columns becomes H_j times it.
  const auto reflect = [&](std::size_t j, double* x, std::int64_t width, std::int64_t c) {
    if (taus[j] == 0.0) return;
    const auto first = static_cast<std::int64_t>(j);
    double w = x[first * width + c];
    for (std::int64_t s = 1; s < m - first; ++s) {
      const std::int64_t i = backwards ? m - s : first + s;
      w = w + vectors[j][static_cast<std::size_t>(i)] * x[i * width + c];
    }
    w = taus[j] * w;
    x[first * width + c] -= w;
    for (std::int64_t i = first + 1; i < m; ++i) {
      const double product = vectors[j][static_cast<std::size_t>(i)] * w;
      x[i * width + c] -= product;
    }
  };
  for (std::int64_t j = 0; j < k; ++j) {
    double squares = 0;
    for (std::int64_t i = j + 1; i < m; ++i) squares = squares + a[i * n + j] * a[i * n + j];
    vectors.emplace_back(static_cast<std::size_t>(m), 0.0);
    taus.push_back(0.0);
    if (squares != 0.0) {
      const double alpha = a[j * n + j], beta = -std::copysign(std::sqrt(alpha * alpha + squares), alpha);
      taus.back() = (beta - alpha) / beta;
      for (std::int64_t i = j + 1; i < m; ++i)
        vectors.back()[static_cast<std::size_t>(i)] = a[i * n + j] / (alpha - beta);
      a[j * n + j] = beta;
    }
    for (std::int64_t c = j + 1; c < n; ++c) reflect(static_cast<std::size_t>(j), a, n, c);
  }
  for (std::int64_t c = 0; c < m; ++c) {
    for (std::int64_t j = std::min(c, k - 1); j >= 0; --j) reflect(static_cast<std::size_t>(j), q, m, c);
  }
  Tensor r = at::zeros({side, n}, at::kDouble);
  r.narrow(0, 0, k).copy_(wide.narrow(0, 0, k).triu());
  return {out.narrow(1, 0, side).to(given.scalar_type()), r.to(given.scalar_type())};
}

void expect_plain_order(std::int64_t m, std::int64_t n, at::ScalarType type) {
  SCOPED_TRACE(::testing::Message() << m << " x " << n << ", " << type);
  const Tensor a = at::randn({m, n}, type);
  const Factors reduced = plain(a, std::min(m, n)), complete = plain(a, m);
  const aten::OperatorSwitch on;
  for (const int threads : {1, 2, 3, 8}) {
    const kernels::ThreadCountScope scope(threads);
    for (const Tensor& x : {a, scattered(a), a.t().contiguous().t()}) {
      EXPECT_TRUE(same(qr_of(x), reduced));
      EXPECT_TRUE(same(qr_of(x, "complete"), complete));
      EXPECT_TRUE(same_bits(qr_of(x, "r").r, reduced.r));
      EXPECT_EQ(qr_of(x, "r").q.numel(), 0);
    }
  }
}
TEST(Qr, BitsAreThoseOfThePlainOrder) {
  at::manual_seed(300);
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                             {5, 3},
                             {3, 5},
                             {16, 16},
                             {17, 17},
                             {33, 31},
                             {31, 50},
                             {129, 64},
                             {7, 1},
                             {1, 7},
                             {40, 90},
                             {0, 3},
                             {3, 0},
                             {300, 37}}) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) expect_plain_order(m, n, type);
  }
}

// Squares that leave binary64's range: columns of other sizes side by side. The factors are those of the columns
// near 1.
TEST(Qr, HugeAndTinyColumnsKeepTheirDigits) {
  at::manual_seed(304);
  const Tensor a = at::randn({9, 6}, at::kDouble), q = qr_of(a).q;
  for (const double size : {0x1p-1000, 0x1p-560, 0x1p-511, 0x1p-401, 0x1p-399, 0x1p399, 0x1p401, 0x1p511, 0x1p1000}) {
    for (const bool one : {false, true}) {
      Tensor scales = at::ones({6}, at::kDouble);
      one ? scales.narrow(0, 2, 1).fill_(size) : scales.fill_(size);
      const Tensor x = a.mul(scales);
      const aten::OperatorSwitch on;
      for (const int threads : {1, 3}) {
        const kernels::ThreadCountScope scope(threads);
        const Factors f = qr_of(x);
        EXPECT_LT(at::matmul(f.q, f.r.div(scales)).sub(a).abs().max().item<double>(), 1e-13) << size << one;
        EXPECT_LT(f.q.abs().sub(q.abs()).abs().max().item<double>(), 1e-13) << size << one;
      }
    }
  }
  const aten::OperatorSwitch on;
  const Tensor tiny = at::full({3, 2}, 0x1p-1074, at::kDouble);
  EXPECT_TRUE(qr_of(tiny).q.isfinite().all().item<bool>());
  const Tensor infinite = at::full({3, 2}, std::numeric_limits<double>::infinity(), at::kDouble);
  EXPECT_TRUE(qr_of(infinite).r.isnan().any().item<bool>());
}

// Binary64 hides most of an order's rounding; columns that nearly depend on each other bring it to light.
TEST(Qr, AnotherOrderIsNoticed) {
  at::manual_seed(303);
  const Tensor a = at::randn({40, 1}).mul(at::ones({1, 30})).add(at::randn({40, 30}).mul(1e-6));
  const Factors forwards = plain(a, 30);
  EXPECT_FALSE(same(plain(a, 30, /*backwards=*/true), forwards));
  const aten::OperatorSwitch on;
  EXPECT_TRUE(same(qr_of(a), forwards));
}

TEST(Qr, IsLapacksFactorisation) {
  at::manual_seed(301);
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{60, 60}, {120, 40}, {40, 120}, {500, 3}}) {
    for (const char* mode : {"reduced", "complete"}) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << ", " << mode);
      const Tensor a = at::randn({2, 3, m, n});
      const Factors wide = qr_of(a.to(at::kDouble), mode);
      Factors ours;
      {
        const aten::OperatorSwitch on;
        ours = qr_of(a, mode);
        EXPECT_TRUE(same_bits(qr_of(a[1][2], mode).q, ours.q[1][2])) << "one of a batch";
      }
      const Tensor q = ours.q.to(at::kDouble), r = ours.r.to(at::kDouble);
      EXPECT_EQ(ours.q.strides(), wide.q.strides());
      const auto largest = [](const Tensor& x) { return x.abs().max().item<double>(); };
      EXPECT_LT(largest(at::matmul(q.mT(), q) - at::eye(q.size(-1), at::kDouble)), 1e-6);
      EXPECT_LT(largest(at::matmul(q, r) - a.to(at::kDouble)), 1e-5);
      EXPECT_EQ(largest(r.tril(-1)), 0);
      EXPECT_LT(largest(r - wide.r), 6e-8 * largest(wide.r));
      EXPECT_LT(largest(q - wide.q), 6.1e-8);  // half an ulp below 1, the signs among it
    }
  }
}

TEST(Qr, DependentColumnsZerosAndWhatIsNotANumber) {
  const aten::OperatorSwitch on;
  const Factors zeros = qr_of(at::zeros({4, 3}), "complete");
  EXPECT_TRUE(same_bits(zeros.q, at::eye(4)));
  EXPECT_TRUE(same_bits(zeros.r, at::zeros({4, 3})));
  const Factors triangle = qr_of(at::ones({20, 20}).triu());  // nothing below the diagonal: no reflections, no signs
  EXPECT_TRUE(same_bits(triangle.q, at::eye(20)));
  for (const float odd :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e38f, 1e-45f}) {
    Tensor a = at::ones({20, 18});
    a[3].fill_(odd);
    EXPECT_TRUE(same(qr_of(a), plain(a, 18))) << odd;
  }
}

TEST(Qr, OutputsAndRefusals) {
  at::manual_seed(302);
  const Tensor a = at::randn({9, 4});
  const aten::OperatorSwitch on;
  Tensor q = at::empty({0}), r = at::empty({0});
  at::linalg_qr_out(q, r, a);
  EXPECT_TRUE(same({q, r}, qr_of(a)));
  expect_throws([&] { qr_of(a.to(at::kComplexFloat)); }, "float32 and float64");
  expect_throws([&] { qr_of(a, "full"); }, "mode");
  expect_throws([&] { qr_of(a[0]); }, "matrix");
}

// PyTorch's formula, by substitution with R.
TEST(Qr, Gradients) {
  at::manual_seed(304);
  const Tensor a = at::randn({2, 7, 4});
  check({"Q", {a}, [](const Tensors& t) { return qr_of(t[0]).q; }});
  check({"R", {a}, [](const Tensors& t) { return qr_of(t[0]).r; }});
}

}  // namespace
}  // namespace isobit::test
