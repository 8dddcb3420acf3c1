// Element-wise operators: every implementation gives what the language's own operation gives for each element,
// wherever strides lead.
#include "kernels/elementwise.h"
#include "kernels/flat_elements.h"

#include <functional>

#include "kernels/sweep.h"

namespace isobit::kernels::testing {
namespace {

using Floats = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Every case of every operator: NaN, zeros, infinities, subnormals, halves, the ends of the range, integers about
// 2^23 and beyond, and wide values between them.
Floats values(std::int64_t n, unsigned seed) {
  constexpr float kSpecial[] = {0.0f,       -0.0f,     kNan,    kInfinity,   -kInfinity, 0x1p-149f,
                                -0x1p-149f, 0x1p-126f, -0.5f,   0.5f,        1.5f,       -2.5f,
                                3.5f,       1.0f,      -1.0f,   0.49999997f, -0.75f,     8388607.5f,
                                8388609.f,  0x1p24f,   0x1p31f, -0x1p63f,    3.4e38f,    -3.4e38f};
  Floats all = hostile_floats(n, seed, true);
  std::mt19937 engine(seed + 9);
  for (float& x : all) {
    if (engine() % 3 == 0) x = kSpecial[engine() % std::size(kSpecial)];
    if (engine() % 7 == 0) x = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
  }
  return all;
}

// An operand and the memory that it looks into; `origin` is its first element's place.
struct Array {
  Floats memory;
  std::vector<std::int64_t> stride;
  std::int64_t origin = 0;

  [[nodiscard]] Operand operand() const {
    Operand o{memory.data() + origin, 0.0f, {}};
    for (std::size_t d = 0; d < stride.size(); ++d) o.stride[d] = stride[d];
    return o;
  }
};

using Sizes = std::vector<std::int64_t>;

ElementShape shape_of(const Sizes& sizes) {
  ElementShape shape{static_cast<int>(sizes.size()), {}};
  for (std::size_t d = 0; d < sizes.size(); ++d) shape.size[d] = sizes[d];
  return shape;
}

std::int64_t count(const Sizes& sizes) {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return n;
}

// Memory for any strides: from the least to the greatest place.
Array array(const Sizes& sizes, std::vector<std::int64_t> stride, unsigned seed) {
  std::int64_t low = 0, high = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int64_t reach = std::max<std::int64_t>(sizes[d] - 1, 0) * stride[d];
    (reach < 0 ? low : high) += reach;
  }
  return {values(high - low + 1, seed), std::move(stride), -low};
}

std::vector<std::int64_t> contiguous(const Sizes& sizes) {
  std::vector<std::int64_t> stride(sizes.size());
  std::int64_t next = 1;
  for (std::size_t d = sizes.size(); d-- > 0; next *= sizes[d]) stride[d] = next;
  return stride;
}

// The elements in the shape's order, by counting through it.
Floats gathered(const Sizes& sizes, const Operand& operand) {
  Floats all;
  Sizes place(sizes.size(), 0);
  for (std::int64_t i = 0; i < count(sizes); ++i) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) at += place[d] * operand.stride[d];
    all.push_back(operand.data != nullptr ? operand.data[at] : operand.value);
    for (std::size_t d = sizes.size(); d-- > 0 && ++place[d] == sizes[d];) place[d] = 0;
  }
  return all;
}

struct View {
  Sizes sizes;
  std::vector<std::int64_t> a, b;
};

const std::vector<View>& views() {
  static const std::vector<View> all = [] {
    std::vector<View> v;
    for (const Sizes& sizes : {Sizes{}, Sizes{0}, Sizes{1}, Sizes{31}, Sizes{1024}, Sizes{1025}, Sizes{9001},
                               Sizes{3, 0, 5}, Sizes{7, 11, 13}, Sizes{1, 17, 1, 5}}) {
      v.push_back({sizes, contiguous(sizes), contiguous(sizes)});
    }
    v.push_back({{40, 33}, {33, 1}, {1, 40}});                      // transposed
    v.push_back({{40, 33}, {33, 1}, {0, 1}});                       // a row for all
    v.push_back({{40, 33}, {1, 0}, {33, 1}});                       // a column for all
    v.push_back({{4, 6, 5, 7}, {210, 35, 7, 1}, {0, 1, 0, 0}});     // a value per channel
    v.push_back({{4, 6, 5, 7}, {210, 1, 42, 6}, {210, 35, 7, 1}});  // channels last
    v.push_back({{5, 9, 11}, {99, -11, 1}, {-200, 22, -2}});        // backwards, with gaps
    v.push_back({{29, 31}, {0, 0}, {0, 3}});                        // one element for all
    v.push_back({{6, 1, 50}, {50, 999, 1}, {50, -7, 1}});           // strides of single elements mean nothing
    v.push_back({{2, 2, 2, 1, 2, 2, 1, 2, 2, 1, 2, 1, 1, 2, 2, 2},  // as many dimensions as there may be
                 {1, 2, 4, 8, 8, 16, 0, 32, 64, 0, 128, 0, 0, 256, 512, 1024},
                 {0, 1, 0, 3, 2, 0, 5, 4, 0, 1, 8, 1, 1, 0, 16, 0}});
    return v;
  }();
  return all;
}

