// Sums with a factor, maxima, interpolation and the gradients of activations (contract, sections 1 and 8).
//
// add and sub with alpha 1 are one IEEE addition: on the CPU stock's own kernel is exact and is called directly.
#include <algorithm>
#include <optional>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/add_cpu_dispatch.h>
#include <ATen/ops/addcmul_cpu_dispatch.h>
#include <ATen/ops/clamp_cpu_dispatch.h>
#include <ATen/ops/maximum_cpu_dispatch.h>
#include <ATen/ops/minimum_cpu_dispatch.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/pow_cpu_dispatch.h>
#include <ATen/ops/sub_cpu_dispatch.h>
#include <ATen/ops/threshold_backward_cpu_dispatch.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "aten/arithmetic_types.h"
#include "aten/flat_elements.h"
#include "aten/certified/support/broadcast.h"
#include "aten/certified/support/entry.h"
#include "aten/certified/support/pointwise.h"
#include "aten/device_work.h"
#include "aten/element_pieces.h"
#include "aten/memory_overlap.h"
#include "aten/refusal.h"
#include "aten/stock_threads.h"
#include "aten/subnormals.h"
#include "kernels/pointwise.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;
using kernels::Binary;
using kernels::ExactBinary;

bool both_integral(const Tensor& a, const Tensor& b) { return is_integral(a) && is_integral(b); }

// ---- add, sub

bool is_one(const Scalar& alpha) { return !alpha.isComplex() && alpha.toDouble() == 1.0; }

// One IEEE operation on a device (integers never come here).
bool plain_on_device(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  if (working_device() == nullptr) return false;
  if (both_integral(a, b)) refuse_type("aten::add", a.scalar_type());
  return is_one(alpha);
}
// One IEEE operation, or arithmetic on integers, by the CPU's stock kernel.
bool plain(std::string_view op, const Tensor& a, const Tensor& b, const Tensor& out, const Scalar& alpha) {
  require_arithmetic(op, {&a, &b, &out});
  // Of an integer and a float of Python's: a 16-bit type, where that is torch's default.
  if (!has_arithmetic(c10::get_default_dtype_as_scalartype()) && !has_arithmetic(at::result_type(a, b)))
    refuse_arithmetic(op);
  if (working_device() != nullptr) return false;
  keep_subnormals();  // stock's kernel runs under the settings that it finds
  return is_one(alpha) || both_integral(a, b);
}
// Of operands of which one is stretched (a row added to all), on isobit's threads; nothing where that does not pay.
std::optional<Tensor> stretched(const char* op, const Tensor& a, const Tensor& b, const Scalar& alpha) {
  if (a.sizes() == b.sizes() || a.dim() == 0 || b.dim() == 0 || kernels::thread_count() < 2) return std::nullopt;
  if (std::max(a.numel(), b.numel()) < kWorthSeveralThreads) return std::nullopt;
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(op, "Tensor");
  torch::jit::Stack stack = {a, b, alpha};
  if (!call_in_pieces(handle, c10::DispatchKeySet(c10::DispatchKey::CPU), &stack)) return std::nullopt;
  return stack[0].toTensor();
}

auto scaled_kernel(double alpha) {
  return [alpha](const auto& x, auto* y, std::int64_t n) { kernels::add_scaled(x[0], x[1], like(y, alpha), y, n); };
}

struct Addition {
  static constexpr const char *kName = "aten::add", *kInPlace = "aten::add_";
  static constexpr ExactBinary kExact = ExactBinary::add;
  static constexpr double kSign = 1;
  static Tensor stock(const Tensor& a, const Tensor& b, const Scalar& alpha) { return at::cpu::add(a, b, alpha); }
  static Tensor& stock_out(Tensor& out, const Tensor& a, const Tensor& b, const Scalar& alpha) {
    return at::cpu::add_out(out, a, b, alpha);
  }
  static Tensor& stock_in_place(Tensor& a, const Tensor& b, const Scalar& alpha) { return at::cpu::add_(a, b, alpha); }
};
struct Subtraction {
  static constexpr const char *kName = "aten::sub", *kInPlace = "aten::sub_";
  static constexpr ExactBinary kExact = ExactBinary::subtract;
  static constexpr double kSign = -1;
  static Tensor stock(const Tensor& a, const Tensor& b, const Scalar& alpha) { return at::cpu::sub(a, b, alpha); }
  static Tensor& stock_out(Tensor& out, const Tensor& a, const Tensor& b, const Scalar& alpha) {
    return at::cpu::sub_out(out, a, b, alpha);
  }
  static Tensor& stock_in_place(Tensor& a, const Tensor& b, const Scalar& alpha) { return at::cpu::sub_(a, b, alpha); }
};

