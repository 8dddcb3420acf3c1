// Ordered reductions: what a broken order looks like. A kernel that folds a leaf's lanes the other way round,
// one that cuts a tree where the contract does not, and one that adds from first to last are all told from
// the right one by the comparison that the sweeps make.
#include <gtest/gtest.h>

#include "kernels/cuda/ordered_reduce.h"
#include "kernels/cuda/reduce_ops.h"
#include "kernels/sweep.h"

namespace isobit::kernels::emulated {
namespace {

using namespace kernels::testing;
using Floats = std::vector<float>;

ReduceShape whole(std::int64_t n) {
  ReduceShape s;
  s.reduced_rank = 1, s.reduced_size[0] = n, s.reduced_stride[0] = 1;
  return s;
}

Floats reference_sum(const Floats& x) {
  return by_reference([&] {
    Floats out(1);
    sum(whole(static_cast<std::int64_t>(x.size())), x.data(), out.data());
    return out;
  });
}

// ---- within a leaf ---------------------------------------------------------------------------------------

// w = 1, 2, 4, 8, 16: the same additions in pairs, other pairs.
struct UpwardFold : WarpTeam {
  template <class Lane>
  Lane fold(const Lane (&held)[kHeld]) const {
    Lane t = held[0];
    for (int w = 1; w < kLanes; w *= 2) {
      t = t + moved(t, [&](auto v) { return shuffle_xor(v, w); });
    }
    return t;
  }
};

// A block: one leaf, a row of x.
template <class Team>
ISOBIT_KERNEL void leaf_kernel(const float* x, int count, float* out) {
  const std::int64_t first = block_index() * count;
  const float leaf =
      leaf_value(SumOp{{x}}, SumOp::Context{}, Team(), 0, count, [&](std::int64_t element) { return first + element; });
  if (thread_index() == 0) out[block_index()] = leaf + 0.0f;
}

ISOBIT_KERNEL void chain_kernel(const float* x, int count, float* out) {
  float t = 0.0f;
  for (int i = 0; i < count; ++i) t = t + x[block_index() * count + i];
  out[block_index()] = t;
}

// Many rows: one sum may well round to the same bits in another order.
TEST(OrderedReduce, AnotherOrderWithinALeafShows) {
  constexpr std::int64_t kRows = 20;
  for (const int count : {40, 300, 512}) {
    const Floats x = wide_floats(kRows * count, static_cast<unsigned>(count));
    Floats expected(kRows);
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto first = x.begin() + row * count;
      expected[static_cast<std::size_t>(row)] = reference_sum(Floats(first, first + count))[0];
    }
    const EmulatedScope scope(ThreadOrder::ascending);
    Floats out(kRows);
    launch(leaf_kernel<WarpTeam>, {kRows, kWarp}, x.data(), count, out.data());
    EXPECT_TRUE(same_bits(out, expected)) << count;
    launch(leaf_kernel<UpwardFold>, {kRows, kWarp}, x.data(), count, out.data());
    EXPECT_FALSE(same_bits(out, expected)) << count;
    launch(chain_kernel, {kRows, 1}, x.data(), count, out.data());
    EXPECT_FALSE(same_bits(out, expected)) << count;
  }
}

// ---- over leaves -----------------------------------------------------------------------------------------

struct StoreSum {
  float* out;
  void operator()(std::int64_t o, float value) const { out[o] = value + 0.0f; }
};

// As reduce_rows, a warp taking `chunk` leaves.
Floats sum_in_chunks(const Floats& x, std::int64_t chunk) {
  const ReduceLayout layout(whole(static_cast<std::int64_t>(x.size())));
  RowPlan plan(layout);
  plan.warps = kTeamWarps;
  plan.chunk = chunk;
  plan.parts = plan.blocks = ceil_div(layout.leaves, chunk * kTeamWarps);
  Floats out(1, -7.0f), partials(static_cast<std::size_t>(plan.parts));
  launch(row_kernel<SumOp, StoreSum>, {plan.blocks, kTeamThreads, kTeamWarps * 4}, SumOp{{x.data()}},
         StoreSum{out.data()}, layout, plan, partials.data());
  if (plan.parts > 1) combine<float>(StoreSum{out.data()}, partials.data(), plan.parts, 1);
  return out;
}

TEST(OrderedReduce, AnyPowerOfTwoOfLeavesGivesTheBitsAndThreeShow) {
  const Floats x = wide_floats(43 * 512 + 17, 5), expected = reference_sum(x);
  const EmulatedScope scope(ThreadOrder::shuffled);
  for (const std::int64_t chunk : {1, 2, 4, 8, 16}) {
    EXPECT_TRUE(same_bits(sum_in_chunks(x, chunk), expected)) << chunk;
  }
  EXPECT_FALSE(same_bits(sum_in_chunks(x, 3), expected));
}

}  // namespace
}  // namespace isobit::kernels::emulated
