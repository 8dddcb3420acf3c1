#include "kernels/conv2d.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>

#include "contract/ordered_dot.h"
#include "dense_values.h"
#ifdef ISOBIT_EMULATED_CUDA
#include "kernels/cuda/emulation/emulation.h"
#endif

namespace isobit::kernels {

// Found by argument, so outside the unnamed namespace.
static std::ostream& operator<<(std::ostream& out, const Conv2dShape& s) {
  return out << s.n << "x" << s.ci << "x" << s.h << "x" << s.w << " -> " << s.co << ", kernel " << s.kh << "x" << s.kw
             << ", stride " << s.stride_h << "," << s.stride_w << ", pad " << s.pad_h << "," << s.pad_w << ", dilation "
             << s.dilation_h << "," << s.dilation_w << ", groups " << s.groups;
}

namespace {

using namespace testing;

struct Tensors {
  Floats x, weight, bias, dy;
  Tensors(const Conv2dShape& s, bool special)
      : x(hostile(s.n * s.ci * s.h * s.w, 1, special)),
        weight(hostile(s.co * (s.ci / s.groups) * s.kh * s.kw, 2, special)),
        bias(hostile(s.co, 3)),
        dy(hostile(s.n * s.co * s.out_h() * s.out_w(), 4, special)) {}
};

struct Results {
  Floats y, without_bias, dx, dweight;
};

Results compute(const Conv2dShape& s, const Tensors& t) {
  Results r{Floats(t.dy.size(), -7.0f), Floats(t.dy.size(), -7.0f), Floats(t.x.size(), -7.0f),
            Floats(t.weight.size(), -7.0f)};
  conv2d_forward(s, t.x.data(), t.weight.data(), t.bias.data(), r.y.data());
  conv2d_forward(s, t.x.data(), t.weight.data(), nullptr, r.without_bias.data());
  conv2d_input_gradient(s, t.dy.data(), t.weight.data(), r.dx.data());
  conv2d_weight_gradient(s, t.x.data(), t.dy.data(), r.dweight.data());
  return r;
}

Results compute(const Conv2dShape& s, const Tensors& t, Isa isa) {
  const IsaScope isa_scope(isa);
  return compute(s, t);
}

// Small shapes in every order of threads, larger ones in one: emulated threads take their time.
void expect_same_on_emulated_device([[maybe_unused]] const Conv2dShape& s, [[maybe_unused]] const Tensors& t,
                                    [[maybe_unused]] const Results& expected) {
#ifdef ISOBIT_EMULATED_CUDA
  using emulated::ThreadOrder;
  for (const ThreadOrder order : {ThreadOrder::shuffled, ThreadOrder::ascending, ThreadOrder::descending}) {
    const emulated::EmulatedScope scope(order);
    const Results found = compute(s, t);
    const std::string where = ", emulated device, order " + std::to_string(static_cast<int>(order));
    ASSERT_EQ(first_difference(expected.y, found.y), -1) << s << ": forward" << where;
    ASSERT_EQ(first_difference(expected.without_bias, found.without_bias), -1)
        << s << ": forward without bias" << where;
    ASSERT_EQ(first_difference(expected.dx, found.dx), -1) << s << ": input gradient" << where;
    ASSERT_EQ(first_difference(expected.dweight, found.dweight), -1) << s << ": weight gradient" << where;
    if (t.dy.size() * static_cast<std::size_t>(s.ci / s.groups * s.kh * s.kw) > 20000) return;
  }
#endif
}

void expect_same_on_host(const Conv2dShape& s, const Tensors& t, const Results& expected) {
  for (int threads : thread_counts()) {  // outermost: a new count rebuilds the pool
    const ThreadCountScope scope(threads);
    for (Isa isa : available_isas()) {
      const Results found = compute(s, t, isa);
      ASSERT_EQ(first_difference(expected.y, found.y), -1) << s << ": forward, " << name(isa) << ", " << threads;
      ASSERT_EQ(first_difference(expected.without_bias, found.without_bias), -1)
          << s << ": forward without bias, " << name(isa) << ", " << threads;
      ASSERT_EQ(first_difference(expected.dx, found.dx), -1)
          << s << ": input gradient, " << name(isa) << ", " << threads;
      ASSERT_EQ(first_difference(expected.dweight, found.dweight), -1)
          << s << ": weight gradient, " << name(isa) << ", " << threads;
    }
  }
}

void expect_same_everywhere(const Conv2dShape& s, bool special = false) {
  const Tensors t(s, special);
  const Results expected = compute(s, t, Isa::reference);
  expect_same_on_emulated_device(s, t, expected);
  expect_same_on_host(s, t, expected);
}

Conv2dShape square(std::int64_t n, std::int64_t ci, std::int64_t size, std::int64_t co, std::int64_t kernel,
                   std::int64_t stride, std::int64_t pad, std::int64_t dilation = 1, std::int64_t groups = 1) {
  return {n, ci, size, size, co, kernel, kernel, stride, stride, pad, pad, dilation, dilation, groups};
}

// The three sums as the contract writes them, one output at a time.
Results by_definition(const Conv2dShape& s, const Tensors& t) {
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, oh = s.out_h(), ow = s.out_w();
  Results r;
  const auto x_at = [&](std::int64_t n, std::int64_t c, std::int64_t i, std::int64_t j) {
    const bool inside = i >= 0 && i < s.h && j >= 0 && j < s.w;
    return inside ? t.x[static_cast<std::size_t>(((n * s.ci + c) * s.h + i) * s.w + j)] : 0.0f;
  };
  const auto w_at = [&](std::int64_t o, std::int64_t c, std::int64_t i, std::int64_t j) {
    return t.weight[static_cast<std::size_t>(((o * ci + c) * s.kh + i) * s.kw + j)];
  };
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t o = 0; o < s.co; ++o)
      for (std::int64_t i = 0; i < oh; ++i)
        for (std::int64_t j = 0; j < ow; ++j) {
          contract::OrderedDot dot;
          for (std::int64_t c = 0; c < ci; ++c)
            for (std::int64_t a = 0; a < s.kh; ++a)
              for (std::int64_t b = 0; b < s.kw; ++b)
                dot.add(x_at(n, o / co * ci + c, i * s.stride_h - s.pad_h + a * s.dilation_h,
                             j * s.stride_w - s.pad_w + b * s.dilation_w),
                        w_at(o, c, a, b));
          r.without_bias.push_back(dot.result());
          r.y.push_back(r.without_bias.back() + t.bias[static_cast<std::size_t>(o)]);
        }
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t c = 0; c < s.ci; ++c)
      for (std::int64_t h = 0; h < s.h; ++h)
        for (std::int64_t w = 0; w < s.w; ++w) {
          contract::OrderedDot dot;
          const std::int64_t group = c / ci;
          for (std::int64_t o = group * co; o < (group + 1) * co; ++o)
            for (std::int64_t a = 0; a < s.kh; ++a)
              for (std::int64_t b = 0; b < s.kw; ++b) {
                const std::int64_t i = h + s.pad_h - a * s.dilation_h, j = w + s.pad_w - b * s.dilation_w;
                if (i % s.stride_h != 0 || j % s.stride_w != 0) continue;  // another phase: no term
                const std::int64_t p = i / s.stride_h, q = j / s.stride_w;
                const bool inside = p >= 0 && p < oh && q >= 0 && q < ow;
                dot.add(inside ? t.dy[static_cast<std::size_t>(((n * s.co + o) * oh + p) * ow + q)] : 0.0f,
                        w_at(o, c % ci, a, b));
              }
          r.dx.push_back(dot.result());
        }
  for (std::int64_t o = 0; o < s.co; ++o)
    for (std::int64_t c = 0; c < ci; ++c)
      for (std::int64_t a = 0; a < s.kh; ++a)
        for (std::int64_t b = 0; b < s.kw; ++b) {
          contract::OrderedDot dot;
          for (std::int64_t n = 0; n < s.n; ++n)
            for (std::int64_t i = 0; i < oh; ++i)
              for (std::int64_t j = 0; j < ow; ++j)
                dot.add(x_at(n, o / co * ci + c, i * s.stride_h - s.pad_h + a * s.dilation_h,
                             j * s.stride_w - s.pad_w + b * s.dilation_w),
                        t.dy[static_cast<std::size_t>(((n * s.co + o) * oh + i) * ow + j)]);
          r.dweight.push_back(dot.result());
        }
  return r;
}