template <class Sum>
Tensor sum_of(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  if (plain(Sum::kName, a, b, a, alpha)) {
    auto made = is_one(alpha) ? flat_new(Sum::kExact, a, b) : std::nullopt;
    if (!made) made = stretched(Sum::kName, a, b, alpha);
    if (made) return *std::move(made);
    const StockOnCaller on_caller(std::max(a.numel(), b.numel()));
    return Sum::stock(a, b, alpha);
  }
  if (plain_on_device(a, b, alpha)) return exact_new(Sum::kName, Sum::kExact, a, b);
  return pointwise_new<2>(Sum::kName, {a, b}, scaled_kernel(Sum::kSign * alpha.toDouble()));
}
template <class Sum>
Tensor& sum_out(const Tensor& a, const Tensor& b, const Scalar& alpha, Tensor& out) {
  if (plain(Sum::kName, a, b, out, alpha)) {
    require_own_places(Sum::kName, out);
    const StockOnCaller on_caller(out.numel());
    return Sum::stock_out(out, apart_from(out, a), apart_from(out, b), alpha);
  }
  if (plain_on_device(a, b, alpha)) return exact_out(Sum::kName, Sum::kExact, a, b, out);
  return pointwise_out<2>(Sum::kName, out, {a, b}, scaled_kernel(Sum::kSign * alpha.toDouble()));
}
template <class Sum>
Tensor& sum_in_place(Tensor& a, const Tensor& b, const Scalar& alpha) {
  constexpr const char* op = Sum::kInPlace;
  if (plain(op, a, b, a, alpha)) {
    if (is_one(alpha) && flat_into(Sum::kExact, a, b, a)) return a;
    require_own_places(op, a);
    if (stretched(op, a, b, alpha)) return a;
    const StockOnCaller on_caller(a.numel());
    return Sum::stock_in_place(a, apart_from(a, b), alpha);
  }
  if (plain_on_device(a, b, alpha)) return exact_in_place(op, Sum::kExact, a, b);
  return pointwise_in_place<2>(op, a, {a, b}, scaled_kernel(Sum::kSign * alpha.toDouble()));
}
Tensor rsub(const Tensor& a, const Tensor& b, const Scalar& alpha) { return sum_of<Subtraction>(b, a, alpha); }

// ---- addcmul, addcdiv, lerp

auto addcmul_kernel(const Scalar& value) {
  return [v = value.toDouble()](const auto& x, auto* y, std::int64_t n) {
    kernels::addcmul(x[0], x[1], x[2], like(y, v), y, n);
  };
}
bool all_integral(const Tensor& a, const Tensor& b, const Tensor& c) {
  if (!both_integral(a, b) || !is_integral(c)) return false;
  if (working_device() != nullptr) refuse_type("aten::addcmul", a.scalar_type());
  return true;
}
Tensor addcmul(const Tensor& a, const Tensor& b, const Tensor& c, const Scalar& value) {
  if (all_integral(a, b, c)) return at::cpu::addcmul(a, b, c, value);
  return pointwise_new<3>("aten::addcmul", {a, b, c}, addcmul_kernel(value));
}
Tensor& addcmul_out(const Tensor& a, const Tensor& b, const Tensor& c, const Scalar& value, Tensor& out) {
  if (all_integral(a, b, c)) return at::cpu::addcmul_out(out, a, b, c, value);
  return pointwise_out<3>("aten::addcmul", out, {a, b, c}, addcmul_kernel(value));
}
Tensor& addcmul_(Tensor& a, const Tensor& b, const Tensor& c, const Scalar& value) {
  if (all_integral(a, b, c)) return at::cpu::addcmul_(a, b, c, value);
  return pointwise_in_place<3>("aten::addcmul_", a, {a, b, c}, addcmul_kernel(value));
}

