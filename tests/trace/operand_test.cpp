#include "trace/operand.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "trace/tensor_fingerprint.h"

namespace isobit::trace {
namespace {

constexpr at::ScalarType kTypes[] = {
    at::kFloat,           at::kDouble,         at::kHalf,   at::kBFloat16, at::kComplexFloat,  at::kComplexDouble,
    at::kComplexHalf,     at::kLong,           at::kInt,    at::kShort,    at::kChar,          at::kByte,
    at::kUInt16,          at::kUInt32,         at::kUInt64, at::kBool,     at::kFloat8_e4m3fn, at::kFloat8_e5m2,
    at::kFloat8_e4m3fnuz, at::kFloat8_e5m2fnuz};

TensorTrace of(const at::Tensor& tensor) { return describe_operand(tensor, "key", {}); }
std::string digits(const at::Tensor& tensor) { return of(tensor).fingerprint; }

at::Tensor numbers(at::ScalarType type) { return at::arange(24, at::kFloat).remainder(7).reshape({2, 3, 4}).to(type); }

TEST(Operand, EveryTypeHasAFingerprint) {
  std::set<std::string> all;
  for (const at::ScalarType type : kTypes) {
    const at::Tensor x = numbers(type);
    const std::string found = digits(x);
    EXPECT_EQ(found.size(), 32u) << toString(type);
    EXPECT_TRUE(all.insert(found).second) << toString(type) << " has another type's";
    // The values in their logical order, whatever the strides.
    EXPECT_EQ(digits(x.transpose(0, 2).contiguous()), digits(x.transpose(0, 2))) << toString(type);
    EXPECT_EQ(digits(x.narrow(2, 1, 2).contiguous()), digits(x.narrow(2, 1, 2))) << toString(type);
    EXPECT_NE(digits(x.transpose(0, 2)), found);
    EXPECT_NE(digits(x.reshape({6, 4})), found);
    at::Tensor other = x.clone();
    other.view({-1})[23].fill_(type == at::kBool ? 0 : 5);
    EXPECT_NE(digits(other), found) << toString(type);
  }
}

// Where the contract defines a fingerprint, this is it.
TEST(Operand, IsTheContractsFingerprint) {
  for (const at::ScalarType type : {at::kFloat, at::kLong, at::kByte, at::kBool}) {
    const at::Tensor x = numbers(type);
    EXPECT_EQ(digits(x), kernels::to_hex(fingerprint(x)));
    EXPECT_EQ(digits(x.transpose(0, 1)), kernels::to_hex(fingerprint(x.transpose(0, 1))));
  }
}

TEST(Operand, NaNIsNaN) {
  for (const at::ScalarType type :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kFloat8_e5m2, at::kComplexFloat}) {
    const at::Tensor x = at::full({2}, std::numeric_limits<double>::quiet_NaN()).to(type);
    at::Tensor y = x.clone();
    static_cast<std::uint8_t*>(y.mutable_data_ptr())[at::elementSize(type) / (isComplexType(type) ? 2 : 1) - 1] ^= 0x80;
    EXPECT_EQ(digits(x), digits(y)) << toString(type);
    EXPECT_NE(digits(x), digits(at::full({2}, 1.0).to(type)));
  }
}

TEST(Operand, NamesWhatItCannotRead) {
  EXPECT_EQ(of(at::eye(3).to_sparse()).without, "no strided tensor");
  EXPECT_EQ(of(at::empty({2}, at::device(at::kMeta))).without, "meta");
  EXPECT_EQ(of(at::quantize_per_tensor(at::ones({2}), 0.1, 0, at::kQInt8)).without, "quantized");
  EXPECT_EQ(of(at::empty({0, 3})).fingerprint.size(), 32u);
}

TEST(Operand, ConjugateAndNegativeViewsCountByTheirValues) {
  const at::Tensor x = at::complex(numbers(at::kFloat), numbers(at::kFloat));
  EXPECT_EQ(digits(at::conj(x)), digits(at::conj(x).resolve_conj()));
  EXPECT_EQ(digits(at::imag(at::conj(x))), digits(at::imag(at::conj(x)).clone()));
}

TEST(Operand, SamplesAreAtTheSamePlacesEverywhere) {
  // Fixed for good: machines have to agree.
  EXPECT_EQ(sample_positions("3/forward/fc/aten::linear/1/output/0", 1'000'000, 4),
            (std::vector<std::int64_t>{234209, 448356, 688433, 909307}));
  for (const std::int64_t count : {1, 7, 8, 9, 1000}) {
    const auto positions = sample_positions("key", count, 8);
    EXPECT_EQ(static_cast<std::int64_t>(positions.size()), std::min<std::int64_t>(count, 8));
    EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
    EXPECT_GE(positions.front(), 0);
    EXPECT_LT(positions.back(), count);
  }
  const TensorTrace trace = describe_operand(at::arange(5, at::kFloat), "key", {8, false});
  ASSERT_EQ(trace.samples.size(), 5u);
  EXPECT_EQ(trace.samples[3], (Sample{3, "40400000"}));
  EXPECT_EQ(describe_operand(at::full({1}, c10::complex<float>(1, -2)), "key", {8, false}).samples[0].bits,
            "3f800000c0000000");
}

TEST(Operand, Statistics) {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor x = at::tensor({1.0F, -2.0F, infinity, -infinity, infinity - infinity, 4.0F});
  const Statistics found = *describe_operand(x, "key", {0, true}).statistics;
  EXPECT_EQ(found, (Statistics{-2.0, 4.0, 1.0, 1, 2}));
  EXPECT_EQ(*describe_operand(at::empty({0}), "key", {0, true}).statistics, Statistics{});
}

TEST(Operand, KeepsValues) {
  KeptValues kept;
  ASSERT_TRUE(keep_operand(numbers(at::kFloat).transpose(0, 2), kept));
  EXPECT_EQ(kept.dtype, "F32");
  EXPECT_EQ(kept.shape, (std::vector<std::int64_t>{4, 3, 2}));
  EXPECT_EQ(kept.bytes.size(), 96u);
  ASSERT_TRUE(keep_operand(at::zeros({3}, at::kComplexFloat), kept));
  EXPECT_EQ(kept.shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_FALSE(keep_operand(at::eye(3).to_sparse(), kept));
}

}  // namespace
}  // namespace isobit::trace
