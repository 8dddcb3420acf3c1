// Products of lines, a register of them side by side: rows by transposing four columns at a time, neighbouring columns
// as they lie; logarithms of sums likewise, by a loop that the compiler turns into vectors (this file has flags of its
// own, src/kernels/CMakeLists.txt). Running extrema keep the reference's function.
#include "kernels/scan.h"

#include "contract/functions_wide.h"
#include "contract/ordered_dot.h"
#include "contract/pairwise_tree.h"
#include "kernels/cpu/vector/lane_leaf.h"
#include "kernels/cpu/vector/row_columns.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// As contract::FactorOf: + multiplies, none is 1.
struct Factors {
  FloatLanes value = FloatLanes(1.0f);
};
ISOBIT_INLINE Factors operator+(const Factors& a, const Factors& b) { return {a.value * b.value}; }

// y[g * kLanes + l] of rows row[g * kLanes + l], `size` floats each; of rows of one to three, four may be read where
// `longer`.
template <int kGroups, class Rows>
void multiply_rows(Rows row, std::int64_t size, bool longer, float* y) {
  contract::PairwiseTreeOf<Factors> tree[kGroups];
  for (std::int64_t begin = 0; begin < size; begin += contract::kLeaf) {
    const std::int64_t end = size < begin + contract::kLeaf ? size : begin + contract::kLeaf;
    Factors leaf[kGroups];
    std::int64_t k = begin;
    for (; k + 4 <= end; k += 4) {
      for (std::int64_t g = 0; g < kGroups; ++g) {
        FloatLanes column[4];
        read_four_columns(row + g * kLanes, k, column);
        for (int i = 0; i < 4; ++i) leaf[g].value = leaf[g].value * column[i];
      }
    }
    if (k < end && (size >= 4 || longer)) {
      const std::int64_t from = size >= 4 ? end - 4 : 0;
      for (std::int64_t g = 0; g < kGroups; ++g) {
        FloatLanes column[4];
        read_four_columns(row + g * kLanes, from, column);
        for (std::int64_t i = k - from; i < end - from; ++i) leaf[g].value = leaf[g].value * column[i];
      }
      k = end;
    }
    for (; k < end; ++k) {
      for (std::int64_t g = 0; g < kGroups; ++g) {
        float column[kLanes];
        for (int l = 0; l < kLanes; ++l) column[l] = row[g * kLanes + l][k];
        leaf[g].value = leaf[g].value * load(column);
      }
    }
    for (std::int64_t g = 0; g < kGroups; ++g) tree[g].add(leaf[g]);
  }
  for (std::int64_t g = 0; g < kGroups; ++g) store(y + g * kLanes, tree[g].result().value);
}

void product_of_rows(std::int64_t rows, std::int64_t size, const float* x, float* y) {
  constexpr int kGroups = 2;  // their chains hide each other's latency
  constexpr std::int64_t kTogether = std::int64_t{kGroups} * kLanes;
  parallel_for(0, (rows + kTogether - 1) / kTogether, 1024 / (size + 1) + 1,
               [=](std::int64_t first, std::int64_t last) {
                 for (std::int64_t r = first * kTogether; r < last * kTogether && r < rows; r += kTogether) {
                   const std::int64_t count = rows - r < kTogether ? rows - r : kTogether;
                   const bool longer = (rows - r - count) * size >= 3;  // what lies behind these rows is the tensor's
                   if (count == kTogether) {
                     multiply_rows<kGroups>(EvenRows{x + r * size, size}, size, longer, y + r);
                     continue;
                   }
                   const float* row[kTogether];
                   float products[kTogether];
                   for (std::int64_t i = 0; i < kTogether; ++i) row[i] = x + (r + (i < count ? i : 0)) * size;
                   if (count > kLanes) {
                     multiply_rows<kGroups, const float* const*>(row, size, longer, products);
                   } else {
                     multiply_rows<1, const float* const*>(row, size, longer, products);
                   }
                   for (std::int64_t i = 0; i < count; ++i) y[r + i] = products[i];
                 }
               });
}

