#include "kernels/pool2d.h"

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
using Places = std::vector<std::int64_t>;

std::size_t in_size(const Pool2dShape& s) { return static_cast<std::size_t>(s.planes * s.h * s.w); }
std::size_t out_size(const Pool2dShape& s) { return static_cast<std::size_t>(s.planes * s.out_h * s.out_w); }

std::string text(const Pool2dShape& s) {
  std::string text;
  for (const std::int64_t v : {s.planes, s.h, s.w, s.out_h, s.out_w, s.kh, s.kw, s.stride_h, s.stride_w, s.pad_h,
                               s.pad_w, s.dilation_h, s.dilation_w}) {
    text += std::to_string(v) + " ";
  }
  return text;
}

// As torch sizes outputs, with ceil_mode: a last window must start inside the image or its left padding.
std::int64_t out_of(std::int64_t size, std::int64_t k, std::int64_t stride, std::int64_t pad, std::int64_t dilation,
                    bool ceil_mode) {
  const std::int64_t room = size + 2 * pad - dilation * (k - 1) - 1;
  if (room < 0) return 0;
  std::int64_t out = (ceil_mode ? (room + stride - 1) / stride : room / stride) + 1;
  if (ceil_mode && (out - 1) * stride >= size + pad) --out;
  return out;
}

std::vector<Pool2dShape> shapes(bool dilated) {
  std::vector<Pool2dShape> all;
  struct Window {
    std::int64_t k, stride, pad, dilation;
  };
  for (const Window v : {Window{2, 2, 0, 1},
                         {3, 2, 1, 1},
                         {3, 2, 0, 1},
                         {3, 1, 1, 1},
                         {1, 1, 0, 1},
                         {5, 3, 2, 1},
                         {2, 3, 1, 1},
                         {3, 1, 1, 2},
                         {2, 2, 1, 3}}) {
    if (v.dilation > 1 && !dilated) continue;
    for (const std::int64_t side : {1, 2, 5, 7, 10, 14, 28, 33, 64}) {
      for (const bool ceil_mode : {false, true}) {
        Pool2dShape s{side < 20 ? 5 : 2, side,      side + (side % 3), 0, 0, v.k, v.k, v.stride, v.stride, v.pad, v.pad,
                      v.dilation,        v.dilation};
        s.out_h = out_of(s.h, v.k, v.stride, v.pad, v.dilation, ceil_mode);
        s.out_w = out_of(s.w, v.k, v.stride, v.pad, v.dilation, ceil_mode);
        all.push_back(s);
      }
    }
  }
  all.push_back({3, 9, 40, 5, 13, 2, 4, 2, 3, 1, 0, 1, 1});  // unequal sides
  all.push_back({3, 4, 90, 4, 88, 1, 3, 1, 1, 0, 0, 1, 1});
  all.push_back({0, 4, 4, 2, 2, 2, 2, 2, 2, 0, 0, 1, 1});
  return all;
}

struct Pooled {
  Floats y;
  Places index;
};

Pooled max_pooled(const Pool2dShape& s, const Floats& x) {
  Pooled p{Floats(out_size(s), 7.0f), Places(out_size(s), -7)};
  max_pool2d(s, x.data(), p.y.data(), p.index.data());
  return p;
}

TEST(MaxPool, EveryImplementationGivesTheReferencesBits) {
  unsigned seed = 0;
  for (const Pool2dShape& s : shapes(true)) {
    for (const bool non_finite : {false, true}) {
      Floats x = hostile_floats(static_cast<std::int64_t>(in_size(s)), ++seed, non_finite);
      if (seed % 3 == 0) {  // many equal values
        for (float& v : x) v = std::isfinite(v) ? std::round(std::clamp(v, -2.0f, 2.0f)) : v;
      }
      const Floats dy = hostile_floats(static_cast<std::int64_t>(out_size(s)), ++seed, non_finite);
      const Pooled expected = by_reference([&] { return max_pooled(s, x); });
      expect_reference_bits([&] { return max_pooled(s, x).y; }, "values " + text(s));
      expect_reference_bits([&] { return max_pooled(s, x).index; }, "places " + text(s));
      const auto backward = [&] {
        Floats dx(in_size(s), 7.0f);
        max_pool2d_backward(s, dy.data(), expected.index.data(), dx.data());
        return dx;
      };
      expect_reference_bits(backward, "gradient " + text(s));
    }
  }
}

