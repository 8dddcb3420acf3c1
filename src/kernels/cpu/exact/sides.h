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

// Powers of two within the normal numbers, by their bits: a small product takes as long as the C library's ldexp of its
// rows.
inline float float_power(int exponent) {
  const std::uint32_t bits = static_cast<std::uint32_t>(exponent + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return power;
}
inline double double_power(int exponent) {
  const std::uint64_t bits = static_cast<std::uint64_t>(exponent + 1023) << 52;
  double power;
  std::memcpy(&power, &bits, sizeof power);
  return power;
}

inline Scale scale_of(std::uint32_t largest) {
  if (largest >= kInfinity) return {0, 0, 1.0f, 1.0f, std::numeric_limits<double>::quiet_NaN()};
  const int exponent = contract::exact_exponent(largest), up = 24 - exponent;
  return {exponent, ~std::uint32_t{0}, float_power(std::min(up, 120)), float_power(std::max(0, up - 120)),
          double_power(exponent - 16)};
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
  // Where `scales` are not known yet: the same memory, to be written as rows are packed, of a matrix of these strides.
  Scale* found = nullptr;
  std::int64_t row_stride = 0, term_stride = 0;

  [[nodiscard]] const Scale& scale(std::int64_t row) const { return scales[slab == nullptr ? row : slab[row]]; }
};

// scales[r] of rows [begin, end) of a matrix of any strides, read as it lies where one of them is 1.
inline void find_scales(const float* x, std::int64_t begin, std::int64_t end, std::int64_t row_stride,
                        std::int64_t terms, std::int64_t term_stride, Scale* scales) {
  constexpr std::int64_t kTogether = 512;  // of lines that lie far apart
  std::uint32_t largest[kTogether];
  for (std::int64_t r = begin; r < end; r += kTogether) {
    const std::int64_t n = std::min(kTogether, end - r);
    if (row_stride == 1) {
      std::fill_n(largest, n, 0);
      for (std::int64_t t = 0; t < terms; ++t) {
        const float* line = x + r + t * term_stride;
        for (std::int64_t i = 0; i < n; ++i) largest[i] = std::max(largest[i], bits_of(line[i]) & kMagnitude);
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        const float* line = x + (r + i) * row_stride;
        if (term_stride == 1) {
          largest[i] = largest_of(line, terms);
        } else {
          largest[i] = 0;
          for (std::int64_t t = 0; t < terms; ++t)
            largest[i] = std::max(largest[i], bits_of(line[t * term_stride]) & kMagnitude);
        }
      }
    }
    for (std::int64_t i = 0; i < n; ++i) scales[r + i] = scale_of(largest[i]);
  }
}

// How many offsets from `at` on, `most` at most, follow each other by 1.
inline std::int64_t run_length(const std::int64_t* at, std::int64_t most) {
  std::int64_t length = 1;
  while (length < most && at[length] == at[0] + length) ++length;
  return length;
}

// Of rows that lie side by side: what makes integers of one term of all.
template <int kMost>
struct RowScales {
  std::uint32_t keep[kMost];
  float first[kMost], second[kMost];

  RowScales(const Side& side, std::int64_t row, std::int64_t rows) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const Scale& scale = side.scale(row + r);
      keep[r] = scale.keep, first[r] = scale.first, second[r] = scale.second;
    }
  }
};

// fetch_rows where the rows follow each other and the terms do not, as in a transposed matrix: kLines terms at a time,
// so that what is written of a row lies together.
template <int kMost>
void fetch_transposed(const Side& side, std::int64_t row, std::int64_t rows, std::int64_t term, std::int64_t terms,
                      std::int32_t* out, std::int64_t stride) {
  constexpr int kLines = 8;
  const RowScales<kMost> scales(side, row, rows);
  std::int32_t line[kLines][kMost];
  for (std::int64_t t = 0; t < terms; t += kLines) {
    const std::int64_t lines = std::min<std::int64_t>(kLines, terms - t);
    for (std::int64_t i = 0; i < lines; ++i) {
      const float* x = side.floats + side.row_offset[row] + side.term_offset[term + t + i];
      for (std::int64_t r = 0; r < rows; ++r)
        line[i][r] = integer_of(x[r], scales.keep[r], scales.first[r], scales.second[r]);
    }
    if (lines == kLines) {
      for (std::int64_t r = 0; r < rows; ++r)
        for (int i = 0; i < kLines; ++i) out[r * stride + t + i] = line[i][r];
    } else {
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t i = 0; i < lines; ++i) out[r * stride + t + i] = line[i][r];
    }
  }
}

// out[r * stride + t] for r < rows, at most kMost; nothing beyond is written.
template <int kMost>
void fetch_rows(const Side& side, std::int64_t row, std::int64_t rows, std::int64_t term, std::int64_t terms,
                std::int32_t* out, std::int64_t stride) {
  if (side.integers == nullptr && rows > 1 && run_length(side.term_offset + term, terms) * 4 < terms &&
      run_length(side.row_offset + row, rows) == rows)
    return fetch_transposed<kMost>(side, row, rows, term, terms, out, stride);
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
    constexpr int kTogether = 8, kLine = 256;
    std::int32_t line[kTogether][kLine];
    for (std::int64_t r = 0; r < rows; r += kTogether) {
      const std::int64_t together = std::min<std::int64_t>(kTogether, rows - r);
      for (std::int64_t t = 0; t < terms; t += kLine) {
        const std::int64_t n = std::min<std::int64_t>(kLine, terms - t);
        fetch_rows<kTogether>(side, row + r, together, term + t, n, line[0], kLine);
        std::int32_t* to = out + t * stride + r;
        if (together == kTogether) {
          for (std::int64_t i = 0; i < n; ++i, to += stride)
            for (int l = 0; l < kTogether; ++l) to[l] = line[l][i];
        } else {
          for (std::int64_t i = 0; i < n; ++i, to += stride)
            for (std::int64_t l = 0; l < together; ++l) to[l] = line[l][i];
        }
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
  const RowScales<kMost> scales(side, row, side.integers == nullptr ? rows : 0);
  const auto& keep = scales.keep;
  const auto &first = scales.first, &second = scales.second;
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
