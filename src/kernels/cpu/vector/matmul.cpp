#include "kernels/matmul.h"

#include "contract/platform.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/vector/few_rows.h"
#include "kernels/cpu/vector/head_product.h"
#include "kernels/cpu/vector/large_product.h"
#include "kernels/cpu/vector/long_dot.h"
#include "kernels/cpu/vector/tile_product.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"
#include "kernels/tuning.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

using contract::kLeaf;

// So few columns reuse a packed row too little to pay for packing it: of rows along k, of many and of few; the latter
// have columns packed by their first tile, which rows in place hold up. Of rows side by side.
constexpr std::int64_t kFewColumnsOfMany = 512, kFewColumnsOfFew = 128, kFewColumnsAcross = 64, kManyRows = 112;
// Terms that lie further apart than these floats in all are packed: the first level of the cache would not keep them.
constexpr std::int64_t kNearFloats = 8192;
// Columns along k, of so many floats in all, are multiplied by few rows as if the second level of the cache held them.
constexpr std::int64_t kNearColumns = std::int64_t{448} * 1024;

// How a block of so many columns and terms (at most a leaf's) reads its factors.
struct Reading {
  bool in_place;  // rows where they lie, along k or side by side
  bool near;      // columns, too
  bool packing;   // columns packed while the first tile of rows is computed
};
Reading reading_of(const Product& p, std::int64_t columns, std::int64_t depth) {
  const bool along_k = p.a_k == 1 && columns <= (p.m >= kManyRows ? kFewColumnsOfMany : kFewColumnsOfFew);
  const bool across = p.a_row == 1 && columns <= kFewColumnsAcross && depth * p.a_k <= kNearFloats;
  const bool in_place = along_k || across;
  const bool near = in_place && p.b_column == 1 && depth * p.b_k <= kNearFloats;
  return {in_place, near, (!in_place || p.a_k == 1) && !near && p.b_column == 1};
}

bool few_rows(const Product& p) { return p.m <= kFewRows && (p.b_column == 1 || p.b_k == 1); }

// Lanes of so many columns in time: a tile of one vector takes a third more, for its chains are too few to keep a
// processor's units busy.
double tile_lanes(std::int64_t columns) {
  const std::int64_t rest = columns % kTileColumns, whole = columns - rest;
  return static_cast<double>(rest > kLanes ? whole + kTileColumns : whole) +
         (rest > 0 && rest <= kLanes ? kLanes * 4.0 / 3 : 0);
}

// Estimated time in multiply-adds of one lane: lanes that hold no output cost as much as those that do, an output that
// is not stored with its neighbours a store of its own, and a factor that is turned to be packed about 7 (fitted on a
// Zen 3).
double cost(const Product& p) {
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const bool turned = p.c_row == 1 && p.c_column != 1;
  const double stores = m * n * (p.c_column == 1 ? 2 : turned ? 12 : 20);
  const std::int64_t vectors = (p.n + kLanes - 1) / kLanes;
  if (few_rows(p)) return m * k * static_cast<double>(vectors * kLanes) + stores;
  const Reading reading = reading_of(p, p.n, smaller(p.k, kLeaf));
  const double rows = reading.in_place ? 0 : m * k * (p.a_row == 1 ? 2 : 7);
  const double columns = reading.near ? 0 : n * k * (p.b_column == 1 ? 1 : 7);
  return m * k * tile_lanes(p.n) + stores + rows + columns;
}

// All rows x [j0, j1) of a product with few of them, b read in place.
void multiply_few_rows(const Product& p, std::int64_t j0, std::int64_t j1) {
  Workspace workspace;
  const std::int64_t leaves = p.k > kLeaf ? (p.k + kLeaf - 1) / kLeaf : 1;
  // Columns along k are read once, in the order in which they lie: all leaves of a few before the next.
  const bool near = p.n * p.k <= kNearColumns;
  const std::int64_t step = p.b_k == 1 ? smaller(near ? kNearGroup : kFarGroup, j1 - j0) : j1 - j0;
  const std::int64_t width = column_panels(step) * kTileColumns, size = p.m * width;
  float* partial = workspace.floats(tree_levels(leaves) * size);
  float* sums = workspace.floats(size);
  for (std::int64_t at = j0; at < j1; at += step) {
    const std::int64_t j =
        smaller(at, j1 - step);  // the last columns' sums are some of them taken twice, none stored twice
    for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
      const std::int64_t k0 = leaf * kLeaf;
      few_rows_leaf({step, k0, smaller(kLeaf, p.k - k0), p.a, p.a_row, p.a_k, p.b + j * p.b_column, p.b_k, p.b_column,
                     sums, width, near},
                    p.m);
      add_leaf(sums, partial, size, leaf, leaves, size);
    }
    for (std::int64_t i = 0; i < size; i += kLanes) store(sums + i, load(sums + i) + FloatLanes(0.0f));  // never -0
    for (std::int64_t r = 0; r < p.m; ++r)
      for (std::int64_t c = at; c < j + step; c += kTileColumns)
        store_tile(p, r, 1, c, smaller(kTileColumns, j + step - c), sums + r * width + c - j);
  }
}

