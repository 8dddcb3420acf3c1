// What a collective of torch.distributed does with the values of its tensors. Thread-safe; no state.
#pragma once

#include <ATen/core/ivalue.h>

namespace isobit::aten {

// Whether a reduction leaves the values as they are: the group has one rank, and the operation does not scale.
[[nodiscard]] bool copies_only(const c10::IValue& process_group, const c10::IValue& reduce_op);

}  // namespace isobit::aten
