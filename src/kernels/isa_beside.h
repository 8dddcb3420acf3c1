// Which implementation is taken beside one that has computed, so that two that have little in common say the same bits:
// what isobit verify and isobit demo choose where nobody names one. Thread-safe; no state.
#pragma once

#include <span>

#include "kernels/isa.h"

namespace isobit::kernels {

// Of `available`, the fastest that is built from other sources, or for another width, than `ran`; never the reference,
// a multiple of their time, while there is another. `ran` itself where nothing else of its speed is available (AVX2
// alone: then another number of threads cuts the work otherwise), the reference where it is all there is.
[[nodiscard]] Isa isa_beside(Isa ran, std::span<const Isa> available);
// Of this machine and build.
[[nodiscard]] Isa isa_beside(Isa ran);

// About how long one step takes by it, of AVX-512's time, in products and their like: for estimates in words.
[[nodiscard]] double relative_time(Isa isa);

}  // namespace isobit::kernels
