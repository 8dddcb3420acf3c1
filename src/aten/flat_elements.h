// Additions, products, copies and fills of large float32 arrays on isobit's threads.
//
// Stock computes them exactly, but on OpenMP's threads, which spin on the cores that isobit's next kernel needs; and in
// pieces that stock does not divide (element_pieces.h) each costs as much as its work. These are loops of isobit's own,
// with the same bits (NaNs may have other payloads). Each says whether it did it: false, and nothing done, where the
// arrays have fewer than 65,536 elements, lie in different orders, have gaps or overlap, are of another type, are not
// on the CPU, or one thread computes. Thread-safe.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/elementwise.h"

namespace isobit::aten {

// One of the two may be a number (no dimensions), of any real type.
[[nodiscard]] std::optional<at::Tensor> flat_new(kernels::ExactBinary op, const at::Tensor& a, const at::Tensor& b);
// Into `out`, which may be one of them.
[[nodiscard]] bool flat_into(kernels::ExactBinary op, const at::Tensor& a, const at::Tensor& b, const at::Tensor& out);
// Of any type that both have.
[[nodiscard]] bool flat_copy(const at::Tensor& to, const at::Tensor& from);
[[nodiscard]] bool flat_fill(const at::Tensor& to, const at::Scalar& value);
// Of any type.
[[nodiscard]] bool flat_zero(const at::Tensor& to);

// Contiguous ones of one type and of 262,144 bytes in all, one after the other along a dimension; nothing where there
// are others, or where they do not fit.
[[nodiscard]] std::optional<at::Tensor> flat_cat(const at::ITensorListRef& tensors, std::int64_t dim);

}  // namespace isobit::aten
