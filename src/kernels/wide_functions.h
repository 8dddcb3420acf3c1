// Element-wise functions that need not be fast: by binary64 formulas rounded once (contract/functions_wide.h), or exact
// (remainders, quotients, selections; contract, section 10). The functions themselves: wide_functions_list.h.
//
// y may be one of the inputs. Thread-safe; uses the pool.
#pragma once

#include <cstdint>

#include "kernels/operators.h"
#include "kernels/wide_functions_list.h"

namespace isobit::kernels {

ISOBIT_OPERATORS(WideUnary, ISOBIT_WIDE_UNARY)
void wide_unary(WideUnary op, const float* x, float* y, std::int64_t n);

ISOBIT_OPERATORS(WideBinary, ISOBIT_WIDE_BINARY)
void wide_binary(WideBinary op, const float* a, const float* b, float* y, std::int64_t n);

}  // namespace isobit::kernels
