// The elementary functions of the contract (section 2): fixed binary32 formulas, templates over the lane
// type. A double as lane takes the functions of functions_binary64.h.
//
//   contract::exp(x), expm1, log, log1p, tanh, sigmoid, erf, sin, cos, sinpi, cospi, rsqrt
//
// x is a float, or a vector of lanes that brings the operations of scalar_ops.h. Same bits for every lane
// type. A double as lane takes the functions of functions_binary64.h.
#pragma once

#include "contract/functions_erf.h"
#include "contract/functions_exp.h"
#include "contract/functions_log.h"
#include "contract/functions_trigonometric.h"

ISOBIT_CONTRACT_BEGIN

#ifndef __CUDACC__
// On a double, so that templates find them; defined in functions_binary64.h, which every file that instantiates a
// formula on doubles includes.
double magnitude(double x);
double exp(double x);
inline double exp_below(double x) { return exp(x); }  // x <= 89: functions_exp.h
double expm1(double x);
double log(double x);
double log1p(double x);
double tanh(double x);
double sigmoid(double x);
double erf(double x);
double sin(double x);
double cos(double x);
double sinpi(double x);
double cospi(double x);
double power(double x, double p);
#endif

template <class Lane>
ISOBIT_FORMULA Lane rsqrt(Lane x) {
  return Lane(1.0f) / sqrt(x);
}

ISOBIT_CONTRACT_END
