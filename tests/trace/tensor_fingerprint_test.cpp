#include "trace/tensor_fingerprint.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>

namespace isobit::trace {
namespace {

at::Tensor numbers() { return at::arange(24, at::kFloat).reshape({2, 3, 4}); }

TEST(TensorFingerprint, FollowsLogicalOrderWhateverTheMemory) {
  const at::Tensor x = numbers();
  EXPECT_EQ(fingerprint(x.transpose(0, 2).contiguous()), fingerprint(x.transpose(0, 2)));
  EXPECT_EQ(fingerprint(x.slice(2, 0, 4, 2).contiguous()), fingerprint(x.slice(2, 0, 4, 2)));
  EXPECT_NE(fingerprint(x.transpose(0, 2)), fingerprint(x));
}

TEST(TensorFingerprint, SeesTypeShapeAndEveryBit) {
  const at::Tensor x = numbers();
  EXPECT_NE(fingerprint(x), fingerprint(x.reshape({6, 4})));
  EXPECT_NE(fingerprint(at::zeros({3}, at::kFloat)), fingerprint(at::zeros({3}, at::kLong)));
  EXPECT_NE(fingerprint(at::zeros({0}, at::kFloat)), fingerprint(at::zeros({0, 2}, at::kFloat)));
  const auto original = fingerprint(x);
  for (int bit = 0; bit < 32; ++bit) {
    at::Tensor y = x.clone();
    float& value = y.data_ptr<float>()[7];
    value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ (1u << bit));
    EXPECT_NE(fingerprint(y), original) << bit;
  }
}

TEST(TensorFingerprint, AnyNaNIsTheSame) {
  at::Tensor a = at::zeros({2}), b = at::zeros({2});
  a.data_ptr<float>()[0] = std::bit_cast<float>(0x7fc00000u);
  b.data_ptr<float>()[0] = std::bit_cast<float>(0xffc12345u);
  EXPECT_EQ(fingerprint(a), fingerprint(b));
}

TEST(ListFingerprint, SortsByNameAndSeesNames) {
  const at::Tensor x = numbers(), y = at::zeros({3});
  EXPECT_EQ(fingerprint({{"a", x}, {"b", y}}), fingerprint({{"b", y}, {"a", x}}));
  EXPECT_NE(fingerprint({{"a", x}, {"b", y}}), fingerprint({{"a", y}, {"b", x}}));
  EXPECT_NE(fingerprint({{"a", x}}), fingerprint({{"c", x}}));
}

TEST(TensorFingerprint, RefusesOtherTypes) {
  EXPECT_THROW((void)fingerprint(at::zeros({2}, at::kComplexFloat)), std::invalid_argument);
}

}  // namespace
}  // namespace isobit::trace
