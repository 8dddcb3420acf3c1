// Sums by index of single elements, read in the order in which they lie. On the host; uses the pool. Private to this
// folder. Thread-safe.
#pragma once

#include <cstdint>

namespace isobit::aten {

// destination[r] + the sum of its occurrences source[k], to[k] = r in [0, rows), in ascending order of k: the bits of
// kernels/indexed.h's indexed_add. What does not occur is not touched. Takes the time of n. Each thread keeps a
// buffer until it ends: 8 bytes (binary64: 16) for each of up to 2^19 rows. std::bad_alloc leaves it clean.
void add_elements(std::int64_t n, const std::int64_t* to, std::int64_t rows, const float* source, float* destination);
void add_elements(std::int64_t n, const std::int64_t* to, std::int64_t rows, const double* source, double* destination);
// Whether that is the way: not for a few of millions, whose buffer would be made for them alone.
[[nodiscard]] bool takes_elements(std::int64_t n, std::int64_t rows);

}  // namespace isobit::aten
