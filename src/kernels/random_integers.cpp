// Integers and permutations from Philox words: integer arithmetic, the same on every instruction set.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "contract/order_plan.h"
#include "contract/philox.h"
#include "contract/random.h"
#include "kernels/random.h"
#include "kernels/threads.h"

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

}  // namespace

void fill_integers(std::uint64_t key, std::int64_t first, std::int64_t low, std::uint64_t range, std::int64_t* out,
                   std::int64_t n) {
  parallel_for(0, n, kSmallestFill, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end;) {  // a block has two numbers
      const auto e = static_cast<std::uint64_t>(first + i);
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
