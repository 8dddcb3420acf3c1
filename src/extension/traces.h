// A trace of the program that runs (trace/operator_observer.h) as C functions; python/isobit/_recording/_trace.py is
// written on them. Not where the library has the operators alone.
//
// Each returns nullptr, or a message that stays valid until the thread's next call. One trace at a time, begun, told
// and ended on one thread.
#pragma once

#include <cstdint>

extern "C" {

// Opens the file and watches nothing yet. Arithmetic and environment are those of this moment.
const char* isobit_trace_begin(const char* path, std::int64_t first, std::int64_t count, std::int64_t samples,
                               int statistics, const char* values);
const char* isobit_trace_begin_step(std::int64_t step);
// Throws, as a message, what went wrong in the observer: the trace is then to be dropped.
const char* isobit_trace_end_step();
// From here (1) to there (0) the thread's operators count to the optimizer.
const char* isobit_trace_optimizer(int begins);
// What was written so far.
const char* isobit_trace_size(std::int64_t* operators, std::int64_t* bytes);
// Seals the file and gives it its name.
const char* isobit_trace_finish();
// The end without a file; nothing where there is no trace.
void isobit_trace_drop();
}
