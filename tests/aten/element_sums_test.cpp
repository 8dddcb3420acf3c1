// Sums by index as the source lies: their buffers are clean again whatever happens.
#include "aten/certified/support/element_sums.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <vector>

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

TEST(ElementSums, MemoryThatIsRefusedLeavesNothingBehind) {
  const kernels::ThreadCountScope scope(1);
  refuse_memory<float>();
  refuse_memory<double>();
}

}  // namespace
}  // namespace isobit::aten
