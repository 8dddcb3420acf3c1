#include "kernels/batch_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/reduce.h"
#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Floats = std::vector<float>;

struct Problem {
  ChannelShape shape;
  Floats x, dy, weight, bias, running_mean, running_variance;
  bool affine = true, tracked = true;

  [[nodiscard]] std::int64_t count() const { return shape.c * shape.per_channel(); }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(count()); }
  [[nodiscard]] std::size_t channels() const { return static_cast<std::size_t>(shape.c); }
  [[nodiscard]] std::string text() const {
    return "[" + std::to_string(shape.n) + ", " + std::to_string(shape.c) + ", " + std::to_string(shape.inner) + "]";
  }
};

Problem problem(ChannelShape shape, unsigned seed, bool hostile = false) {
  Problem p{shape, {}, {}, {}, {}, {}, {}};
  p.x = hostile ? hostile_floats(p.count(), seed, seed % 2 == 0) : normal_floats(p.count(), seed, 1.5f, 2.0f);
  p.dy = hostile ? hostile_floats(p.count(), seed + 1, seed % 3 == 0) : normal_floats(p.count(), seed + 1);
  p.weight = normal_floats(shape.c, seed + 2, 1.0f, 0.3f);
  p.bias = normal_floats(shape.c, seed + 3);
  p.running_mean = normal_floats(shape.c, seed + 4);
  p.running_variance = normal_floats(shape.c, seed + 5, 3.0f, 0.2f);
  return p;
}

void append(Floats& to, const Floats& what) { to.insert(to.end(), what.begin(), what.end()); }

// y, saved mean, saved invstd, running mean, running variance.
Floats forward(const Problem& p, bool training) {
  Floats y(p.size(), 7), mean(p.channels(), 7), invstd(p.channels(), 7), rm = p.running_mean, rv = p.running_variance;
  BatchNormForward f;
  f.shape = p.shape;
  f.x = p.x.data();
  f.y = y.data();
  f.weight = p.affine ? p.weight.data() : nullptr;
  f.bias = p.affine ? p.bias.data() : nullptr;
  f.running_mean = p.tracked ? rm.data() : nullptr;
  f.running_variance = p.tracked ? rv.data() : nullptr;
  f.saved_mean = mean.data();
  f.saved_invstd = invstd.data();
  training ? batch_norm_training(f) : batch_norm_inference(f);
  for (const Floats* part : {&mean, &invstd, &rm, &rv}) append(y, *part);
  return y;
}

// dx, dweight, dbias.
Floats backward(const Problem& p, bool training, const Floats& mean, const Floats& invstd) {
  Floats dx(p.size(), 7), dweight(p.channels(), 7), dbias(p.channels(), 7);
  BatchNormBackward b;
  b.shape = p.shape;
  b.training = training;
  b.x = p.x.data();
  b.dy = p.dy.data();
  b.weight = p.affine ? p.weight.data() : nullptr;
  b.mean = mean.data();
  b.invstd = invstd.data();
  b.dx = dx.data();
  b.dweight = p.affine ? dweight.data() : nullptr;
  b.dbias = p.affine ? dbias.data() : nullptr;
  batch_norm_backward(b);
  append(dx, dweight);
  append(dx, dbias);
  return dx;
}

Floats backward_of_own_statistics(const Problem& p, bool training) {
  Floats mean = p.running_mean, m2(p.channels()), invstd(p.channels());
  if (training) {
    batch_moments(p.shape, p.x.data(), mean.data(), m2.data());
    for (float& v : m2) v /= static_cast<float>(p.shape.per_channel());
  }
  invstd_of(training ? m2.data() : p.running_variance.data(), 1e-5, invstd.data(), p.shape.c);
  return backward(p, training, mean, invstd);
}