// Written in another way than the list.
using Formula = std::function<float(float, float)>;
Formula formula_of(ExactBinary op) {
  switch (op) {
    case ExactBinary::add: return std::plus<float>();
    case ExactBinary::subtract: return std::minus<float>();
    case ExactBinary::multiply: return std::multiplies<float>();
    case ExactBinary::divide: return std::divides<float>();
  }
  return {};
}

float sign_of(float x) {
  if (std::isnan(x) || x == 0.0f) return 0.0f;  // as torch's CPU operator
  return std::signbit(x) ? -1.0f : 1.0f;
}

Formula formula_of(ExactUnary op) {
  switch (op) {
    case ExactUnary::negate: return [](float x, float) { return std::copysign(x, std::signbit(x) ? 1.0f : -1.0f); };
    case ExactUnary::absolute: return [](float x, float) { return std::abs(x); };
    case ExactUnary::sign: return [](float x, float) { return sign_of(x); };
    case ExactUnary::floor: return [](float x, float) { return std::floor(x); };
    case ExactUnary::ceil: return [](float x, float) { return std::ceil(x); };
    case ExactUnary::trunc: return [](float x, float) { return std::trunc(x); };
    case ExactUnary::round: return [](float x, float) { return std::nearbyint(x); };
    case ExactUnary::frac: return [](float x, float) { return x - std::trunc(x); };
  }
  return {};
}

