// Cholesky, LU, substitution, solve, inverse, determinants: the contract's order written plainly, gradients, batches,
// strides, threads, the fake device, what is singular or not a number.
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "operator_cases.h"

namespace isobit::test {
namespace {

Tensor positive_definite(at::IntArrayRef sizes) {
  const Tensor a = at::randn(sizes);
  return at::matmul(a, a.mT()).add(at::eye(sizes.back()));
}

// The contract's sentences, element by element. `backwards`: another order of the sums.
Tensor plain_cholesky(const Tensor& given, bool backwards = false) {
  const std::int64_t n = given.size(-1);
  const Tensor wide = given.to(at::kDouble).contiguous(), out = at::zeros({n, n}, at::kDouble);
  const double* a = wide.const_data_ptr<double>();
  double* l = out.mutable_data_ptr<double>();
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = j; i < n; ++i) {
      double t = a[i * n + j];
      for (std::int64_t s = 0; s < j; ++s) {
        const std::int64_t k = backwards ? j - 1 - s : s;
        const double product = l[i * n + k] * l[j * n + k];
        t = t - product;
      }
      l[i * n + j] = i == j ? std::sqrt(t) : t / l[j * n + j];
    }
  }
  return out.to(given.scalar_type());
}
struct PlainLu {
  Tensor lu, pivots;
};
PlainLu plain_lu(const Tensor& given) {
  const Tensor wide = given.to(at::kDouble).contiguous().clone();
  const std::int64_t m = given.size(0), n = given.size(1), steps = std::min(m, n);
  const Tensor pivots = at::empty({steps}, at::kInt);
  double* a = wide.mutable_data_ptr<double>();
  for (std::int64_t k = 0; k < steps;
       ++k) {  // right-looking: every element loses its terms in the order of k all the same
    std::int64_t best = k;
    for (std::int64_t i = k + 1; i < m; ++i) {
      if (std::fabs(a[i * n + k]) > std::fabs(a[best * n + k])) best = i;
    }
    pivots.mutable_data_ptr<std::int32_t>()[k] = static_cast<std::int32_t>(best + 1);
    for (std::int64_t c = 0; c < n; ++c) std::swap(a[k * n + c], a[best * n + c]);
    if (a[k * n + k] == 0.0) continue;
    for (std::int64_t i = k + 1; i < m; ++i) {
      a[i * n + k] = a[i * n + k] / a[k * n + k];
      for (std::int64_t c = k + 1; c < n; ++c) {
        const double product = a[i * n + k] * a[k * n + c];
        a[i * n + c] = a[i * n + c] - product;
      }
    }
  }
  return {wide.to(given.scalar_type()), pivots};
}

void expect_plain_order(std::int64_t n, at::ScalarType type) {
  const Tensor a = positive_definite({n, n}).to(type), expected = plain_cholesky(a);
  for (const std::int64_t m : {n, n + 5, std::max<std::int64_t>(n - 3, 0)}) {
    const Tensor general = at::randn({m, n}, type);
    const PlainLu lu = plain_lu(general);
    const aten::OperatorSwitch on;
    for (const int threads : {1, 3}) {
      const kernels::ThreadCountScope scope(threads);
      for (const Tensor& x : {a, scattered(a)}) {
        EXPECT_TRUE(same_bits(std::get<0>(at::linalg_cholesky_ex(x)), expected)) << n;
        EXPECT_TRUE(same_bits(std::get<0>(at::linalg_cholesky_ex(x, true)), expected.t())) << n;
      }
      const auto [factors, pivots, info] = at::linalg_lu_factor_ex(general);
      EXPECT_TRUE(same_bits(factors, lu.lu)) << m << " x " << n;
      EXPECT_TRUE(same_bits(pivots, lu.pivots)) << m << " x " << n;
      EXPECT_EQ(info.item<int>(), 0);
    }
  }
}
TEST(LinearAlgebra, BitsAreThoseOfThePlainOrder) {
  at::manual_seed(410);
  for (const at::ScalarType type : {at::kFloat, at::kDouble})
    for (const std::int64_t n : {0, 1, 2, 3, 17, 64, 65}) expect_plain_order(n, type);
}