auto addcdiv_kernel(const Scalar& value) {
  return [v = value.toDouble()](const auto& x, auto* y, std::int64_t n) {
    kernels::addcdiv(x[0], x[1], x[2], like(y, v), y, n);
  };
}
void require_a_float(const char* op, const Tensor& b, const Tensor& c) {
  TORCH_CHECK(!both_integral(b, c), op, ": integer division is not supported");
}
Tensor addcdiv(const Tensor& a, const Tensor& b, const Tensor& c, const Scalar& value) {
  require_a_float("aten::addcdiv", b, c);
  return pointwise_new<3>("aten::addcdiv", {a, b, c}, addcdiv_kernel(value));
}
Tensor& addcdiv_out(const Tensor& a, const Tensor& b, const Tensor& c, const Scalar& value, Tensor& out) {
  require_a_float("aten::addcdiv", b, c);
  return pointwise_out<3>("aten::addcdiv", out, {a, b, c}, addcdiv_kernel(value));
}
Tensor& addcdiv_(Tensor& a, const Tensor& b, const Tensor& c, const Scalar& value) {
  require_a_float("aten::addcdiv_", b, c);
  return pointwise_in_place<3>("aten::addcdiv_", a, {a, b, c}, addcdiv_kernel(value));
}

auto lerp_kernel(const Scalar& weight) {
  return
      [w = weight.toDouble()](const auto& x, auto* y, std::int64_t n) { kernels::lerp(x[0], x[1], like(y, w), y, n); };
}
Tensor lerp(const Tensor& a, const Tensor& b, const Scalar& weight) {
  require_computed("aten::lerp", {&a, &b});
  return pointwise_new<2>("aten::lerp", {a, b}, lerp_kernel(weight));
}
Tensor& lerp_out(const Tensor& a, const Tensor& b, const Scalar& weight, Tensor& out) {
  require_computed("aten::lerp", {&a, &b});
  return pointwise_out<2>("aten::lerp", out, {a, b}, lerp_kernel(weight));
}
Tensor& lerp_(Tensor& a, const Tensor& b, const Scalar& weight) {
  require_computed("aten::lerp_", {&a, &b});
  return pointwise_in_place<2>("aten::lerp_", a, {a, b}, lerp_kernel(weight));
}

// ---- pow with a tensor of exponents: the general formula throughout, for integers among them too

constexpr auto power_kernel = [](const auto& x, auto* y, std::int64_t n) { kernels::general_power(x[0], x[1], y, n); };
Tensor pow(const Tensor& x, const Tensor& exponent) {
  if (both_integral(x, exponent)) return at::cpu::pow(x, exponent);
  return pointwise_new<2>("aten::pow", {x, exponent}, power_kernel);
}
Tensor& pow_out(const Tensor& x, const Tensor& exponent, Tensor& out) {
  if (both_integral(x, exponent)) return at::cpu::pow_out(out, x, exponent);
  return pointwise_out<2>("aten::pow", out, {x, exponent}, power_kernel);
}
Tensor& pow_(Tensor& x, const Tensor& exponent) {
  if (both_integral(x, exponent)) return at::cpu::pow_(x, exponent);
  return pointwise_in_place<2>("aten::pow_", x, {x, exponent}, power_kernel);
}

// ---- functions of two tensors

template <Binary op>
constexpr auto apply = [](const auto& x, auto* y, std::int64_t n) { kernels::binary(op, x[0], x[1], y, n); };

