// Element-wise functions of one tensor (contract, sections 1 and 2).
#include <ATen/core/Tensor.h>
#include <ATen/ops/clamp_cpu_dispatch.h>
#include <ATen/ops/pow_cpu_dispatch.h>
#include <ATen/ops/relu_native.h>

#include <cmath>
#include <limits>
#include <optional>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/pointwise.h"
#include "aten/refusal.h"
#include "kernels/pointwise.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;
using kernels::Unary;

// ---- one kernel, three variants

constexpr std::string_view name_of(Unary op) {
  switch (op) {
#define ISOBIT_CASE(name, formula, aten, ...) \
  case Unary::name: return "aten::" #aten;
    ISOBIT_UNARY(ISOBIT_CASE)
#undef ISOBIT_CASE
  }
  return "";
}

template <Unary op>
constexpr auto apply = [](const auto& x, auto* y, std::int64_t n) { kernels::unary(op, x[0], y, n); };

template <Unary op>
Tensor unary(const Tensor& x) {
  return pointwise_new<1>(name_of(op), {x}, apply<op>);
}
template <Unary op>
Tensor& unary_out(const Tensor& x, Tensor& out) {
  return pointwise_out<1>(name_of(op), out, {x}, apply<op>);
}
template <Unary op>
Tensor& unary_in_place(Tensor& x) {
  return pointwise_in_place<1>(name_of(op), x, {x}, apply<op>);
}

// The list's column `overloads`.
template <Unary op>
void in_place(std::vector<Entry>& entries, std::string_view in_place_name, std::string_view section) {
  entries.push_back(certify<unary<op>>(name_of(op), "", section));
  entries.push_back(certify<unary_out<op>>(name_of(op), "out", section));
  entries.push_back(certify<unary_in_place<op>>(in_place_name, "", section));
}
template <Unary op>
void by_hand(std::vector<Entry>&, std::string_view, std::string_view) {}
template <Unary op>
void none(std::vector<Entry>&, std::string_view, std::string_view) {}

// ---- relu: integers too

Tensor relu(const Tensor& x) { return is_integral(x) ? at::native::relu(x) : unary<Unary::relu>(x); }
Tensor& relu_(Tensor& x) { return is_integral(x) ? at::native::relu_(x) : unary_in_place<Unary::relu>(x); }

// ---- gelu

bool by_tanh(std::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh", "aten::gelu: approximate is 'none' or 'tanh', got '",
              approximate, "'");
  return approximate == "tanh";
}
Tensor gelu(const Tensor& x, c10::string_view approximate) {
  return by_tanh(approximate) ? unary<Unary::gelu_tanh>(x) : unary<Unary::gelu>(x);
}
Tensor& gelu_out(const Tensor& x, c10::string_view approximate, Tensor& out) {
  return by_tanh(approximate) ? unary_out<Unary::gelu_tanh>(x, out) : unary_out<Unary::gelu>(x, out);
}
Tensor& gelu_(Tensor& x, c10::string_view approximate) {
  return by_tanh(approximate) ? unary_in_place<Unary::gelu_tanh>(x) : unary_in_place<Unary::gelu>(x);
}

// ---- pow with a scalar exponent

auto power_kernel(double exponent) {
  return [exponent](const auto& x, auto* y, std::int64_t n) {
    if (!kernels::power(x[0], exponent, y, n)) kernels::general_power(x[0], like(y, exponent), y, n);
  };
}
bool exact_power(const Tensor& x, const Scalar& exponent) {
  return is_integral(x) && !exponent.isFloatingPoint() && !exponent.isComplex();
}
Tensor pow(const Tensor& x, const Scalar& exponent) {
  if (exact_power(x, exponent)) return at::cpu::pow(x, exponent);
  return pointwise_new<1>("aten::pow", {x}, power_kernel(exponent.toDouble()));
}
Tensor& pow_out(const Tensor& x, const Scalar& exponent, Tensor& out) {
  if (exact_power(x, exponent)) return at::cpu::pow_out(out, x, exponent);
  return pointwise_out<1>("aten::pow", out, {x}, power_kernel(exponent.toDouble()));
}
Tensor& pow_(Tensor& x, const Scalar& exponent) {
  if (exact_power(x, exponent)) return at::cpu::pow_(x, exponent);
  return pointwise_in_place<1>("aten::pow", x, {x}, power_kernel(exponent.toDouble()));
}