TEST(AveragePool, EveryImplementationGivesTheReferencesBits) {
  unsigned seed = 0;
  for (const Pool2dShape& s : shapes(false)) {
    const Floats x = hostile_floats(static_cast<std::int64_t>(in_size(s)), ++seed, in_size(s) % 3 == 0);
    const Floats dy = hostile_floats(static_cast<std::int64_t>(out_size(s)), ++seed, false);
    for (const bool include : {false, true}) {
      for (const std::int64_t divisor : {0, 3, -2}) {
        const auto forward = [&] {
          Floats y(out_size(s), 7.0f);
          average_pool2d(s, include, divisor, x.data(), y.data());
          return y;
        };
        const auto backward = [&] {
          Floats dx(in_size(s), 7.0f);
          average_pool2d_backward(s, include, divisor, dy.data(), dx.data());
          return dx;
        };
        expect_reference_bits(forward, "forward " + text(s));
        expect_reference_bits(backward, "backward " + text(s));
      }
    }
  }
}

TEST(AdaptiveAveragePool, EveryImplementationGivesTheReferencesBits) {
  unsigned seed = 0;
  for (const std::int64_t side : {1, 2, 5, 7, 16, 31}) {
    for (const std::int64_t out : {1, 2, 3, 7, 11}) {
      const Pool2dShape s{5, side, side + 1, out, out + side % 2};
      const Floats x = hostile_floats(static_cast<std::int64_t>(in_size(s)), ++seed, out % 2 == 0);
      const auto forward = [&] {
        Floats y(out_size(s), 7.0f);
        adaptive_average_pool2d(s, x.data(), y.data());
        return y;
      };
      const auto backward = [&] {
        Floats dx(in_size(s), 7.0f);
        adaptive_average_pool2d_backward(s, forward().data(), dx.data());
        return dx;
      };
      expect_reference_bits(forward, "forward " + text(s));
      expect_reference_bits(backward, "backward " + text(s));
    }
  }
}

// ---- what the numbers are
// ---------------------------------------------------------------------------------------

TEST(MaxPool, TakesTheFirstOfEqualsAndTheFirstNaN) {
  const float nan = std::nanf("");
  const Pool2dShape s{1, 2, 2, 1, 1, 2, 2, 2, 2};
  const auto check = [&](Floats x, float value, std::int64_t place) {
    const Pooled p = max_pooled(s, x);
    EXPECT_TRUE(same(p.y[0], value)) << p.y[0];
    EXPECT_EQ(p.index[0], place);
  };
  for (const Isa isa : available_isas()) {
    const IsaScope scope(isa);
    check({1, 4, 4, 2}, 4, 1);
    check({-0.0f, 0.0f, -1, 0.0f}, -0.0f, 0);
    check({0.0f, -0.0f, -1, -0.0f}, 0.0f, 0);
    check({1, nan, INFINITY, nan}, nan, 1);
    check({-INFINITY, -INFINITY, -INFINITY, -INFINITY}, -INFINITY, 0);
  }
}

TEST(MaxPool, PaddingIsNeverChosen) {
  const Pool2dShape s{1, 3, 3, 2, 2, 3, 3, 2, 2, 1, 1};
  const Floats x = {-1, -2, -3, -4, -5, -6, -7, -8, -9};
  for (const Isa isa : available_isas()) {
    const IsaScope scope(isa);
    EXPECT_TRUE(same_bits(max_pooled(s, x).y, {-1, -2, -4, -5}));
    EXPECT_TRUE(same_bits(max_pooled(s, x).index, {0, 1, 3, 4}));
  }
}

// t = +0; over covering windows in ascending (oh, ow), t += dy where the index matches: by search, not by
// scatter.
TEST(MaxPool, GradientFollowsTheDefinition) {
  const Pool2dShape s{2, 9, 11, 9, 11, 3, 3, 1, 1, 1, 1};
  Floats x = normal_floats(2 * 99, 4), expected(x.size());
  for (float& v : x) v = std::round(v);
  const Floats dy = wide_floats(2 * 99, 5);
  const Pooled p = max_pooled(s, x);
  int reversed_differs = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    float t = 0.0f, reversed = 0.0f;
    const std::size_t plane = i / 99 * 99;
    for (std::size_t o = plane; o < plane + 99; ++o) {
      if (p.index[o] == static_cast<std::int64_t>(i - plane)) t += dy[o];
    }
    for (std::size_t o = plane + 99; o-- > plane;) {
      if (p.index[o] == static_cast<std::int64_t>(i - plane)) reversed += dy[o];
    }
    expected[i] = t;
    reversed_differs += !same(t, reversed);
  }
  Floats dx(x.size());
  max_pool2d_backward(s, dy.data(), p.index.data(), dx.data());
  EXPECT_TRUE(same_bits(dx, expected));
  EXPECT_GT(reversed_differs, 0);  // the order shows
}