// What float64 and float32 compute is one thing: float32's results are float64's of the same numbers, rounded once.
TEST(LinearAlgebra, Float64IsFloat32BeforeItIsRounded) {
  at::manual_seed(414);
  const Tensor a = positive_definite({2, 3, 40, 40}), b = at::randn({3, 40, 7}), triangle = a.tril();
  const std::function<Tensor(const Tensor&, const Tensor&)> functions[] = {
      [](const Tensor& m, const Tensor&) { return at::linalg_cholesky(m); },
      [](const Tensor& m, const Tensor&) { return at::linalg_cholesky(m, true); },
      [](const Tensor& m, const Tensor& x) { return at::linalg_solve(m, x); },
      [](const Tensor& m, const Tensor& x) { return at::linalg_solve(m, x.mT(), false); },
      [](const Tensor& m, const Tensor&) { return at::inverse(m); },
      [](const Tensor& m, const Tensor&) { return at::det(m); },
      [](const Tensor& m, const Tensor&) { return std::get<1>(at::slogdet(m)); },
      [](const Tensor& m, const Tensor& x) { return at::linalg_solve_triangular(m.tril(), x, false); },
      [](const Tensor& m, const Tensor& x) { return at::linalg_solve_triangular(m.triu(), x.mT(), true, false, true); },
      [](const Tensor& m, const Tensor& x) { return at::cholesky_solve(x, m.tril()[0]); },
      [](const Tensor& m, const Tensor&) { return at::cholesky_inverse(m.tril()); },
      [](const Tensor& m, const Tensor&) { return std::get<0>(at::linalg_lu_factor_ex(m)); },
      [](const Tensor& m, const Tensor&) { return std::get<1>(at::linalg_qr(m)); },
      [](const Tensor& m, const Tensor&) { return std::get<0>(at::linalg_qr(m, "complete")); },
  };
  const aten::OperatorSwitch on;
  for (std::size_t i = 0; i < std::size(functions); ++i) {
    const Tensor narrow = functions[i](a, b), wide = functions[i](a.to(at::kDouble), b.to(at::kDouble));
    EXPECT_EQ(wide.scalar_type(), at::kDouble) << i;
    EXPECT_TRUE(same_bits(wide.to(at::kFloat), narrow)) << i;
    EXPECT_FALSE(same_bits(wide, narrow.to(at::kDouble))) << i << ": float64 keeps its digits";
  }
}

// Binary64 hides an order's rounding unless much cancels.
TEST(LinearAlgebra, AnotherOrderIsNoticed) {
  at::manual_seed(411);
  const Tensor row = at::randn({40, 1}), a = at::matmul(row, row.t()).mul(1e5).add(at::eye(40).mul(0.3));
  const Tensor expected = plain_cholesky(a);
  EXPECT_FALSE(same_bits(plain_cholesky(a, /*backwards=*/true), expected));
  const aten::OperatorSwitch on;
  EXPECT_TRUE(same_bits(at::linalg_cholesky(a), expected));
}

TEST(LinearAlgebra, ValuesAndGradients) {
  at::manual_seed(412);
  const Tensor a = positive_definite({2, 3, 6, 6}), b = at::randn({3, 6, 4}), v = at::randn({6});
  const Tensor general = at::randn({3, 5, 5}).add(at::eye(5).mul(3)), right = at::randn({2, 3, 5, 2});
  check({"cholesky", {a}, [](const Tensors& t) { return at::linalg_cholesky(t[0]); }});
  check({"cholesky, upper", {a}, [](const Tensors& t) { return at::linalg_cholesky(t[0], true); }});
  check({"old cholesky", {a}, [](const Tensors& t) { return at::cholesky(t[0]); }});
  for (const bool upper : {false, true}) {
    const Tensor triangle = at::randn({3, 6, 6}).mul(0.2).add(at::eye(6).mul(2));
    check({"cholesky_solve", {b, upper ? triangle.triu() : triangle.tril()}, [=](const Tensors& t) {
             return at::cholesky_solve(t[0], t[1], upper);
           }});
    check({"cholesky_inverse", {upper ? triangle.triu() : triangle.tril()}, [=](const Tensors& t) {
             return at::cholesky_inverse(t[0], upper);
           }});
    for (const bool unit : {false, true}) {
      check({"solve_triangular", {triangle, b}, [=](const Tensors& t) {
               return at::linalg_solve_triangular(t[0], t[1], upper, true, unit);
             }});
      check({"solve_triangular from the right", {triangle, b.mT().contiguous()}, [=](const Tensors& t) {
               return at::linalg_solve_triangular(t[0], t[1], upper, false, unit);
             }});
      for (const bool transpose : {false, true}) {
        check({"triangular_solve", {b, triangle}, [=](const Tensors& t) {
                 return std::get<0>(at::triangular_solve(t[0], t[1], upper, transpose, unit));
               }});
      }
    }
  }
  check({"solve", {general, right}, [](const Tensors& t) { return at::linalg_solve(t[0], t[1]); }});
  check({"solve from the right", {general, right.mT().contiguous()}, [](const Tensors& t) {
           return at::linalg_solve(t[0], t[1], false);
         }});
  check({"solve for a vector", {a[0][0], v}, [](const Tensors& t) { return at::linalg_solve(t[0], t[1]); }});
  check({"inverse", {general}, [](const Tensors& t) { return at::inverse(t[0]); }});
  check({"determinant", {general}, [](const Tensors& t) { return at::det(t[0]); }});
  check({"logdet", {a}, [](const Tensors& t) { return at::logdet(t[0]); }});
  check({"slogdet", {general}, [](const Tensors& t) { return std::get<1>(at::slogdet(t[0])); }});
  check({"negative power", {general}, [](const Tensors& t) { return at::matrix_power(t[0], -2); }, 1e-4});
  for (const bool left : {true, false}) {
    for (const bool adjoint : {true, false}) {
      const auto [lu, pivots, info] = at::linalg_lu_factor_ex(general);
      check({"lu_solve",
             {lu, left ? right : right.mT().contiguous()},
             [=](const Tensors& t) { return at::linalg_lu_solve(t[0], pivots.to(t[0].device()), t[1], left, adjoint); },
             1e-5,
             /*gradients=*/false});
    }
  }
}