Tensor maximum(const Tensor& a, const Tensor& b) {
  if (both_integral(a, b)) return at::cpu::maximum(a, b);
  return pointwise_new<2>("aten::maximum", {a, b}, apply<Binary::maximum>);
}
Tensor& maximum_out(const Tensor& a, const Tensor& b, Tensor& out) {
  if (both_integral(a, b)) return at::cpu::maximum_out(out, a, b);
  return pointwise_out<2>("aten::maximum", out, {a, b}, apply<Binary::maximum>);
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  if (both_integral(a, b)) return at::cpu::minimum(a, b);
  return pointwise_new<2>("aten::minimum", {a, b}, apply<Binary::minimum>);
}
Tensor& minimum_out(const Tensor& a, const Tensor& b, Tensor& out) {
  if (both_integral(a, b)) return at::cpu::minimum_out(out, a, b);
  return pointwise_out<2>("aten::minimum", out, {a, b}, apply<Binary::minimum>);
}

// ---- clamp with tensors: the larger of x and low, then the smaller of that and high

using Limit = std::optional<Tensor>;

bool given(const Limit& limit) { return limit && limit->defined(); }
bool exact_limits(const Tensor& x, const Limit& low, const Limit& high) {
  return is_integral(x) && !(given(low) && !is_integral(*low)) && !(given(high) && !is_integral(*high));
}
Tensor clamp_tensor(const Tensor& x, const Limit& low, const Limit& high) {
  if (exact_limits(x, low, high)) return at::cpu::clamp(x, low, high);
  TORCH_CHECK(given(low) || given(high), "aten::clamp: at least one of min and max must be given");
  const Tensor raised = given(low) ? isobit::aten::maximum(x, *low) : x;
  return given(high) ? isobit::aten::minimum(raised, *high) : raised;
}
Tensor& clamp_tensor_out(const Tensor& x, const Limit& low, const Limit& high, Tensor& out) {
  if (exact_limits(x, low, high)) return at::cpu::clamp_out(out, x, low, high);
  return float_out("aten::clamp", clamp_tensor(x, low, high), out);
}
Tensor& clamp_tensor_(Tensor& x, const Limit& low, const Limit& high) {
  if (exact_limits(x, low, high)) return at::cpu::clamp_(x, low, high);
  return x.copy_(clamp_tensor(x, low, high));
}
Tensor clamp_min_tensor(const Tensor& x, const Tensor& low) { return clamp_tensor(x, low, {}); }
Tensor& clamp_min_tensor_out(const Tensor& x, const Tensor& low, Tensor& out) {
  return clamp_tensor_out(x, low, {}, out);
}
Tensor& clamp_min_tensor_(Tensor& x, const Tensor& low) { return clamp_tensor_(x, low, {}); }
Tensor clamp_max_tensor(const Tensor& x, const Tensor& high) { return clamp_tensor(x, {}, high); }
Tensor& clamp_max_tensor_out(const Tensor& x, const Tensor& high, Tensor& out) {
  return clamp_tensor_out(x, {}, high, out);
}
Tensor& clamp_max_tensor_(Tensor& x, const Tensor& high) { return clamp_tensor_(x, {}, high); }

// Gradients: (dy, x or y) and out=.
constexpr std::string_view gradient_name(Binary op) {
  switch (op) {
#define ISOBIT_CASE(name, formula, aten, ...) \
  case Binary::name: return "aten::" #aten;
    ISOBIT_BINARY(ISOBIT_CASE)
#undef ISOBIT_CASE
  }
  return "";
}
template <Binary op>
Tensor gradient(const Tensor& dy, const Tensor& x) {
  return pointwise_new<2>(gradient_name(op), {dy, x}, apply<op>);
}
template <Binary op>
Tensor& gradient_out(const Tensor& dy, const Tensor& x, Tensor& out) {
  return pointwise_out<2>(gradient_name(op), out, {dy, x}, apply<op>);
}

