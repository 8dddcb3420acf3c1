// The emulation itself: what it computes, and that it sees each kind of mistake a kernel can make.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "kernels/cuda/device.h"

namespace isobit::kernels::emulated {
namespace {

constexpr ThreadOrder kOrders[] = {ThreadOrder::ascending, ThreadOrder::descending, ThreadOrder::shuffled};

// Each block turns its 64 elements round through shared memory, staged by asynchronous copies.
void reverse_kernel(const float* x, float* y) {
  float* staged = shared_memory<float>();
  const std::int64_t first = block_index() * 64;
  const int t = thread_index();
  copy_async<4>(staged + t, x + first + t);
  commit_async();
  wait_async<0>();  // site 0
  barrier();        // site 1
  y[first + t] = staged[63 - t];
}

std::vector<float> counted(int n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

std::vector<float> reversed_blocks(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  launch(reverse_kernel, {static_cast<std::int64_t>(x.size() / 64), 64, 64 * sizeof(float)}, x.data(), y.data());
  return y;
}

TEST(EmulatedDevice, BlocksThreadsBarriersAndCopies) {
  const std::vector<float> x = counted(192);
  for (const ThreadOrder order : kOrders) {
    const EmulatedScope scope(order);
    const std::vector<float> y = reversed_blocks(x);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], x[i / 64 * 64 + 63 - i % 64]);
  }
}

// ---- products of int8 by a warp

std::uint32_t word_of(const std::array<int, 4>& bytes) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i) word |= static_cast<std::uint32_t>(bytes[i] & 0xff) << 8 * i;
  return word;
}

// A [16][32], B [32][8] and D [16][8] in memory, D twice their product. Fragments as the PTX manual (mma.m16n8k32,
// integers) states them by groupID and threadID_in_group.
void warp_product_kernel(const int* a, const int* b, int* d) {
  const int group = thread_index() / 4, in_group = thread_index() % 4;
  std::uint32_t left[4], right[2];
  for (int r = 0; r < 4; ++r) {
    std::array<int, 4> bytes;
    for (int i = 0; i < 4; ++i)
      bytes[i] = a[(r % 2 == 0 ? group : group + 8) * 32 + in_group * 4 + i + (r < 2 ? 0 : 16)];
    left[r] = word_of(bytes);
  }
  for (int r = 0; r < 2; ++r) {
    std::array<int, 4> bytes;
    for (int i = 0; i < 4; ++i) bytes[i] = b[(in_group * 4 + i + 16 * r) * 8 + group];
    right[r] = word_of(bytes);
  }
  int sums[4] = {};
  for (int turn = 0; turn < 2; ++turn) mma_s8(sums, left, right);
  for (int i = 0; i < 4; ++i) d[(i < 2 ? group : group + 8) * 8 + in_group * 2 + i % 2] = sums[i];
}

void overflow_kernel(int threads) {
  const std::uint32_t a[4] = {0x80808080u, 0, 0, 0}, b[2] = {0x80808080u, 0};
  int sums[4] = {threads == 32 ? 0x7ffc0000 : 0, 0, 0, 0};
  for (int turn = 0; turn < 2; ++turn) mma_s8(sums, a, b);
}

TEST(EmulatedDevice, AWarpMultipliesMatricesOfInt8) {
  std::vector<int> a(16 * 32), b(32 * 8), d(16 * 8), expected(16 * 8);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int>(i * i * 7 + i) % 256 - 128;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<int>(i * i * 13 + 5 * i) % 256 - 128;
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      for (int k = 0; k < 32; ++k) expected[i * 8 + j] += 2 * a[i * 32 + k] * b[k * 8 + j];
    }
  }
  for (const ThreadOrder order : kOrders) {
    const EmulatedScope scope(order);
    std::fill(d.begin(), d.end(), -1);
    launch(warp_product_kernel, {1, 32}, a.data(), b.data(), d.data());
    EXPECT_EQ(d, expected);
  }
  const EmulatedScope scope(ThreadOrder::ascending);
  EXPECT_THROW(launch(overflow_kernel, {1, 32}, 32), EmulationError) << "a sum that overflows";
  EXPECT_THROW(launch(overflow_kernel, {1, 16}, 16), EmulationError) << "half a warp";
}

// Rows of 16 bytes, [4 matrices][8 rows], in shared memory; what each thread gets, [thread][matrix].
void matrices_kernel(const std::uint32_t* rows, std::uint32_t* got) {
  auto* const shared = shared_memory<std::uint32_t>();
  const int t = thread_index();
  for (int i = 0; i < 4; ++i) shared[4 * t + i] = rows[4 * t + i];
  barrier();
  std::uint32_t words[4];
  load_matrices(words, shared + 4 * t);
  for (int i = 0; i < 4; ++i) got[4 * t + i] = words[i];
}

TEST(EmulatedDevice, AWarpLoadsMatrices) {
  std::vector<std::uint32_t> rows(128), got(128);
  std::iota(rows.begin(), rows.end(), 100u);
  for (const ThreadOrder order : kOrders) {
    const EmulatedScope scope(order);
    launch(matrices_kernel, {1, 32, 512}, rows.data(), got.data());
    for (std::size_t t = 0; t < 32; ++t) {
      for (std::size_t matrix = 0; matrix < 4; ++matrix)
        EXPECT_EQ(got[4 * t + matrix], rows[(8 * matrix + t / 4) * 4 + t % 4]) << t << " " << matrix;
    }
  }
}

