// The operators of elementwise.h of one or two numbers: a line each makes enum, implementations, certified operators,
// tests and golden values.
//
// Columns: the name; the formula of x, or of a and b (kernels/formulas/elementwise_kernels.h); PyTorch's operator,
// without aten::; and of one argument
//   overloads   in_place: a new result, out and in place; by_hand: written in aten/certified/rounding.cpp
//   section     the contract's, in words
// sign is +0 for zeros of both signs and for NaN (sgn of a real number is the same).
#pragma once

// clang-format off
#define ISOBIT_EXACT_UNARY(f) \
  f(negate,   -x,                                          neg,    in_place,  "1: the other sign") \
  f(absolute, ::fabsf(x),                                  abs,    by_hand,   "1: without its sign") \
  f(floor,    ::floorf(x),                                 floor,  in_place,  "1: the next integer below") \
  f(ceil,     ::ceilf(x),                                  ceil,   in_place,  "1: the next integer above") \
  f(trunc,    ::truncf(x),                                 trunc,  in_place,  "1: the next integer towards zero") \
  f(sign,     x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f,   sign,   in_place,  "1: -1, +0 or 1") \
  f(round,    ::rintf(x),                                  round,  in_place,  "1: the nearest integer, ties to even") \
  f(frac,     x - ::truncf(x),                             frac,   in_place,  "1: x - trunc(x)")

#define ISOBIT_EXACT_BINARY(f) \
  f(add,      a + b,  add) \
  f(subtract, a - b,  sub) \
  f(multiply, a * b,  mul) \
  f(divide,   a / b,  div)
// clang-format on