Floats mapped(const Formula& formula, const Floats& a, const Floats& b) {
  Floats y(a.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = formula(a[i], b[i]);
  return y;
}

// compute(y) writes n results and no more, the expected ones, under every implementation.
template <class Compute>
void expect_results(const Floats& expected, const std::string& what, Compute compute) {
  for_each_implementation([&](const std::string& where) {
    Floats y(expected.size() + 2, 7.5f);
    compute(y.data() + 1);
    EXPECT_EQ(y.front(), 7.5f) << what << "; " << where;
    EXPECT_EQ(y.back(), 7.5f) << what << "; " << where;
    EXPECT_TRUE(same_bits(Floats(y.begin() + 1, y.end() - 1), expected)) << what << "; " << where;
  });
}

TEST(Elementwise, BinaryOperatorsOverViews) {
  for (std::size_t v = 0; v < views().size(); ++v) {
    const View& view = views()[v];
    const Array a = array(view.sizes, view.a, 1), b = array(view.sizes, view.b, 2);
    const Floats as = gathered(view.sizes, a.operand()), bs = gathered(view.sizes, b.operand());
    for (const ExactBinary op : kAllExactBinary) {
      const Formula formula = formula_of(op);
      expect_results(mapped(formula, as, bs), std::string(name(op)) + ", view " + std::to_string(v),
                     [&](float* y) { exact_binary(op, shape_of(view.sizes), a.operand(), b.operand(), y); });
    }
  }
}

TEST(Elementwise, AScalarOnEitherSide) {
  const View& view = views()[14];
  const Array a = array(view.sizes, view.a, 3);
  const Floats as = gathered(view.sizes, a.operand());
  for (const float scalar : {3.0f, 0.1f, -0.0f, 0x1p-140f, kInfinity, kNan, -7e30f}) {
    const Operand one{nullptr, scalar, {}};
    const Floats ones(as.size(), scalar);
    for (const ExactBinary op : kAllExactBinary) {
      const Formula formula = formula_of(op);
      const std::string what = std::string(name(op)) + " with " + std::to_string(scalar);
      expect_results(mapped(formula, as, ones), what,
                     [&](float* y) { exact_binary(op, shape_of(view.sizes), a.operand(), one, y); });
      expect_results(mapped(formula, ones, as), what + " first",
                     [&](float* y) { exact_binary(op, shape_of(view.sizes), one, a.operand(), y); });
    }
  }
}

TEST(Elementwise, DivisionIsNoMultiplicationByAReciprocal) {  // else the sweeps could not tell them apart
  const Floats a = wide_floats(1000, 1);
  const Floats tenths(a.size(), 0.1f);
  EXPECT_FALSE(same_bits(mapped([](float x, float y) { return x / y; }, a, tenths),
                         mapped([](float x, float y) { return x * (1.0f / y); }, a, tenths)));
}

TEST(Elementwise, UnaryOperatorsOverViews) {
  for (std::size_t v = 0; v < views().size(); ++v) {
    const View& view = views()[v];
    const Array x = array(view.sizes, view.a, 4);
    const Floats xs = gathered(view.sizes, x.operand());
    for (const ExactUnary op : kAllExactUnary) {
      const Formula formula = formula_of(op);
      expect_results(mapped(formula, xs, xs), std::string(name(op)) + ", view " + std::to_string(v),
                     [&](float* y) { exact_unary(op, shape_of(view.sizes), x.operand(), y); });
    }
    for (const auto& [limit, value] : {std::pair{0.0f, -3.0f}, {1.5f, -0.0f}, {-kInfinity, 2.0f}, {kNan, 1.0f}}) {
      const auto formula = [limit = limit, value = value](float a, float) { return a <= limit ? value : a; };
      expect_results(mapped(formula, xs, xs), "threshold " + std::to_string(limit),
                     [&](float* y) { threshold(shape_of(view.sizes), x.operand(), limit, value, y); });
    }
  }
}

TEST(Elementwise, InPlace) {
  const Sizes sizes{6, 7, 8};
  const Array a = array(sizes, contiguous(sizes), 5), b = array(sizes, {1, 0, 6}, 6);
  const Floats expected = mapped([](float x, float y) { return x / y; }, a.memory, gathered(sizes, b.operand()));
  for_each_implementation([&](const std::string& where) {
    Array x = a;
    exact_binary(ExactBinary::divide, shape_of(sizes), x.operand(), b.operand(), x.memory.data());
    EXPECT_TRUE(same_bits(x.memory, expected)) << where;
  });
}

// The same operators where all lie in one order: the hosts' own loops.
TEST(Elementwise, FlatArraysAndNumbers) {
  for (const std::int64_t n : {0, 1, 7, 8, 16, 17, 33, 1000, 70001}) {
    const Floats a = wide_floats(n, 11), b = wide_floats(n, 12);
    for (const ExactBinary op : kAllExactBinary) {
      const Formula formula = formula_of(op);
      const std::string what = std::string(name(op)) + " of " + std::to_string(n);
      const auto expect = [&](const Floats& expected, const auto& compute) {
        for_each_host_implementation([&](const std::string& where) {
          Floats y(a);  // which is an operand, too
          compute(y.data());
          EXPECT_TRUE(same_bits(y, expected)) << what << "; " << where;
        });
      };
      expect(mapped(formula, a, b), [&](float* y) { flat_binary(op, a.data(), b.data(), y, n); });
      expect(mapped(formula, a, b), [&](float* y) { flat_binary(op, y, b.data(), y, n); });
      for (const float number : {3.0f, 0.1f, -0.0f, 0x1p-140f, kInfinity, kNan, -7e30f}) {
        const Floats numbers(a.size(), number);
        expect(mapped(formula, a, numbers), [&](float* y) { flat_with_number(op, y, number, false, y, n); });
        expect(mapped(formula, numbers, a), [&](float* y) { flat_with_number(op, a.data(), number, true, y, n); });
      }
    }
  }
}

TEST(Elementwise, Fill) {
  for (const std::int64_t n : {0, 1, 3, 1023, 1024, 1025, 5000}) {
    for (const float value : {-0.0f, 2.5f, kNan}) {
      expect_results(Floats(static_cast<std::size_t>(n), value), "fill " + std::to_string(n),
                     [&](float* y) { fill(value, y, n); });
    }
  }
}

}  // namespace
}  // namespace isobit::kernels::testing