bool by_tanh(std::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh",
              "aten::gelu_backward: approximate is 'none' or 'tanh', got '", approximate, "'");
  return approximate == "tanh";
}
Tensor gelu_backward(const Tensor& dy, const Tensor& x, c10::string_view approximate) {
  return by_tanh(approximate) ? gradient<Binary::gelu_tanh_backward>(dy, x) : gradient<Binary::gelu_backward>(dy, x);
}
Tensor& gelu_backward_out(const Tensor& dy, const Tensor& x, c10::string_view approximate, Tensor& out) {
  return by_tanh(approximate) ? gradient_out<Binary::gelu_tanh_backward>(dy, x, out)
                              : gradient_out<Binary::gelu_backward>(dy, x, out);
}

// Above 0 ours; any other threshold is a selection, exact in stock's kernels.
bool selects_at_zero(const Tensor& dy, const Scalar& threshold) {
  if (working_device() != nullptr) require_float("aten::threshold_backward", dy);
  return (is_float(dy) || is_wide(dy)) && threshold.toDouble() == 0.0;
}
Tensor threshold_backward(const Tensor& dy, const Tensor& x, const Scalar& threshold) {
  if (selects_at_zero(dy, threshold)) return gradient<Binary::relu_backward>(dy, x);
  if (working_device() == nullptr) return at::cpu::threshold_backward(dy, x, threshold);
  return at::where(x.le(threshold), at::zeros({}, dy.options()), dy);
}
Tensor& threshold_backward_out(const Tensor& dy, const Tensor& x, const Scalar& threshold, Tensor& out) {
  if (selects_at_zero(dy, threshold)) return gradient_out<Binary::relu_backward>(dy, x, out);
  if (working_device() == nullptr) return at::cpu::threshold_backward_out(out, dy, x, threshold);
  copy_out(out, isobit::aten::threshold_backward(dy, x, threshold));
  return out;
}

auto leaky_relu_gradient(const Scalar& slope) {
  return [s = slope.toDouble()](const auto& x, auto* y, std::int64_t n) {
    kernels::leaky_relu_backward(x[0], x[1], like(y, s), y, n);
  };
}
Tensor leaky_relu_backward(const Tensor& dy, const Tensor& x, const Scalar& slope, bool /*x_is_result*/) {
  return pointwise_new<2>("aten::leaky_relu_backward", {dy, x}, leaky_relu_gradient(slope));
}
Tensor& leaky_relu_backward_out(const Tensor& dy, const Tensor& x, const Scalar& slope, bool /*x_is_result*/,
                                Tensor& out) {
  return pointwise_out<2>("aten::leaky_relu_backward", out, {dy, x}, leaky_relu_gradient(slope));
}

template <Binary op>
void add_gradient(std::vector<Entry>& entries, std::string_view section) {
  entries.push_back(certify<gradient<op>, kElementwise>(gradient_name(op), "", section));
  entries.push_back(certify<gradient_out<op>, kElementwise>(gradient_name(op), "grad_input", section));
}

}  // namespace

