#include "kernels/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/pointwise.h"
#include "kernels/reduce.h"
#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Floats = std::vector<float>;

std::string text(const SoftmaxShape& s) {
  return "[" + std::to_string(s.outer) + ", " + std::to_string(s.size) + ", " + std::to_string(s.inner) + "]";
}

std::int64_t count(const SoftmaxShape& s) { return s.outer * s.size * s.inner; }

using Forward = void (*)(const SoftmaxShape&, const float*, float*);
using Backward = void (*)(const SoftmaxShape&, const float*, const float*, float*);

Floats forward(Forward kernel, const SoftmaxShape& s, const Floats& x) {
  Floats y(x.size(), 7.0f);
  kernel(s, x.data(), y.data());
  return y;
}

Floats backward(Backward kernel, const SoftmaxShape& s, const Floats& dy, const Floats& y) {
  Floats dx(y.size(), 7.0f);
  kernel(s, dy.data(), y.data(), dx.data());
  return dx;
}

std::vector<SoftmaxShape> shapes() {
  std::vector<SoftmaxShape> all = {{0, 3, 1}, {3, 0, 1}, {3, 4, 0}, {300, 10, 1}, {2, 10, 100}};
  for (const std::int64_t size : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100, 511, 512, 513, 1025, 2600}) {
    all.push_back({3, size, 1});
    all.push_back({2, size, 5});
    all.push_back({1, size, 19});
  }
  for (const std::int64_t size : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {  // those of at most 8 are held in registers
    all.push_back({3, size, 70});
    all.push_back({2, size, 1029});
  }
  return all;
}

TEST(Softmax, EveryImplementationGivesTheReferencesBits) {
  unsigned seed = 0;
  for (const SoftmaxShape& s : shapes()) {
    const Floats usual = normal_floats(count(s), ++seed, 0.0f, 4.0f), tame = hostile_floats(count(s), ++seed, false);
    const Floats wild = hostile_floats(count(s), ++seed, true), dy = normal_floats(count(s), ++seed);
    for (const Floats* x : {&usual, &tame, &wild}) {
      expect_reference_bits([&] { return forward(softmax, s, *x); }, "softmax " + text(s));
      expect_reference_bits([&] { return forward(log_softmax, s, *x); }, "log_softmax " + text(s));
      expect_reference_bits([&] { return backward(softmax_backward, s, *x, usual); }, "softmax_backward " + text(s));
      expect_reference_bits([&] { return backward(softmax_backward, s, dy, *x); }, "softmax_backward y " + text(s));
      expect_reference_bits([&] { return backward(log_softmax_backward, s, *x, usual); }, "log backward " + text(s));
      expect_reference_bits([&] { return backward(log_softmax_backward, s, dy, *x); }, "log backward y " + text(s));
    }
  }
}

