#include "kernels/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Sizes = std::vector<std::int64_t>;

// A tensor of the given sizes and strides, reduced over the axes whose letter in `axes` is 'r' ('k': kept).
struct Case {
  Sizes size, stride;
  std::string axes;

  [[nodiscard]] ReduceShape shape() const {
    ReduceShape s;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      auto& rank = axes[i] == 'r' ? s.reduced_rank : s.kept_rank;
      (axes[i] == 'r' ? s.reduced_size : s.kept_size)[rank] = size[i];
      (axes[i] == 'r' ? s.reduced_stride : s.kept_stride)[rank++] = stride[i];
    }
    return s;
  }
  [[nodiscard]] std::int64_t extent() const {
    std::int64_t last = 1;
    for (std::size_t i = 0; i < axes.size(); ++i) last += std::max<std::int64_t>(size[i] - 1, 0) * stride[i];
    return last;
  }
  [[nodiscard]] std::string text() const {
    std::string text = axes;
    for (std::size_t i = 0; i < size.size(); ++i) {
      text += " " + std::to_string(size[i]) + ":" + std::to_string(stride[i]);
    }
    return text;
  }
};

Case contiguous(Sizes size, std::string axes) {
  Sizes stride(size.size());
  std::int64_t step = 1;
  for (std::size_t i = size.size(); i-- > 0;) {
    stride[i] = step;
    step *= std::max<std::int64_t>(size[i], 1);
  }
  return {std::move(size), std::move(stride), std::move(axes)};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t n :
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 511, 512, 513, 1024, 1537, 4099, 70001}) {
    all.push_back(contiguous({n}, "r"));  // everything
    all.push_back({{n}, {3}, "r"});       // strided
    all.push_back({{n}, {0}, "r"});       // one element again and again
    if (n < 5000) {
      all.push_back(contiguous({5, n}, "kr"));  // rows
      if (n < 20) {  // short rows: registers of them, whose outputs lie any step apart, and one by one
        all.push_back(contiguous({43, n}, "kr"));
        all.push_back({{43, n}, {40, 2}, "kr"});
        all.push_back({{6, 9, n}, {400, 30, 1}, "kkr"});
      }
      all.push_back(contiguous({n, 5}, "rk"));   // columns, fewer than a register
      all.push_back(contiguous({n, 37}, "rk"));  // columns: a block and a part
      all.push_back(contiguous({37, n}, "rk"));  // columns: n of them
    }
  }
  for (const std::int64_t plane : {1, 4, 49, 196, 841}) {
    all.push_back(contiguous({7, 5, plane}, "rkr"));  // a channel's sum: segments that cross leaves
    all.push_back(contiguous({33, 3, plane}, "rkr"));
    all.push_back(contiguous({3, plane, 19}, "krk"));
    all.push_back(contiguous({3, 2, plane, 2}, "rkrk"));
  }
  all.push_back(contiguous({3, 4, 5}, "kkk"));
  all.push_back(contiguous({0, 4}, "kr"));
  all.push_back(contiguous({4, 0, 3}, "krk"));
  all.push_back(contiguous({1, 1, 600, 1}, "krrk"));
  all.push_back({{600, 20}, {1, 600}, "rk"});        // transposed: the reduced axis is the contiguous one
  all.push_back({{20, 600}, {1, 20}, "kr"});         // kept contiguous, but first
  all.push_back({{4, 700, 6}, {1, 24, 4}, "krk"});   // permuted
  all.push_back({{3, 600, 40}, {0, 40, 1}, "krk"});  // expanded over a kept axis
  all.push_back({{600, 3, 40}, {40, 0, 1}, "rrk"});  // expanded over a reduced one
  all.push_back({{5, 3}, {1 << 20, 1000}, "rk"});    // far apart
  return all;
}

using Kernel = void (*)(const ReduceShape&, const float*, float*);
struct Named {
  const char* name;
  Kernel kernel;
  bool needs_elements;
};
constexpr Named kKernels[] = {{"sum", sum, false},
                              {"mean", mean, false},
                              {"norm2", norm2, false},
                              {"maximum", maximum, true},
                              {"minimum", minimum, true}};

