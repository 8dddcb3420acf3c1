// Tile products: no tile, no split of k and no block's share of the work changes a bit, and the mistakes that
// would (a wait left out, another leaf, another tree) are seen.
#include <gtest/gtest.h>

#include <functional>

#include "kernels/conv2d.h"
#include "kernels/cuda/exact_plan.h"
#include "kernels/cuda/matrix_product.h"
#include "kernels/sweep.h"

namespace isobit::kernels::emulated {
namespace {

using namespace kernels::testing;
using Floats = std::vector<float>;

constexpr ThreadOrder kOrders[] = {ThreadOrder::ascending, ThreadOrder::descending, ThreadOrder::shuffled};

// C = A B, and what is needed to compute it.
struct Example {
  std::int64_t m, n, k;
  bool a_transposed = false, b_transposed = false;
  Floats a = wide_floats(m * k, 1), b = wide_floats(k * n, 2);

  [[nodiscard]] MatmulProblem problem(Floats& c) const {
    MatmulProblem p;
    p.m = m, p.n = n, p.k = k;
    p.a = a_transposed ? MatmulOperand{a.data(), 0, 1, m} : MatmulOperand{a.data(), 0, k, 1};
    p.b = b_transposed ? MatmulOperand{b.data(), 0, 1, k} : MatmulOperand{b.data(), 0, n, 1};
    c.assign(static_cast<std::size_t>(m * n), -7.0f);
    p.c = c.data();
    p.c_row_stride = n;
    return p;
  }
  // Not within an EmulatedScope.
  [[nodiscard]] Floats reference() const {
    Floats c;
    const MatmulProblem p = problem(c);
    by_reference([&] { return matmul(p), 0; });
    return c;
  }
  [[nodiscard]] Floats planned(const ProductPlan& plan) const {
    Floats c;
    matmul_as_planned(problem(c), [&](const ProductShape&, int) { return plan; });
    return c;
  }
  // With any tile, on so many processors.
  template <class Tile>
  [[nodiscard]] Floats tiled(std::int64_t chunk_leaves, int processors = 2) const {
    Floats c;
    const MatmulProblem p = problem(c);
    MatrixProduct<Walk::k, Walk::rows> product;
    product.shape = {1, m, n, k};
    product.c = p.c, product.c_row_stride = n, product.c_column_stride = 1;
    product.a = {{p.a.data, 0, p.a.row_stride, p.a.column_stride, m}};
    product.b = {{p.b.data, 0, p.b.column_stride, p.b.row_stride, n}};
    run_tiles<Tile>(product, chunk_leaves, processors);
    return c;
  }
};

constexpr std::int64_t kWhole = 1 << 21;

TEST(OrderedProduct, EveryTileAndSplitGivesTheReferencesBits) {
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      for (const auto& [m, n, k] : {std::tuple{37, 68, 1700}, {132, 20, 530}, {33, 29, 64}}) {
        const Example example{m, n, k, a_transposed, b_transposed};
        const Floats expected = example.reference();
        for (int config = 0; config < kConfigs; ++config) {
          for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{2}, kWhole}) {
            if (k < 600 && chunk > 1 && chunk < kWhole) continue;
            const EmulatedScope scope(kOrders[(config + chunk) % 3]);
            EXPECT_TRUE(same_bits(example.planned({config, chunk}), expected))
                << "tile " << config << ", chunks of " << chunk << " leaves, " << m << " x " << n << " x " << k;
          }
        }
      }
    }
  }
}

// Eleven leaves on one block after the other, on few, on many.
TEST(OrderedProduct, TheShareOfABlockIsFree) {
  using Tile = TileConfig<32, 32, 4, 4, 1, 4>;
  const Example example{70, 40, 11 * 512 - 3};
  const Floats expected = example.reference();
  for (const int processors : {1, 2, 5, 100}) {
    const EmulatedScope scope(ThreadOrder::shuffled);
    EXPECT_TRUE(same_bits(example.tiled<Tile>(kWhole, processors), expected)) << processors;
    EXPECT_TRUE(same_bits(example.tiled<Tile>(2, processors), expected)) << processors;
  }
}