TEST(Conv2d, ReferenceFollowsTheDefinition) {
  for (const Conv2dShape& s :
       {square(2, 3, 7, 4, 3, 1, 1), square(2, 4, 9, 6, 3, 2, 1, 1, 2), square(1, 60, 5, 3, 3, 1, 0),
        square(3, 2, 17, 3, 5, 3, 2), square(2, 3, 11, 2, 3, 2, 2, 2), square(2, 5, 6, 5, 3, 1, 1, 1, 5),
        Conv2dShape{2, 2, 9, 6, 3, 3, 2, 2, 3, 1, 0, 1, 2, 1}}) {
    const Tensors t(s, false);
    const Results expected = by_definition(s, t), found = compute(s, t, Isa::reference);
    EXPECT_EQ(first_difference(expected.y, found.y), -1) << s;
    EXPECT_EQ(first_difference(expected.without_bias, found.without_bias), -1) << s;
    EXPECT_EQ(first_difference(expected.dx, found.dx), -1) << s;
    EXPECT_EQ(first_difference(expected.dweight, found.dweight), -1) << s;
  }
}

// |error| <= (leaf length + tree depth) * 2^-24 * sum of |terms|; here |terms| <= 1.
TEST(Conv2d, ReferenceAgreesWithBinary64) {
  const Conv2dShape s = square(1, 64, 6, 2, 5, 1, 0);
  const Floats x = ordinary(64 * 36, 1), weight = ordinary(2 * 64 * 25, 2);
  Floats y(8);
  const IsaScope scope(Isa::reference);
  conv2d_forward(s, x.data(), weight.data(), nullptr, y.data());
  for (std::int64_t o = 0; o < 8; ++o) {
    double exact = 0, magnitude = 0;
    for (std::int64_t k = 0; k < 1600; ++k) {
      const std::int64_t c = k / 25, row = o % 4 / 2 + k / 5 % 5, column = o % 2 + k % 5;
      const double term = double{x[static_cast<std::size_t>(c * 36 + row * 6 + column)]} *
                          weight[static_cast<std::size_t>(o / 4 * 1600 + k)];
      exact += term;
      magnitude += std::abs(term);
    }
    EXPECT_NEAR(y[static_cast<std::size_t>(o)], exact, (512 + 2) * 0x1p-24 * magnitude);
  }
}

