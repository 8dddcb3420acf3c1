// scaled_dot_product_attention with gradients: the operations of PyTorch's composition, and their bits, in a graph of
// seven nodes instead of seventeen and without copies of what lies turned in memory.
//
// Left out are the composition's nodes that move elements (expand, reshape, a view). Kept is every place where
// gradients are added: the scaled queries and keys, the weights and the values as the second product takes them. So
// derivatives of any order are sums of the same terms in the same order; a single node could not give the second ones.
// Private to this folder. Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include "aten/certified/support/attention_mask.h"

namespace isobit::aten {

// q, k, v: float32 on the CPU, [n, heads, rows, width], plain memory (plain_memory.h), not empty, of sizes that agree;
// one of them requires a gradient. factor: of queries and of keys. Precondition: calls_are_unobserved().
at::Tensor attention_in_few_nodes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const AttentionMask& mask, double factor, double dropout);

}  // namespace isobit::aten
