// Sparse tensors in coordinate form on the CPU, as far as gradients of embeddings and their optimizers use them
// (contract, section 4): coalescing sums like a scatter, everything else is arithmetic on rows, or a copy.
//
// Operators of other layouts, and those that are not on the list, are refused for sparse tensors. Thread-safe; no
// state.
#pragma once

#include <string_view>
#include <vector>

#include <torch/library.h>

#include "aten/classification.h"

namespace isobit::aten {

struct SparseOperator {
  std::string_view name;           // "aten::add_.Tensor"
  OperatorClass kind;              // of the operator where no other list names it
  std::string_view reason;         // certified: the contract's section, in words
  torch::CppFunction (*kernel)();  // at SparseCPU; nullptr: stock's stays
};

[[nodiscard]] const std::vector<SparseOperator>& sparse_operators();

// By full name; nullptr where the list has none.
[[nodiscard]] const SparseOperator* find_sparse_operator(std::string_view full_name);

void register_sparse(torch::Library& library);

}  // namespace isobit::aten
