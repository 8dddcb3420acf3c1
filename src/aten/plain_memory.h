// Whether a tensor is its memory and nothing beside: what code may ask that reads memory in front of PyTorch's
// fallbacks, where a view may still be one that is negated lazily. Thread-safe; no state.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

namespace isobit::aten {

// Dense, on the CPU or a CUDA device; nothing that a dispatch key stands for (a subclass, a transform, a lazy negation
// or conjugate, a zero without memory), and no derivative forwards. Defined.
[[nodiscard]] inline bool is_plain_memory(const at::Tensor& t) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet on_cpu(
      {DispatchKey::CPU, DispatchKey::AutogradCPU, DispatchKey::AutocastCPU, DispatchKey::ADInplaceOrView});
  constexpr c10::DispatchKeySet on_device(
      {DispatchKey::CUDA, DispatchKey::AutogradCUDA, DispatchKey::AutocastCUDA, DispatchKey::ADInplaceOrView});
  return t.layout() == at::kStrided && (on_cpu.has_all(t.key_set()) || on_device.has_all(t.key_set())) &&
         !t._fw_grad(0).defined();
}

}  // namespace isobit::aten
