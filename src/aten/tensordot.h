// aten::tensordot without the choice that PyTorch makes by layout.
//
// Stock computes a contraction over all dimensions as a product (dot) or as multiplication and sum, depending on the
// tensors' strides; the two differ in the last bit, and bits never depend on strides. While the switch is on
// tensordot is one product over the contracted dimensions, in the order in which they are given. Thread-safe.
#pragma once

#include <string_view>

namespace torch {
class Library;
}

namespace isobit::aten {

inline constexpr std::string_view kTensordot = "aten::tensordot";

// A composite: registered where autograd would otherwise take stock's. Preconditions: libraries of kind IMPL for
// namespace aten and a backend's key or its autograd key. Lasts as long as the library object.
void register_tensordot(torch::Library& library);

}  // namespace isobit::aten
