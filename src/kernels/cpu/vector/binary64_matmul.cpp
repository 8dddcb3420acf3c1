// Products of matrices of binary64: tiles of outputs in registers, over panels of both factors that are packed for a
// quarter of a leaf at a time. A chain is stored and taken up again between quarters, which changes no bit.
#include <algorithm>
#include <cstring>
#include <vector>

#include "contract/platform.h"
#include "kernels/cpu/vector/binary64_kernels.h"
#include "kernels/cpu/vector/binary64_one_row.h"
#include "kernels/cpu/vector/by_size.h"
#include "kernels/cpu/vector/wide_memory.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

using contract::kLeaf;

// What 32 registers hold, or 16: rows of two registers of columns.
constexpr int kTileRows = kWideLanes == 8 ? 12 : 6;
constexpr std::int64_t kTileColumns = std::int64_t{2} * kWideLanes;
constexpr std::int64_t kTerms = 128;  // packed at once
static_assert(kLeaf % kTerms == 0);

// chain[r][c] = fma(a[k][r], b[k][c], chain[r][c]) for the terms in their order; kTileColumns columns, rows `step`
// apart.
template <int kRows>
void add_terms(const double* a, const double* b, std::int64_t terms, double* chain, std::int64_t step) {
  WideDouble t[kRows][2];
  for (int r = 0; r < kRows; ++r)
    for (std::int64_t v = 0; v < 2; ++v) t[r][v] = wide_read(chain + r * step + v * kWideLanes);
  for (std::int64_t k = 0; k < terms; ++k, a += kTileRows, b += kTileColumns) {
    const WideDouble first = wide_read(b), second = wide_read(b + kWideLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const WideDouble factor = wide_double(a[r]);
      t[r][0] = multiply_add(factor, first, t[r][0]);
      t[r][1] = multiply_add(factor, second, t[r][1]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (std::int64_t v = 0; v < 2; ++v) wide_write(chain + r * step + v * kWideLanes, t[r][v]);
}
constexpr auto kAddTerms = by_size<kTileRows>([](auto rows) { return &add_terms<rows>; });

// [lines / kWidth][terms][kWidth] of element (line, k) at line * line_step + k * term_step; lines that are not there
// are 0.
template <std::int64_t kWidth>
void pack(const double* from, std::int64_t lines, std::int64_t line_step, std::int64_t terms, std::int64_t term_step,
          double* to) {
  for (std::int64_t first = 0; first < lines; first += kWidth, to += terms * kWidth) {
    const std::int64_t count = std::min(kWidth, lines - first);
    const double* const p = from + first * line_step;
    if (count < kWidth) std::fill(to, to + terms * kWidth, 0.0);
    if (line_step == 1 && count == kWidth) {
      for (std::int64_t k = 0; k < terms; ++k)
        std::memcpy(to + k * kWidth, p + k * term_step, sizeof(double) * std::size_t{kWidth});
      continue;
    }
    // Four terms at a time, so that what is read and what is written both stay in few lines of the cache.
    for (std::int64_t k = 0; k < terms; k += 4) {
      const std::int64_t some = std::min<std::int64_t>(4, terms - k);
      for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t j = 0; j < some; ++j) to[(k + j) * kWidth + i] = p[i * line_step + (k + j) * term_step];
    }
  }
}

std::int64_t rounded_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

// A piece of work: outputs [row, row + rows) x [column, column + columns) of one member of the batch.
struct Piece {
  std::int64_t batch, row, rows, column, columns;
};

// One leaf's chains, [rows][step] with step the columns rounded up to tiles.
void leaf_of(const WideMatmulProblem& p, const Piece& w, std::int64_t first, std::int64_t terms, double* packed_a,
             double* packed_b, double* chain, std::int64_t step) {
  const double* const a = p.a.data + w.batch * p.a.batch_stride + w.row * p.a.row_stride;
  const double* const b = p.b.data + w.batch * p.b.batch_stride + w.column * p.b.column_stride;
  std::fill(chain, chain + w.rows * step, 0.0);
  for (std::int64_t k = first; k < first + terms; k += kTerms) {
    const std::int64_t count = std::min(kTerms, first + terms - k);
    pack<kTileRows>(a + k * p.a.column_stride, w.rows, p.a.row_stride, count, p.a.column_stride, packed_a);
    pack<kTileColumns>(b + k * p.b.row_stride, w.columns, p.b.column_stride, count, p.b.row_stride, packed_b);
    for (std::int64_t j = 0; j < w.columns; j += kTileColumns) {
      for (std::int64_t i = 0; i < w.rows; i += kTileRows) {
        kAddTerms.of[std::min<std::int64_t>(kTileRows, w.rows - i)](packed_a + i * count, packed_b + j * count, count,
                                                                    chain + i * step + j, step);
      }
    }
  }
}

// Leaves arrive left to right: partial sums as a binary counter has digits (contract/pairwise_tree.h).
class Tree {
 public:
  explicit Tree(std::int64_t size) : size_(static_cast<std::size_t>(size)) {}
  void add(const double* leaf) {
    std::vector<double> sum(leaf, leaf + size_);
    std::size_t level = 0;
    for (std::int64_t n = count_++; n & 1; n >>= 1, ++level)
      for (std::size_t i = 0; i < size_; ++i) sum[i] = partial_[level][i] + sum[i];
    if (level == partial_.size()) partial_.emplace_back();
    partial_[level] = std::move(sum);
  }
  void result(double* out) const {  // of one leaf or more
    bool any = false;
    for (std::size_t level = 0; level < partial_.size(); ++level) {
      if (!(count_ >> level & 1)) continue;
      const std::vector<double>& left = partial_[level];
      for (std::size_t i = 0; i < size_; ++i) out[i] = any ? left[i] + out[i] : left[i];
      any = true;
    }
  }

 private:
  std::size_t size_;
  std::int64_t count_ = 0;
  std::vector<std::vector<double>> partial_;
};

// Products by alpha and beta rounded, one addition; a product that is a zero is +0.
void store(const WideMatmulProblem& p, const Piece& w, const double* product, std::int64_t step) {
  for (std::int64_t r = 0; r < w.rows; ++r) {
    const double* const from = product + r * step;
    double* const to = p.c + w.batch * p.c_batch_stride + (w.row + r) * p.c_row_stride + w.column * p.c_column_stride;
    const auto put = [&](auto value) __attribute__((always_inline)) {
      if (p.c_column_stride == 1) {
        for (std::int64_t c = 0; c < w.columns; ++c) to[c] = value(c);
      } else {
        for (std::int64_t c = 0; c < w.columns; ++c) to[c * p.c_column_stride] = value(c);
      }
    };
    const auto scaled = [&](std::int64_t c) { return p.alpha * (from[c] + 0.0); };  // a factor of 1 changes nothing
    if (p.addend.data == nullptr) {
      put(scaled);
      continue;
    }
    const double* const d = p.addend.data + w.batch * p.addend.batch_stride + (w.row + r) * p.addend.row_stride +
                            w.column * p.addend.column_stride;
    const std::int64_t d_step = p.addend.column_stride;
    if (d_step == 1) {
      put([&](std::int64_t c) { return p.beta * d[c] + scaled(c); });
    } else {
      put([&](std::int64_t c) { return p.beta * d[c * d_step] + scaled(c); });
    }
  }
}

// Whether a row's factors are read where they lie.
bool is_one_row(const WideMatmulProblem& p) { return p.m == 1 && (p.b.column_stride == 1 || p.b.row_stride == 1); }

void multiply_piece(const WideMatmulProblem& p, const Piece& w) {
  Workspace workspace;
  const auto doubles = [&](std::int64_t n) {
    return static_cast<double*>(workspace.bytes(sizeof(double) * static_cast<std::size_t>(n)));
  };
  const std::int64_t step = rounded_up(w.columns, kTileColumns), size = w.rows * step;
  double* const chain = doubles(size);
  if (is_one_row(p)) {
    one_row(p.a.data + w.batch * p.a.batch_stride, p.a.column_stride,
            p.b.data + w.batch * p.b.batch_stride + w.column * p.b.column_stride, p.b.row_stride, p.b.column_stride,
            p.k, w.columns, chain);
    return store(p, w, chain, step);
  }
  double* const packed_a = doubles(rounded_up(w.rows, kTileRows) * kTerms);
  double* const packed_b = doubles(step * kTerms);
  if (p.k <= kLeaf) {
    leaf_of(p, w, 0, p.k, packed_a, packed_b, chain, step);
  } else {
    Tree tree(size);
    for (std::int64_t first = 0; first < p.k; first += kLeaf) {
      leaf_of(p, w, first, std::min(kLeaf, p.k - first), packed_a, packed_b, chain, step);
      tree.add(chain);
    }
    tree.result(chain);
  }
  store(p, w, chain, step);
}

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

void multiply(const WideMatmulProblem& given) {
  const WideMatmulProblem p = turns(given) ? turned(given) : given;
  if (p.batch * p.m * p.n == 0) return;
  // Pieces that share what is packed among many outputs, but enough of them for all threads.
  std::int64_t rows = std::min<std::int64_t>(p.m, 192), columns = std::min<std::int64_t>(p.n, 256);
  const auto pieces = [&] { return p.batch * ((p.m + rows - 1) / rows) * ((p.n + columns - 1) / columns); };
  const std::int64_t wanted = thread_count() == 1 ? 1 : std::int64_t{3} * thread_count();
  const bool large = p.batch * p.m * p.n * p.k > 64 * 64 * 64;
  while (large && pieces() < wanted && (rows > std::int64_t{2} * kTileRows || columns > 2 * kTileColumns)) {
    if (rows >= columns) {
      rows = rounded_up((rows + 1) / 2, kTileRows);
    } else {
      columns = rounded_up((columns + 1) / 2, kTileColumns);
    }
  }
  const std::int64_t across = (p.n + columns - 1) / columns, down = (p.m + rows - 1) / rows;
  const std::int64_t worth = 32'768 / (rows * columns * (p.k + 1)) + 1;
  parallel_for(0, p.batch * down * across, worth, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / across % down * rows, column = i % across * columns;
      multiply_piece(p, {i / (across * down), row, std::min(rows, p.m - row), column, std::min(columns, p.n - column)});
    }
  });
}

}  // namespace

void fill_binary64_matmul(HostTable& t) { t.matmul = multiply; }

}  // namespace isobit::kernels::ISOBIT_ISA