// Chunks are combined sixteen at a time: one, a whole number of sixteens, and every kind of rest.
TEST(OrderedProduct, ManyChunksMeetInOneTree) {
  using Tile = TileConfig<32, 32, 4, 4, 1, 4>;
  for (const std::int64_t leaves : {15, 16, 17, 23, 31, 32, 33, 47, 48, 63}) {
    const Example example{3, 5, leaves * 512 - 5};
    const Floats expected = example.reference();
    const EmulatedScope scope(ThreadOrder::shuffled);
    EXPECT_TRUE(same_bits(example.tiled<Tile>(1), expected)) << leaves;
  }
}

// Chains that underflow to -0 in every chunk: the product is +0.
TEST(OrderedProduct, ChunksOfMinusZeroGivePlusZero) {
  for (const std::int64_t chunks : {1, 2, 3, 8, 15, 16, 17, 33}) {
    const std::int64_t k = 512 * chunks;
    const Floats a(static_cast<std::size_t>(2 * k), 1e-30f), b(static_cast<std::size_t>(3 * k), -1e-30f);
    Floats c(6, 1.0f);
    MatmulProblem p;
    p.m = 2, p.n = 3, p.k = k;
    p.a = {a.data(), 0, k, 1}, p.b = {b.data(), 0, 3, 1};
    p.c = c.data(), p.c_row_stride = 3;
    const EmulatedScope scope(ThreadOrder::ascending);
    force_product_plan({2, 1});
    matmul(p);
    force_product_plan({});
    EXPECT_TRUE(same_bits(c, Floats(6, 0.0f))) << chunks;
  }
}

// Other bits, or a copy that nobody waited for.
bool differs(const std::function<Floats()>& compute, const Floats& expected) {
  try {
    return !same_bits(compute(), expected);
  } catch (const EmulationError&) {
    return true;
  }
}

TEST(OrderedProduct, EveryWaitIsNeeded) {
  using Tile = TileConfig<32, 32, 4, 4, 1, 4>;
  const Example example{70, 40, 1040};
  const Floats expected = example.reference();
  const auto compute = [&] { return example.tiled<Tile>(kWhole, 1); };
  (void)take_sites();
  for (const ThreadOrder order : kOrders) {
    const EmulatedScope scope(order);
    ASSERT_TRUE(same_bits(compute(), expected));
  }
  const std::vector<Site> sites = take_sites();
  ASSERT_EQ(sites.size(), 3u);
  for (const Site& site : sites) {
    EXPECT_EQ(site.substr(0, site.find(':')), "tile_product.h");
    bool seen = false;
    omit(site);
    for (const ThreadOrder order : kOrders) {
      const EmulatedScope scope(order);
      seen |= differs(compute, expected);
    }
    omit("");
    EXPECT_TRUE(seen) << site;
  }
}

// Convolutions wait nowhere else.
TEST(OrderedProduct, ConvolutionsMeetTheSameWaits) {
  const Conv2dShape s{1, 2, 5, 5, 3, 3, 3, 2, 2, 1, 1};
  const Floats x = wide_floats(50, 1), weight = wide_floats(54, 2), dy = wide_floats(27, 3);
  Floats y(27), dx(50), dweight(54);
  const EmulatedScope scope(ThreadOrder::ascending);
  (void)take_sites();
  conv2d_forward(s, x.data(), weight.data(), nullptr, y.data());
  conv2d_input_gradient(s, dy.data(), weight.data(), dx.data());
  conv2d_weight_gradient(s, x.data(), dy.data(), dweight.data());
  const std::vector<Site> sites = take_sites();
  EXPECT_EQ(sites.size(), 3u);
  for (const Site& site : sites) EXPECT_EQ(site.substr(0, site.find(':')), "tile_product.h");
}

TEST(OrderedProduct, AnotherLeafShows) {
  const Example example{5, 9, 600};
  const Floats expected = example.reference();
  const EmulatedScope scope(ThreadOrder::ascending);
  using Half = TileConfig<32, 32, 4, 4, 1, 4, 256>;
  EXPECT_FALSE(same_bits(example.tiled<Half>(kWhole), expected));
  EXPECT_FALSE(same_bits(example.tiled<Half>(1), expected));
}

