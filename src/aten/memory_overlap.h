// Whether elements lie on each other in memory, decided by addresses: two tensors may share memory without sharing a
// storage (DLPack, NumPy), and PyTorch's own test leaves strided ones undecided and lets them pass. Stock's loops then
// write and read one element in an order that depends on threads.
//
// Of strided tensors of one device. "May": true where it is not decided. Thread-safe; no state.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string_view>

namespace isobit::aten {

// Two elements of one tensor.
[[nodiscard]] bool may_overlap_itself(const at::Tensor& tensor);
// An element of each.
[[nodiscard]] bool may_meet(const at::Tensor& a, const at::Tensor& b);
// Element by element the same memory.
[[nodiscard]] bool lie_alike(const at::Tensor& a, const at::Tensor& b);

// No two of many dense tensors share an address. Undefined and empty ones lie nowhere; false where one is not dense.
[[nodiscard]] bool lie_apart(std::span<const at::Tensor* const> tensors);

// What an operator reads while it writes `written`: the tensor itself, or a copy where it may meet that and does not
// lie alike. Itself, too, where PyTorch sees that they overlap, and says so.
[[nodiscard]] at::Tensor apart_from(const at::Tensor& written, const at::Tensor& read);
// Refuses a tensor that may overlap itself.
void require_own_places(std::string_view op, const at::Tensor& written);

}  // namespace isobit::aten
