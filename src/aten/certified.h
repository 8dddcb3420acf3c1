// The certified operators: PyTorch operators whose results are computed by our kernels (docs/contract.md), on the
// CPU and on CUDA devices.
//
// One entry per overload. The list is complete and constant, whether the switch is on or not. Certified
// operators take dense float32 tensors of any strides, all of one device; anything else they cannot answer exactly
// is refused by refuse() (refusal.h), never computed by stock floating-point code.
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
  bool on_cpu = true;         // false: on devices only, where stock's arithmetic is not passed
  bool by_host = false;  // a device's tensors are computed on the host and brought back: the call waits for the device
};

[[nodiscard]] const std::vector<CertifiedOperator>& certified_operators();

// Installs the CPU's, or the device's kernels; they last as long as the library object. Precondition: a library of
// kind IMPL for namespace aten and DispatchKey::CPU, or CUDA.
void register_certified(torch::Library& library);
void register_certified_on_device(torch::Library& library);
// The few that stand before autograd: DispatchKey::AutogradCPU, or AutogradCUDA.
void register_certified_autograd(torch::Library& library);

}  // namespace isobit::aten