// Rows to be packed and outputs of fewer floats in all are near enough.
constexpr std::int64_t kFarFloats = std::int64_t{128} * 1024;

// The rows that are packed after those from i on.
RowFetch rows_ahead(const Product& p, Blocks blocks, std::int64_t i0, std::int64_t i1, std::int64_t i,
                    std::int64_t leaf, std::int64_t leaves) {
  const std::int64_t here = smaller(kLeaf, p.k - leaf * kLeaf);
  i += blocks.rows;
  if (i >= i1) i = i0, ++leaf;
  if (leaf == leaves || (p.a_k != 1 && p.a_row != 1) || p.m * p.k < kFarFloats) return {};
  const std::int64_t k0 = leaf * kLeaf, terms = smaller(kLeaf, p.k - k0), rows = smaller(blocks.rows, i1 - i);
  const float* from = p.a + i * p.a_row + k0 * p.a_k;
  return p.a_k == 1 ? RowFetch(from, p.a_row, rows, terms, here) : RowFetch(from, p.a_k, terms, rows, here);
}

// Outputs [i0, i1) x [j0, j1), at most blocks.columns columns, on the calling thread.
void multiply_block(const Product& p, Blocks blocks, std::int64_t i0, std::int64_t i1, std::int64_t j0,
                    std::int64_t j1) {
  Workspace workspace;
  const std::int64_t leaves = p.k > kLeaf ? (p.k + kLeaf - 1) / kLeaf : 1, depth = smaller(p.k, kLeaf);
  const std::int64_t panels = column_panels(j1 - j0);
  const std::int64_t row_blocks = (i1 - i0 + blocks.rows - 1) / blocks.rows;
  TileBlock block;
  block.leaves = leaves;
  block.level_stride = row_blocks * row_tiles(blocks.rows) * panels * kTileSize;
  float* partial = workspace.floats(tree_levels(leaves) * block.level_stride);
  const Reading reading = reading_of(p, j1 - j0, depth);
  float* a = reading.in_place ? nullptr : workspace.floats(row_tiles(blocks.rows) * kTileRows * depth);
  float* b = workspace.floats((row_blocks > 1 ? panels : 1) * kTileColumns * depth);
  const bool plain = leaves == 1 && p.c_column == 1 && p.d == nullptr && p.alpha == 1.0f;
  const std::int64_t whole = (j1 - j0) / kTileColumns;
  block.b_in_place = reading.near ? whole : 0, block.b_k = p.b_k;
  block.in_place_row = p.a_row, block.in_place_k = p.a_k;
  for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
    const std::int64_t k0 = leaf * kLeaf, terms = smaller(kLeaf, p.k - k0);
    block.leaf = leaf, block.terms = terms;
    block.a = a, block.a_tile_stride = terms * kTileRows;
    block.b = b, block.b_panel_stride = row_blocks > 1 ? terms * kTileColumns : 0;
    const float* b_rows = p.b + k0 * p.b_k + j0 * p.b_column;
    block.b_rows = reading.near ? b_rows : nullptr;
    const auto pack = [&](std::int64_t c, std::int64_t columns, float* panel) {
      pack_columns(p.b + k0 * p.b_k + (j0 + c) * p.b_column, p.b_k, p.b_column, terms, columns, panel);
    };
    for (std::int64_t i = i0; i < i1; i += blocks.rows) {
      block.rows = smaller(blocks.rows, i1 - i), block.columns = j1 - j0;
      block.in_place = reading.in_place ? p.a + i * p.a_row + k0 * p.a_k : nullptr;
      if (!reading.in_place) pack_row_tiles(p.a + i * p.a_row + k0 * p.a_k, p.a_k, p.a_row, terms, block.rows, a);
      RowFetch ahead = rows_ahead(p, blocks, i0, i1, i, leaf, leaves);
      block.rows_ahead = reading.in_place ? nullptr : &ahead;
      block.to_pack = i == i0, block.b_unpacked = reading.packing && i == i0 ? b_rows : nullptr;
      block.direct = plain ? p.c + i * p.c_row + j0 : nullptr, block.direct_row = p.c_row;
      block.direct_far = p.m * p.n >= kFarFloats;
      block.partial = partial + (i - i0) / blocks.rows * row_tiles(blocks.rows) * panels * kTileSize;
      multiply_leaf<true>(block, pack,
                          [&](std::int64_t r, std::int64_t rows, std::int64_t c, std::int64_t columns, float* tile) {
                            store_tile(p, i + r, rows, j0 + c, columns, tile);
                          });
    }
  }
}