TEST(Conv2d, SmallShapesAgreeOnEveryInstructionSet) {
  for (std::int64_t kernel : {1, 3, 5, 7})
    for (std::int64_t stride : {1, 2, 3})
      for (std::int64_t pad : {0, 1, 3})
        for (std::int64_t dilation : {1, 2})
          for (std::int64_t size : {7, 13}) {
            const Conv2dShape s = square(2, 3, size, 5, kernel, stride, pad, dilation);
            if (size + 2 * pad >= dilation * (kernel - 1) + 1) expect_same_everywhere(s);
          }
}

TEST(Conv2d, GroupsAgreeOnEveryInstructionSet) {
  expect_same_everywhere(square(2, 8, 9, 12, 3, 1, 1, 1, 4));
  expect_same_everywhere(square(3, 40, 7, 40, 3, 1, 1, 1, 40));
  expect_same_everywhere(square(2, 6, 10, 18, 3, 2, 1, 1, 6));
  expect_same_everywhere(square(1, 32, 5, 64, 1, 1, 0, 1, 2));
}

TEST(Conv2d, TinyAndEmptyShapesAgreeOnEveryInstructionSet) {
  expect_same_everywhere(square(0, 3, 5, 4, 3, 1, 1));
  expect_same_everywhere(square(1, 1, 1, 1, 1, 1, 0));
  expect_same_everywhere(square(1, 1, 1, 1, 3, 1, 1));
  expect_same_everywhere(square(1, 1, 1, 3, 3, 3, 3));
  expect_same_everywhere(square(5, 2, 2, 3, 3, 2, 1));
  expect_same_everywhere({2, 3, 1, 37, 4, 1, 5, 1, 2, 0, 2, 1, 1, 1});
  expect_same_everywhere({2, 3, 37, 1, 4, 5, 1, 2, 1, 2, 0, 1, 1, 1});
  expect_same_everywhere({1, 2, 11, 6, 3, 2, 4, 3, 1, 1, 2, 2, 1, 1});
  expect_same_everywhere({2, 3, 11, 12, 5, 1, 3, 2, 3, 1, 1, 1, 1, 1});  // one tap along one axis only
  expect_same_everywhere({2, 3, 12, 11, 5, 3, 1, 3, 2, 2, 3, 1, 2, 1});
}

