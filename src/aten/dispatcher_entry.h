// The dispatcher's entry of an operator, which its handle keeps private. Private to this folder.
//
// Needed to register kernels from within the dispatcher's own lock, and to see the kernels that calls would meet, and
// who registered them. An explicit instantiation may name a private member: that is the one liberty taken here.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace isobit::aten {

namespace detail {
template <auto member>
struct Reveal {
  friend auto operator_definition() { return member; }
};
auto operator_definition();
template struct Reveal<&c10::OperatorHandle::operatorDef_>;
template <auto member>
struct RevealKernels {
  friend auto kernels_of_entry() { return member; }
};
auto kernels_of_entry();
template struct RevealKernels<&c10::impl::OperatorEntry::kernels_>;
}  // namespace detail

inline c10::impl::OperatorEntry& entry_of(const c10::OperatorHandle& op) {
  auto* definition = op.*detail::operator_definition();
  return definition->op;
}

// By key, as they were registered: of each the newest first.
inline const auto& kernels_of(const c10::OperatorHandle& op) { return entry_of(op).*detail::kernels_of_entry(); }

// Whether torch::Library registered it for the switch: its text names the file that did.
inline bool is_switchs(const c10::impl::AnnotatedKernel& kernel) {
  return kernel.debug.find("operator_switch.cpp") != std::string::npos;
}

// What a call with only this key meets.
inline const c10::KernelFunction& kernel_at(const c10::OperatorHandle& op, c10::DispatchKey key) {
  return entry_of(op).lookup(c10::DispatchKeySet(key));
}

}  // namespace isobit::aten