// Chunks of three leaves: (0 1) 2, (3 4) 5, 6 instead of ((0 1) (2 3)) ((4 5) 6).
TEST(OrderedProduct, AnotherTreeShows) {
  using Tile = TileConfig<32, 32, 4, 4, 1, 4>;
  const Example example{5, 9, 7 * 512};
  const Floats expected = example.reference();
  const EmulatedScope scope(ThreadOrder::ascending);
  EXPECT_TRUE(same_bits(example.tiled<Tile>(4), expected));
  EXPECT_FALSE(same_bits(example.tiled<Tile>(3), expected));
}

TEST(OrderedProduct, ThePlanFillsTheDevice) {
  const auto items = [](const ProductShape& s, const ProductPlan& plan) {
    const ConfigRate& rate = kRates[plan.config];
    return ceil_div(ceil_div(s.k, contract::kLeaf), plan.chunk_leaves) * ceil_div(s.m, rate.rows) *
           ceil_div(s.n, rate.columns);
  };
  constexpr int kProcessors = 132;  // of an H200
  const ProductShape square{1, 4096, 4096, 4096}, weights{1, 64, 576, 64 * 56 * 56}, row{1, 4096, 1, 4096};
  EXPECT_EQ(plan_product(square, kProcessors).config, kLarge);
  EXPECT_GE(plan_product(square, kProcessors).chunk_leaves, 8);
  EXPECT_GE(items(weights, plan_product(weights, kProcessors)), kProcessors);
  EXPECT_GE(items(row, plan_product(row, kProcessors)), kProcessors);
  EXPECT_EQ(plan_product(row, kProcessors).config, kSkinny);
}

TEST(OrderedProduct, ExactBlocksFitWhatSharedMemoryThereIs) {
  constexpr std::int64_t kTuring = 65536, kAda = 101376;
  const ProductShape square{1, 4096, 4096, 4096};
  EXPECT_EQ(choose_block(square, 40, kTuring).kind, 2);
  EXPECT_EQ(choose_block(square, 80, kAda).kind, 0);
  for (const int block : {0, 1, 2, 3}) {
    force_product_plan({block, 1});
    const ChosenBlock chosen = choose_block(square, 40, kTuring);
    EXPECT_EQ(chosen.kind, 2);
    EXPECT_EQ(chosen.plan.tiles_m * chosen.plan.tiles_n, 64 * 64);
    EXPECT_EQ(choose_block(square, 80, kAda).kind, std::min(block, 2));
  }
  force_product_plan({});
}

TEST(OrderedProduct, AForcedPlanChangesNoBit) {
  const Example example{37, 20, 3 * 512 + 9};
  const Floats expected = example.reference();
  const ProductShape shape{1, 37, 20, 3 * 512 + 9};
  for (const int tile : {0, 1, 2, 3}) {
    for (const std::int64_t leaves : {1, 2, 4}) {
      force_product_plan({tile, leaves});
      const ProductPlan plan = plan_product(shape, 2);
      EXPECT_EQ(plan.config, tile);
      EXPECT_EQ(plan.chunk_leaves, leaves);
      EXPECT_EQ(plan_product(shape, 2, true).config, std::min(tile, kSmall));  // convolutions have no skinny tile
      const EmulatedScope scope(ThreadOrder::shuffled);
      Floats c;
      const MatmulProblem p = example.problem(c);
      matmul(p);
      EXPECT_TRUE(same_bits(c, expected)) << tile << " " << leaves;
    }
  }
  force_product_plan({});
  EXPECT_THROW(force_product_plan({0, 3}), std::invalid_argument);
  EXPECT_THROW(force_product_plan({0, 0}), std::invalid_argument);
  EXPECT_THROW(force_product_plan({4, 1}), std::invalid_argument);
  EXPECT_THROW(force_product_plan({-2, 1}), std::invalid_argument);
  EXPECT_EQ(forced_product_plan().tile, -1);
}

}  // namespace
}  // namespace isobit::kernels::emulated
