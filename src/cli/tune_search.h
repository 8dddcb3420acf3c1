// isobit tune in two halves: showing the table needs no torch, measuring a new one does (tune_search.cpp).
#pragma once

#include "bench/tune.h"

namespace isobit::cli {

using TuneSearch = int (*)(const bench::TuneOptions&);

// bench::tune; nullptr where the program has no kernels to measure (torch_library.h). Written before main.
TuneSearch& tune_search();

}  // namespace isobit::cli