TEST(EmulatedDevice, AWaitLeftOutShows) {
  const std::vector<float> x = counted(64);
  const EmulatedScope scope(ThreadOrder::ascending);
  (void)take_sites();
  const std::vector<float> right = reversed_blocks(x);
  const std::vector<Site> sites = take_sites();
  ASSERT_EQ(sites.size(), 2u);
  omit(sites[0]);
  EXPECT_THROW(reversed_blocks(x), EmulationError) << "the copy's own thread ends without it";
  omit(sites[1]);
  const std::vector<float> wrong = reversed_blocks(x);
  omit("");
  EXPECT_TRUE(std::isnan(wrong[0]) || std::isnan(wrong[63]));
  EXPECT_EQ(reversed_blocks(x), right);
}

void sum_kernel(const float* x, int n, float* sum) {
  *sum = 0;
  for (int i = 0; i < n; ++i) *sum += x[i];
}

// Device memory that is scratch, as kernels ask for it: 40 floats are there, the 41st is nobody's.
TEST(EmulatedDeviceDeathTest, WhatReadsBeyondScratchEndsTheProcess) {
  const EmulatedScope scope(ThreadOrder::ascending);
  const Scratch scratch(160);
  float sum = 0;
  std::fill_n(scratch.as<float>(), 40, 2.0f);
  launch(sum_kernel, {1, 1}, scratch.as<const float>(), 40, &sum);
  EXPECT_EQ(sum, 80.0f);
  EXPECT_DEATH(launch(sum_kernel, {1, 1}, scratch.as<const float>(), 41, &sum), "");
}

void overtaking_kernel(float* y) {
  float* shared = shared_memory<float>();
  const int t = thread_index();
  for (int round = 0; round < 2; ++round) {
    shared[t] = static_cast<float>(round);
    barrier();
    y[round * block_threads() + t] = shared[(t + 1) % block_threads()];
    barrier();  // without it a fast thread overwrites what a slow one still reads
  }
}

TEST(EmulatedDevice, AMissingBarrierBeforeReuseShows) {
  const auto compute = [] {
    std::vector<float> y(16);
    launch(overtaking_kernel, {1, 8, 8 * sizeof(float)}, y.data());
    return y;
  };
  std::vector<float> right;
  std::vector<Site> sites;
  {
    const EmulatedScope scope(ThreadOrder::ascending);
    (void)take_sites();
    right = compute();
    sites = take_sites();
  }
  ASSERT_EQ(sites.size(), 2u);
  for (const Site& site : sites) {
    bool seen = false;
    omit(site);
    for (const ThreadOrder order : kOrders) {
      const EmulatedScope scope(order);
      seen |= compute() != right;
    }
    omit("");
    EXPECT_TRUE(seen) << site;
  }
}

void shuffle_kernel(int* y) {
  const int t = thread_index();
  y[t] = shuffle_xor(t, 5) + 1000 * shuffle(t, 7) + 100000 * shuffle_down(t, 30);
}

TEST(EmulatedDevice, Shuffles) {
  for (const ThreadOrder order : kOrders) {
    const EmulatedScope scope(order);
    std::vector<int> y(64);
    launch(shuffle_kernel, {1, 64, 0}, y.data());
    for (int t = 0; t < 64; ++t) {
      const int down = t % 32 + 30 < 32 ? t + 30 : t;
      EXPECT_EQ(y[static_cast<std::size_t>(t)], (t ^ 5) + 1000 * (t / 32 * 32 + 7) + 100000 * down);
    }
  }
}

void uneven_kernel(int) {
  if (thread_index() < 3) barrier();
}
void parted_kernel(int) {
  if (thread_index() < 3) {
    barrier();
  } else {
    barrier();
  }
}
void overflowing_kernel(int) { shared_memory<float>()[4] = 1.0f; }
void misaligned_kernel(float* x) { store4(x + 1, {}); }

TEST(EmulatedDevice, MistakesThatAGpuPunishesThrow) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer does not know the fibers' stacks, which exceptions leave here";
#endif
  const EmulatedScope scope(ThreadOrder::ascending);
  alignas(16) float x[8] = {};
  EXPECT_THROW(launch(uneven_kernel, {1, 8, 0}, 0), EmulationError);
  EXPECT_THROW(launch(parted_kernel, {1, 8, 0}, 0), EmulationError);
  EXPECT_THROW(launch(overflowing_kernel, {1, 8, 16}, 0), EmulationError);
  EXPECT_THROW(launch(misaligned_kernel, {1, 1, 0}, x), EmulationError);
  EXPECT_THROW(launch(uneven_kernel, {1, 2048, 0}, 0), EmulationError);
  EXPECT_THROW(launch(uneven_kernel, {1, 8, 1 << 20}, 0), EmulationError);
  EXPECT_NO_THROW(launch(uneven_kernel, {0, 8, 0}, 0));
  EXPECT_EQ(reversed_blocks(counted(64))[0], 64.0f) << "usable after a failure";
}

}  // namespace
}  // namespace isobit::kernels::emulated