const std::vector<ChannelShape> kShapes = {
    {0, 3, 4},
    {2, 0, 3},
    {2, 3, 0},
    {1, 1, 1},
    {1, 5, 1},
    {2, 1, 2},
    {5, 3, 7},
    {4, 9, 16},
    {7, 5, 49},
    {11, 3, 49},
    {3, 4, 196},
    {2, 3, 841},
    {1, 2, 512},
    {2, 2, 512},
    {1, 1, 513},
    {3, 2, 1024},
    {2, 2, 3137},
    {3, 2, 6001},
    {530, 1, 3},
    {64, 37, 1},
    {511, 16, 1},
    {513, 8, 1},
    {1100, 19, 1},
    {2049, 1, 1},
    {2, 33, 15},
    {2, 33, 17},
    // Long rows: tiles of columns are copied, the last of them narrower, or narrower than a register.
    {3, 255, 1},
    {3, 256, 1},
    {0, 300, 1},
    {40, 261, 1},
    {600, 330, 1},
    {1030, 257, 1},
    {33, 1100, 1}};

TEST(BatchNorm, EveryImplementationGivesTheReferencesBits) {
  unsigned seed = 0;
  for (const ChannelShape& shape : kShapes) {
    for (const bool hostile : {false, true}) {
      Problem p = problem(shape, ++seed, hostile);
      for (const bool plain : {false, true}) {
        p.affine = !plain;
        for (const bool training : {true, false}) {
          p.tracked = !plain || !training;
          const std::string what = p.text() + (training ? " training" : " inference") + (plain ? " plain" : "");
          expect_reference_bits([&] { return forward(p, training); }, "forward " + what);
          expect_reference_bits([&] { return backward_of_own_statistics(p, training); }, "backward " + what);
        }
      }
    }
  }
}

TEST(BatchNorm, MomentsSurviveAnOverflowingMean) {  // the mean is infinite: absent lanes must not become NaN
  Problem p = problem({2, 3, 50}, 5);
  std::fill(p.x.begin(), p.x.end(), 2e38f);  // three of them in a lane are infinite
  EXPECT_TRUE(std::isinf(forward(p, true)[p.size()]));
  expect_reference_bits([&] { return forward(p, true); }, "overflow");
}

TEST(BatchNorm,
     SplitIntoSegmentsDoesNotMatter) {  // [n, c, inner] and its transposes have the same statistics
  const std::int64_t n = 13, c = 3, inner = 121;
  const Problem p = problem({n, c, inner}, 8);
  Floats rows(p.size()), mean(3), m2(3), mean_of_rows(3), m2_of_rows(3);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < c; ++j)
      for (std::int64_t k = 0; k < inner; ++k)
        rows[static_cast<std::size_t>((i * inner + k) * c + j)] =
            p.x[static_cast<std::size_t>((i * c + j) * inner + k)];
  for (const Isa isa : available_isas()) {
    const IsaScope scope(isa);
    batch_moments(p.shape, p.x.data(), mean.data(), m2.data());
    batch_moments({n * inner, c, 1}, rows.data(), mean_of_rows.data(), m2_of_rows.data());
    EXPECT_TRUE(same_bits(mean, mean_of_rows));
    EXPECT_TRUE(same_bits(m2, m2_of_rows));
  }
}

TEST(BatchNorm, BiasGradientIsTheSumOfReduce) {
  const Problem p = problem({9, 4, 77}, 21);
  const Floats gradients = backward_of_own_statistics(p, true);
  ReduceShape s;
  s.kept_rank = 1, s.kept_size[0] = 4, s.kept_stride[0] = 77;
  s.reduced_rank = 2, s.reduced_size[0] = 9, s.reduced_stride[0] = 4 * 77, s.reduced_size[1] = 77,
  s.reduced_stride[1] = 1;
  Floats sums(4);
  sum(s, p.dy.data(), sums.data());
  EXPECT_TRUE(same_bits(Floats(gradients.end() - 4, gradients.end()), sums));
}

// ---- against float64
// ------------------------------------------------------------------------------------------

struct Exact {
  std::vector<double> y, dx, dweight, dbias, mean, variance;
};