// How the outputs of one product are cut for threads: rows x columns pieces, borders at whole tiles.
struct Grid {
  std::int64_t rows = 1, columns = 1;
};

Grid grid_for(std::int64_t m, std::int64_t n, std::int64_t pieces) {
  Grid g;
  const std::int64_t most_rows = m <= kFewRows ? 1 : row_tiles(m), most_columns = column_panels(n);
  while (g.rows * g.columns < pieces) {
    const bool by_rows = m / g.rows > n / g.columns;
    if (by_rows && g.rows < most_rows) {
      ++g.rows;
    } else if (g.columns < most_columns) {
      ++g.columns;
    } else if (g.rows < most_rows) {
      ++g.rows;
    } else {
      break;
    }
  }
  return g;
}

void multiply_piece(const Product& p, Blocks blocks, Grid grid, std::int64_t piece) {
  const std::int64_t row = piece / grid.columns, column = piece % grid.columns;
  const std::int64_t tiles = row_tiles(p.m), panels = column_panels(p.n);
  const std::int64_t i0 = tiles * row / grid.rows * kTileRows;
  const std::int64_t i1 = smaller(p.m, tiles * (row + 1) / grid.rows * kTileRows);
  const std::int64_t j0 = panels * column / grid.columns * kTileColumns;
  const std::int64_t j1 = smaller(p.n, panels * (column + 1) / grid.columns * kTileColumns);
  for (std::int64_t j = j0; j < j1; j += blocks.columns) {
    const std::int64_t end = smaller(j1, j + blocks.columns);
    if (few_rows(p)) {
      multiply_few_rows(p, j, end);
      continue;
    }
    if (is_head(p, end - j)) {
      multiply_head(p, i0, i1, j, end);
      continue;
    }
    const bool large = i1 - i0 > blocks.rows && (end - j) * p.k > kLargeFloats &&
                       !reading_of(p, end - j, smaller(p.k, kLeaf)).in_place;
    const bool parks = p.k > (large ? blocks.leaves : 1) * kLeaf;  // sums of some leaves while others are computed
    const std::int64_t step = parks ? even_step(i1 - i0, blocks.tree_rows()) : i1 - i0;
    for (std::int64_t i = i0; i < i1; i += step) {
      const std::int64_t i_end = smaller(i1, i + step);
      large ? LargeProduct(p, blocks, i, i_end, j, end).multiply() : multiply_block(p, blocks, i, i_end, j, end);
    }
  }
}

// A row by a column of several leaves, which lanes of columns would leave to one lane.
bool is_long_dot(const Product& p) { return p.m == 1 && p.n == 1 && p.a_k == 1 && p.b_k == 1 && p.k > 2 * kLeaf; }

void matmul(const MatmulProblem& problem) {
  if (problem.batch <= 0 || problem.m <= 0 || problem.n <= 0) return;
  const Product one = member(problem, 0);
  if (is_long_dot(one)) {
    const auto multiply = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Product p = member(problem, i);
        alignas(64) float tile[kTileColumns] = {long_dot(p.a, p.b, p.k)};
        store_tile(p, 0, 1, 0, 1, tile);
      }
    };
    if (problem.batch == 1) return multiply(0, 1);  // whose leaves are shared out
    return parallel_for(0, problem.batch, 65536 / problem.k + 1, multiply);
  }
  const bool exchange = cost(transposed(one)) < cost(one);
  const double work =
      static_cast<double>(problem.m) * static_cast<double>(problem.n) * (static_cast<double>(problem.k) + 16);
  const Tuning sizes = tuning();
  const Blocks blocks = blocks_of(sizes);
  const auto useful =
      static_cast<std::int64_t>(work * static_cast<double>(problem.batch) / static_cast<double>(sizes.product_thread)) +
      1;
  const std::int64_t threads = smaller(thread_count(), useful);
  const std::int64_t pieces = (threads + problem.batch - 1) / problem.batch;
  const Grid grid = exchange ? grid_for(problem.n, problem.m, pieces) : grid_for(problem.m, problem.n, pieces);
  const std::int64_t per_member = grid.rows * grid.columns, total = problem.batch * per_member;
  parallel_for(0, total, total > threads ? total / threads : 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const Product p = member(problem, t / per_member);
      multiply_piece(exchange ? transposed(p) : p, blocks, grid, t % per_member);
    }
  });
}

}  // namespace

void fill_matmul(KernelTable& t) { t.matmul = matmul; }

}  // namespace isobit::kernels::ISOBIT_ISA
