// What a build was made without: scripts/build --machine-isas leaves out the instruction sets that the CPU it runs on
// lacks (cmake/InstructionSets.cmake). Thread-safe; no state.
#pragma once

#include "kernels/isa.h"

namespace isobit::kernels {

// This CPU supports it, and the build was made without, on another one: not available, but scripts/build --all-isas
// would make it so.
[[nodiscard]] bool isa_left_out(Isa isa);

}  // namespace isobit::kernels
