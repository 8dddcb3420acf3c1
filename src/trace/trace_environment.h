// The header of a trace that this process makes. Thread-safe as archive/environment.h is.
#pragma once

#include "trace/trace_lines.h"

namespace isobit::trace {

// Arithmetic, torch and environment of this process as they are now; the rest is the caller's.
[[nodiscard]] TraceHeader header_of_this_process();

}  // namespace isobit::trace
