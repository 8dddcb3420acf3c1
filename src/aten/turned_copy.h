// Copies between memory formats: channels last and first, matrices and their transposes, in tiles that stay in a cache.
// Thread-safe; uses the pool.
#pragma once

#include <ATen/core/Tensor.h>

namespace isobit::aten {

// to.copy_(from) of two dense float32 tensors of the CPU with the same sizes and memory of their own, one of which lies
// as the other turned: two groups of neighbouring dimensions have changed places, those before them not. False, with
// nothing done, for any other pair, and for small ones.
[[nodiscard]] bool turned_copy(const at::Tensor& to, const at::Tensor& from);

// x.contiguous(); below autograd, of a float32 tensor whose elements lie turned, by turned_copy.
[[nodiscard]] at::Tensor in_row_major(const at::Tensor& x);

// `values`, contiguous, in the memory format of `like` where that is channels last; else themselves.
[[nodiscard]] at::Tensor in_format_of(const at::Tensor& like, const at::Tensor& values);

}  // namespace isobit::aten
