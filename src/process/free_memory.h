// Memory that new processes may take here. Thread-safe; no state.
#pragma once

#include <cstdint>

namespace isobit::process {

// Bytes: what the system has available, and no more than the control group's limit; 4 GiB where the system does not
// say.
[[nodiscard]] std::uint64_t free_memory();

}  // namespace isobit::process
