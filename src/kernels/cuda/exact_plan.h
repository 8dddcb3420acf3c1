// Which block, and how many ranges of k, are expected to take least time; and the launches. Host code, no bits depend
// on it. Private to this folder.
#pragma once

#include <limits>

#include "kernels/cuda/exact_blocks.h"
#include "kernels/cuda/product_plan.h"

namespace isobit::kernels::ISOBIT_CUDA {

// In terms of outputs (six products of digits each) a cycle, as in product_plan.h; fitted to an H100's times of every
// block (docs/gpu.md).
template <class Config>
constexpr ConfigRate block_rate(double busy, double alone) {
  return {Config::kRows, Config::kColumns, Config::kBlocks, busy, alone, Config::kShared};
}
inline constexpr int kBlockKinds = 3;
inline constexpr ConfigRate kBlockRates[kBlockKinds] = {
    block_rate<LargeBlock>(211, 211), block_rate<MediumBlock>(205, 120), block_rate<SmallBlock>(165, 60)};

struct ChosenBlock {
  int kind = kBlockKinds - 1;
  BlockPlan plan;
};

[[nodiscard]] inline BlockPlan ranges_of(const ProductShape& s, const ConfigRate& rate, std::int64_t wanted) {
  BlockPlan plan;
  plan.tiles_m = ceil_div(s.m, rate.rows), plan.tiles_n = ceil_div(s.n, rate.columns);
  const std::int64_t terms = ceil_div(ceil_div(s.k, wanted), kChunkTerms) * kChunkTerms;
  plan.range_terms = std::clamp<std::int64_t>(terms, kChunkTerms, kMostTerms);
  plan.ranges = std::max<std::int64_t>(1, ceil_div(s.k, plan.range_terms));
  return plan;
}

[[nodiscard]] inline double cycles_of(const ProductShape& s, const ConfigRate& rate, const BlockPlan& plan,
                                      int processors) {
  constexpr double kStart = 4000, kSecondLaunch = 6000, kBytesPerCycle = 1000;
  const auto items = static_cast<double>(s.batch * plan.tiles_m * plan.tiles_n * plan.ranges);
  const double work = static_cast<double>(std::min(s.k, plan.range_terms)) * rate.rows * rate.columns;
  const double blocks = std::ceil(items / processors);
  const double cycles = cycles_of_blocks(blocks, work, rate) + std::ceil(blocks / rate.blocks) * kStart;
  if (plan.ranges == 1) return cycles;
  return cycles + kSecondLaunch + 8.0 * static_cast<double>((plan.ranges + 2) * s.batch * s.m * s.n) / kBytesPerCycle;
}

// shared: bytes that a block may have, enough for the smallest. A block that is forced and does not fit: the next one
// that does.
[[nodiscard]] inline ChosenBlock choose_block(const ProductShape& s, int processors, std::int64_t shared) {
  constexpr std::int64_t kFewest = 256;  // terms that may pay for a range's atomic additions
  const ForcedPlan& forced = forced_product_plan();
  ChosenBlock best;
  double least = std::numeric_limits<double>::infinity();
  int only = std::min(forced.tile, kBlockKinds - 1);  // below 0: any
  while (only >= 0 && only < kBlockKinds - 1 && kBlockRates[only].shared > shared) ++only;
  for (int kind = 0; kind < kBlockKinds; ++kind) {
    const ConfigRate& rate = kBlockRates[kind];
    if (only >= 0 ? kind != only : rate.shared > shared) continue;
    const std::int64_t ranges = forced.tile < 0 ? 1 : std::max<std::int64_t>(1, forced.chunk_leaves);
    for (std::int64_t wanted = ranges; wanted == ranges || (forced.tile < 0 && s.k / wanted >= kFewest); wanted *= 2) {
      const BlockPlan plan = ranges_of(s, rate, wanted);
      const double cycles = cycles_of(s, rate, plan, processors);
      if (cycles < least) least = cycles, best = {kind, plan};
    }
  }
  return best;
}

template <class Config, class Problem>
void run_blocks(const Problem& p, const BlockPlan& plan) {
  const ProductShape& s = p.shape;
  const std::int64_t outputs = s.batch * s.m * s.n;
  const Scratch sums(plan.ranges > 1 ? outputs * 8 : 0);
  if (plan.ranges > 1) fill_bytes(sums.as<void>(), 0, outputs * 8);
  launch(exact_block_kernel<Problem, Config>,
         {s.batch * plan.tiles_m * plan.tiles_n * plan.ranges, Config::kThreads, Config::kShared}, p, plan,
         sums.as<std::uint64_t>());
  if (plan.ranges == 1) return;
  launch(exact_rounding_kernel<Problem>, {ceil_div(outputs, 256), 256}, p, sums.as<const std::uint64_t>());
}

template <class Problem>
void run_exact_blocks(const Problem& p) {
  if (p.shape.batch * p.shape.m * p.shape.n == 0) return;
  const ChosenBlock chosen = choose_block(p.shape, multiprocessors(), shared_memory_limit());
  if (chosen.kind == 0) return run_blocks<LargeBlock>(p, chosen.plan);
  if (chosen.kind == 1) return run_blocks<MediumBlock>(p, chosen.plan);
  run_blocks<SmallBlock>(p, chosen.plan);
}

}  // namespace isobit::kernels::ISOBIT_CUDA