TEST(Conv2d, LongSumsAgreeOnEveryInstructionSet) {
  expect_same_everywhere(square(9, 64, 4, 33, 3, 1, 1));   // 576 terms forward; 144 for weights
  expect_same_everywhere(square(2, 130, 7, 40, 3, 2, 1));  // 1170 terms
  expect_same_everywhere(square(40, 3, 12, 7, 3, 1, 1));   // 5760 terms for weights
  expect_same_everywhere(square(3, 512, 2, 20, 1, 1, 0));  // exactly one leaf
  expect_same_everywhere(square(2, 1, 32, 3, 5, 1, 2));    // exactly four leaves for weights
  expect_same_everywhere(square(3, 3, 40, 20, 7, 2, 3));
}

TEST(Conv2d, ModelShapesAgreeOnEveryInstructionSet) {
  expect_same_everywhere(square(16, 1, 28, 6, 5, 1, 2));
  expect_same_everywhere(square(16, 6, 14, 16, 5, 1, 0));
  expect_same_everywhere(square(2, 64, 16, 64, 3, 1, 1));
  expect_same_everywhere(square(2, 64, 16, 128, 1, 2, 0));
}

// Of the weight gradient: channels that fill a part of a vector, and leaves that are no multiple of the threads.
TEST(Conv2d, FewChannelsAgreeOnEveryInstructionSet) {
  for (const std::int64_t co : {1, 7, 8, 9, 15, 16, 17, 24, 33}) {
    const Conv2dShape s = square(33, 2, 16, co, 3, 1, 1);  // 16.5 leaves for weights
    const Tensors t(s, co % 2 == 0);
    expect_same_on_host(s, t, compute(s, t, Isa::reference));
  }
  const Conv2dShape many = square(98, 1, 24, 6, 5, 1, 2, 1, 1);  // 110.25 leaves
  const Tensors t(many, false);
  expect_same_on_host(many, t, compute(many, t, Isa::reference));
  const Conv2dShape groups = square(40, 6, 16, 18, 3, 1, 1, 1, 3);
  const Tensors grouped(groups, true);
  expect_same_on_host(groups, grouped, compute(groups, grouped, Isa::reference));
}

// A channel a group: channels fill lanes, or nearly, or do not; one, two and five outputs a channel; taps that fill the
// registers, or leave kernel rows over; strides with phases that meet no tap; padding wider than the image; strips of
// tall images; leaves that end within a row; one image too large for its scratch.
TEST(Conv2d, ByChannelAgreesOnEveryInstructionSet) {
  const auto by_channel = [](std::int64_t n, std::int64_t channels, std::int64_t multiple, std::int64_t h,
                             std::int64_t w, std::int64_t kh, std::int64_t kw) {
    Conv2dShape s{.n = n, .ci = channels, .h = h, .w = w, .co = channels * multiple, .kh = kh, .kw = kw};
    s.groups = channels;
    return s;
  };
  const auto with = [](Conv2dShape s, std::int64_t stride_h, std::int64_t stride_w, std::int64_t pad_h,
                       std::int64_t pad_w, std::int64_t dilation_h = 1, std::int64_t dilation_w = 1) {
    s.stride_h = stride_h, s.stride_w = stride_w, s.pad_h = pad_h, s.pad_w = pad_w;
    s.dilation_h = dilation_h, s.dilation_w = dilation_w;
    return s;
  };
  bool special = false;
  for (const Conv2dShape& s :
       {with(by_channel(3, 16, 1, 14, 14, 3, 3), 1, 1, 1, 1), with(by_channel(2, 13, 1, 9, 23, 5, 5), 1, 1, 2, 2),
        with(by_channel(2, 8, 2, 15, 15, 3, 3), 2, 2, 1, 1), with(by_channel(1, 24, 5, 6, 7, 3, 2), 1, 1, 0, 1),
        with(by_channel(2, 7, 1, 22, 40, 22, 1), 1, 1, 0, 0), with(by_channel(1, 8, 1, 1, 700, 1, 17), 1, 1, 0, 8),
        with(by_channel(2, 15, 1, 7, 7, 7, 7), 1, 1, 3, 3), with(by_channel(1, 6, 1, 12, 13, 3, 3), 3, 2, 2, 1, 2, 3),
        with(by_channel(1, 9, 1, 3, 3, 3, 3), 1, 1, 5, 6), with(by_channel(2, 10, 3, 11, 8, 1, 1), 2, 3, 0, 0),
        with(by_channel(1, 2, 1, 30, 30, 3, 3), 1, 1, 1, 1), with(by_channel(1, 16, 1, 130, 66, 3, 3), 1, 1, 1, 1),
        with(by_channel(1, 17, 1, 41, 5, 9, 11), 1, 1, 4, 5), with(by_channel(1, 8, 4, 20, 20, 15, 15), 4, 5, 7, 7),
        with(by_channel(5, 11, 1, 2, 2, 2, 2), 2, 2, 0, 0), with(by_channel(1, 8, 1, 64, 64, 17, 17), 1, 1, 8, 8),
        with(by_channel(2, 12, 4, 10, 10, 12, 12), 1, 1, 6, 6, 1, 1),
        with(by_channel(1, 8, 1, 5, 6, 3, 3), 1, 1, 0, 0, 2, 2)}) {
    special = !special;
    const Tensors t(s, special);
    expect_same_on_host(s, t, compute(s, t, Isa::reference));
  }
  const Conv2dShape wide = with(by_channel(1, 2, 1, 3, 270000, 3, 3), 1, 1, 1, 1);
  const Tensors t(wide, false);
  const Results expected = compute(wide, t, Isa::reference);
  for (Isa isa : available_isas())
    ASSERT_EQ(first_difference(expected.dweight, compute(wide, t, isa).dweight), -1) << name(isa);
}

