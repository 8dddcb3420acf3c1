// Many ordered dot products at once: the contract's sentence (section 3) over a panel of outputs.
//
//   result[r][c] = tree over leaves of 512 of the chain  t = fma(row(k)[r], column(k)[c], t)
//
// The loop over outputs is inside the loop over k: each output still meets its terms in ascending k, and the
// compiler may vectorise over outputs, which share no sum. Nothing is skipped: zeros are multiplied.
// Thread-safe; holds no state between calls.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "contract/platform.h"

namespace isobit::kernels::reference {

inline constexpr std::int64_t kPanelRows = 64;
inline constexpr std::int64_t kPanelColumns = 64;

inline constexpr std::int64_t kPanelTerms = 64;  // of each side that are gathered at once

// chain[r * kPanelColumns + c] = fma(row[k * kPanelRows + r], column[k * kPanelColumns + c], chain[...]) for k = 0, 1,
// ... terms - 1, for r < rows and all kPanelColumns columns. Uses the machine's fma instruction where it has one, else
// libm's (the same bits, slowly).
void add_outer_products(float* chain, const float* row, std::int64_t rows, const float* column, std::int64_t terms);
void add_outer_products(double* chain, const double* row, std::int64_t rows, const double* column, std::int64_t terms);

// sum[r * kPanelColumns + c] = sum[...] + the chain over all terms from +0, in the same layout: a leaf of its own,
// added to what stands there.
void add_chains(float* sum, const float* row, std::int64_t rows, const float* column, std::int64_t terms);

// The tree over whole panels of leaves, which arrive left to right: see contract::PairwiseTree.
template <class T>
class PanelTree {
 public:
  explicit PanelTree(std::int64_t size) : size_(size) {}
  void add(const T* leaf);
  // Writes the tree of all leaves, + (+0). No leaves: +0.
  void result(T* out) const;

 private:
  std::int64_t size_, count_ = 0;
  std::vector<std::vector<T>> partial_;
};

// Calls fill_rows(k, T*) and fill_columns(k, T*) once per k in ascending order, then
// store(r, c, value) for every output. rows <= kPanelRows, columns <= kPanelColumns.
template <class T = float, class FillRows, class FillColumns, class Store>
void dot_panel(std::int64_t rows, std::int64_t columns, std::int64_t terms, FillRows fill_rows,
               FillColumns fill_columns, Store store) {
  const std::int64_t size = rows * kPanelColumns;
  std::vector<T> chain(static_cast<std::size_t>(size));
  std::vector<T> row(kPanelRows * kPanelTerms), column(kPanelColumns * kPanelTerms);
  PanelTree<T> tree(size);
  for (std::int64_t begin = 0; begin < terms; begin += contract::kLeaf) {
    const std::int64_t end = std::min(terms, begin + contract::kLeaf);
    std::fill(chain.begin(), chain.end(), T(0));
    for (std::int64_t first = begin; first < end; first += kPanelTerms) {
      const std::int64_t count = std::min(kPanelTerms, end - first);
      for (std::int64_t k = 0; k < count; ++k) {
        fill_rows(first + k, row.data() + k * kPanelRows);
        fill_columns(first + k, column.data() + k * kPanelColumns);
      }
      add_outer_products(chain.data(), row.data(), rows, column.data(), count);
    }
    tree.add(chain.data());
  }
  tree.result(chain.data());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) store(r, c, chain[static_cast<std::size_t>(r * kPanelColumns + c)]);
}

}  // namespace isobit::kernels::reference