Exact in_float64(const Problem& p) {
  const auto [n, c, inner] = p.shape;
  const double total = static_cast<double>(n * inner);
  Exact e;
  e.y.resize(p.size()), e.dx.resize(p.size());
  for (std::int64_t j = 0; j < c; ++j) {
    const auto each = [&](auto f) {
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < inner; ++k) f(static_cast<std::size_t>((i * c + j) * inner + k));
    };
    const auto ch = static_cast<std::size_t>(j);
    double mean = 0, m2 = 0, a = 0, d = 0;
    each([&](std::size_t at) { mean += p.x[at] / total; });
    each([&](std::size_t at) { m2 += (p.x[at] - mean) * (p.x[at] - mean); });
    const double invstd = 1 / std::sqrt(m2 / total + 1e-5);
    each([&](std::size_t at) { a += p.dy[at], d += p.dy[at] * (p.x[at] - mean) * invstd; });
    each([&](std::size_t at) {
      const double z = (p.x[at] - mean) * invstd;
      e.y[at] = z * p.weight[ch] + p.bias[ch];
      e.dx[at] = p.weight[ch] * invstd * (p.dy[at] - a / total - z * d / total);
    });
    e.mean.push_back(mean), e.variance.push_back(m2 / total), e.dweight.push_back(d), e.dbias.push_back(a);
  }
  return e;
}

// Values are of order 1 (x: mean 1.5, deviation 2), sums of order sqrt(elements).
TEST(BatchNorm, AgreesWithFloat64) {
  for (const ChannelShape& shape : {ChannelShape{8, 3, 49}, ChannelShape{16, 5, 196}, ChannelShape{3000, 7, 1}}) {
    const Problem p = problem(shape, 40);
    const Exact e = in_float64(p);
    const Floats f = forward(p, true), b = backward_of_own_statistics(p, true);
    const double n = static_cast<double>(shape.per_channel());
    for (std::size_t i = 0; i < p.size(); ++i) {
      ASSERT_NEAR(f[i], e.y[i], 2e-6 * (1 + std::fabs(e.y[i])));
      ASSERT_NEAR(b[i], e.dx[i], 2e-6 * (1 + std::fabs(e.dx[i])));
    }
    for (std::size_t j = 0; j < p.channels(); ++j) {
      const std::size_t ch = p.size() + j, c = p.channels();
      EXPECT_NEAR(f[ch], e.mean[j], 1e-6);
      EXPECT_NEAR(f[ch + c], 1 / std::sqrt(e.variance[j] + 1e-5), 1e-6);
      EXPECT_NEAR(f[ch + 2 * c], 0.9 * p.running_mean[j] + 0.1 * e.mean[j], 1e-6);
      EXPECT_NEAR(f[ch + 3 * c], 0.9 * p.running_variance[j] + 0.1 * e.variance[j] * n / (n - 1), 4e-6);
      EXPECT_NEAR(b[ch], e.dweight[j], 1e-6 * std::sqrt(n) * 2);
      EXPECT_NEAR(b[ch + c], e.dbias[j], 1e-6 * std::sqrt(n) * 2);
    }
  }
}

TEST(BatchNorm, MeanOfAMillionDeviations) {
  const ChannelShape shape{64, 1, 196};
  const Floats x = normal_floats(64 * 196, 3, 1e6f, 1.0f);
  double exact_mean = 0, exact = 0;
  for (const float v : x) exact_mean += v / static_cast<double>(x.size());
  for (const float v : x) exact += (v - exact_mean) * (v - exact_mean);
  float mean, m2;
  batch_moments(shape, x.data(), &mean, &m2);
  EXPECT_NEAR(mean, exact_mean, 0.125);  // two units in the last place at 1e6
  EXPECT_NEAR(m2 / exact, 1.0, 5e-3);
}

TEST(BatchNorm, OneElementHasNoVariance) {
  Problem p = problem({1, 1, 1}, 2);
  p.x = {5.0f};
  const Floats f = forward(p, true);
  EXPECT_EQ(f[0], p.bias[0]);
  EXPECT_EQ(f[1], 5.0f);
  EXPECT_EQ(f[2], 1.0f / std::sqrt(1e-5f));
}

}  // namespace
}  // namespace isobit::kernels
