// Operators of one IEEE operation per element: products, quotients, signs, integral values (contract, section 1).
//
// On the CPU stock's kernels are exact and stay (exact_operators.h, ExactRule::rounds); on a device these take their
// place. Integers alone stay with stock, but for quotients, which are of floats.
#include <ATen/core/Tensor.h>
#include <ATen/ops/div.h>
#include <ATen/ops/mul.h>

#include "aten/certified/support/broadcast.h"
#include "aten/certified/support/entry.h"
#include "aten/refusal.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;
using kernels::ElementShape;
using kernels::ExactBinary;
using kernels::ExactUnary;
using kernels::Operand;

// ---- mul, div

constexpr std::string_view name_of(ExactBinary kind) {
  switch (kind) {
#define ISOBIT_CASE(name, formula, aten, ...) \
  case ExactBinary::name: return "aten::" #aten;
    ISOBIT_EXACT_BINARY(ISOBIT_CASE)
#undef ISOBIT_CASE
  }
  return "";
}
template <ExactBinary kind>
Tensor binary(const Tensor& a, const Tensor& b) {
  if (working_device() == nullptr) return kind == ExactBinary::multiply ? at::mul(a, b) : at::div(a, b);  // float64
  return exact_new(name_of(kind), kind, a, b);
}
template <ExactBinary kind>
Tensor& binary_out(const Tensor& a, const Tensor& b, Tensor& out) {
  return exact_out(name_of(kind), kind, a, b, out);
}
template <ExactBinary kind>
Tensor& binary_(Tensor& a, const Tensor& b) {
  return exact_in_place(name_of(kind), kind, a, b);
}

// ---- one tensor

template <ExactUnary kind>
void apply(const ElementShape& shape, const Operand& x, float* y, const void*) {
  kernels::exact_unary(kind, shape, x, y);
}
constexpr std::string_view name_of(ExactUnary kind) {
  switch (kind) {
#define ISOBIT_CASE(name, formula, aten, ...) \
  case ExactUnary::name: return "aten::" #aten;
    ISOBIT_EXACT_UNARY(ISOBIT_CASE)
#undef ISOBIT_CASE
  }
  return "";
}

template <ExactUnary kind>
Tensor unary(const Tensor& x) {
  return exact_new(name_of(kind), x, apply<kind>);
}
template <ExactUnary kind>
Tensor& unary_out(const Tensor& x, Tensor& out) {
  return exact_out(name_of(kind), x, out, apply<kind>);
}
template <ExactUnary kind>
Tensor& unary_(Tensor& x) {
  return exact_out(name_of(kind), x, x, apply<kind>);
}
// For sgn: of a real number it is sign.
Tensor sgn(const Tensor& x) { return unary<ExactUnary::sign>(x); }
Tensor& sgn_out(const Tensor& x, Tensor& out) { return unary_out<ExactUnary::sign>(x, out); }
Tensor& sgn_(Tensor& x) { return unary_<ExactUnary::sign>(x); }

// ---- threshold

struct Threshold {
  float limit, value;
};
void apply_threshold(const ElementShape& shape, const Operand& x, float* y, const void* context) {
  const auto& t = *static_cast<const Threshold*>(context);
  kernels::threshold(shape, x, t.limit, t.value, y);
}
Tensor threshold(const Tensor& x, const Scalar& limit, const Scalar& value) {
  const Threshold t{to_float(limit), to_float(value)};
  return exact_new("aten::threshold", x, apply_threshold, &t);
}
Tensor& threshold_out(const Tensor& x, const Scalar& limit, const Scalar& value, Tensor& out) {
  const Threshold t{to_float(limit), to_float(value)};
  return exact_out("aten::threshold", x, out, apply_threshold, &t);
}
Tensor& threshold_(Tensor& x, const Scalar& limit, const Scalar& value) { return threshold_out(x, limit, value, x); }

// The list's column `overloads`.
template <ExactUnary kind>
void in_place(std::vector<Entry>& entries, std::string_view in_place_name, std::string_view section) {
  entries.push_back(certify_on_device<unary<kind>, kIntegersByStock>(name_of(kind), "", section));
  entries.push_back(certify_on_device<unary_out<kind>, kIntegersByStock>(name_of(kind), "out", section));
  entries.push_back(certify_on_device<unary_<kind>, kIntegersByStock>(in_place_name, "", section));
}
template <ExactUnary kind>
void by_hand(std::vector<Entry>&, std::string_view, std::string_view) {}

}  // namespace

std::vector<Entry> rounding_operators() {
  constexpr std::string_view product = "1: a * b, rounded once", quotient = "1: a / b, rounded once";
  constexpr std::string_view sign = "1: -1, +0 or 1", selection = "1: x <= threshold ? value : x";
  constexpr DeviceRules kWithDoubles{DeviceIntegers::ours, true, false, false, true};
  constexpr auto multiply = ExactBinary::multiply, divide = ExactBinary::divide;
  std::vector<Entry> entries = {
      certify_on_device<binary<multiply>, kElementwiseOrStock>("aten::mul", "Tensor", product),
      certify_on_device<binary_out<multiply>, kElementwiseOrStock>("aten::mul", "out", product),
      certify_on_device<binary_<multiply>, kElementwiseOrStock>("aten::mul_", "Tensor", product),
      certify_on_device<binary<divide>, kWithDoubles>("aten::div", "Tensor", quotient),
      certify_on_device<binary_out<divide>, kElementwise>("aten::div", "out", quotient),
      certify_on_device<binary_<divide>, kElementwise>("aten::div_", "Tensor", quotient),
      certify_on_device<unary_out<ExactUnary::absolute>, kIntegersByStock>("aten::abs", "out", "1: without its sign"),
      certify_on_device<sgn, kIntegersByStock>("aten::sgn", "", sign),
      certify_on_device<sgn_out, kIntegersByStock>("aten::sgn", "out", sign),
      certify_on_device<sgn_, kIntegersByStock>("aten::sgn_", "", sign),
      certify_on_device<threshold, kNoIntegers>("aten::threshold", "", selection),
      certify_on_device<threshold_out, kNoIntegers>("aten::threshold", "out", selection),
      certify_on_device<threshold_, kNoIntegers>("aten::threshold_", "", selection),
  };
#define ISOBIT_OVERLOADS(name, formula, aten, overloads, section) \
  overloads<ExactUnary::name>(entries, "aten::" #aten "_", section);
  ISOBIT_EXACT_UNARY(ISOBIT_OVERLOADS)
#undef ISOBIT_OVERLOADS
  return entries;
}

}  // namespace isobit::aten
