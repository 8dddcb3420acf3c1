// Memory kept between steps: blocks never overlap, their pages are used again, the peak stays bounded.
#include "aten/tensor_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "aten/operator_switch.h"
#include "aten/tensor_arena.h"

namespace isobit::aten {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

long page_faults() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return use.ru_minflt;
}

struct Filled {
  std::uint32_t* values;
  std::size_t count;
  std::uint32_t mark;
};

Filled filled(TensorArena& arena, std::size_t bytes, std::uint32_t mark) {
  Filled block{static_cast<std::uint32_t*>(arena.take(bytes)), bytes / 4, mark};
  for (std::size_t i = 0; i < block.count; ++i) block.values[i] = mark + static_cast<std::uint32_t>(i);
  return block;
}

bool intact(const Filled& block) {
  for (std::size_t i = 0; i < block.count; ++i)
    if (block.values[i] != block.mark + static_cast<std::uint32_t>(i)) return false;
  return true;
}

TEST(TensorArena, BlocksKeepWhatIsInThemWhateverComesAndGoes) {
  TensorArena arena;
  std::mt19937 random(7);
  std::vector<Filled> blocks;
  std::size_t expected = 0;
  for (std::uint32_t i = 0; i < 4000; ++i) {
    if (blocks.size() < 12 || random() % 2 == 0) {
      blocks.push_back(filled(arena, 4 * (1 + random() % (random() % 4 == 0 ? 300000 : 3000)), i << 12));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back().values) % 64, 0);
      expected += blocks.back().count * 4;
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      ASSERT_TRUE(intact(blocks.back())) << i;
      ASSERT_TRUE(arena.holds(blocks.back().values));
      expected -= blocks.back().count * 4;
      arena.give(blocks.back().values);
      EXPECT_FALSE(arena.holds(blocks.back().values));
      blocks.pop_back();
    }
    const TensorMemoryUse use = arena.use();
    ASSERT_GE(use.in_use, expected);
    ASSERT_LE(use.in_use + use.waiting, use.peak_in_use + std::max(use.peak_in_use / 8, TensorArena::kSlack)) << i;
  }
  for (const Filled& block : blocks) {
    EXPECT_TRUE(intact(block));
    arena.give(block.values);
  }
  EXPECT_EQ(arena.use().in_use, 0);
}

TEST(TensorArena, ASecondStepFindsThePagesOfTheFirst) {
  TensorArena arena;
  const auto step = [&] {
    const long before = page_faults();
    std::vector<Filled> blocks;
    for (const int mib : {33, 16, 33, 5, 1, 16})
      blocks.push_back(filled(arena, static_cast<std::size_t>(mib * kMiB), 1));
    std::reverse(blocks.begin() + 2, blocks.end());
    for (const Filled& block : blocks) arena.give(block.values);
    return page_faults() - before;
  };
  const long first = step();
  EXPECT_GT(first, 40);  // pages of 2 MiB at most
  EXPECT_LT(step(), first / 4);
  EXPECT_LT(step(), first / 4);
}

