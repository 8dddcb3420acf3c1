// Floats as integers: saturated under the guard whatever stock's instruction set gives; bits shown only where no NaN
// tells which machine made it.
#include "aten/conversions.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "aten/guard.h"

namespace isobit::aten {
namespace {

constexpr at::ScalarType kIntegers[] = {at::kByte, at::kChar,   at::kShort,  at::kInt,
                                        at::kLong, at::kUInt16, at::kUInt32, at::kUInt64};

template <typename Integer>
Integer value_of(const at::Tensor& integers, std::int64_t i) {
  return static_cast<const Integer*>(integers.const_data_ptr())[i];
}

// The rule in other words: on the integers' side, by comparison with the type's ends as long doubles, which hold 64
// bits.
template <typename Integer>
void expect_saturated(const at::Tensor& floats, at::ScalarType type) {
  const at::Tensor integers = floats.to(type), values = floats.to(at::kDouble).contiguous();
  ASSERT_EQ(integers.scalar_type(), type);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const auto x = static_cast<long double>(values.const_data_ptr<double>()[i]);
    constexpr auto low = static_cast<long double>(std::numeric_limits<Integer>::min());
    constexpr auto high = static_cast<long double>(std::numeric_limits<Integer>::max());
    const Integer expected = std::isnan(x) ? Integer(0)
                             : x < low     ? std::numeric_limits<Integer>::min()
                             : x > high    ? std::numeric_limits<Integer>::max()
                                           : static_cast<Integer>(x);
    EXPECT_EQ(value_of<Integer>(integers, i), expected) << static_cast<double>(x) << " to " << type;
  }
}

void expect_saturated(const at::Tensor& floats) {
  expect_saturated<std::uint8_t>(floats, at::kByte);
  expect_saturated<std::int8_t>(floats, at::kChar);
  expect_saturated<std::int16_t>(floats, at::kShort);
  expect_saturated<std::int32_t>(floats, at::kInt);
  expect_saturated<std::int64_t>(floats, at::kLong);
  expect_saturated<std::uint16_t>(floats, at::kUInt16);
  expect_saturated<std::uint32_t>(floats, at::kUInt32);
  expect_saturated<std::uint64_t>(floats, at::kUInt64);
}

// Both sides of every type's ends, as near as binary64 comes.
at::Tensor hostile() {
  std::vector<double> values = {0.0,       -0.0,  0.99,   -0.99,  -1.0,  NAN,    -NAN, INFINITY,
                                -INFINITY, 1e300, -1e300, 5e-324, 127.5, -128.5, 255.5};
  for (const int bits : {7, 8, 15, 16, 31, 32, 63, 64}) {
    for (const double end : {std::ldexp(1.0, bits), -std::ldexp(1.0, bits)}) {
      for (const double x : {end, std::nextafter(end, 0.0), std::nextafter(end, 2 * end), end - 1, end + 1, end + 0.5})
        values.push_back(x);
    }
  }
  return at::tensor(values, at::kDouble);
}

TEST(Conversions, FloatsBeyondAnIntegerTypeAreSaturated) {
  const at::Tensor doubles = hostile(), floats = doubles.to(at::kFloat), halves = floats.to(at::kHalf);
  const at::Tensor brain = floats.to(at::kBFloat16), strided = at::stack({doubles, doubles.flip(0)}, 1).select(1, 0);
  const Guard guard;
  for (const at::Tensor& values : {doubles, floats, halves, brain, strided}) expect_saturated(values);
}

TEST(Conversions, ByEveryWayThatATypeChanges) {
  const at::Tensor x = at::tensor({3e9f, -3e9f, NAN}), ends = at::tensor({2147483647, -2147483647 - 1, 0}, at::kInt);
  const Guard guard;
  EXPECT_TRUE(at::equal(x.to(at::kInt), ends));
  EXPECT_TRUE(at::equal(at::empty({3}, at::kInt).copy_(x), ends));
  EXPECT_TRUE(at::equal(at::_cast_Int(x), ends));
  EXPECT_TRUE(at::equal(at::zeros({3}, at::kInt).index_put_({at::arange(3)}, x.to(at::kInt)), ends));
  EXPECT_TRUE(at::equal(x.view({3, 1}).expand({3, 2}).to(at::kInt).select(1, 1), ends));
  EXPECT_EQ(x.narrow(0, 0, 0).to(at::kInt).numel(), 0);
  EXPECT_TRUE(x.isnan().logical_not().logical_or(x.to(at::kBool)).all().item<bool>());  // NaN is true
}

TEST(Conversions, BitsAreShownUnlessANaNIsAMachinesOwn) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    at::Tensor x = at::tensor({1.5, -0.0, INFINITY}, at::kDouble).to(type);
    EXPECT_FALSE(holds_other_nan(x)) << type;
    const at::Tensor canonical = at::cat({x, at::full({1}, std::numeric_limits<double>::quiet_NaN(), type)});
    EXPECT_FALSE(holds_other_nan(canonical)) << type;
    // The sign bit of every value: bfloat16's neg itself makes NaN canonical.
    const at::ScalarType bits = type == at::kDouble ? at::kLong : type == at::kFloat ? at::kInt : at::kShort;
    const at::Tensor signs = canonical.view(bits).bitwise_xor(std::int64_t(1) << (8 * at::elementSize(type) - 1));
    EXPECT_TRUE(holds_other_nan(signs.view(type))) << type;
  }
  const at::Tensor payload = at::tensor({0x7fc00001}, at::kInt).view(at::kFloat), canonical = at::full({1}, NAN);
  const Guard guard;
  EXPECT_EQ(canonical.view(at::kInt).item<int>(), 0x7fc00000);
  EXPECT_THROW(static_cast<void>(payload.view(at::kInt)), c10::Error);
  EXPECT_THROW(static_cast<void>(payload.view(at::kByte)), c10::Error);
  EXPECT_THROW(static_cast<void>(at::view_as_complex(at::stack({canonical, payload}, 1)).view(at::kInt)), c10::Error);
  EXPECT_TRUE(at::equal(at::tensor({0x3f800000}, at::kInt).view(at::kFloat), at::ones({1})));
  EXPECT_TRUE(at::isnan(payload.view(at::kFloat)).item<bool>());  // the same type: nothing is shown
}

}  // namespace
}  // namespace isobit::aten
