#include "aten/plain_calls.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "aten/check_mode.h"
#include "aten/graph_check.h"
#include "aten/operator_switch.h"

namespace isobit::aten {

using c10::DispatchKey;

bool unobserved() {
  const c10::DispatchKeySet called = c10::impl::tls_local_dispatch_key_set().included_;
  constexpr c10::DispatchKeySet usual({DispatchKey::BackendSelect, DispatchKey::ADInplaceOrView});
  return OperatorSwitch::on() && !check_mode::on() && usual.has_all(called) && !graph_check::others_watch();
}

bool is_plain_float(const at::Tensor& t) {
  constexpr c10::DispatchKeySet plain(
      {DispatchKey::CPU, DispatchKey::AutogradCPU, DispatchKey::AutocastCPU, DispatchKey::ADInplaceOrView});
  return t.defined() && t.layout() == at::kStrided && plain.has_all(t.key_set()) && t.scalar_type() == at::kFloat &&
         !t.is_inference() && !t._fw_grad(0).defined();
}

}  // namespace isobit::aten
