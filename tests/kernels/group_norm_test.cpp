// Group and layer normalisation: every implementation's bits, binary64 within a bound, wrong formulas seen.
#include "kernels/group_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Floats = std::vector<float>;

struct Problem {
  GroupShape shape;
  Floats x, dy, weight, bias;
  bool affine = true;

  [[nodiscard]] std::size_t size() const { return x.size(); }
  [[nodiscard]] std::string text() const {
    return "[" + std::to_string(shape.n) + ", " + std::to_string(shape.c) + ", " + std::to_string(shape.inner) +
           "] in " + std::to_string(shape.groups);
  }
};

Problem problem(GroupShape shape, unsigned seed, bool hostile = false) {
  const std::int64_t count = shape.n * shape.c * shape.inner;
  Problem p{shape, {}, {}, {}, {}};
  p.x = hostile ? hostile_floats(count, seed, seed % 2 == 0) : normal_floats(count, seed, 1.5f, 2.0f);
  p.dy = hostile ? hostile_floats(count, seed + 1, seed % 3 == 0) : normal_floats(count, seed + 1);
  p.weight = normal_floats(shape.c, seed + 2, 1.0f, 0.3f);
  p.bias = normal_floats(shape.c, seed + 3);
  return p;
}

struct Results {
  Floats y, mean, invstd, dx, dweight, dbias;
};

Results run(const Problem& p) {
  const auto rows = static_cast<std::size_t>(p.shape.rows()), channels = static_cast<std::size_t>(p.shape.c);
  Results r{Floats(p.size(), 7), Floats(rows, 7),     Floats(rows, 7),
            Floats(p.size(), 7), Floats(channels, 7), Floats(channels, 7)};
  const float* const weight = p.affine ? p.weight.data() : nullptr;
  group_norm({.shape = p.shape,
              .x = p.x.data(),
              .weight = weight,
              .bias = p.affine ? p.bias.data() : nullptr,
              .y = r.y.data(),
              .mean = r.mean.data(),
              .invstd = r.invstd.data()});
  group_norm_backward({.shape = p.shape,
                       .x = p.x.data(),
                       .dy = p.dy.data(),
                       .weight = weight,
                       .mean = r.mean.data(),
                       .invstd = r.invstd.data(),
                       .dx = r.dx.data(),
                       .dweight = p.affine ? r.dweight.data() : nullptr,
                       .dbias = p.affine ? r.dbias.data() : nullptr});
  return r;
}

