// Sums that the processes of a Python job make together (scale/exact_reduce.h) as C functions;
// python/isobit/_base/_sums.py is written on them. Not where the library has the operators alone.
//
// As in grains.h, a function returns nullptr or a message; here each means that another process has ended, cannot be
// reached, or sends what it should not. One thread per object; all processes of the group make the same calls.
#pragma once

#include <cstdint>

#include "extension/grains.h"

extern "C" {

struct isobit_exchange;
// Of the process group that c10d knows by this name; its tensors lie on the CPU.
const char* isobit_exchange_create(const char* process_group, isobit_exchange** exchange);
void isobit_exchange_free(isobit_exchange* exchange);
// The sums of `count` parameters over all processes, of elements[i] each, rounded once, into `results`, an empty
// float32 tensor of the CPU, which becomes all of them one after the other. tops: their top limbs over all processes.
// grains: by rank, how many a process has. Where that is 1, singles: this one's gradients, contiguous and of the CPU;
// where it is more, sums: of its grains, null for a parameter that none of them reached.
const char* isobit_exchange_sum(isobit_exchange* exchange, std::int64_t count, const std::int64_t* elements,
                                const int* tops, const std::int64_t* grains, const isobit_sum* const* sums,
                                void* const* singles, void* results);
}
