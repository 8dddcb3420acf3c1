// Integers and permutations from Philox words: integer arithmetic, the same on every instruction set.
#include <cstdint>

#include "contract/order_plan.h"
#include "contract/philox.h"
#include "contract/random.h"
#include "kernels/random.h"
#include "kernels/threads.h"

namespace isobit::kernels {
namespace {

constexpr std::int64_t kSmallestFill = 1 << 13, kSmallestPermutation = 1 << 10;

}  // namespace

void fill_integers(std::uint64_t key, std::int64_t first, std::int64_t low, std::uint64_t range, std::int64_t* out,
                   std::int64_t n) {
  parallel_for(0, n, kSmallestFill, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto e = static_cast<std::uint64_t>(first + i);
      const auto block = contract::random_block(key, e / 2);
      const std::uint32_t pair = static_cast<std::uint32_t>(e % 2 * 2);
      out[i] = contract::integer_of_words(block.word[pair], block.word[pair + 1], low, range);
    }
  });
}

void fill_permutation(std::uint64_t key, std::int64_t first, std::int64_t count, std::int64_t* out, std::int64_t n) {
  const contract::OrderPlan plan(contract::OrderRule::shuffled, key, 0, static_cast<std::uint64_t>(count));
  parallel_for(0, n, kSmallestPermutation, [&plan, first, out](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] = static_cast<std::int64_t>(plan(static_cast<std::uint64_t>(first + i)));
    }
  });
}

}  // namespace isobit::kernels