// Places that 32 bits do not hold, strides far longer than the image, images without pixels: reached by "same" padding
// of absurd dilations and by empty maps.
TEST(Conv2d, ExtremeShapesAgreeOnEveryInstructionSet) {
  const std::int64_t far = std::int64_t{1} << 32;
  for (const std::int64_t multiple : {1, 5}) {
    Conv2dShape s{.n = 1, .ci = 16, .h = 3, .w = 3, .co = 16 * multiple, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1};
    s.groups = 16;
    Conv2dShape dilated = s, striding = s;
    dilated.pad_h = dilated.dilation_h = far;
    striding.stride_h = 1000000000;
    for (const Conv2dShape& shape : {dilated, striding}) {
      const Tensors t(shape, true);
      expect_same_on_host(shape, t, compute(shape, t, Isa::reference));
    }
  }
  for (const std::int64_t groups : {1, 8}) {  // kernels without taps
    Conv2dShape s{.n = 2, .ci = 8, .h = 4, .w = 5, .co = 8, .kh = 3, .kw = 0};
    s.groups = groups;
    const Tensors t(s, false);
    expect_same_on_host(s, t, compute(s, t, Isa::reference));
  }
  for (const std::int64_t n : {1, 16, 40}) {
    for (const std::int64_t groups : {1, 8}) {
      Conv2dShape s{.n = n, .ci = 8, .h = 4, .w = 0, .co = 8, .kh = 3, .kw = 3, .pad_h = 2, .pad_w = 2};
      s.groups = groups;
      const Tensors t(s, false);
      expect_same_on_host(s, t, compute(s, t, Isa::reference));
      std::swap(s.h, s.w);
      const Tensors turned(s, false);
      expect_same_on_host(s, turned, compute(s, turned, Isa::reference));
    }
  }
}

// Rows of outputs that do not fill the lanes, of batches that do: images in lanes, with nothing skipped. Tall maps,
// groups, a stride as large as the kernel; one batch too small, rows that fill a vector, too many channels.
TEST(Conv2d, ShortRowsOfManyImagesAgreeOnEveryInstructionSet) {
  for (const Conv2dShape& s :
       {square(64, 6, 14, 16, 5, 1, 0), square(57, 2, 9, 12, 3, 1, 0), Conv2dShape{64, 3, 40, 5, 9, 3, 3, 1, 1, 0, 0},
        square(64, 6, 8, 18, 3, 1, 0, 1, 2), square(64, 3, 12, 10, 4, 4, 0), square(31, 6, 14, 16, 5, 1, 0),
        square(64, 3, 18, 16, 3, 1, 0), square(64, 3, 9, 70, 3, 1, 0)}) {
    const Tensors t(s, true);
    expect_same_on_host(s, t, compute(s, t, Isa::reference));
  }
}

TEST(Conv2d, NanAndInfinityAgreeOnEveryInstructionSet) {
  expect_same_everywhere(square(2, 3, 9, 8, 3, 1, 1), true);
  expect_same_everywhere(square(2, 20, 8, 7, 3, 2, 1), true);
  expect_same_everywhere(square(2, 4, 9, 4, 5, 1, 2, 1, 4), true);
}

