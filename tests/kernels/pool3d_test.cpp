// Pooling by windows per dimension, at random places, unpooling: every implementation's bits, the order of windows, of
// two at one place the later, lists short and long.
#include "kernels/pool3d.h"

#include <gtest/gtest.h>

#include <random>

#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;

struct Axis {
  std::int64_t in, step;
  Integers begin, end, extent;

  static Axis sliding(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                      std::int64_t dilation) {
    Axis axis{in, dilation, {}, {}, {}};
    const std::int64_t reach = dilation * (kernel - 1) + 1;
    for (std::int64_t first = -pad; first + reach <= in + pad; first += stride) {
      axis.extent.push_back(reach);
      axis.begin.push_back(first < 0 ? first + (-first + dilation - 1) / dilation * dilation : first);
      axis.end.push_back(std::min(first + reach, in));
    }
    return axis;
  }
  static Axis adaptive(std::int64_t in, std::int64_t out) {
    Axis axis{in, 1, {}, {}, {}};
    for (std::int64_t o = 0; o < out; ++o) {
      axis.begin.push_back(o * in / out), axis.end.push_back(((o + 1) * in + out - 1) / out);
      axis.extent.push_back(axis.end.back() - axis.begin.back());
    }
    return axis;
  }
  [[nodiscard]] PoolAxis view() const {
    return {in, static_cast<std::int64_t>(begin.size()), step, begin.data(), end.data(), extent.data()};
  }
};

struct Windows {
  std::int64_t planes;
  Axis d, h, w;
  [[nodiscard]] PoolWindows view() const { return {planes, d.view(), h.view(), w.view()}; }
  [[nodiscard]] bool dilated() const { return d.step > 1 || h.step > 1 || w.step > 1; }
};

void sweep(const Windows& windows, const std::string& what) {
  const PoolWindows p = windows.view();
  const std::int64_t in = p.planes * p.in(), out = p.planes * p.out();
  const Floats x = hostile_floats(in, 3, true), dy = hostile_floats(out, 4, false);
  expect_reference_bits(
      [&] {
        Floats all(static_cast<std::size_t>(out + in), 7.0f);
        Integers index(static_cast<std::size_t>(out), -7);
        max_pool3d(p, x.data(), all.data(), index.data());
        max_pool_gradient(p.planes, p.in(), p.out(), dy.data(), index.data(), all.data() + out);
        for (const std::int64_t i : index) all.push_back(static_cast<float>(i));
        return all;
      },
      what + ", maxima");
  if (windows.dilated()) return;  // averages never are
  for (const Divisor divisor : {Divisor::inside, Divisor::with_padding, Divisor::fixed}) {
    expect_reference_bits(
        [&] {
          Floats all(static_cast<std::size_t>(out + in), 7.0f);
          average_pool3d(p, divisor, 3, x.data(), all.data());
          average_pool3d_backward(p, divisor, 3, dy.data(), all.data() + out);
          return all;
        },
        what + ", averages " + std::to_string(static_cast<int>(divisor)));
  }
}

TEST(Pool3d, EveryImplementationGivesTheReferencesBits) {
  const auto sliding = Axis::sliding;
  sweep({2, sliding(5, 2, 2, 0, 1), sliding(6, 3, 1, 1, 1), sliding(9, 3, 2, 1, 1)}, "sliding");
  sweep({3, sliding(5, 2, 1, 0, 2), sliding(7, 3, 1, 2, 2), sliding(8, 2, 3, 1, 2)}, "dilated, padded");
  sweep({3, sliding(5, 3, 1, 1, 1), sliding(7, 2, 2, 1, 1), sliding(70, 3, 1, 1, 1)}, "rows of neighbours");
  sweep({2, sliding(4, 3, 2, 1, 1), sliding(5, 2, 1, 0, 1), sliding(71, 5, 2, 2, 1)}, "every second");
  sweep({2, sliding(3, 3, 3, 1, 1), sliding(5, 2, 1, 0, 1), sliding(101, 7, 3, 3, 1)}, "every third");
  sweep({1, sliding(3, 1, 1, 1, 1), sliding(2, 1, 1, 1, 1), sliding(3, 1, 1, 1, 1)}, "windows in the padding");
  sweep({1, Axis::adaptive(1, 1), Axis::adaptive(1, 8), Axis::adaptive(1, 8)}, "one element many times");
  sweep({1, Axis::adaptive(1, 1), Axis::adaptive(7, 3), Axis::adaptive(5, 8)}, "adaptive");
  sweep({2, Axis::adaptive(3, 3), Axis::adaptive(40, 1), Axis::adaptive(20, 2)}, "large windows");
  sweep({0, sliding(4, 2, 2, 0, 1), sliding(4, 2, 2, 0, 1), sliding(4, 2, 2, 0, 1)}, "no planes");
  sweep({1, sliding(1, 1, 1, 0, 1), sliding(1, 1, 1, 0, 1), sliding(1, 1, 1, 0, 1)}, "one element");
}

