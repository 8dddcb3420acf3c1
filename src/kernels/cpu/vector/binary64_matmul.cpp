// Products of matrices of binary64: tiles of outputs in registers, over panels of both factors that are packed for half
// a leaf at a time.
#include <algorithm>
#include <bit>

#include "contract/platform.h"
#include "kernels/cpu/vector/binary64_kernels.h"
#include "kernels/cpu/vector/binary64_one_row.h"
#include "kernels/cpu/vector/binary64_tile.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

using contract::kLeaf;

// Terms packed at once, so that a panel of columns stays in the first level of the cache: half a leaf, or a short one.
constexpr std::int64_t kTerms = 256, kShortLeaf = 320;
// So few terms leave outputs as the most that is moved, and those of one row after the other.
constexpr std::int64_t kFewTerms = 64;
// Rows packed at once stay in the second level, with the chains of that many columns.
constexpr std::int64_t kBlockRows = 112, kBlockColumns = 512;
// Packed columns of all terms are kept for further rows up to so many numbers.
constexpr std::int64_t kKept = std::int64_t{4} << 20;
// Rows along the terms are read where they lie by so few columns, unless rows fall into one set of the cache.
constexpr std::int64_t kFewColumns = 96;
// Outputs of fewer numbers are near enough.
constexpr std::int64_t kFar = std::int64_t{64} << 10;

std::int64_t rounded_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

// A piece of work: outputs [row, row + rows) x [column, column + columns) of one member of the batch.
struct Piece {
  std::int64_t batch, row, rows, column, columns;
};