// Errors: exp 1.5 ulp, sum of n exponentials (16 + 5 + log2 n / 512) u, one division; log 1.5 ulp; t and t -
// log rounded at the size of their operands (here below 32: 2^-19 a step).
TEST(Softmax, AgreesWithFloat64) {
  for (const SoftmaxShape& s : {SoftmaxShape{20, 10, 1}, SoftmaxShape{3, 1500, 1}, SoftmaxShape{3, 37, 11}}) {
    const Floats x = normal_floats(count(s), 5, 0.0f, 4.0f), dy = normal_floats(count(s), 6);
    const Floats y = forward(softmax, s, x), z = forward(log_softmax, s, x);
    const Floats dx = backward(softmax_backward, s, dy, y), dz = backward(log_softmax_backward, s, dy, z);
    for (std::int64_t row = 0; row < s.outer * s.inner; ++row) {
      const auto at = [&](std::int64_t i) {
        return static_cast<std::size_t>((row / s.inner * s.size + i) * s.inner + row % s.inner);
      };
      double sum = 0, dot = 0, total = 0, largest = 0;
      for (std::int64_t i = 0; i < s.size; ++i) sum += std::exp(static_cast<double>(x[at(i)]));
      for (std::int64_t i = 0; i < s.size; ++i) {
        dot += dy[at(i)] * std::exp(static_cast<double>(x[at(i)])) / sum;
        total += dy[at(i)];
        largest = std::max(largest, std::fabs(static_cast<double>(x[at(i)])));
      }
      for (std::int64_t i = 0; i < s.size; ++i) {
        const double p = std::exp(static_cast<double>(x[at(i)])) / sum;
        // x - m is rounded at its size, and exp turns that into a relative error of as much.
        ASSERT_NEAR(y[at(i)], p, p * (40 + 2 * largest) * 0x1p-24);
        ASSERT_NEAR(z[at(i)], std::log(p), 0x1p-18);
        ASSERT_NEAR(dx[at(i)], (dy[at(i)] - dot) * p, 1e-5 * (p + 1e-6));
        ASSERT_NEAR(dz[at(i)], dy[at(i)] - p * total, 1e-5 * (1 + std::fabs(p * total)));
      }
    }
  }
}

// The header's sentences from other kernels: maximum and sum of reduce.h, exp and log of pointwise.h.
Floats log_softmax_by_composition(const Floats& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  ReduceShape whole;
  whole.reduced_rank = 1, whole.reduced_size[0] = n, whole.reduced_stride[0] = 1;
  Floats t = x, e(x.size());
  float m, s, log_sum;
  maximum(whole, x.data(), &m);
  for (float& v : t) v = v - m;
  unary(Unary::exp, t.data(), e.data(), n);
  sum(whole, e.data(), &s);
  unary(Unary::log, &s, &log_sum, 1);
  for (float& v : t) v = v - log_sum;
  return t;
}

TEST(Softmax, IsTheCompositionThatTheHeaderWrites) {
  int naive_differs = 0;
  for (const std::int64_t n : {5, 10, 100, 700, 1300}) {
    const Floats x = normal_floats(n, static_cast<unsigned>(n), 3.0f, 5.0f);
    const Floats got = forward(log_softmax, {1, n, 1}, x);
    EXPECT_TRUE(same_bits(got, log_softmax_by_composition(x))) << n;
    // x - (m + log s), an equally plausible formula, is told apart.
    const float m = *std::max_element(x.begin(), x.end());
    const float log_sum = (x[0] - m) - got[0];
    for (std::size_t i = 0; i < x.size(); ++i) naive_differs += !same(x[i] - (m + log_sum), got[i]);
  }
  EXPECT_GT(naive_differs, 0);
}

TEST(Softmax, RowsOfSpecialValues) {
  const float nan = std::nanf("");
  for (const Isa isa : available_isas()) {
    const IsaScope scope(isa);
    EXPECT_TRUE(same_bits(forward(softmax, {1, 1, 1}, {-3.0f}), {1.0f}));
    EXPECT_TRUE(same_bits(forward(log_softmax, {1, 1, 1}, {-3.0f}), {0.0f}));
    EXPECT_TRUE(same_bits(forward(softmax, {1, 2, 1}, {-INFINITY, 4.0f}), {0.0f, 1.0f}));
    EXPECT_TRUE(same_bits(forward(log_softmax, {1, 2, 1}, {-INFINITY, 4.0f}), {-INFINITY, 0.0f}));
    EXPECT_TRUE(same_bits(forward(softmax, {1, 2, 1}, {-INFINITY, -INFINITY}), {nan, nan}));
    EXPECT_TRUE(same_bits(forward(softmax, {1, 2, 1}, {INFINITY, 0.0f}), {nan, nan}));
    EXPECT_TRUE(same_bits(forward(softmax, {1, 2, 1}, {nan, 0.0f}), {nan, nan}));
  }
}

}  // namespace
}  // namespace isobit::kernels