// A padded position is a term: zero times an infinite weight is NaN, on every instruction set.
TEST(Conv2d, PaddingMeetsInfiniteWeights) {
  const Conv2dShape s = square(1, 1, 3, 1, 3, 1, 1);
  const Floats x(9, 1.0f);
  Floats weight(9, 1.0f), y(9);
  weight[0] = std::numeric_limits<float>::infinity();
  for (Isa isa : available_isas()) {
    const IsaScope scope(isa);
    conv2d_forward(s, x.data(), weight.data(), nullptr, y.data());
    EXPECT_TRUE(std::isnan(y[0])) << name(isa);
    EXPECT_TRUE(std::isinf(y[8])) << name(isa);
  }
}

// conv(x, padding p) = conv(pad(x, p)).
// Batches that make images the lanes, and channels enough for weight gradients by tap: padding is skipped there.
TEST(Conv2d, LargeBatchesSkipPaddingWithTheSameBits) {
  for (const Conv2dShape& s :
       {square(64, 4, 4, 16, 3, 1, 1), square(57, 60, 3, 17, 3, 1, 1), square(64, 45, 5, 6, 3, 2, 1),
        square(57, 3, 6, 5, 5, 1, 2), square(64, 8, 6, 30, 3, 1, 2, 2), square(57, 12, 5, 8, 3, 1, 1, 1, 2),
        square(64, 3, 5, 4, 4, 1, 2), square(57, 3, 3, 4, 3, 1, 3), square(64, 2, 7, 3, 2, 3, 1),
        square(29, 50, 4, 20, 3, 1, 1), square(300, 3, 4, 3, 3, 1, 1), square(64, 130, 2, 15, 3, 1, 1),
        Conv2dShape{57, 43, 3, 18, 5, 3, 5, 1, 2, 1, 2, 1, 1, 1},
        Conv2dShape{64, 5, 9, 2, 3, 2, 3, 2, 1, 1, 1, 2, 1, 1}}) {
    for (const bool special : {false, true}) {
      const Tensors t(s, special);
      expect_same_on_host(s, t, compute(s, t, Isa::reference));
    }
  }
}

// Kernels as high as the image, as EEG networks have: an input gradient's row meets one row of the kernel, and images
// are lanes whatever the batch, a leaf after the first and a weight that is not finite among them.
TEST(Conv2d, KernelsAsHighAsTheImageAgreeOnEveryInstructionSet) {
  for (const std::int64_t n : {1, 3, 8, 16, 17, 33, 40}) {
    for (const Conv2dShape& s : {Conv2dShape{n, 5, 9, 21, 70, 9, 1, 1, 1, 0, 0, 1, 1, 1},
                                 Conv2dShape{n, 16, 8, 19, 3, 8, 5, 1, 2, 0, 2, 1, 1, 1},
                                 Conv2dShape{n, 6, 22, 11, 4, 21, 3, 1, 1, 0, 1, 1, 1, 2},
                                 Conv2dShape{n, 2, 13, 4, 15, 5, 2, 4, 1, 0, 0, 2, 1, 1}}) {
      for (const bool special : {false, true}) {
        const Tensors t(s, special);
        expect_same_on_host(s, t, compute(s, t, Isa::reference));
      }
    }
  }
}

// One value that is not finite, where padding would have met it: in a weight, and in dy late in the batch.
TEST(Conv2d, SkippedPaddingWouldHaveMetInfinity) {
  const Conv2dShape s = square(64, 48, 4, 16, 3, 1, 1);
  for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const bool in_weight : {true, false}) {
      Tensors t(s, false);
      (in_weight ? t.weight[7] : t.dy[t.dy.size() - 16]) = value;
      const Results expected = compute(s, t, Isa::reference);
      // A corner of the first output has the first weights' product with padding, and the last images' dy.
      EXPECT_TRUE(in_weight ? std::isnan(expected.without_bias[12])
                            : std::isnan(expected.dweight[(s.co - 1) * 48 * 9]));
      expect_same_on_host(s, t, expected);
    }
  }
}