TEST(Pool3d, FractionalWindows) {
  FractionalPool p;
  p.planes = 3;
  const std::int64_t in[] = {5, 9, 11}, out[] = {3, 4, 6}, window[] = {2, 2, 3};
  std::copy_n(in, 3, p.in), std::copy_n(out, 3, p.out), std::copy_n(window, 3, p.window);
  const Floats x = hostile_floats(3 * 5 * 9 * 11, 5, true);
  Floats samples(9);
  std::mt19937 engine(3);
  for (float& s : samples) s = static_cast<float>(engine() >> 8) * 0x1p-24f;
  const std::int64_t count = 3 * 3 * 4 * 6;
  expect_reference_bits(
      [&] {
        Floats y(static_cast<std::size_t>(count), 7.0f);
        Integers index(y.size(), -7);
        fractional_max_pool(p, samples.data(), x.data(), y.data(), index.data());
        for (const std::int64_t i : index) y.push_back(static_cast<float>(i));
        return y;
      },
      "fractional");
}

// Any index is allowed: many of one element, none, outside.
TEST(Pool3d, GradientsOfAnyIndices) {
  std::mt19937 engine(11);
  for (const std::int64_t out : {1, 40, 49, 700, 5000}) {
    const std::int64_t planes = 2, in = 37;
    const Floats dy = wide_floats(planes * out, 6);
    Integers index(static_cast<std::size_t>(planes * out));
    for (std::int64_t& i : index) i = engine() % 3 == 0 ? static_cast<std::int64_t>(engine() % 41) - 2 : 5;
    expect_reference_bits(
        [&] {
          Floats dx(static_cast<std::size_t>(planes * in), 7.0f);
          max_pool_gradient(planes, in, out, dy.data(), index.data(), dx.data());
          return dx;
        },
        std::to_string(out) + " outputs");
  }
}

TEST(Pool3d, OutputsAreAddedInTheirOrder) {
  const Floats ascending{1.0f, 0x1p-24f, 0x1p-24f}, descending{0x1p-24f, 0x1p-24f, 1.0f};
  const Integers index{1, 1, 1};
  for_each_implementation([&](const std::string& where) {
    float dx[2] = {7, 7};
    max_pool_gradient(1, 2, 3, ascending.data(), index.data(), dx);
    EXPECT_EQ(dx[1], 1.0f) << where;
    max_pool_gradient(1, 2, 3, descending.data(), index.data(), dx);
    EXPECT_EQ(dx[1], 0x1.000002p0f) << where;
    EXPECT_EQ(dx[0], 0.0f) << where;
  });
}

TEST(Pool3d, OfTwoAtOnePlaceTheLaterStays) {
  const Floats x{1, 2, 3, 4, 5, 6};
  const Integers index{3, 0, 3, 1, 1, 0}, stray{3, 0, 4, 1, -1, 0};
  for_each_implementation([&](const std::string& where) {
    Floats y(8, 7.0f);
    EXPECT_EQ(unpool(2, 3, 4, x.data(), index.data(), y.data()), -1) << where;
    EXPECT_EQ(y, (Floats{2, 0, 0, 3, 6, 5, 0, 0})) << where;
    EXPECT_EQ(unpool(2, 3, 4, x.data(), stray.data(), y.data()), 2) << where;
  });
}

}  // namespace
}  // namespace isobit::kernels