// ---- clamp

using Bound = std::optional<Scalar>;

bool exact_clamp(const Tensor& x, const Bound& low, const Bound& high) {
  return is_integral(x) && !(low && low->isFloatingPoint()) && !(high && high->isFloatingPoint());
}
auto clamp_kernel(const Bound& low, const Bound& high) {
  TORCH_CHECK(low || high, "aten::clamp: at least one of min and max must be given");
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double upper = high ? high->toDouble() : infinity, lower = low ? low->toDouble() : -infinity;
  if (std::isnan(lower) || std::isnan(upper)) refuse("aten::clamp", "takes no NaN as a bound");
  return [lower, upper](const auto& x, auto* y, std::int64_t n) {
    const auto most = like(y, upper), least = like(y, lower);
    kernels::clamp(x[0], least > most ? most : least, most, y, n);  // as torch documents: everything becomes max
  };
}
Tensor clamp(const Tensor& x, const Bound& low, const Bound& high) {
  if (exact_clamp(x, low, high)) return at::cpu::clamp(x, low, high);
  return pointwise_new<1>("aten::clamp", {x}, clamp_kernel(low, high));
}
Tensor& clamp_out(const Tensor& x, const Bound& low, const Bound& high, Tensor& out) {
  if (exact_clamp(x, low, high)) return at::cpu::clamp_out(out, x, low, high);
  return pointwise_out<1>("aten::clamp", out, {x}, clamp_kernel(low, high));
}
Tensor& clamp_(Tensor& x, const Bound& low, const Bound& high) {
  if (exact_clamp(x, low, high)) return at::cpu::clamp_(x, low, high);
  return pointwise_in_place<1>("aten::clamp", x, {x}, clamp_kernel(low, high));
}
Tensor clamp_min(const Tensor& x, const Scalar& low) { return isobit::aten::clamp(x, Bound(low), Bound()); }
Tensor& clamp_min_out(const Tensor& x, const Scalar& low, Tensor& out) {
  return isobit::aten::clamp_out(x, Bound(low), Bound(), out);
}
Tensor& clamp_min_(Tensor& x, const Scalar& low) { return isobit::aten::clamp_(x, Bound(low), Bound()); }
Tensor clamp_max(const Tensor& x, const Scalar& high) { return isobit::aten::clamp(x, Bound(), Bound(high)); }
Tensor& clamp_max_out(const Tensor& x, const Scalar& high, Tensor& out) {
  return isobit::aten::clamp_out(x, Bound(), Bound(high), out);
}
Tensor& clamp_max_(Tensor& x, const Scalar& high) { return isobit::aten::clamp_(x, Bound(), Bound(high)); }

// ---- hardtanh (relu6): a clamp; its gradient is a selection (stock's treats a NaN one way in vectors, another beside)

Tensor hardtanh(const Tensor& x, const Scalar& low, const Scalar& high) {
  return isobit::aten::clamp(x, Bound(low), Bound(high));
}
Tensor& hardtanh_out(const Tensor& x, const Scalar& low, const Scalar& high, Tensor& out) {
  return isobit::aten::clamp_out(x, Bound(low), Bound(high), out);
}
Tensor& hardtanh_(Tensor& x, const Scalar& low, const Scalar& high) {
  return isobit::aten::clamp_(x, Bound(low), Bound(high));
}
Tensor hardtanh_backward(const Tensor& dy, const Tensor& x, const Scalar& low, const Scalar& high) {
  require_computed("aten::hardtanh_backward", {&dy, &x});
  const double lower = low.toDouble(), upper = high.toDouble();
  return pointwise_new<2>("aten::hardtanh_backward", {dy, x}, [&](const auto& in, auto* dx, std::int64_t n) {
    kernels::hardtanh_backward(in[0], in[1], like(dx, lower), like(dx, upper), dx, n);
  });
}