// Kernels of 8 or 16 taps fill whole blocks of a packed panel.
TEST(Conv2d, WholeBlocksOfTapsAreNotOverwritten) {
  for (const Conv2dShape& s : {square(2, 40, 6, 40, 4, 1, 1), Conv2dShape{2, 33, 5, 6, 35, 2, 4, 1, 1, 1, 1, 1, 1, 1}})
    expect_same_everywhere(s);
}

// Planes in reverse, some of zeros, beside the same ones in one place.
TEST(Conv2d, PlanesMayLieAnywhere) {
  struct Listed {
    Floats memory, plain;
    std::vector<const float*> planes;
    Listed(std::int64_t count, std::int64_t size, unsigned seed) : memory(hostile(count * size, seed)), plain(memory) {
      for (std::int64_t i = 0; i < count; ++i) {
        const auto from = memory.begin() + (count - 1 - i) * size;
        if (i % 5 == 2) {
          planes.push_back(nullptr);
          std::fill_n(plain.begin() + i * size, size, 0.0f);
        } else {
          planes.push_back(&*from);
          std::copy_n(from, size, plain.begin() + i * size);
        }
      }
    }
  };
  for (const Conv2dShape& s :
       {Conv2dShape{3, 6, 9, 11, 16, 3, 3, 1, 1, 1, 1, 1, 1, 2}, Conv2dShape{2, 5, 17, 18, 33, 3, 2, 2, 2, 0, 1},
        Conv2dShape{40, 3, 4, 4, 5, 3, 3, 1, 1, 1, 1}}) {
    const Listed x(s.n * s.ci, s.h * s.w, 5), dy(s.n * s.co, s.out_h() * s.out_w(), 6);
    const Floats weight = hostile(s.co * (s.ci / s.groups) * s.kh * s.kw, 7);
    const auto both = [&](bool listed) {
      Conv2dShape forward = s, backward = s;
      if (listed) forward.planes = x.planes.data(), backward.planes = dy.planes.data();
      Floats y(dy.plain.size(), -7.0f), dx(x.plain.size(), -7.0f), dweight(weight.size(), -7.0f);
      conv2d_forward(forward, listed ? nullptr : x.plain.data(), weight.data(), nullptr, y.data());
      conv2d_input_gradient(backward, listed ? nullptr : dy.plain.data(), weight.data(), dx.data());
      conv2d_weight_gradient(forward, listed ? nullptr : x.plain.data(), dy.plain.data(), dweight.data());
      return std::array{y, dx, dweight};
    };
    for (const Isa isa : available_isas()) {
      const IsaScope scope(isa);
      const auto plain = both(false), listed = both(true);
      EXPECT_EQ(first_difference(plain[0], listed[0]), -1) << s << ": forward, " << name(isa);
      EXPECT_EQ(first_difference(plain[1], listed[1]), -1) << s << ": input gradient, " << name(isa);
      EXPECT_EQ(first_difference(plain[2], listed[2]), -1) << s << ": weight gradient, " << name(isa);
    }
  }
}

TEST(Conv2d, PaddingIsZerosAround) {
  const Conv2dShape s = square(2, 3, 6, 4, 3, 1, 1), padded = square(2, 3, 8, 4, 3, 1, 0);
  const Tensors t(s, false);
  Floats wide(2 * 3 * 64, 0.0f), y(t.dy.size()), z(t.dy.size());
  for (std::size_t i = 0; i < t.x.size(); ++i) wide[i / 36 * 64 + (i / 6 % 6 + 1) * 8 + i % 6 + 1] = t.x[i];
  conv2d_forward(s, t.x.data(), t.weight.data(), nullptr, y.data());
  conv2d_forward(padded, wide.data(), t.weight.data(), nullptr, z.data());
  EXPECT_EQ(first_difference(y, z), -1);
}

// Or the comparisons above could not fail: terms in the order (kh, kw, ci) give other bits.
TEST(Conv2d, OtherOrdersGiveOtherBits) {
  const Floats x = ordinary(40 * 9, 1), weight = ordinary(40 * 9, 2);
  float y = 0;
  conv2d_forward(square(1, 40, 3, 1, 3, 1, 0), x.data(), weight.data(), nullptr, &y);
  contract::OrderedDot channels_last;
  for (std::size_t tap = 0; tap < 9; ++tap)
    for (std::size_t c = 0; c < 40; ++c) channels_last.add(x[c * 9 + tap], weight[c * 9 + tap]);
  EXPECT_NE(canonical_bits(y), canonical_bits(channels_last.result()));
}

}  // namespace
}  // namespace isobit::kernels
