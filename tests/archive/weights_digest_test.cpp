#include "archive/weights_digest.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace isobit::archive {
namespace {

// Elements of any type, kept alive.
struct Tensors {
  template <class T>
  void add(const char* name, const char* dtype, std::vector<std::int64_t> shape, std::vector<T> values) {
    std::vector<std::byte>& bytes = storage.emplace_back(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    views.push_back({name, dtype, std::move(shape), {}});
  }
  std::vector<TensorView>& all() {
    for (std::size_t i = 0; i < views.size(); ++i) views[i].data = storage[i];
    return views;
  }
  std::vector<std::vector<std::byte>> storage;
  std::vector<TensorView> views;
};

Tensors every_type(std::uint32_t nan) {
  Tensors t;
  t.add<std::uint32_t>("a", "F32", {2}, {std::bit_cast<std::uint32_t>(1.5f), nan});
  t.add<std::int64_t>("z.w", "I64", {3}, {0, 1, 2});
  t.add<std::uint8_t>("b", "BOOL", {2}, {1, 0});
  t.add<std::uint16_t>("h", "F16", {2}, {0x3c00, 0x3c00});
  t.add<std::uint16_t>("g", "BF16", {1}, {0x3f80});
  t.add<std::uint8_t>("u", "U8", {1}, {7});
  t.add<std::int32_t>("i", "I32", {2}, {1, 2});
  t.add<std::int16_t>("s", "I16", {1}, {3});
  t.add<std::int8_t>("c", "I8", {1}, {4});
  t.add<double>("d", "F64", {1}, {0.25});
  t.add<float>("é\"\x01", "F32", {0, 2}, {});
  t.add<float>("A", "F32", {}, {2.0f});
  t.add<std::uint8_t>("e5", "F8_E5M2", {1}, {0x3c});
  t.add<std::uint8_t>("e4", "F8_E4M3", {1}, {0x38});
  t.add<std::uint16_t>("u16", "U16", {1}, {1});
  t.add<std::uint32_t>("u32", "U32", {1}, {1});
  t.add<std::uint64_t>("u64", "U64", {1}, {1});
  return t;
}

// safetensors 0.8.0: hashlib.sha256(safetensors.torch.save({...})) of these tensors.
constexpr const char* kBySafetensors = "17c3d1a530a30d6c36c46a0fc4e8e25bc92dfdb4854af741c6d8b37aab91133a";

TEST(WeightsDigest, IsThatOfTheFileThatSafetensorsWrites) {
  Tensors tensors = every_type(0x7fc00000);
  EXPECT_EQ(weights_sha256(tensors.all()), kBySafetensors);
  std::vector<TensorView> reversed(tensors.all().rbegin(), tensors.all().rend());
  EXPECT_EQ(weights_sha256(reversed), kBySafetensors);
}

TEST(WeightsDigest, AnyNanIsTheOneNan) {
  for (const std::uint32_t nan : {0xffc00000u, 0x7f800001u, 0xffffffffu, 0x7fc00001u}) {
    Tensors tensors = every_type(nan);
    EXPECT_EQ(weights_sha256(tensors.all()), kBySafetensors) << nan;
  }
  for (const std::uint32_t number : {0x7f800000u, 0xff800000u, 0u}) {  // infinities are none
    Tensors tensors = every_type(number);
    EXPECT_NE(weights_sha256(tensors.all()), kBySafetensors) << number;
  }
  Tensors first, second;
  for (auto* t : {&first, &second}) {
    const bool other = t == &second;
    t->add<std::uint64_t>("d", "F64", {1}, {other ? 0xfff0000000000001ull : 0x7ff8000000000000ull});
    t->add<std::uint16_t>("h", "F16", {2}, {static_cast<std::uint16_t>(other ? 0xfc01 : 0x7e00), 0x7c00});
    t->add<std::uint16_t>("g", "BF16", {2}, {static_cast<std::uint16_t>(other ? 0xffff : 0x7fc0), 0x7f80});
  }
  EXPECT_EQ(weights_sha256(first.all()), weights_sha256(second.all()));
}

TEST(WeightsDigest, EveryByteNameAndShapeCounts) {
  Tensors tensors;
  tensors.add<float>("w", "F32", {40'000}, std::vector<float>(40'000, 1.0f));  // longer than a piece
  const std::string before = weights_sha256(tensors.all());
  for (const std::size_t byte : {std::size_t{0}, std::size_t{65'535}, std::size_t{65'536}, std::size_t{159'999}}) {
    tensors.storage[0][byte] ^= std::byte{1};
    EXPECT_NE(weights_sha256(tensors.all()), before) << byte;
    tensors.storage[0][byte] ^= std::byte{1};
  }
  EXPECT_EQ(weights_sha256(tensors.all()), before);
  tensors.views[0].name = "v";
  EXPECT_NE(weights_sha256(tensors.all()), before);
  tensors.views[0].name = "w";
  tensors.views[0].shape = {200, 200};
  EXPECT_NE(weights_sha256(tensors.all()), before);
}

}  // namespace
}  // namespace isobit::archive
