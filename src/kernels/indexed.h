// Additions and reductions by index, running sums: operators whose order is the source's own (contract, section 4).
//
// Thread-safe; uses the pool.
#pragma once

#include <cstdint>

#include "contract/chains.h"

namespace isobit::kernels {

// Which source rows go to which destination row: those of list r are order[begin[r]] .. order[begin[r + 1] - 1],
// ascending. On a device the arrays lie there.
struct Occurrences {
  std::int64_t rows = 0;                // lists
  const std::int64_t* begin = nullptr;  // [rows + 1]
  const std::int64_t* order = nullptr;  // [begin[rows]]
  // The destination's row of each list, all different; nullptr: list r is row r's. Few rows of a large destination.
  const std::int64_t* row = nullptr;   // [rows]
  std::int64_t destination_rows = -1;  // with `row`: how many there are
};

// destination [outer, rows, inner], source [outer, source_rows, inner]: where destination row r occurs,
// destination = destination + s (alpha 1), else fma(alpha, s, destination), s the sum of its occurrences: leaves of
// 512, each a chain of additions from +0, and the pairwise tree. Other rows are not touched.
void indexed_add(const Occurrences& occurrences, std::int64_t outer, std::int64_t source_rows, std::int64_t inner,
                 float alpha, const float* source, float* destination);
void indexed_add(const Occurrences& occurrences, std::int64_t outer, std::int64_t source_rows, std::int64_t inner,
                 double alpha, const double* source, double* destination);

using contract::IndexReduction;
// destination [rows, inner], source [source_rows, inner]: each element of a destination row with those at its place in
// the row's occurrences, by contract/chains.h's reduced_by_index, the destination before them where include_self. Rows
// that do not occur are not touched.
void indexed_reduce(IndexReduction op, const Occurrences& occurrences, std::int64_t inner, bool include_self,
                    const float* source, float* destination);
void indexed_reduce(IndexReduction op, const Occurrences& occurrences, std::int64_t inner, bool include_self,
                    const double* source, double* destination);

enum class Cumulative {
  sum,      // t = +0; y[k] = t = t + x[k]
  product,  // t = 1; y[k] = t = t * x[k]
};
// Along the middle of [outer, size, inner]; y may be x.
void cumulative(Cumulative op, std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y);
void cumulative(Cumulative op, std::int64_t outer, std::int64_t size, std::int64_t inner, const double* x, double* y);

}  // namespace isobit::kernels
