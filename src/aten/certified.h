// The certified operators: PyTorch operators whose CPU results are computed by our kernels
// (docs/contract.md).
//
// One entry per overload. The list is complete and constant, whether the switch is on or not. Certified
// operators take dense float32 CPU tensors of any strides; anything else they can not answer exactly is
// refused by refuse() (refusal.h), never computed by stock floating-point code.
// Thread-safe after first use.
#pragma once

#include <string_view>
#include <vector>

namespace torch {
class Library;
}

namespace isobit::aten {

struct CertifiedOperator {
  std::string_view name;      // "aten::mm"
  std::string_view overload;  // "" or "out", "dim_IntList", ...
  std::string_view section;   // the contract's section and formula in words
};

[[nodiscard]] const std::vector<CertifiedOperator>& certified_operators();

// Installs all of them; they last as long as the library object. Precondition: a library of kind IMPL for
// namespace aten and DispatchKey::CPU.
void register_certified(torch::Library& library);

}  // namespace isobit::aten
