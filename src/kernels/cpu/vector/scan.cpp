// Products of lines, a register of them side by side: rows by transposing blocks of 8 x 8, neighbouring columns as they
// lie; logarithms of sums likewise, by a loop that the compiler turns into vectors (this file has flags of its own,
// src/kernels/CMakeLists.txt). Running extrema keep the reference's function.
#include "kernels/scan.h"

#include "contract/functions_wide.h"
#include "contract/ordered_dot.h"
#include "contract/pairwise_tree.h"
#include "kernels/cpu/vector/packing.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kRows = 8;

// As contract::FactorOf: + multiplies, none is 1.
struct RowFactors {
  __m256 value = _mm256_set1_ps(1.0f);
};
RowFactors operator+(const RowFactors& a, const RowFactors& b) { return {_mm256_mul_ps(a.value, b.value)}; }
struct ColumnFactors {
  FloatLanes value = FloatLanes(1.0f);
};
ColumnFactors operator+(const ColumnFactors& a, const ColumnFactors& b) { return {a.value * b.value}; }

// y[g * kRows + r] of rows row[g * kRows + r], `size` floats each.
template <int kGroups>
void multiply_rows(const float* const* row, std::int64_t size, float* y) {
  contract::PairwiseTreeOf<RowFactors> tree[kGroups];
  for (std::int64_t begin = 0; begin < size; begin += contract::kLeaf) {
    const std::int64_t end = size < begin + contract::kLeaf ? size : begin + contract::kLeaf;
    RowFactors leaf[kGroups];
    std::int64_t k = begin;
    for (; k + 8 <= end; k += 8) {
      for (int g = 0; g < kGroups; ++g) {
        __m256 block[8];
        read_transposed(row + g * kRows, k, block);
        for (int i = 0; i < 8; ++i) leaf[g].value = _mm256_mul_ps(leaf[g].value, block[i]);
      }
    }
    for (; k < end; ++k) {
      for (int g = 0; g < kGroups; ++g) {
        float column[kRows];
        for (int i = 0; i < kRows; ++i) column[i] = row[g * kRows + i][k];
        leaf[g].value = _mm256_mul_ps(leaf[g].value, _mm256_loadu_ps(column));
      }
    }
    for (int g = 0; g < kGroups; ++g) tree[g].add(leaf[g]);
  }
  for (int g = 0; g < kGroups; ++g) _mm256_storeu_ps(y + g * kRows, tree[g].result().value);
}

void product_of_rows(std::int64_t rows, std::int64_t size, const float* x, float* y) {
  constexpr int kGroups = 2;  // their chains hide each other's latency
  constexpr std::int64_t kTogether = kGroups * kRows;
  parallel_for(0, (rows + kTogether - 1) / kTogether, 1024 / (size + 1) + 1,
               [=](std::int64_t first, std::int64_t last) {
                 for (std::int64_t r = first * kTogether; r < last * kTogether && r < rows; r += kTogether) {
                   const std::int64_t count = rows - r < kTogether ? rows - r : kTogether;
                   const float* row[kTogether];
                   float products[kTogether];
                   for (std::int64_t i = 0; i < kTogether; ++i) row[i] = x + (r + (i < count ? i : 0)) * size;
                   count > kRows ? multiply_rows<kGroups>(row, size, products) : multiply_rows<1>(row, size, products);
                   for (std::int64_t i = 0; i < count; ++i) y[r + i] = products[i];
                 }
               });
}

// The product of a register's columns, `count` of them, `size` rows `inner` apart.
ISOBIT_INLINE FloatLanes column_products(const float* from, std::int64_t size, std::int64_t inner, std::int64_t count) {
  const auto chain = [&](std::int64_t terms) __attribute__((always_inline)) {
    ColumnFactors leaf;
    for (std::int64_t k = 0; k < terms; ++k, from += inner) {
      leaf.value = leaf.value * (count < kLanes ? load_first(from, count, 1.0f) : load(from));
    }
    return leaf;
  };
  if (size <= contract::kLeaf) return chain(size).value;
  contract::PairwiseTreeOf<ColumnFactors> tree;
  for (std::int64_t begin = 0; begin < size; begin += contract::kLeaf) {
    tree.add(chain(size - begin < contract::kLeaf ? size - begin : contract::kLeaf));
  }
  return tree.result().value;
}

void product_of_columns(std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  constexpr std::int64_t kWide = std::int64_t{8} * kLanes;
  const std::int64_t pieces = (inner + kWide - 1) / kWide;
  parallel_for(0, outer * pieces, 1024 / (size + 1) + 1, [=](std::int64_t first, std::int64_t last) {
    for (std::int64_t piece = first; piece < last; ++piece) {
      const std::int64_t o = piece / pieces, at = piece % pieces * kWide;
      const float* const from = x + o * size * inner;
      float* const to = y + o * inner;
      for (std::int64_t i = at; i < inner && i < at + kWide; i += kLanes) {
        const std::int64_t count = inner - i;
        if (count >= kLanes) {
          store(to + i, column_products(from + i, size, inner, kLanes));
        } else {
          store_first(to + i, column_products(from + i, size, inner, count), count);
        }
      }
    }
  });
}

void product(std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  if (inner == 1) return product_of_rows(outer, size, x, y);
  if (inner >= kLanes) return product_of_columns(outer, size, inner, x, y);
  table_of(Isa::reference).product(outer, size, inner, x, y);
}

// The lines' sums in binary64, by the contract's own formula: a shorter one would change what the next step begins
// with.
constexpr std::int64_t kLines = 16;
struct LogSums {
  double sum[kLines], more[kLines];
  float y[kLines];
};
[[gnu::flatten]] void add_logarithms(LogSums& s) {
  for (std::int64_t j = 0; j < kLines; ++j) s.sum[j] = contract::log_add_exp_of(s.sum[j], s.more[j]);
  for (std::int64_t j = 0; j < kLines; ++j) s.y[j] = contract::rounded(s.sum[j]);
}
void running_log_sum(std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  const std::int64_t lines = outer * inner;
  parallel_for(0, (lines + kLines - 1) / kLines, 64 / (size + 1) + 1, [=](std::int64_t first, std::int64_t last) {
    for (std::int64_t line = first * kLines; line < last * kLines && line < lines; line += kLines) {
      const std::int64_t count = lines - line < kLines ? lines - line : kLines;
      std::int64_t at[kLines];
      LogSums s;
      for (std::int64_t j = 0; j < kLines; ++j) {
        const std::int64_t i = line + (j < count ? j : 0);
        at[j] = i / inner * size * inner + i % inner, s.sum[j] = -contract::kInfinityWide;
      }
      for (std::int64_t k = 0; k < size; ++k) {
        for (std::int64_t j = 0; j < kLines; ++j) s.more[j] = static_cast<double>(x[at[j] + k * inner]);
        add_logarithms(s);
        for (std::int64_t j = 0; j < count; ++j) y[at[j] + k * inner] = s.y[j];
      }
    }
  });
}

}  // namespace

void fill_scan(KernelTable& t) {
  t.product = product;
  t.running_log_sum = running_log_sum;
}

}  // namespace isobit::kernels::ISOBIT_ISA
