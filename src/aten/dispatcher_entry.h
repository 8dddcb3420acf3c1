// The dispatcher's entry of an operator, which its handle keeps private. Private to this folder.
//
// Needed to register kernels from within the dispatcher's own lock, and to see the kernels that calls would meet.
// An explicit instantiation may name a private member: that is the one liberty taken here.
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
}  // namespace detail

inline c10::impl::OperatorEntry& entry_of(const c10::OperatorHandle& op) {
  auto* definition = op.*detail::operator_definition();
  return definition->op;
}

// What a call with only this key meets.
inline const c10::KernelFunction& kernel_at(const c10::OperatorHandle& op, c10::DispatchKey key) {
  return entry_of(op).lookup(c10::DispatchKeySet(key));
}

}  // namespace isobit::aten