TEST(MaxPool, PlacesOutsideThePlaneTakeNoGradient) {
  const Pool2dShape s{1, 2, 2, 1, 3};
  const Places index = {-1, 4, 3};
  const Floats dy = {1, 2, 3};
  Floats dx(4, 7.0f);
  max_pool2d_backward(s, dy.data(), index.data(), dx.data());
  EXPECT_TRUE(same_bits(dx, {0, 0, 0, 3}));
}

// Not what max_pool2d writes, but what a caller may hand over: any element of the plane, window or not.
TEST(MaxPool, PlacesOutsideTheirWindowsTakeTheirGradient) {
  for (const Pool2dShape& s : {Pool2dShape{1, 2, 2, 1, 3}, Pool2dShape{3, 7, 9, 4, 5, 3, 3, 2, 2, 1, 1}}) {
    const Floats dy = wide_floats(static_cast<std::int64_t>(out_size(s)), 5);
    Places index(out_size(s));
    for (std::size_t o = 0; o < index.size(); ++o) {
      index[o] = static_cast<std::int64_t>(o * 7 % 13) % (s.h * s.w + 2) - 1;
    }
    const auto backward = [&] {
      Floats dx(in_size(s), 7.0f);
      max_pool2d_backward(s, dy.data(), index.data(), dx.data());
      return dx;
    };
    expect_reference_bits(backward, text(s));
  }
}

TEST(AveragePool, DividesByWhatTorchDividesBy) {
  const Pool2dShape s{1, 3, 3, 2, 2, 3, 3, 2, 2, 1, 1};
  const Floats x = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Floats y(4);
  for (const Isa isa : available_isas()) {
    const IsaScope scope(isa);
    average_pool2d(s, true, 0, x.data(), y.data());
    EXPECT_TRUE(same_bits(y, {12 / 9.0f, 16 / 9.0f, 24 / 9.0f, 28 / 9.0f}));
    average_pool2d(s, false, 0, x.data(), y.data());
    EXPECT_TRUE(same_bits(y, {3, 4, 6, 7}));
    average_pool2d(s, true, 5, x.data(), y.data());
    EXPECT_TRUE(same_bits(y, {12 / 5.0f, 16 / 5.0f, 24 / 5.0f, 28 / 5.0f}));
  }
}

TEST(AveragePool, AgreesWithFloat64) {
  const Pool2dShape s{3, 20, 20, 9, 9, 4, 4, 2, 2};
  const Floats x = wide_floats(static_cast<std::int64_t>(in_size(s)), 3);
  Floats y(out_size(s));
  average_pool2d(s, true, 0, x.data(), y.data());
  for (std::int64_t o = 0; o < static_cast<std::int64_t>(out_size(s)); ++o) {
    double sum = 0, magnitude = 0;
    for (int i = 0; i < 16; ++i) {
      const std::int64_t at = o / 81 * 400 + (o % 81 / 9 * 2 + i / 4) * 20 + o % 9 * 2 + i % 4;
      sum += x[static_cast<std::size_t>(at)], magnitude += std::fabs(x[static_cast<std::size_t>(at)]);
    }
    ASSERT_NEAR(y[static_cast<std::size_t>(o)], sum / 16, 16 * 0x1p-24 * magnitude / 16);
  }
}

TEST(AdaptiveAveragePool, WindowsAreTorchs) {
  const Pool2dShape s{1, 1, 5, 1, 3};  // [0, 2) [1, 4) [3, 5)
  const Floats x = {1, 2, 4, 8, 16}, dy = {2, 3, 4};
  Floats y(3), dx(5);
  adaptive_average_pool2d(s, x.data(), y.data());
  EXPECT_TRUE(same_bits(y, {1.5f, 14 / 3.0f, 12.0f}));
  adaptive_average_pool2d_backward(s, dy.data(), dx.data());
  EXPECT_TRUE(same_bits(dx, {1, 2, 1, 3, 2}));
}

}  // namespace
}  // namespace isobit::kernels