// Of few long rows, which would leave most lanes empty: whole leaves are rows of their own.
void product_of_long_rows(std::int64_t rows, std::int64_t size, const float* x, float* y) {
  const std::int64_t leaves = size / contract::kLeaf;
  Workspace workspace;
  float* const values = workspace.floats(leaves);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* const row = x + r * size;
    product_of_rows(leaves, contract::kLeaf, row, values);
    contract::PairwiseTreeOf<contract::FactorOf<float>> tree;
    for (std::int64_t l = 0; l < leaves; ++l) tree.add({values[l]});
    contract::FactorOf<float> rest;
    for (std::int64_t k = leaves * contract::kLeaf; k < size; ++k) rest.value = rest.value * row[k];
    if (size % contract::kLeaf != 0) tree.add(rest);
    y[r] = tree.result().value;
  }
}

// The products of kWide registers of columns, or of the first columns of one; `size` rows `inner` apart. Several
// registers: their chains hide each other's latency, and a row is read where it lies together.
template <int kWide>
struct WideFactors {
  Factors of[kWide];
};
template <int kWide>
ISOBIT_INLINE WideFactors<kWide> operator+(const WideFactors<kWide>& a, const WideFactors<kWide>& b) {
  WideFactors<kWide> r;
  for (std::int64_t w = 0; w < kWide; ++w) r.of[w] = a.of[w] + b.of[w];
  return r;
}
template <int kWide, class Extent>
ISOBIT_INLINE void column_products(const float* from, std::int64_t size, std::int64_t inner, Extent extent, float* to) {
  const auto chain = [&](std::int64_t terms) __attribute__((always_inline)) {
    WideFactors<kWide> leaf;
    for (std::int64_t k = 0; k < terms; ++k, from += inner) {
      for (std::int64_t w = 0; w < kWide; ++w)
        leaf.of[w].value = leaf.of[w].value * fetch(from + w * kLanes, extent, 1.0f);
    }
    return leaf;
  };
  const auto finish = [&](const WideFactors<kWide>& product) __attribute__((always_inline)) {
    for (std::int64_t w = 0; w < kWide; ++w) put(to + w * kLanes, product.of[w].value, extent);
  };
  if (size <= contract::kLeaf) return finish(chain(size));
  contract::PairwiseTreeOf<WideFactors<kWide>> tree;
  for (std::int64_t begin = 0; begin < size; begin += contract::kLeaf) {
    tree.add(chain(size - begin < contract::kLeaf ? size - begin : contract::kLeaf));
  }
  finish(tree.result());
}

void product_of_columns(std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  constexpr int kRegisters = 8;
  constexpr std::int64_t kWide = std::int64_t{kRegisters} * kLanes;
  const std::int64_t pieces = (inner + kWide - 1) / kWide;
  parallel_for(0, outer * pieces, 1024 / (size + 1) + 1, [=](std::int64_t first, std::int64_t last) {
    for (std::int64_t piece = first; piece < last; ++piece) {
      const std::int64_t o = piece / pieces, at = piece % pieces * kWide;
      const std::int64_t end = inner < at + kWide ? inner : at + kWide;
      const float* const from = x + o * size * inner;
      float* const to = y + o * inner;
      if (at + kWide <= inner) {
        column_products<kRegisters>(from + at, size, inner, Whole{}, to + at);
        continue;
      }
      std::int64_t i = at;
      for (; i + kLanes <= end; i += kLanes) column_products<1>(from + i, size, inner, Whole{}, to + i);
      if (i < end) column_products<1>(from + i, size, inner, Part{end - i}, to + i);
    }
  });
}

void product(std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  if (inner == 1 && outer < kLanes && size >= 4 * contract::kLeaf) return product_of_long_rows(outer, size, x, y);
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
