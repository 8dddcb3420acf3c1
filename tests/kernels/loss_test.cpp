#include "kernels/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Floats = std::vector<float>;

struct Problem {
  NllShape shape;
  Floats x, weight, dy;
  std::vector<std::int64_t> target;
  bool weighted = false;

  [[nodiscard]] const float* weights() const { return weighted ? weight.data() : nullptr; }
};

Problem problem(std::int64_t n, std::int64_t classes, unsigned seed, bool hostile = false) {
  Problem p;
  p.shape.n = n, p.shape.classes = classes;
  p.x = hostile ? hostile_floats(n * classes, seed, seed % 2 == 0) : normal_floats(n * classes, seed);
  p.dy = normal_floats(n + 1, seed + 1);
  p.weight = normal_floats(classes, seed + 2, 1.0f, 0.2f);
  std::mt19937 engine(seed + 3);
  for (std::int64_t i = 0; i < n; ++i) {
    const bool ignored = classes == 0 || engine() % 7 == 0;
    p.target.push_back(ignored ? p.shape.ignore_index
                               : static_cast<std::int64_t>(engine() % static_cast<unsigned>(classes)));
  }
  return p;
}

// The losses and, last, the total weight.
Floats forward(const Problem& p) {
  const bool each = p.shape.reduction == Reduction::none;
  Floats loss(each ? p.target.size() : 1, 7.0f);
  float total = 7.0f;
  EXPECT_EQ(nll_forward(p.shape, p.x.data(), p.target.data(), p.weights(), loss.data(), &total), -1);
  loss.push_back(total);
  return loss;
}

Floats backward(const Problem& p, float total) {
  Floats dx(p.x.size(), 7.0f);
  EXPECT_EQ(nll_backward(p.shape, p.dy.data(), p.target.data(), p.weights(), &total, dx.data()), -1);
  return dx;
}

constexpr Reduction kReductions[] = {Reduction::none, Reduction::mean, Reduction::sum};

TEST(Nll, EveryImplementationGivesTheReferencesBits) {
  unsigned seed = 0;
  for (const std::int64_t n : {0, 1, 2, 7, 31, 33, 64, 511, 512, 513, 3001, 5003, 9001}) {
    for (const std::int64_t classes : {1, 2, 10, 37}) {
      for (const bool hostile : {false, true}) {
        Problem p = problem(n, classes, ++seed, hostile);
        for (const Reduction reduction : kReductions) {
          for (const bool weighted : {false, true}) {
            p.shape.reduction = reduction, p.weighted = weighted;
            const std::string what = std::to_string(n) + " x " + std::to_string(classes);
            expect_reference_bits([&] { return forward(p); }, "forward " + what);
            expect_reference_bits([&] { return backward(p, 3.25f); }, "backward " + what);
          }
        }
      }
    }
  }
}

TEST(Nll, AgreesWithFloat64) {
  Problem p = problem(3000, 10, 77);
  p.weighted = true;
  double sum = 0, total = 0, magnitude = 0;
  for (std::size_t i = 0; i < p.target.size(); ++i) {
    if (p.target[i] < 0) continue;
    const double w = p.weight[static_cast<std::size_t>(p.target[i])];
    const double term = -w * p.x[i * 10 + static_cast<std::size_t>(p.target[i])];
    sum += term, total += w, magnitude += std::fabs(term);
  }
  const double bound = (16 + 5 + 3 + 2) * 0x1p-24;  // lanes, fold, tree, the term's own rounding and the division
  p.shape.reduction = Reduction::sum;
  EXPECT_NEAR(forward(p)[0], sum, bound * magnitude);
  EXPECT_NEAR(forward(p)[1], total, bound * total);
  p.shape.reduction = Reduction::mean;
  EXPECT_NEAR(forward(p)[0], sum / total, 2 * bound * magnitude / total);
}

TEST(Nll, GradientStandsAtTheTargetAlone) {
  Problem p = problem(5, 3, 4);
  p.target = {0, 2, p.shape.ignore_index, 1, 1};
  p.shape.reduction = Reduction::sum;
  p.dy = {2.0f};
  const Floats dx = backward(p, 1.0f);
  EXPECT_TRUE(same_bits(dx, {-2, 0, 0, 0, 0, -2, 0, 0, 0, 0, -2, 0, 0, -2, 0}));
}

TEST(Nll, NothingOrAllIgnored) {
  Problem p = problem(0, 3, 4);
  p.shape.reduction = Reduction::mean;
  EXPECT_TRUE(std::isnan(forward(p)[0]));
  p.shape.reduction = Reduction::sum;
  EXPECT_TRUE(same(forward(p)[0], 0.0f));
  p = problem(600, 3, 4);
  p.target.assign(600, p.shape.ignore_index);
  EXPECT_TRUE(std::isnan(forward(p)[0]));
  EXPECT_TRUE(same_bits(backward(p, 0.0f), Floats(1800, 0.0f)));
}

TEST(Nll, ABadTargetIsNamedAndNothingIsWritten) {
  for (const Isa isa : available_isas()) {
    const IsaScope scope(isa);
    for (const std::int64_t bad : {-1, 10, 1 << 30}) {
      Problem p = problem(600, 10, 4);
      p.target[555] = bad;
      p.target[590] = bad;
      Floats dx(p.x.size(), 7.0f);
      float loss = 7.0f, total = 7.0f;
      EXPECT_EQ(nll_forward(p.shape, p.x.data(), p.target.data(), nullptr, &loss, &total), 555);
      EXPECT_EQ(nll_backward(p.shape, p.dy.data(), p.target.data(), nullptr, &total, dx.data()), 555);
      EXPECT_EQ(loss, 7.0f);
      EXPECT_EQ(total, 7.0f);
      EXPECT_TRUE(same_bits(dx, Floats(p.x.size(), 7.0f)));
    }
  }
}

TEST(Nll, AnIgnoreIndexThatIsAClassIsIgnored) {
  Problem p = problem(4, 3, 4);
  p.target = {0, 1, 1, 2};
  p.shape.ignore_index = 1;
  p.shape.reduction = Reduction::mean;
  EXPECT_EQ(forward(p)[1], 2.0f);
}

}  // namespace
}  // namespace isobit::kernels