Floats joined(const Results& r) {
  Floats all;
  for (const Floats* part : {&r.y, &r.mean, &r.invstd, &r.dx, &r.dweight, &r.dbias}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  return all;
}

const std::vector<GroupShape> kShapes = {
    {0, 3, 1, 1},
    {2, 0, 1, 1},
    {3, 4, 0, 2},
    {1, 1, 1, 1},
    {5, 7, 1, 1},
    {3, 16, 1, 1},
    {2, 31, 1, 1},
    {4, 512, 1, 1},
    {3, 513, 1, 1},
    {2, 1500, 1, 1},
    {530, 9, 1, 1},
    {67, 33, 1, 1},
    {3, 12, 1, 4},
    {5, 6, 7, 1},
    {5, 6, 7, 2},
    {2, 6, 7, 6},
    {3, 8, 49, 4},
    {2, 4, 300, 2},
    {1, 2, 1024, 1},
    {40, 4, 15, 2},
    {2, 33, 17, 11},
    {10, 700, 1, 1},
    {3, 2100, 1, 1},
    {2, 4, 600, 1},
    // Rows whose channels' sums are lanes of scratch: eight, four, two and one at a time, leaves of few rows, no row
    // for a lane's last turn; and the first number of channels that is left to columns.
    {64, 24, 1, 1},
    {65, 24, 1, 1},
    {71, 128, 1, 1},
    {513, 130, 1, 1},
    {600, 257, 1, 1},
    {1100, 7, 1, 1},
    {90, 1029, 1, 1},
    {66, 8193, 1, 1},
    {600, 1, 1, 1}};

TEST(GroupNorm, EveryImplementationGivesTheReferencesBits) {
  unsigned seed = 0;
  for (const GroupShape& shape : kShapes) {
    for (const bool hostile : {false, true}) {
      Problem p = problem(shape, ++seed, hostile);
      for (const bool affine : {true, false}) {
        p.affine = affine;
        expect_reference_bits([&] { return joined(run(p)); }, p.text());
      }
    }
  }
}

TEST(GroupNorm, OneGradientAloneHasItsBits) {
  for (const GroupShape& shape : {GroupShape{67, 33, 1, 1}, GroupShape{530, 9, 1, 1}, GroupShape{600, 300, 1, 1},
                                  GroupShape{66, 8193, 1, 1}, GroupShape{40, 4, 15, 2}}) {
    const Problem p = problem(shape, 3);
    const Results all = run(p);
    Results one = all;
    const auto ask = [&](Floats* dx, Floats* dweight, Floats* dbias) {
      for (Floats* part : {dx, dweight, dbias})
        if (part != nullptr) std::fill(part->begin(), part->end(), 7.0f);
      group_norm_backward({.shape = p.shape,
                           .x = p.x.data(),
                           .dy = p.dy.data(),
                           .weight = p.weight.data(),
                           .mean = all.mean.data(),
                           .invstd = all.invstd.data(),
                           .dx = dx == nullptr ? nullptr : dx->data(),
                           .dweight = dweight == nullptr ? nullptr : dweight->data(),
                           .dbias = dbias == nullptr ? nullptr : dbias->data()});
      EXPECT_TRUE(same_bits(joined(one), joined(all))) << p.text();
    };
    ask(&one.dx, nullptr, nullptr);
    ask(nullptr, &one.dweight, nullptr);
    ask(nullptr, nullptr, &one.dbias);
  }
}

// Largest errors of y, dx, dweight, dbias against binary64, each relative to its largest value.
struct Errors {
  double y = 0, dx = 0, dweight = 0, dbias = 0;
};

// `wrong` leaves the row's mean of g out of dx.
Errors errors(const Problem& p, const Results& r, bool wrong = false) {
  const GroupShape& s = p.shape;
  const auto count = static_cast<std::size_t>(s.per_row());
  std::vector<double> y(p.size()), dx(p.size()), dweight(p.weight.size()), dbias(p.weight.size());
  for (std::size_t row = 0; row < static_cast<std::size_t>(s.rows()); ++row) {
    const std::size_t first = row * count;
    const auto channel = [&](std::size_t j) {
      return (row % static_cast<std::size_t>(s.groups)) * static_cast<std::size_t>(s.group_channels()) +
             j / static_cast<std::size_t>(s.inner);
    };
    double mean = 0, m2 = 0, a = 0, b = 0;
    for (std::size_t j = 0; j < count; ++j) mean += p.x[first + j];
    mean /= static_cast<double>(count);
    for (std::size_t j = 0; j < count; ++j) m2 += (p.x[first + j] - mean) * (p.x[first + j] - mean);
    const double invstd = 1.0 / std::sqrt(m2 / static_cast<double>(count) + 1e-5);
    for (std::size_t j = 0; j < count; ++j) {
      const std::size_t c = channel(j), at = first + j;
      const double normal = (p.x[at] - mean) * invstd, g = static_cast<double>(p.dy[at]) * p.weight[c];
      y[at] = normal * p.weight[c] + p.bias[c];
      a += g / static_cast<double>(count), b += g * normal / static_cast<double>(count);
      dweight[c] += p.dy[at] * normal, dbias[c] += p.dy[at];
    }
    for (std::size_t j = 0; j < count; ++j) {
      const std::size_t at = first + j;
      const double normal = (p.x[at] - mean) * invstd;
      dx[at] = invstd * (static_cast<double>(p.dy[at]) * p.weight[channel(j)] - (wrong ? 0.0 : a) - normal * b);
    }
  }
  const auto error = [](const Floats& got, const std::vector<double>& expected) {
    double worst = 0, scale = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      worst = std::max(worst, std::fabs(got[i] - expected[i])), scale = std::max(scale, std::fabs(expected[i]));
    }
    return worst / scale;
  };
  return {error(r.y, y), error(r.dx, dx), error(r.dweight, dweight), error(r.dbias, dbias)};
}

TEST(GroupNorm, AgreesWithBinary64) {
  constexpr double kBound = 16 * 0x1p-24;
  for (const GroupShape shape : {GroupShape{40, 300, 1, 1}, GroupShape{6, 12, 70, 3}, GroupShape{3, 8, 600, 8}}) {
    const Problem p = problem(shape, 5);
    const Errors e = errors(p, run(p));
    EXPECT_LE(e.y, kBound) << p.text();
    EXPECT_LE(e.dx, kBound) << p.text();
    EXPECT_LE(e.dweight, kBound) << p.text();
    EXPECT_LE(e.dbias, kBound) << p.text();
    EXPECT_GT(errors(p, run(p), true).dx, 1e-4) << "a wrong gradient is not seen";
  }
}

TEST(GroupNorm, AWrongGroupIsSeen) {
  Problem p = problem({4, 12, 9, 3}, 6);
  const Floats right = joined(run(p));
  p.shape.groups = 4;
  EXPECT_FALSE(same_bits(run(p).y, Floats(right.begin(), right.begin() + static_cast<std::ptrdiff_t>(p.size()))));
}

}  // namespace
}  // namespace isobit::kernels