// One piece on the calling thread: blocks of rows, of each block leaf after leaf in one or two runs of terms, of each
// run all tiles. A chain between its runs, and sums of leaves of the tree (contract, section 3), are kept tile by tile.
class PieceProduct {
 public:
  PieceProduct(const WideMatmulProblem& p, const Piece& w)
      : p_(p),
        a_(p.a.data + w.batch * p.a.batch_stride + w.row * p.a.row_stride),
        b_(p.b.data + w.batch * p.b.batch_stride + w.column * p.b.column_stride),
        c_(p.c + w.batch * p.c_batch_stride + w.row * p.c_row_stride + w.column * p.c_column_stride),
        d_(p.addend.data == nullptr ? nullptr
                                    : p.addend.data + w.batch * p.addend.batch_stride + w.row * p.addend.row_stride +
                                          w.column * p.addend.column_stride),
        rows_(w.rows),
        columns_(w.columns),
        leaves_(std::max<std::int64_t>(1, (p.k + kLeaf - 1) / kLeaf)),
        panels_((w.columns + kTileColumns - 1) / kTileColumns) {
    const std::int64_t blocks = (rows_ + kBlockRows - 1) / kBlockRows;
    step_ = rounded_up((rows_ + blocks - 1) / blocks, kTileRows);
    level_ = step_ / kTileRows * panels_ * kTileSize;
    in_place_ = p.a.column_stride == 1 && columns_ <= kFewColumns && p.a.row_stride % 512 != 0;
    direct_ = p.c_column_stride == 1 && p.alpha == 1.0 && d_ == nullptr;
    keeps_ = rows_ > step_ && panels_ * kTileColumns * p.k <= kKept;
    const std::int64_t terms = std::min(p.k, kShortLeaf);
    if (!in_place_) packed_a_ = doubles(step_ * terms);
    packed_b_ = doubles(panels_ * kTileColumns * (keeps_ ? p.k : std::min(p.k, kFewTerms)) + kTileColumns * terms);
    const auto levels = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(leaves_ - 1)));
    chain_ = doubles(level_ * (levels + 1)), left_ = chain_ + level_;
  }
  void multiply() {
    if (p_.m == 1 && (p_.b.column_stride == 1 || p_.b.row_stride == 1)) return multiply_row();
    for (row_ = 0; row_ < rows_; row_ += step_) {
      block_ = std::min(step_, rows_ - row_);
      for (leaf_ = 0; leaf_ < leaves_; ++leaf_) {
        const std::int64_t begin = leaf_ * kLeaf, end = std::min(p_.k, begin + kLeaf);
        const std::int64_t most = end - begin > kShortLeaf ? kTerms : kShortLeaf;
        std::int64_t k = begin;
        do {  // once where there are no terms
          const std::int64_t next = std::min(end, k + most);
          run({k, next - k, k == begin, next == end});
          k = next;
        } while (k < end);
      }
    }
  }

 private:
  // Terms [first, first + count) of a leaf.
  struct Run {
    std::int64_t first, count;
    bool begins, ends;
  };

  double* doubles(std::int64_t n) {
    return static_cast<double*>(workspace_.bytes(sizeof(double) * static_cast<std::size_t>(n)));
  }

  // Whose factors are read where they lie.
  void multiply_row() {
    double* const out = doubles(columns_);
    one_row(a_, p_.a.column_stride, b_, p_.b.row_stride, p_.b.column_stride, p_.k, columns_, out);
    store(out, 1, columns_, c_, 0, 0);
  }

  void run(const Run& r) {
    const double* const a = a_ + row_ * p_.a.row_stride + r.first * p_.a.column_stride;
    if (!in_place_) pack_tiles_of_rows(a, block_, p_.a.row_stride, r.count, p_.a.column_stride, packed_a_);
    const std::int64_t tiles = (block_ + kTileRows - 1) / kTileRows;
    if (r.count <= kFewTerms) {
      for (std::int64_t i = 0; i < tiles; ++i)
        for (std::int64_t j = 0; j < panels_; ++j) tile(r, in_place_ ? a : packed_a_, i, j);
    } else {
      for (std::int64_t j = 0; j < panels_; ++j)
        for (std::int64_t i = 0; i < tiles; ++i) tile(r, in_place_ ? a : packed_a_, i, j);
    }
  }

  // Rows from i * kTileRows on by columns from j * kTileColumns on; the first rows pack the columns for the others.
  void tile(const Run& r, const double* rows, std::int64_t i, std::int64_t j) {
    const std::int64_t columns = std::min(kTileColumns, columns_ - j * kTileColumns);
    const std::int64_t before = (keeps_ ? panels_ * r.first : 0) + (keeps_ || r.count <= kFewTerms ? j * r.count : 0);
    double* const panel = packed_b_ + before * kTileColumns;
    const double* const b = b_ + j * kTileColumns * p_.b.column_stride + r.first * p_.b.row_stride;
    const bool given = p_.b.column_stride == 1 && columns == kTileColumns;
    ColumnsAt from = ColumnsAt::packed;
    if (given && rows_ <= kTileRows) {
      from = ColumnsAt::in_place;
    } else if (i == 0 && (row_ == 0 || !keeps_)) {
      if (given && block_ >= kTileRows) {
        from = ColumnsAt::to_panel;
      } else {
        pack_lines<kTileColumns, true>(b, columns, p_.b.column_stride, r.count, p_.b.row_stride, panel);
      }
    }
    const double* const a = rows + i * kTileRows * (in_place_ ? p_.a.row_stride : r.count);
    multiply_tile(r, a, from, from == ColumnsAt::packed ? panel : b, panel, i, j, columns);
  }

  void multiply_tile(const Run& r, const double* a, ColumnsAt from, const double* b, double* panel, std::int64_t i,
                     std::int64_t j, std::int64_t columns) {
    alignas(64) double outputs[kTileSize];
    const std::int64_t rows = std::min(kTileRows, block_ - i * kTileRows);
    const std::int64_t row = row_ + i * kTileRows, place = (i * panels_ + j) * kTileSize;
    const bool last = r.ends && leaf_ == leaves_ - 1, whole = columns == kTileColumns || columns == kWideLanes;
    double* const c = c_ + row * p_.c_row_stride + j * kTileColumns * p_.c_column_stride;
    TileWork w{a, p_.a.row_stride, b,           p_.b.row_stride, panel, r.count, nullptr, left_ + place, level_,
               0, chain_ + place,  kTileColumns};
    if (!r.begins) w.resumed = chain_ + place;
    if (r.ends) {
      const auto leaf = static_cast<std::uint64_t>(leaf_);
      w.left_levels = last ? leaf : leaf & ~(leaf + 1);
      w.out = last ? outputs : left_ + std::countr_one(leaf) * level_ + place;
    }
    if (last && direct_ && whole) {
      w.out = c, w.out_row = p_.c_row_stride;
      if (p_.m * p_.n >= kFar) {
        for (std::int64_t down = 0; down < rows; ++down) {
          __builtin_prefetch(c + down * p_.c_row_stride, 1);
          __builtin_prefetch(c + down * p_.c_row_stride + columns - 1, 1);
        }
      }
    }
    in_place_ ? call<RowsAt::along_terms>(w, from, rows, columns) : call<RowsAt::packed>(w, from, rows, columns);
    if (last && w.out == outputs) store(outputs, rows, columns, c, row, j * kTileColumns);
  }

  template <RowsAt kRowsAt>
  static void call(const TileWork& w, ColumnsAt from, std::int64_t rows, std::int64_t columns) {
    using Functions = TileFunctions<kRowsAt>;
    if (from == ColumnsAt::in_place) return Functions::kInPlace.of[rows](w);
    if (from == ColumnsAt::to_panel) return Functions::kToPanel(w);
    (columns > kWideLanes ? Functions::kPacked : Functions::kPackedHalf).of[rows](w);
  }

  // Products by alpha and beta rounded, one addition; a product that is a zero is +0.
  void store(const double* from, std::int64_t rows, std::int64_t columns, double* to, std::int64_t row,
             std::int64_t column) const {
    const std::int64_t to_step = p_.c_column_stride, d_step = d_ == nullptr ? 0 : p_.addend.column_stride;
    const double* d = d_ == nullptr ? nullptr : d_ + row * p_.addend.row_stride + column * d_step;
    const bool lanes = to_step == 1 && (d == nullptr || d_step == 1);
    const WideDouble alpha = wide_double(p_.alpha), beta = wide_double(p_.beta);
    for (std::int64_t r = 0; r < rows; ++r, from += kTileColumns, to += p_.c_row_stride) {
      for (std::int64_t c = 0; lanes && c < columns; c += kWideLanes) {
        const std::int64_t count = std::min<std::int64_t>(kWideLanes, columns - c);
        WideDouble x = alpha * (wide_load_first(from + c, count) + wide_double(0.0));  // a factor of 1 changes nothing
        if (d != nullptr) x = beta * wide_load_first(d + c, count) + x;
        wide_store_first(to + c, x, count);
      }
      for (std::int64_t c = 0; !lanes && c < columns; ++c) {
        const double x = p_.alpha * (from[c] + 0.0);
        to[c * to_step] = d == nullptr ? x : p_.beta * d[c * d_step] + x;
      }
      if (d != nullptr) d += p_.addend.row_stride;
    }
  }

  Workspace workspace_;
  const WideMatmulProblem& p_;
  const double *a_, *b_;
  double* c_;
  const double* d_;
  std::int64_t rows_, columns_, leaves_, panels_;
  std::int64_t step_, level_;  // rows of a block; from a level's tiles to the next's
  std::int64_t row_ = 0, block_ = 0, leaf_ = 0;
  bool in_place_, direct_, keeps_;
  double *packed_a_ = nullptr, *packed_b_, *chain_, *left_;
};