// ---- leaky relu

auto leaky_relu_kernel(const Scalar& slope) {
  return
      [s = slope.toDouble()](const auto& x, auto* y, std::int64_t n) { kernels::leaky_relu(x[0], like(y, s), y, n); };
}
Tensor leaky_relu(const Tensor& x, const Scalar& slope) {
  return pointwise_new<1>("aten::leaky_relu", {x}, leaky_relu_kernel(slope));
}
Tensor& leaky_relu_out(const Tensor& x, const Scalar& slope, Tensor& out) {
  return pointwise_out<1>("aten::leaky_relu", out, {x}, leaky_relu_kernel(slope));
}
Tensor& leaky_relu_(Tensor& x, const Scalar& slope) {
  return pointwise_in_place<1>("aten::leaky_relu_", x, {x}, leaky_relu_kernel(slope));
}

}  // namespace

std::vector<Entry> unary_operators() {
  constexpr std::string_view function = "2: fixed binary32 formula";
  constexpr std::string_view select = "1: x < low ? low : x > high ? high : x";
  constexpr std::string_view power =
      "10: integer and half powers as products and square roots, others exp2(p * log2(x)) in binary64";
  constexpr std::string_view gelu_section = "2, 10: (0.5 * x) * (1 + erf(x * RN(sqrt(1/2)))), or by tanh";
  std::vector<Entry> entries;
#define ISOBIT_OVERLOADS(name, formula, aten, overloads, section) \
  overloads<Unary::name>(entries, "aten::" #aten "_", section);
  ISOBIT_UNARY(ISOBIT_OVERLOADS)
#undef ISOBIT_OVERLOADS
  const std::vector<Entry> others = {
      certify<gelu>("aten::gelu", "", gelu_section),
      certify<gelu_out>("aten::gelu", "out", gelu_section),
      certify<gelu_>("aten::gelu_", "", gelu_section),
      certify<relu, kIntegersByStock>("aten::relu", "", "1: x < 0 ? +0 : x"),
      certify<relu_, kIntegersByStock>("aten::relu_", "", "1: x < 0 ? +0 : x"),
      certify<pow, kNoIntegers>("aten::pow", "Tensor_Scalar", power),
      certify<pow_out, kNoIntegers>("aten::pow", "Tensor_Scalar_out", power),
      certify<pow_, kNoIntegers>("aten::pow_", "Scalar", power),
      certify<clamp, kIntegersByStock>("aten::clamp", "", select),
      certify<clamp_out, kIntegersByStock>("aten::clamp", "out", select),
      certify<clamp_, kIntegersByStock>("aten::clamp_", "", select),
      certify<clamp_min, kIntegersByStock>("aten::clamp_min", "", select),
      certify<clamp_min_out, kIntegersByStock>("aten::clamp_min", "out", select),
      certify<clamp_min_, kIntegersByStock>("aten::clamp_min_", "", select),
      certify<clamp_max, kIntegersByStock>("aten::clamp_max", "", select),
      certify<clamp_max_out, kIntegersByStock>("aten::clamp_max", "out", select),
      certify<clamp_max_, kIntegersByStock>("aten::clamp_max_", "", select),
      certify<hardtanh, kNoIntegers>("aten::hardtanh", "", select),
      certify<hardtanh_out, kNoIntegers>("aten::hardtanh", "out", select),
      certify<hardtanh_, kNoIntegers>("aten::hardtanh_", "", select),
      certify<hardtanh_backward, kNoIntegers>("aten::hardtanh_backward", "", "1: x <= low or x >= high ? +0 : dy"),
      certify<leaky_relu>("aten::leaky_relu", "", "1: x > 0 ? x : x * slope"),
      certify<leaky_relu_out>("aten::leaky_relu", "out", "1: x > 0 ? x : x * slope"),
      certify<leaky_relu_>("aten::leaky_relu_", "", "1: x > 0 ? x : x * slope"),
  };
  entries.insert(entries.end(), others.begin(), others.end());
  return entries;
}

}  // namespace isobit::aten
