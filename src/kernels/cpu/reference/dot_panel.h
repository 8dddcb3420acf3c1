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

// chain[r * kPanelColumns + c] = fma(row[r], column[c], chain[...]) for r < rows and all kPanelColumns
// columns. Uses the machine's fma instruction where it has one, else libm's (the same bits, slowly).
void add_outer_product(float* chain, const float* row, std::int64_t rows, const float* column);
void add_outer_product(double* chain, const double* row, std::int64_t rows, const double* column);

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
  T row[kPanelRows], column[kPanelColumns] = {};
  PanelTree<T> tree(size);
  for (std::int64_t begin = 0; begin < terms; begin += contract::kLeaf) {
    const std::int64_t end = std::min(terms, begin + contract::kLeaf);
    std::fill(chain.begin(), chain.end(), T(0));
    for (std::int64_t k = begin; k < end; ++k) {
      fill_rows(k, row);
      fill_columns(k, column);
      add_outer_product(chain.data(), row, rows, column);
    }
    tree.add(chain.data());
  }
  tree.result(chain.data());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) store(r, c, chain[static_cast<std::size_t>(r * kPanelColumns + c)]);
}

}  // namespace isobit::kernels::reference