// The transposed problem: fma(a, b, t) is fma(b, a, t).
WideMatmulProblem turned(const WideMatmulProblem& p) {
  const auto turn = [](const MatmulOperandOf<double>& o) {
    return MatmulOperandOf<double>{o.data, o.batch_stride, o.column_stride, o.row_stride};
  };
  WideMatmulProblem t = p;
  t.m = p.n, t.n = p.m;
  t.a = turn(p.b), t.b = turn(p.a), t.addend = turn(p.addend);
  t.c_row_stride = p.c_column_stride, t.c_column_stride = p.c_row_stride;
  return t;
}

// Columns are lanes: a matrix with few of them is turned, and one whose rows lie in order.
bool turns(const WideMatmulProblem& p) {
  if (p.n < kTileColumns || p.m < kTileColumns) return p.n < p.m;
  return p.c_column_stride != 1 && p.c_row_stride == 1;
}

// Products of fewer multiplications are not shared out at all, and in as many pieces as there are threads.
constexpr std::int64_t kOneThread = std::int64_t{64} * 64 * 64, kSmall = std::int64_t{1} << 24;

// How a product is cut for threads: pieces of so many rows and columns.
struct Cut {
  std::int64_t rows, columns;
};
Cut cut_of(const WideMatmulProblem& p) {
  const std::int64_t most =
      std::max(kBlockColumns / 8, std::min(kBlockColumns, kKept / std::max<std::int64_t>(p.k, 1)));
  Cut cut{p.m, std::min(p.n, rounded_up(most, kTileColumns))};
  if (thread_count() == 1 || p.batch * p.m * p.n * p.k <= kOneThread) return cut;
  const auto pieces = [&] {
    return p.batch * ((p.m + cut.rows - 1) / cut.rows) * ((p.n + cut.columns - 1) / cut.columns);
  };
  const std::int64_t each = p.batch * p.m * p.n * p.k > kSmall ? 3 : 1, wanted = each * thread_count();
  while (pieces() < wanted && (cut.rows > 2 * kTileRows || cut.columns > 2 * kTileColumns)) {
    if (cut.columns <= 2 * kTileColumns || cut.rows >= cut.columns) {
      cut.rows = rounded_up((cut.rows + 1) / 2, kTileRows);
    } else {
      cut.columns = rounded_up((cut.columns + 1) / 2, kTileColumns);
    }
  }
  return cut;
}

void multiply(const WideMatmulProblem& given) {
  const WideMatmulProblem p = turns(given) ? turned(given) : given;
  if (p.batch * p.m * p.n == 0) return;
  const Cut cut = cut_of(p);
  const std::int64_t across = (p.n + cut.columns - 1) / cut.columns, down = (p.m + cut.rows - 1) / cut.rows;
  const std::int64_t worth = 32'768 / (cut.rows * cut.columns * (p.k + 1)) + 1;
  parallel_for(0, p.batch * down * across, worth, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / across % down * cut.rows, column = i % across * cut.columns;
      PieceProduct(
          p, {i / (across * down), row, std::min(cut.rows, p.m - row), column, std::min(cut.columns, p.n - column)})
          .multiply();
    }
  });
}

}  // namespace

void fill_binary64_matmul(HostTable& t) { t.matmul = multiply; }

}  // namespace isobit::kernels::ISOBIT_ISA
