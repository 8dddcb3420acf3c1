#include "aten/observed_calls.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "aten/graph_check.h"
#include "aten/operator_switch.h"

namespace isobit::aten {

bool calls_are_unobserved() {
  using c10::DispatchKey;
  const c10::DispatchKeySet called = c10::impl::tls_local_dispatch_key_set().included_;
  constexpr c10::DispatchKeySet usual({DispatchKey::BackendSelect, DispatchKey::ADInplaceOrView});
  return OperatorSwitch::on() && usual.has_all(called) && !graph_check::others_watch();
}

}  // namespace isobit::aten