std::vector<Entry> arithmetic_operators() {
  constexpr std::string_view sum = "8: a + b for alpha 1, else fma(alpha, b, a)";
  constexpr std::string_view difference = "8: a - b for alpha 1, else fma(-alpha, b, a)";
  constexpr std::string_view by_product = "8: fma(RN(value * b), c, a)";
  constexpr std::string_view by_quotient = "8: fma(value, RN(b / c), a)";
  constexpr std::string_view between = "8: d = b - a; |w| < 0.5 ? fma(w, d, a) : fma(w - 1, d, b)";
  constexpr std::string_view power = "10: exp2(p * log2(x)) in binary64, rounded once";
  constexpr std::string_view extremum = "1: a zero is +0, any NaN makes it NaN";
  std::vector<Entry> entries = {
      certify<sum_of<Addition>, kElementwiseOrStock>("aten::add", "Tensor", sum),
      certify<sum_out<Addition>, kElementwiseOrStock>("aten::add", "out", sum),
      certify<sum_in_place<Addition>, kElementwiseOrStock>("aten::add_", "Tensor", sum),
      certify<sum_of<Subtraction>, kElementwiseOrStock>("aten::sub", "Tensor", difference),
      certify<sum_out<Subtraction>, kElementwiseOrStock>("aten::sub", "out", difference),
      certify<sum_in_place<Subtraction>, kElementwiseOrStock>("aten::sub_", "Tensor", difference),
      certify<rsub, kElementwiseOrStock>("aten::rsub", "Tensor", difference),
      certify<addcmul, kElementwiseNoIntegers>("aten::addcmul", "", by_product),
      certify<addcmul_out, kElementwiseNoIntegers>("aten::addcmul", "out", by_product),
      certify<addcmul_, kElementwiseNoIntegers>("aten::addcmul_", "", by_product),
      certify<addcdiv, kElementwise>("aten::addcdiv", "", by_quotient),
      certify<addcdiv_out, kElementwise>("aten::addcdiv", "out", by_quotient),
      certify<addcdiv_, kElementwise>("aten::addcdiv_", "", by_quotient),
      certify<lerp, kElementwise>("aten::lerp", "Scalar", between),
      certify<lerp_out, kElementwise>("aten::lerp", "Scalar_out", between),
      certify<lerp_, kElementwise>("aten::lerp_", "Scalar", between),
      certify<pow, kElementwiseNoIntegers>("aten::pow", "Tensor_Tensor", power),
      certify<pow_out, kElementwiseNoIntegers>("aten::pow", "Tensor_Tensor_out", power),
      certify<pow_, kElementwiseNoIntegers>("aten::pow_", "Tensor", power),
      certify<maximum, kElementwiseOrStock>("aten::maximum", "", extremum),
      certify<clamp_tensor, kElementwiseOrStock>("aten::clamp", "Tensor", extremum),
      certify<clamp_tensor_out, kElementwiseOrStock>("aten::clamp", "Tensor_out", extremum),
      certify<clamp_tensor_, kElementwiseOrStock>("aten::clamp_", "Tensor", extremum),
      certify<clamp_min_tensor, kElementwiseOrStock>("aten::clamp_min", "Tensor", extremum),
      certify<clamp_min_tensor_out, kElementwiseOrStock>("aten::clamp_min", "Tensor_out", extremum),
      certify<clamp_min_tensor_, kElementwiseOrStock>("aten::clamp_min_", "Tensor", extremum),
      certify<clamp_max_tensor, kElementwiseOrStock>("aten::clamp_max", "Tensor", extremum),
      certify<clamp_max_tensor_out, kElementwiseOrStock>("aten::clamp_max", "Tensor_out", extremum),
      certify<clamp_max_tensor_, kElementwiseOrStock>("aten::clamp_max_", "Tensor", extremum),
      certify<maximum_out, kElementwiseOrStock>("aten::maximum", "out", extremum),
      certify<minimum, kElementwiseOrStock>("aten::minimum", "", extremum),
      certify<minimum_out, kElementwiseOrStock>("aten::minimum", "out", extremum),
      certify<gelu_backward, kElementwise>("aten::gelu_backward", "", "2: docs/contract.md"),
      certify<gelu_backward_out, kElementwise>("aten::gelu_backward", "grad_input", "2: docs/contract.md"),
      certify<threshold_backward, kElementwiseNoIntegers>("aten::threshold_backward", "",
                                                          "1: x <= threshold ? +0 : dy"),
      certify<threshold_backward_out, kElementwiseNoIntegers>("aten::threshold_backward", "grad_input",
                                                              "1: x <= threshold ? +0 : dy"),
      certify<leaky_relu_backward, kElementwise>("aten::leaky_relu_backward", "", "1: x > 0 ? dy : dy * slope"),
      certify<leaky_relu_backward_out, kElementwise>("aten::leaky_relu_backward", "grad_input",
                                                     "1: x > 0 ? dy : dy * slope"),
  };
  add_gradient<Binary::sigmoid_backward>(entries, "2: dy * (y * (1 - y))");
  add_gradient<Binary::tanh_backward>(entries, "2: dy * (1 - y * y)");
  add_gradient<Binary::silu_backward>(entries, "2: s = sigmoid(x); dy * (s * fma(x, 1 - s, 1))");
  return entries;
}

}  // namespace isobit::aten
