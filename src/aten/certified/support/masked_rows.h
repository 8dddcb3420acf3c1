// Softmax of rows that are masked throughout (contract, section 4).
#pragma once

#include <limits>

#include "kernels/softmax.h"

namespace isobit::aten {

// After kernels::softmax: rows of -inf alone, NaN from the kernel, become +0; other NaN stay.
inline void clear_masked_rows(const kernels::SoftmaxShape& s, const float* x, float* y) {
  for (std::int64_t o = 0; s.size > 0 && o < s.outer; ++o) {
    for (std::int64_t i = 0; i < s.inner; ++i) {
      const std::int64_t first = o * s.size * s.inner + i;
      if (y[first] == y[first]) continue;  // NaN fills a row or is not in it
      bool masked = true;
      for (std::int64_t r = 0; r < s.size && masked; ++r)
        masked = x[first + r * s.inner] == -std::numeric_limits<float>::infinity();
      for (std::int64_t r = 0; r < s.size && masked; ++r) y[first + r * s.inner] = 0.0f;
    }
  }
}

}  // namespace isobit::aten