TEST(LinearAlgebra, SingularIndefiniteAndNotANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Tensor a = at::eye(4);
  a[2][2].fill_(-1.0);
  const Tensor batch = at::stack({at::eye(4), a}), zeros = at::zeros({3, 3});
  Tensor odd = at::eye(3);
  odd[1][0].fill_(nan);
  const aten::OperatorSwitch on;
  const auto [l, info] = at::linalg_cholesky_ex(batch);
  EXPECT_TRUE(same_bits(info, at::tensor({0, 3}, at::kInt)));
  EXPECT_TRUE(same_bits(l[0], at::eye(4)));
  EXPECT_TRUE(l[1][1].isfinite().all().item<bool>());
  EXPECT_TRUE(l[1][3][2].isnan().item<bool>());
  expect_throws([&] { at::linalg_cholesky(a); }, "not positive-definite");
  expect_throws([&] { at::linalg_cholesky(batch); }, "Batch element 1");
  expect_throws([&] { at::inverse(zeros); }, "singular");
  expect_throws([&] { at::linalg_solve(zeros, at::ones({3})); }, "singular");
  EXPECT_EQ(std::get<2>(at::linalg_lu_factor_ex(zeros)).item<int>(), 1);
  EXPECT_EQ(at::det(zeros).item<float>(), 0.0f);
  EXPECT_EQ(std::get<1>(at::slogdet(zeros)).item<float>(), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(std::get<0>(at::slogdet(zeros)).item<float>(), 0.0f);
  EXPECT_NE(std::get<1>(at::linalg_cholesky_ex(odd)).item<int>(), 0);
  EXPECT_TRUE(at::det(odd).isnan().item<bool>() || at::det(odd).item<float>() == 1.0f);
  EXPECT_EQ(at::det(at::empty({0, 0})).item<float>(), 1.0f);
  EXPECT_EQ(at::inverse(at::empty({2, 0, 0})).numel(), 0);
  EXPECT_EQ(at::linalg_solve(at::eye(3), at::empty({3, 0})).numel(), 0);
}

TEST(LinearAlgebra, OutputsAndRefusals) {
  at::manual_seed(413);
  const Tensor a = positive_definite({5, 5}), b = at::randn({5, 2});
  const aten::OperatorSwitch on;
  Tensor out = at::empty({0}), info = at::empty({0}, at::kInt);
  at::linalg_cholesky_ex_out(out, info, a);
  EXPECT_TRUE(same_bits(out, at::linalg_cholesky(a)));
  Tensor x = at::empty({0});
  at::linalg_solve_triangular_out(x, out, b, false);
  EXPECT_TRUE(same_bits(x, at::linalg_solve_triangular(out, b, false)));
  Tensor inverse = at::empty({0});
  at::linalg_inv_out(inverse, a);
  EXPECT_TRUE(same_bits(inverse, at::inverse(a)));
  expect_throws([&] { at::linalg_cholesky(a.to(at::kComplexFloat)); }, "float32 and float64");
  expect_throws([&] { at::linalg_solve(a, b.to(at::kDouble)); }, "");
  Tensor wide = at::empty({0}, at::kDouble);
  expect_throws([&] { at::linalg_inv_out(wide, a); }, "");
  // What cholesky_solve calls, called by itself: a factor that does not fit is not read.
  expect_throws([&] { at::_cholesky_solve_helper(at::ones({5, 2}), at::ones({3, 3}), false); }, "do not fit");
  expect_throws([&] { at::_cholesky_solve_helper(at::ones({2, 3, 2}), at::ones({1, 3, 3}), false); }, "do not fit");
  expect_throws([&] { at::_cholesky_solve_helper(at::ones({3, 2}), at::ones({3, 5}), false); }, "square");
  expect_throws([&] { at::linalg_cholesky(at::ones({2, 3})); }, "square");
  expect_throws([&] { at::linalg_solve(a, at::ones({4, 2})); }, "Incompatible shapes");
  expect_throws([&] { at::linalg_lu_factor_ex(a, false); }, "without pivoting");
  const Tensor bad = at::tensor({1, 2, 9, 4, 5}, at::kInt);
  expect_throws([&] { at::linalg_lu_solve(a, bad, b); }, "pivots must be");
}

}  // namespace
}  // namespace isobit::test
