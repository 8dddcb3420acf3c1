// Integers and permutations from Philox words: integer arithmetic, the same on every instruction set.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "contract/order_plan.h"
#include "contract/philox.h"
#include "contract/random.h"
#include "kernels/random.h"
#include "kernels/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace isobit::kernels {
namespace {

constexpr std::int64_t kSmallestFill = 1 << 13, kSmallestPermutation = 1 << 10;

// F of all rounds and right halves: a plan of n numbers has 2 sqrt(n) to 4 sqrt(n) halves, and asks for each of them
// some hundred times where all its numbers are wanted.
class OrderTable {
 public:
  static constexpr int kMostBits = 16;
  explicit OrderTable(const contract::OrderPlan& plan)
      : bits_(plan.half_bits()), words_(std::size_t{contract::kOrderRounds} << bits_) {
    const std::int64_t all = std::int64_t{contract::kOrderRounds} << bits_;
    parallel_for(0, all, kSmallestPermutation, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto round = static_cast<std::uint32_t>(i >> bits_),
                   right = static_cast<std::uint32_t>(i - (static_cast<std::int64_t>(round) << bits_));
        words_[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(plan.word(round, right));
      }
    });
  }
  std::uint32_t operator()(std::uint32_t round, std::uint32_t right) const {
    return words_[(static_cast<std::size_t>(round) << bits_) + right];
  }

 private:
  int bits_;
  std::vector<std::uint16_t> words_;
};

// Positions [first, first + n), n up to kTogether: all go through the rounds side by side, then those whose image lies
// outside.
constexpr std::int64_t kTogether = 256;
void permute_together(const contract::OrderPlan& plan, const OrderTable& words, std::uint64_t first, std::int64_t n,
                      std::int64_t* out) {
  std::uint64_t number[kTogether];
  std::int64_t place[kTogether];
  for (std::int64_t i = 0; i < n; ++i) number[i] = first + static_cast<std::uint64_t>(i), place[i] = i;
  while (n > 0) {
    std::int64_t again = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint64_t image = plan.permute(number[i], words);
      const std::int64_t at = place[i];
      out[at] = static_cast<std::int64_t>(image);  // for the time being
      number[again] = image, place[again] = at;
      again += image >= plan.size() ? 1 : 0;
    }
    n = again;
  }
}

// Numbers below `range`, added to `low`, of blocks `block`, block + 1, ...; kFastNumbers of them at a time. For
// machines that have AVX2, chosen when it runs (as in cpu/reference/dot_panel.cpp); integers, so the same everywhere.
constexpr std::int64_t kFastNumbers = 8;
#if defined(__x86_64__)
bool may_be_fast() {
  static const bool fast = __builtin_cpu_supports("avx2") != 0;
  return fast;
}
__attribute__((target("avx2"), always_inline)) inline __m256i everywhere(std::uint64_t x) {
  return _mm256_set1_epi64x(static_cast<long long>(x));
}
// Philox4x32-10 of four blocks: 32-bit words in the low halves of 64-bit lanes; what the high ones hold is never read.
__attribute__((target("avx2"))) void fast_integers(std::uint64_t key, std::uint64_t block, std::int64_t low,
                                                   std::uint32_t range, std::int64_t* out, std::int64_t n) {
  const __m256i times0 = everywhere(0xD2511F53), times1 = everywhere(0xCD9E8D57), of_range = everywhere(range),
                from = everywhere(static_cast<std::uint64_t>(low));
  for (std::int64_t i = 0; i < n; i += kFastNumbers, block += kFastNumbers / 2) {
    __m256i c0 = _mm256_add_epi64(everywhere(block), _mm256_setr_epi64x(0, 1, 2, 3)), c1 = _mm256_srli_epi64(c0, 32),
            c2 = _mm256_setzero_si256(), c3 = c2;
    auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const __m256i p0 = _mm256_mul_epu32(c0, times0), p1 = _mm256_mul_epu32(c2, times1);
      c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1), everywhere(k0));
      c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3), everywhere(k1));
      c1 = p1, c3 = p0;
    }
    // (w0 + 2^32 w1) range / 2^64, of words (c0, c1) and (c2, c3)
    const auto number = [&](__m256i w0, __m256i w1) __attribute__((target("avx2"), always_inline)) {
      const __m256i rest = _mm256_srli_epi64(_mm256_mul_epu32(w0, of_range), 32);
      const __m256i product = _mm256_add_epi64(_mm256_mul_epu32(w1, of_range), rest);
      return _mm256_add_epi64(from, _mm256_srli_epi64(product, 32));
    };
    const __m256i even = number(c0, c1), odd = number(c2, c3);
    const __m256i a = _mm256_unpacklo_epi64(even, odd), b = _mm256_unpackhi_epi64(even, odd);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_permute2x128_si256(a, b, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i + 4), _mm256_permute2x128_si256(a, b, 0x31));
  }
}
#else
bool may_be_fast() { return false; }
void fast_integers(std::uint64_t, std::uint64_t, std::int64_t, std::uint32_t, std::int64_t*, std::int64_t) {}
#endif

}  // namespace

void fill_integers(std::uint64_t key, std::int64_t first, std::int64_t low, std::uint64_t range, std::int64_t* out,
                   std::int64_t n) {
  const bool fast = may_be_fast() && range > 0 && range >> 32 == 0;
  parallel_for(0, n, kSmallestFill, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end;) {  // a block has two numbers
      const auto e = static_cast<std::uint64_t>(first + i);
      if (fast && e % 2 == 0 && end - i >= kFastNumbers) {
        const std::int64_t count = (end - i) / kFastNumbers * kFastNumbers;
        fast_integers(key, e / 2, low, static_cast<std::uint32_t>(range), out + i, count);
        i += count;
        continue;
      }
      const auto block = contract::random_block(key, e / 2);
      if (e % 2 == 0) out[i++] = contract::integer_of_words(block.word[0], block.word[1], low, range);
      if (i < end) out[i++] = contract::integer_of_words(block.word[2], block.word[3], low, range);
    }
  });
}

void fill_permutation(std::uint64_t key, std::int64_t first, std::int64_t count, std::int64_t* out, std::int64_t n) {
  const contract::OrderPlan plan(contract::OrderRule::shuffled, key, 0, static_cast<std::uint64_t>(count));
  if (plan.half_bits() <= OrderTable::kMostBits && n >> plan.half_bits() > 0) {
    const OrderTable words(plan);
    parallel_for(0, n, kSmallestPermutation, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += kTogether)
        permute_together(plan, words, static_cast<std::uint64_t>(first + i), std::min(kTogether, end - i), out + i);
    });
    return;
  }
  parallel_for(0, n, kSmallestPermutation, [&plan, first, out](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] = static_cast<std::int64_t>(plan(static_cast<std::uint64_t>(first + i)));
    }
  });
}

}  // namespace isobit::kernels
