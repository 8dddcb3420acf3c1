#include <algorithm>

#include "golden/inputs.h"
#include "golden/kernel_cases.h"
#include "kernels/distributions.h"
#include "kernels/householder.h"
#include "kernels/linear_solvers.h"

namespace isobit::golden {
namespace {

using kernels::Fingerprint;

// Q and R, reduced and complete, of the matrix and of its memory read transposed.
Fingerprint qr(std::int64_t m, std::int64_t n, const Floats& a) {
  Digest digest;
  for (const bool transposed : {false, true}) {
    for (const bool complete : {false, true}) {
      const std::int64_t columns = complete ? m : std::min(m, n);
      Floats q(static_cast<std::size_t>(m * columns)), r(static_cast<std::size_t>(columns * n));
      kernels::householder_qr({.m = m,
                               .n = n,
                               .a = a.data(),
                               .row_stride = transposed ? 1 : n,
                               .column_stride = transposed ? m : 1,
                               .q_columns = columns,
                               .q = q.data(),
                               .r_rows = columns,
                               .r = r.data()});
      digest.add(q).add(r);
    }
  }
  return digest.result();
}

// Columns of zeros below the diagonal need no reflection; one not finite spoils what follows it.
Fingerprint sparse(bool wild) {
  constexpr std::int64_t kRows = 29, kColumns = 21;
  Floats a = uniform(213, kRows * kColumns);
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (const std::int64_t c : {0, 6, 20}) a[static_cast<std::size_t>(i * kColumns + c)] = i <= c / 2 ? -0.5f : 0.0f;
  }
  if (wild) a[3 * kColumns + 18] = contract::float_of(0x7f800000u);
  return qr(kRows, kColumns, a);
}

Floats rounded(const std::vector<double>& x) {
  Floats y;
  for (const double value : x)
    y.push_back(value != value ? contract::float_of(0x7fc00000u) : static_cast<float>(value));
  return y;
}
std::vector<double> widened(const Floats& x) { return {x.begin(), x.end()}; }

// Cholesky's factor of a a^T + shift, and what it solves from both sides.
Fingerprint cholesky(std::int64_t n, double shift) {
  const std::vector<double> from = widened(uniform(221, n * n));
  std::vector<double> a(from.size(), 0.0), x = widened(uniform(222, n * 3));
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      double t = i == j ? shift : 0.0;
      for (std::int64_t k = 0; k < n; ++k) {
        const double product = from[static_cast<std::size_t>(k * n + i)] * from[static_cast<std::size_t>(k * n + j)];
        t = t + product;
      }
      a[static_cast<std::size_t>(j * n + i)] = t;
    }
  }
  Digest digest;
  digest.add(std::vector<std::int64_t>{kernels::factor_cholesky(a.data(), n)}).add(rounded(a));
  for (const bool transposed : {false, true}) {
    kernels::solve_triangle({.a = a.data(), .n = n, .transposed = transposed}, x.data(), 3);
    digest.add(rounded(x));
  }
  return digest.result();
}
Fingerprint lu(std::int64_t m, std::int64_t n, const Floats& given) {
  std::vector<double> a = widened(given), x = widened(uniform(224, m * 3));
  std::vector<std::int32_t> pivots(static_cast<std::size_t>(std::min(m, n)));
  Digest digest;
  digest.add(std::vector<std::int64_t>{kernels::factor_lu(a.data(), m, n, pivots.data())}).add(rounded(a));
  digest.add(std::vector<std::int64_t>(pivots.begin(), pivots.end()));
  if (m == n) {
    for (const bool transposed : {false, true}) {
      kernels::solve_lu(a.data(), pivots.data(), n, transposed, x.data(), 3);
      digest.add(rounded(x));
    }
    const kernels::Determinant d = kernels::determinant_of(a.data(), pivots.data(), n);
    digest.add(rounded({d.sign, d.logarithm, d.product}));
  }
  return digest.result();
}

// Shapes, rates and concentrations from 2^-14 to 2^14, and numbers that are none.
constexpr std::int64_t kDraws = 3000;
Floats parameters(std::uint64_t key) {
  Floats x = uniform(key, kDraws, 0.0f, 1.0f);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = x[i] * contract::float_of((113u + static_cast<std::uint32_t>(i % 29)) << 23);
  for (std::size_t i = 7; i < x.size(); i += 97) x[i] = 0.0f;
  return x;
}
template <class Draw>
Fingerprint drawn(Draw&& draw) {
  Floats out(static_cast<std::size_t>(kDraws));
  draw(out.data());
  return Digest().add(out).result();
}

}  // namespace

void add_factor_cases(std::vector<Case>& cases) {
  cases.push_back({"householder.tall", [] { return qr(61, 37, uniform(211, 61 * 37)); }, true});
  cases.push_back({"householder.wide", [] { return qr(19, 53, uniform(211, 19 * 53)); }, true});
  cases.push_back({"householder.square", [] { return qr(33, 33, hostile(212, 33 * 33)); }, true});
  cases.push_back({"householder.one", [] { return qr(1, 1, {-3.0f}); }, true});
  cases.push_back({"householder.zeros", [] { return sparse(false); }, true});
  cases.push_back({"householder.wild", [] { return sparse(true); }, true});
  cases.push_back({"cholesky.definite", [] { return cholesky(37, 0.5); }, true});
  cases.push_back({"cholesky.indefinite", [] { return cholesky(20, -2.0); }, true});
  cases.push_back({"lu.square", [] { return lu(41, 41, uniform(223, 41 * 41)); }, true});
  cases.push_back({"lu.tall", [] { return lu(50, 19, uniform(223, 50 * 19)); }, true});
  cases.push_back({"lu.wide", [] { return lu(19, 50, hostile(223, 19 * 50)); }, true});
  cases.push_back({"lu.singular", [] { return lu(9, 9, Floats(81, 1.0f)); }, true});
  cases.push_back(
      {"draw.gamma",
       [] { return drawn([x = parameters(231)](float* y) { kernels::draw_gamma(77, x.data(), y, kDraws); }); }, true});
  cases.push_back({"draw.dirichlet",
                   [] {
                     return drawn([x = uniform(232, kDraws, 0.01f, 9.0f)](float* y) {
                       kernels::draw_dirichlet(78, x.data(), y, 1, kDraws);
                     });
                   },
                   true});
  cases.push_back({"draw.dirichlet_rows",
                   [] {
                     const Floats x = uniform(233, kDraws, 0.01f, 9.0f);
                     return drawn([&](float* y) { kernels::draw_dirichlet(79, x.data(), y, kDraws / 5, 5); });
                   },
                   true});
  cases.push_back(
      {"draw.poisson",
       [] { return drawn([x = parameters(234)](float* y) { kernels::draw_poisson(80, x.data(), y, kDraws); }); },
       true});
  cases.push_back({"draw.binomial",
                   [] {
                     const Floats count = parameters(235), p = uniform(236, kDraws, -0.1f, 1.1f);
                     return drawn([&](float* y) { kernels::draw_binomial(81, count.data(), p.data(), y, kDraws); });
                   },
                   true});
  cases.push_back({"draw.dirichlet_slope",
                   [] {
                     const Floats x = uniform(237, kDraws, 0.0f, 1.0f), a = parameters(238);
                     Floats total = parameters(239);
                     for (std::size_t i = 0; i < total.size(); ++i) total[i] = total[i] + a[i];
                     return drawn(
                         [&](float* y) { kernels::dirichlet_slope(x.data(), a.data(), total.data(), y, kDraws); });
                   },
                   true});
}

}  // namespace isobit::golden
