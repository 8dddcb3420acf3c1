// Products of heads, [n, heads, rows, terms] by [n, heads, terms, columns], one node of the graph each and without
// copies of what lies turned in memory; PyTorch's composition (matmul of four dimensions) has eight nodes, and copies.
//
// Left out are the composition's nodes that move elements (expand, reshape, a view). Kept is every place where
// gradients are added: each factor and each gradient is seen_here() as a variable of its own. So derivatives of any
// order are sums of the same terms in the same order. Private to this folder. Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace isobit::aten {

// Whose last two dimensions are exchanged: the factors' before the product, the product's after it.
struct Turned {
  bool a = false, b = false, product = false;
};

// Sees row `row` of sample n's head, where it is computed; on any thread.
using AfterRow = std::function<void(std::int64_t n, std::int64_t head, std::int64_t row, float* values)>;

// A variable of its own, where derivatives are added before they are to others' of the same tensor; in the composition
// it is a view.
[[nodiscard]] at::Tensor seen_here(const at::Tensor& x);

// Whether a b is such a product, not empty, of float32 on the CPU, plain memory (plain_memory.h), and unobserved
// (observed_calls.h).
[[nodiscard]] bool takes_heads(const at::Tensor& a, const at::Tensor& b);

// Each product, contiguous, and its node. By the composition where a tensor or the thread is not as above. `after`:
// none with a turned product.
[[nodiscard]] at::Tensor heads_product(const at::Tensor& a, const at::Tensor& b, Turned turned,
                                       const AfterRow& after = nullptr);

}  // namespace isobit::aten
