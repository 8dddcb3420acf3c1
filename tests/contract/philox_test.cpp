// Philox4x32-10 against the known answers of its authors' Random123 (kat_vectors), and the addressing of
// words.
#include "contract/philox.h"

#include <gtest/gtest.h>

#include "contract/random.h"

namespace isobit::contract {
namespace {

TEST(Philox, KnownAnswers) {
  struct Vector {
    std::uint32_t counter[4], key[2], answer[4];
  };
  const Vector vectors[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Vector& v : vectors) {
    const PhiloxBlock block = philox4x32_10(v.counter[0], v.counter[1], v.counter[2], v.counter[3], v.key[0], v.key[1]);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(block.word[i], v.answer[i]);
  }
}

TEST(Philox, WordsAreThoseOfTheirBlock) {
  const std::uint64_t key = 0xa4093822299f31d0ull, element = (7ull << 34) + 14;
  const PhiloxBlock block =
      philox4x32_10(static_cast<std::uint32_t>(element / 4), static_cast<std::uint32_t>(element / 4 >> 32), 0, 0,
                    0x299f31d0u, 0xa4093822u);
  EXPECT_EQ(random_word(key, element), block.word[2]);
}

TEST(Random, EndsOfTheRanges) {
  const std::int32_t ones = -1;  // the word 0xffffffff
  EXPECT_EQ(unit_of_word<float>(0), 0.0f);
  EXPECT_EQ(unit_of_word<float>(ones), 1.0f - 0x1p-24f);
  EXPECT_EQ(uniform_of_word(0, -2.0f, 5.0f), -2.0f);
  // u1 = 2^-24 makes the largest radius, u1 = 1 the radius 0; neither is infinite or NaN.
  EXPECT_FLOAT_EQ(normals_of_words<float>(0, 0).first, 5.7681074f);
  EXPECT_EQ(normals_of_words<float>(ones, 0).first, 0.0f);
  EXPECT_EQ(normals_of_words<float>(0, INT32_MIN).second, 0.0f);  // half a turn
}

TEST(Random, BernoulliThresholds) {
  EXPECT_EQ(bernoulli_threshold(0.0), 0u);
  EXPECT_EQ(bernoulli_threshold(-1.0), 0u);
  EXPECT_EQ(bernoulli_threshold(__builtin_nan("")), 0u);
  EXPECT_EQ(bernoulli_threshold(0.5), 1ull << 31);
  EXPECT_EQ(bernoulli_threshold(1.0), 1ull << 32);
  EXPECT_EQ(bernoulli_threshold(1.0 - 0x1p-53), 1ull << 32);  // rounds up: keeps every word
  EXPECT_EQ(bernoulli_threshold(1.5 * 0x1p-32), 2u);          // ties to even
  EXPECT_EQ(bernoulli_threshold(2.5 * 0x1p-32), 2u);
}

}  // namespace
}  // namespace isobit::contract
