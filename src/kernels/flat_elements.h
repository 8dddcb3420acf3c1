// One IEEE operation per element of arrays that lie in one order (contract, section 1): stock's bits, on the pool's
// threads.
//
// For hosts: what stock computes exactly stays stock's but where several threads share a large array
// (aten/flat_elements.h). y may be one of the inputs. Thread-safe; uses the pool.
#pragma once

#include <cstdint>

#include "kernels/elementwise.h"

namespace isobit::kernels {

// y[i] = a[i] op b[i]
void flat_binary(ExactBinary op, const float* a, const float* b, float* y, std::int64_t n);
// y[i] = a[i] op number, or number op a[i]
void flat_with_number(ExactBinary op, const float* a, float number, bool number_first, float* y, std::int64_t n);

}  // namespace isobit::kernels