TEST(TensorArena, WaitingPagesGoWhereTheyWouldRaiseThePeak) {
  TensorArena arena;
  std::vector<void*> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(arena.take(4 * kMiB));
  for (int i = 0; i < 64; i += 2)
    arena.give(blocks[static_cast<std::size_t>(i)]);  // holes of 4 MiB: too small for what comes
  EXPECT_GE(arena.use().waiting, 32 * 4 * kMiB);
  void* large = arena.take(200 * kMiB);
  const TensorMemoryUse use = arena.use();
  EXPECT_LE(use.in_use + use.waiting, use.peak_in_use + std::max(use.peak_in_use / 8, TensorArena::kSlack));
  EXPECT_LT(use.waiting, 32 * 4 * kMiB);
  arena.give(large);
  EXPECT_GE(arena.release(), 200 * kMiB);
  EXPECT_EQ(arena.use().waiting, 0);
  EXPECT_EQ(arena.use().peak_in_use, arena.use().in_use);
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(KeptTensorMemory, TensorsOutliveTheSwitchAndGrowAfterIt) {
  at::Tensor before = at::arange(1 << 18), during;
  {
    const OperatorSwitch on;
    during = at::arange(1 << 18);
    EXPECT_GT(tensor_memory_use().in_use, 0);
    before.resize_({1 << 19});
    EXPECT_EQ(before[777].item<std::int64_t>(), 777);
  }
  during.resize_({1 << 20});
  for (const std::int64_t i : {0, 1, 99999, (1 << 18) - 1}) EXPECT_EQ(during[i].item<std::int64_t>(), i);
  const std::size_t in_use = tensor_memory_use().in_use;
  at::empty({1 << 20});  // the switch is off
  EXPECT_EQ(tensor_memory_use().in_use, in_use);
  during.reset();
  EXPECT_LT(tensor_memory_use().in_use, in_use);
}

TEST(KeptTensorMemory, SmallTensorsAreNotItsBusiness) {
  const OperatorSwitch on;
  const std::size_t in_use = tensor_memory_use().in_use;
  const at::Tensor small = at::empty({1000}), none = at::empty({0});
  EXPECT_EQ(tensor_memory_use().in_use, in_use);
}

// What small tensors' blocks live on: 40 MB in pieces of 40 kB, as a forward pass keeps them. glibc by itself may give
// their pages back after each step.
TEST(KeptTensorMemory, TheCLibraryKeepsThePagesOfSmallBlocks) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer allocates";
#endif
  const OperatorSwitch on;
  const auto step = [] {
    std::vector<void*> kept(1000);
    for (void*& block : kept) {
      block = std::malloc(40000);
      for (int page = 0; page < 40000; page += 4096) static_cast<volatile char*>(block)[page] = 1;
    }
    for (void* block : kept) std::free(block);
  };
  step();
  const long before = page_faults();
  for (int i = 0; i < 10; ++i) step();
  EXPECT_LT(page_faults() - before, 10 * 1000);  // 10,000 a step where they are given back
}

TEST(KeptTensorMemory, ThreadsShareIt) {
  const OperatorSwitch on;
  std::vector<std::thread> threads;
  std::vector<int> wrong(6, 0);
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([t, &wrong] {
      for (int i = 0; i < 60; ++i) {
        const at::Tensor x = at::full({(1 + (i * 7 + t) % 5) * 100000}, t * 1000 + i, at::kLong);
        const at::Tensor y = x.clone();
        if (!y.eq(t * 1000 + i).all().item<bool>()) ++wrong[static_cast<std::size_t>(t)];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(6, 0));
}

// What `work` gives in a child of this process.
template <class Work>
int in_child(Work work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(KeptTensorMemory, AChildOfForkAllocatesWhileOthersDid) {
  const OperatorSwitch on;
  const at::Tensor kept = at::full({1 << 18}, 5, at::kLong);
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) at::empty({1 << 17});
  });
  int failed = 0;
  for (int i = 0; i < 20; ++i) {
    failed += in_child([&] {
                const at::Tensor own =
                    at::empty({1 << 18}, at::kLong);  // operators with threads of their own would hang in a child
                std::copy_n(kept.data_ptr<std::int64_t>(), kept.numel(), own.data_ptr<std::int64_t>());
                return own.data_ptr<std::int64_t>()[kept.numel() - 1] == 5 && tensor_memory_use().in_use > 0 ? 0 : 1;
              }) != 0;
  }
  stop = true;
  other.join();
  EXPECT_EQ(failed, 0);
}

#if !defined(__SANITIZE_THREAD__)  // which needs more address space than the limit leaves
TEST(KeptTensorMemory, WithoutAddressSpaceStockAllocatesAndReports) {
  EXPECT_EQ(0, in_child([] {
              rlimit limit{};
              limit.rlim_cur = limit.rlim_max = rlim_t{8} << 30;  // less than the arena asks for
              if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
              TensorArena arena;
              if (arena.take(kMiB) != nullptr) return 2;
              const OperatorSwitch on;
              try {
                at::empty({std::int64_t{1} << 40});
              } catch (const c10::Error& error) {
                return std::string(error.what()).find("allocate memory") != std::string::npos ? 0 : 3;
              }
              return 4;
            }));
}
#endif
#endif

}  // namespace
}  // namespace isobit::aten
