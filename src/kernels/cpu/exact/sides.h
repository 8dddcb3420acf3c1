// The two sides of an exact product (contract, section 17): rows of terms, fetched as integers V, a block at a time.
//
// Row r's term k is element row_offset[r] + term_offset[k] of `floats`, which become integers by the row's scale, or of
// `integers`, which are. That serves matrices of any strides and the windows of padded images alike. Offsets of either
// table are affine or strictly ascend. Included once per instruction set, into its namespace; no state.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "contract/exact_products.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA::exact {

inline constexpr std::uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;

// Of a row, or of a slab that rows share. first * second is 2^(24 - exponent): one factor alone would leave binary32.
struct Scale {
  int exponent;
  std::uint32_t keep;   // all bits; none of a row that is not finite, whose integers are then 0
  float first, second;  // the second is 1 or more
  double power;         // 2^(exponent - 16); NaN where it is not finite

  [[nodiscard]] bool finite() const { return keep != 0; }
};

inline Scale scale_of(std::uint32_t largest) {
  if (largest >= kInfinity) return {0, 0, 1.0f, 1.0f, std::numeric_limits<double>::quiet_NaN()};
  const int exponent = contract::exact_exponent(largest), up = 24 - exponent;
  return {exponent, ~std::uint32_t{0}, std::ldexp(1.0f, std::min(up, 120)), std::ldexp(1.0f, std::max(0, up - 120)),
          std::ldexp(1.0, exponent - 16)};
}

inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// contract::exact_integer. The first product can round only where it is subnormal, far below a half.
inline std::int32_t integer_of(float x, std::uint32_t keep, float first, float second) {
  const std::uint32_t bits = bits_of(x) & keep;
  std::memcpy(&x, &bits, sizeof x);
  return static_cast<std::int32_t>(__builtin_rintf(x * first * second));
}

inline void integers_of(const float* x, std::int64_t n, const Scale& scale, std::int32_t* out) {
  const std::uint32_t keep = scale.keep;
  const float first = scale.first, second = scale.second;
  for (std::int64_t i = 0; i < n; ++i) out[i] = integer_of(x[i], keep, first, second);
}

// The largest magnitude's bits; NaN is above all.
inline std::uint32_t largest_of(const float* x, std::int64_t n) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, bits_of(x[i]) & kMagnitude);
  return largest;
}

struct Side {
  std::int64_t rows = 0;
  const float* floats = nullptr;
  const std::int32_t* integers = nullptr;
  const std::int64_t* row_offset = nullptr;   // [rows]
  const std::int64_t* term_offset = nullptr;  // [terms]
  const Scale* scales = nullptr;
  const std::int32_t* slab = nullptr;  // [rows]: whose scale; nullptr: each row has its own

  [[nodiscard]] const Scale& scale(std::int64_t row) const { return scales[slab == nullptr ? row : slab[row]]; }
};

// How many offsets from `at` on, `most` at most, follow each other by 1.
inline std::int64_t run_length(const std::int64_t* at, std::int64_t most) {
  std::int64_t length = 1;
  while (length < most && at[length] == at[0] + length) ++length;
  return length;
}

// out[r * stride + t] for r < rows; nothing beyond is written.
inline void fetch_rows(const Side& side, std::int64_t row, std::int64_t rows, std::int64_t term, std::int64_t terms,
                       std::int32_t* out, std::int64_t stride) {
  for (std::int64_t t = 0; t < terms;) {
    const std::int64_t run = run_length(side.term_offset + term + t, terms - t);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t from = side.row_offset[row + r] + side.term_offset[term + t];
      std::int32_t* to = out + r * stride + t;
      if (side.integers != nullptr) {
        for (std::int64_t i = 0; i < run; ++i) to[i] = side.integers[from + i];
      } else {
        integers_of(side.floats + from, run, side.scale(row + r), to);
      }
    }
    t += run;
  }
}

// Rows that follow each other in memory.
struct Run {
  std::int64_t first, count;
};

// The same with out[t * stride + r]; rows: at most kMost.
template <int kMost>
void fetch_columns(const Side& side, std::int64_t row, std::int64_t rows, std::int64_t term, std::int64_t terms,
                   std::int32_t* out, std::int64_t stride) {
  Run runs[kMost];
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < rows; r += runs[count++].count)
    runs[count] = {r, run_length(side.row_offset + row + r, rows - r)};
  if (count * 4 > rows && run_length(side.term_offset + term, terms) == terms) {  // the terms follow each other
    std::int32_t line[256];
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t t = 0; t < terms; t += 256) {
        const std::int64_t n = std::min<std::int64_t>(256, terms - t);
        fetch_rows(side, row + r, 1, term + t, n, line, n);
        for (std::int64_t i = 0; i < n; ++i) out[(t + i) * stride + r] = line[i];
      }
    }
    return;
  }
  if (count == 1 && rows == kMost && side.integers != nullptr) {  // a line a term, of a length that the compiler knows
    for (std::int64_t t = 0; t < terms; ++t)
      std::memcpy(out + t * stride, side.integers + side.row_offset[row] + side.term_offset[term + t],
                  kMost * sizeof(std::int32_t));
    return;
  }
  std::uint32_t keep[kMost];
  float first[kMost], second[kMost];
  for (std::int64_t r = 0; r < rows && side.integers == nullptr; ++r) {
    const Scale& scale = side.scale(row + r);
    keep[r] = scale.keep, first[r] = scale.first, second[r] = scale.second;
  }
  if (count == 1 && rows == kMost) {
    for (std::int64_t t = 0; t < terms; ++t) {
      const float* x = side.floats + side.row_offset[row] + side.term_offset[term + t];
      for (int r = 0; r < kMost; ++r) out[t * stride + r] = integer_of(x[r], keep[r], first[r], second[r]);
    }
    return;
  }
  for (std::int64_t t = 0; t < terms; ++t) {
    for (std::int64_t i = 0; i < count; ++i) {
      const Run run = runs[i];
      const std::int64_t from = side.row_offset[row + run.first] + side.term_offset[term + t];
      std::int32_t* to = out + t * stride + run.first;
      if (side.integers != nullptr) {
        for (std::int64_t r = 0; r < run.count; ++r) to[r] = side.integers[from + r];
      } else {
        const float* x = side.floats + from;
        for (std::int64_t r = 0; r < run.count; ++r)
          to[r] = integer_of(x[r], keep[run.first + r], first[run.first + r], second[run.first + r]);
      }
    }
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA::exact
