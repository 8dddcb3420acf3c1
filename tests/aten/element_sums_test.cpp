// Sums by index as the source lies: their buffers are clean again whatever happens.
#include "aten/certified/support/element_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <new>
#include <vector>

#include "contract/pairwise_tree.h"
#include "kernels/threads.h"

namespace {
thread_local int allocations_left = -1;  // negative: as many as wanted
}

void* operator new(std::size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* const memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace isobit::aten {
namespace {

template <class T>
void refuse_memory() {
  constexpr std::int64_t kRows = 20, kCount = 514 * kRows;
  std::vector<std::int64_t> to(kCount);
  for (std::int64_t k = 0; k < kCount; ++k) to[static_cast<std::size_t>(k)] = k % kRows;
  const std::vector<T> ones(kCount, T(1));
  std::vector<T> sums(kRows, T(0));
  add_elements(kCount, to.data(), kRows, ones.data(), sums.data());  // the thread has its buffer now
  EXPECT_EQ(sums, std::vector<T>(kRows, T(514)));
  int refused = 0;
  for (int left = 0; left < 30; ++left) {  // trees of leaves are refused, the first or a later one
    std::vector<T> lost(kRows, T(0)), fresh(kRows, T(0));
    allocations_left = left;
    try {
      add_elements(kCount, to.data(), kRows, ones.data(), lost.data());
    } catch (const std::bad_alloc&) {
      allocations_left = -1;
      ++refused;
      EXPECT_EQ(lost, std::vector<T>(kRows, T(0)));
    }
    allocations_left = -1;
    add_elements(kRows, to.data(), kRows, ones.data(), fresh.data());
    EXPECT_EQ(fresh, std::vector<T>(kRows, T(1))) << left;
  }
  EXPECT_GT(refused, 15);
}

// Destinations with `hot` occurrences, others with a few; some of the source meets nothing where `left_out`.
std::vector<std::int64_t> destinations(std::int64_t hot, std::int64_t rows, bool left_out) {
  std::vector<std::int64_t> to;
  for (std::int64_t k = 0; k < 5 * hot; ++k) {
    const std::int64_t turn = k % 5;
    if (turn == 0) to.push_back(7);
    if (turn == 1) to.push_back(rows - 1);
    if (turn == 2) to.push_back(k % rows == 3 ? 4 : k % rows);  // 3 is met by nothing
    if (turn == 3 && left_out) to.push_back(-1);
  }
  return to;
}
std::vector<float> by_lists(const std::vector<std::int64_t>& to, const std::vector<float>& source,
                            std::vector<float> y) {
  for (std::size_t r = 0; r < y.size(); ++r) {
    contract::PairwiseTreeOf<float> tree;
    float leaf = 0.0f;
    std::int64_t met = 0;
    for (std::size_t k = 0; k < to.size(); ++k) {
      if (to[k] != static_cast<std::int64_t>(r)) continue;
      leaf = leaf + source[k];
      if (++met % contract::kLeaf == 0) tree.add(leaf), leaf = 0.0f;
    }
    if (met % contract::kLeaf != 0) tree.add(leaf);
    if (met > 0) y[r] = y[r] + tree.result();
  }
  return y;
}

TEST(ElementSums, AreThoseOfListsWhetherAnyFillsALeafOrNot) {
  constexpr std::int64_t kRows = 300;
  for (const std::int64_t hot : {1, 2, 300, 510, 511, 512, 513, 1030, 20000}) {
    for (const bool left_out : {false, true}) {
      const std::vector<std::int64_t> to = destinations(hot, kRows, left_out);
      std::vector<float> source;
      for (std::size_t k = 0; k < to.size(); ++k) source.push_back(std::sin(static_cast<float>(k)) * 1e3f + 1e-3f);
      std::vector<float> before(kRows, 0.25f);
      before[3] = -0.0f;
      for (const int threads : {1, 3}) {
        const kernels::ThreadCountScope scope(threads);
        std::vector<float> y = before;
        add_elements(static_cast<std::int64_t>(to.size()), to.data(), kRows, source.data(), y.data());
        EXPECT_EQ(y, by_lists(to, source, before)) << hot << " times, " << threads << " threads, left out " << left_out;
        EXPECT_TRUE(std::signbit(y[3])) << hot;
      }
    }
  }
}

TEST(ElementSums, MemoryThatIsRefusedLeavesNothingBehind) {
  const kernels::ThreadCountScope scope(1);
  refuse_memory<float>();
  refuse_memory<double>();
}

}  // namespace
}  // namespace isobit::aten
