// Whether anything would see the operators that a composition calls: what computes several at once asks first.
// Thread-safe.
#pragma once

namespace isobit::aten {

// The switch is on, no mode or transform stands before the calling thread's operators, and nobody observes them.
[[nodiscard]] bool calls_are_unobserved();

}  // namespace isobit::aten
