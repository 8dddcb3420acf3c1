// The elementary functions of the contract (section 2): fixed binary32 formulas, templates over the lane
// type.
//
//   contract::exp(x), expm1, log, log1p, tanh, sigmoid, erf, sin, cos, sinpi, cospi, rsqrt
//
// x is a float, or a vector of lanes that brings the operations of scalar_ops.h. Same bits for every lane
// type.
#pragma once

#include "contract/functions_erf.h"
#include "contract/functions_exp.h"
#include "contract/functions_log.h"
#include "contract/functions_trigonometric.h"

ISOBIT_CONTRACT_BEGIN

template <class Lane>
ISOBIT_FORMULA Lane rsqrt(Lane x) {
  return Lane(1.0f) / sqrt(x);
}

ISOBIT_CONTRACT_END