TEST(Reduce, EveryImplementationGivesTheReferencesBits) {
  unsigned seed = 0;
  for (const Case& c : cases()) {
    const ReduceShape shape = c.shape();
    for (const bool non_finite : {false, true}) {
      const auto x = hostile_floats(c.extent(), ++seed, non_finite);
      for (const Named& k : kKernels) {
        if (k.needs_elements && shape.reduced_count() == 0) continue;
        const auto compute = [&] {
          std::vector<float> out(static_cast<std::size_t>(shape.kept_count()), 7.0f);
          k.kernel(shape, x.data(), out.data());
          return out;
        };
        expect_reference_bits(compute, std::string(k.name) + " " + c.text());
      }
      if (shape.reduced_count() == 0) continue;
      const auto places = [&] {
        std::vector<std::int64_t> out(static_cast<std::size_t>(shape.kept_count()), -7);
        argmax(shape, x.data(), out.data());
        return out;
      };
      expect_reference_bits(places, "argmax " + c.text());
    }
  }
}

float one(Kernel kernel, const std::vector<float>& x) {
  float out = -7;
  kernel(contiguous({static_cast<std::int64_t>(x.size())}, "r").shape(), x.data(), &out);
  return out;
}

// Depth of additions: 16 in a lane, 5 in the fold, the tree.
TEST(Reduce, AgreesWithFloat64) {
  for (const std::int64_t n : {10, 1000, 300000}) {
    const auto x = wide_floats(n, 11);
    double total = 0, magnitude = 0, squares = 0;
    for (const float v : x) total += v, magnitude += std::fabs(v), squares += static_cast<double>(v) * v;
    const double bound = (22 + std::log2(n / 512.0 + 1)) * 0x1p-24;
    EXPECT_LE(std::fabs(one(sum, x) - total), bound * magnitude);
    EXPECT_LE(std::fabs(one(mean, x) - total / static_cast<double>(n)),
              (bound + 0x1p-24) * magnitude / static_cast<double>(n));
    EXPECT_LE(std::fabs(one(norm2, x) - std::sqrt(squares)), (bound + 0x1p-24) * std::sqrt(squares));
    EXPECT_EQ(one(maximum, x), *std::max_element(x.begin(), x.end()));
    EXPECT_EQ(one(minimum, x), *std::min_element(x.begin(), x.end()));
  }
}

TEST(Reduce, FollowsTheLogicalOrderNotTheMemorys) {
  const auto x = wide_floats(37 * 41 * 29, 3);  // [37, 41, 29]
  const Case whole = contiguous({37, 41, 29}, "rrr");
  const Case permuted{{29, 41, 37}, {1, 29, 41 * 29}, "rrr"};
  const auto sum_of = [&](const Case& c) {
    float out;
    sum(c.shape(), x.data(), &out);
    return out;
  };
  std::vector<float> copy;
  for (int i = 0; i < 29; ++i)
    for (int j = 0; j < 41; ++j)
      for (int k = 0; k < 37; ++k) copy.push_back(x[static_cast<std::size_t>((k * 41 + j) * 29 + i)]);
  EXPECT_TRUE(same(sum_of(permuted), one(sum, copy)));
  EXPECT_FALSE(same(sum_of(permuted), sum_of(whole)));  // the order shows
}

TEST(Reduce, OverNothing) {
  EXPECT_TRUE(same(one(sum, {}), 0.0f));
  EXPECT_TRUE(same(one(norm2, {}), 0.0f));
  EXPECT_TRUE(std::isnan(one(mean, {})));
}

TEST(Reduce, SignsOfZero) {
  EXPECT_TRUE(same(one(sum, {-0.0f, -0.0f}), 0.0f));
  EXPECT_TRUE(same(one(mean, {-0.0f}), 0.0f));
  EXPECT_TRUE(same(one(maximum, {-0.0f, -1.0f}), 0.0f));
  EXPECT_TRUE(same(one(minimum, {0.0f, -0.0f}), 0.0f));
}

TEST(Reduce, ArgmaxTakesTheFirst) {
  const float nan = std::nanf("");
  const auto place = [](std::vector<float> x) {
    std::int64_t out = -7;
    argmax(contiguous({static_cast<std::int64_t>(x.size())}, "r").shape(), x.data(), &out);
    return out;
  };
  for (const Isa isa : available_isas()) {
    const IsaScope scope(isa);
    EXPECT_EQ(place({1, 3, 3, 2}), 1);
    EXPECT_EQ(place({-1, -0.0f, 0.0f}), 1);
    EXPECT_EQ(place({1, nan, INFINITY, nan}), 1);
    EXPECT_EQ(place({-INFINITY, -INFINITY}), 0);
    std::vector<float> late(5000, 1.0f);
    late[4321] = 2.0f;
    EXPECT_EQ(place(late), 4321);
  }
}

}  // namespace
}  // namespace isobit::kernels
