// Functions by binary64 formulas, remainders and quotients, selections (contract, section 10;
// kernels/wide_functions.h).
//
// Integers alone go to stock's kernels, which are exact on them, where the result is one.
#include "kernels/wide_functions.h"

#include <ATen/ops/div.h>
#include <ATen/ops/div_cpu_dispatch.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/floor_divide_native.h>
#include <ATen/ops/fmax.h>
#include <ATen/ops/fmax_cpu_dispatch.h>
#include <ATen/ops/fmin.h>
#include <ATen/ops/fmin_cpu_dispatch.h>
#include <ATen/ops/fmod.h>
#include <ATen/ops/fmod_cpu_dispatch.h>
#include <ATen/ops/heaviside.h>
#include <ATen/ops/heaviside_cpu_dispatch.h>
#include <ATen/ops/nan_to_num_cpu_dispatch.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/remainder_cpu_dispatch.h>
#include <ATen/ops/scalar_tensor.h>

#include <cmath>
#include <limits>
#include <optional>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/pointwise.h"
#include "aten/device_work.h"
#include "aten/subnormals.h"
#include "contract/host_inverse.h"
#include "kernels/float_environment.h"
#include "kernels/pointwise.h"
#include "kernels/threads.h"
#include "aten/memory_overlap.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;
using kernels::WideBinary;
using kernels::WideUnary;

// ---- one argument

constexpr std::string_view name_of(WideUnary op) {
  switch (op) {
#define ISOBIT_CASE(name, formula, build, aten, ...) \
  case WideUnary::name: return "aten::" #aten;
    ISOBIT_WIDE_UNARY(ISOBIT_CASE)
#undef ISOBIT_CASE
  }
  return "";
}
constexpr std::string_view name_of(WideBinary op) {
  switch (op) {
#define ISOBIT_CASE(name, formula, build, aten, ...) \
  case WideBinary::name: return "aten::" #aten;
    ISOBIT_WIDE_BINARY(ISOBIT_CASE)
#undef ISOBIT_CASE
  }
  return "";
}

// On float64: the correctly rounded function (contract, section 8), where there is one. (Sanitizers make a comparison
// of a function's address with null no constant expression.)
template <class Function>
struct Rounded {
  bool known = false;
  Function* function = nullptr;
};
constexpr Rounded<double(double)> rounded_function(WideUnary op) {
  if (op == WideUnary::log2) return {true, contract::log2_rounded};
  if (op == WideUnary::log10) return {true, contract::log10_rounded};
  if (op == WideUnary::exp2) return {true, contract::exp2_rounded};
  if (op == WideUnary::sinh) return {true, contract::sinh_rounded};
  if (op == WideUnary::cosh) return {true, contract::cosh_rounded};
  if (op == WideUnary::tan) return {true, contract::tan_rounded};
  if (op == WideUnary::asin) return {true, contract::asin_rounded};
  if (op == WideUnary::acos) return {true, contract::acos_rounded};
  if (op == WideUnary::atan) return {true, contract::atan_rounded};
  return {};
}
template <WideUnary op>
struct WideKernel {
  void operator()(const std::array<const float*, 1>& x, float* y, std::int64_t n) const {
    kernels::wide_unary(op, x[0], y, n);
  }
  void operator()(const std::array<const double*, 1>& x, double* y, std::int64_t n) const
    requires(rounded_function(op).known)
  {
    kernels::parallel_for(0, n, 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = rounded_function(op).function(x[0][i]);
    });
  }
};

template <WideUnary op>
struct One {
  static constexpr WideKernel<op> kKernel{};
  static Tensor fresh(const Tensor& x) { return pointwise_new<1>(name_of(op), {x}, kKernel); }
  static Tensor& out(const Tensor& x, Tensor& y) { return pointwise_out<1>(name_of(op), y, {x}, kKernel); }
  static Tensor& in_place(Tensor& x) { return pointwise_in_place<1>(name_of(op), x, {x}, kKernel); }
};

// ---- two arguments

// On a device integers go to stock's kernels.
constexpr DeviceRules kSelection{DeviceIntegers::stock, true, true};
constexpr DeviceRules kDivision{
    .integers = DeviceIntegers::stock, .host_scalars = true, .out_decides = true, .divides = true};

// On a device: through the dispatcher to stock's kernels, which are exact too.
Tensor of_device_integers(WideBinary op, const Tensor& a, const Tensor& b) {
  switch (op) {
    case WideBinary::fmod: return at::fmod(a, b);
    case WideBinary::remainder: return at::remainder(a, b);
    case WideBinary::floor_divide: return at::floor_divide(a, b);
    case WideBinary::trunc_divide: return at::floor_divide(a.sub(at::fmod(a, b)), b);
    case WideBinary::fmaximum: return at::fmax(a, b);
    case WideBinary::fminimum: return at::fmin(a, b);
    case WideBinary::heaviside: return at::heaviside(a, b);
    default: return {};
  }
}
// By stock, exactly; undefined where the operator makes floats of integers.
Tensor of_integers(WideBinary op, const Tensor& a, const Tensor& b) {
  if (working_device() != nullptr) return of_device_integers(op, a, b);
  switch (op) {
    case WideBinary::fmod: return at::cpu::fmod(a, b);
    case WideBinary::remainder: return at::cpu::remainder(a, b);
    case WideBinary::floor_divide: return at::native::floor_divide(a, b);
    case WideBinary::trunc_divide: return at::cpu::div(a, b, "trunc");
    case WideBinary::fmaximum: return at::cpu::fmax(a, b);
    case WideBinary::fminimum: return at::cpu::fmin(a, b);
    case WideBinary::heaviside: return at::cpu::heaviside(a, b);
    default: return {};
  }
}

double exact_fmod(double a, double b) { return std::fmod(a, b); }  // exact in every library
double exact_remainder(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}
// The rules of kernels/formulas/wide_formulas.h.
double floor_quotient(double a, double b) {
  const double rest = std::fmod(a, b), above = (a - rest) / b;
  const double quotient = rest != 0.0 && (b < 0.0) != (rest < 0.0) ? above - 1.0 : above, floor = std::floor(quotient);
  const double whole = quotient - floor > 0.5 ? floor + 1.0 : floor;
  return b == 0.0 ? a / b : quotient == 0.0 ? std::copysign(0.0, a / b) : whole;
}
double trunc_quotient(double a, double b) { return std::trunc(a / b); }
double with_sign(double a, double b) { return std::copysign(a, b != b ? 1.0 : b); }
double larger_number(double a, double b) {
  return a != a ? b : b != b ? a : a < b ? b : a == 0.0 && b == 0.0 ? 0.0 : a;
}
double smaller_number(double a, double b) {
  return a != a ? b : b != b ? a : b < a ? b : a == 0.0 && b == 0.0 ? 0.0 : a;
}
double unit_step(double a, double b) {
  return a != a ? std::numeric_limits<double>::quiet_NaN() : a < 0.0 ? 0.0 : a > 0.0 ? 1.0 : b;
}
double next_number(double a, double b) { return std::nextafter(a, b); }
constexpr Rounded<double(double, double)> rounded_function(WideBinary op) {
  if (op == WideBinary::atan2) return {true, contract::atan2_rounded};
  if (op == WideBinary::fmod) return {true, exact_fmod};
  if (op == WideBinary::remainder) return {true, exact_remainder};
  if (op == WideBinary::floor_divide) return {true, floor_quotient};
  if (op == WideBinary::trunc_divide) return {true, trunc_quotient};
  if (op == WideBinary::copysign) return {true, with_sign};
  if (op == WideBinary::fmaximum) return {true, larger_number};
  if (op == WideBinary::fminimum) return {true, smaller_number};
  if (op == WideBinary::heaviside) return {true, unit_step};
  if (op == WideBinary::nextafter) return {true, next_number};
  return {};
}
template <WideBinary op>
struct WideKernelOfTwo {
  void operator()(const std::array<const float*, 2>& x, float* y, std::int64_t n) const {
    kernels::wide_binary(op, x[0], x[1], y, n);
  }
  void operator()(const std::array<const double*, 2>& x, double* y, std::int64_t n) const
    requires(rounded_function(op).known)
  {
    kernels::parallel_for(0, n, 1024, [&](std::int64_t begin, std::int64_t end) {
      const kernels::FloatEnvironment environment;
      for (std::int64_t i = begin; i < end; ++i) y[i] = rounded_function(op).function(x[0][i], x[1][i]);
    });
  }
};

template <WideBinary op>
struct Two {
  static constexpr WideKernelOfTwo<op> kKernel{};
  static Tensor integers(const Tensor& a, const Tensor& b) {
    return is_integral(a) && is_integral(b) ? of_integers(op, a, b) : Tensor();
  }
  static Tensor fresh(const Tensor& a, const Tensor& b) {
    const Tensor exact = integers(a, b);
    return exact.defined() ? exact : pointwise_new<2>(name_of(op), {a, b}, kKernel);
  }
  static Tensor& out(const Tensor& a, const Tensor& b, Tensor& y) {
    if (const Tensor exact = integers(a, b); exact.defined()) {
      copy_out(y, exact);
      return y;
    }
    return pointwise_out<2>(name_of(op), y, {a, b}, kKernel);
  }
  static Tensor& in_place(Tensor& a, const Tensor& b) {
    if (const Tensor exact = integers(a, b); exact.defined()) return a.copy_(exact);
    return pointwise_in_place<2>(name_of(op), a, {a, b}, kKernel);
  }
};

template <WideBinary op, DeviceRules rules>
void add_two(std::vector<Entry>& all, std::string_view overload, std::string_view out_overload,
             std::string_view in_place, std::string_view section) {
  all.push_back(certify<Two<op>::fresh, rules>(name_of(op), overload, section));
  all.push_back(certify<Two<op>::out, rules>(name_of(op), out_overload, section));
  if (!in_place.empty()) all.push_back(certify<Two<op>::in_place, rules>(in_place, overload, section));
}

// ---- the list's column `overloads`

template <WideUnary op>
void no_in_place(std::vector<Entry>& all, std::string_view, std::string_view section) {
  all.push_back(certify<One<op>::fresh>(name_of(op), "", section));
  all.push_back(certify<One<op>::out>(name_of(op), "out", section));
}
template <WideUnary op>
void in_place(std::vector<Entry>& all, std::string_view in_place_name, std::string_view section) {
  no_in_place<op>(all, in_place_name, section);
  all.push_back(certify<One<op>::in_place>(in_place_name, "", section));
}
template <WideBinary op>
void no_in_place(std::vector<Entry>& all, std::string_view, std::string_view section) {
  add_two<op, kElementwise>(all, "", "out", "", section);
}
template <WideBinary op>
void in_place(std::vector<Entry>& all, std::string_view in_place_name, std::string_view section) {
  add_two<op, kElementwise>(all, "", "out", in_place_name, section);
}
template <auto op>
void by_hand(std::vector<Entry>&, std::string_view, std::string_view) {}

// ---- quotients with a rounding mode

using Mode = std::optional<c10::string_view>;
bool floors(const Mode& mode) {
  TORCH_CHECK(*mode == "floor" || *mode == "trunc", "aten::div: rounding_mode is None, 'floor' or 'trunc', got '",
              *mode, "'");
  return *mode == "floor";
}
Tensor divide(const Tensor& a, const Tensor& b, Mode mode) {
  if (!mode) return at::div(a, b);
  return floors(mode) ? Two<WideBinary::floor_divide>::fresh(a, b) : Two<WideBinary::trunc_divide>::fresh(a, b);
}
Tensor& divide_out(const Tensor& a, const Tensor& b, Mode mode, Tensor& out) {
  if (!mode) return at::div_out(out, a, b);
  return floors(mode) ? Two<WideBinary::floor_divide>::out(a, b, out) : Two<WideBinary::trunc_divide>::out(a, b, out);
}
Tensor& divide_(Tensor& a, const Tensor& b, Mode mode) {
  if (!mode) return a.div_(b);
  return floors(mode) ? Two<WideBinary::floor_divide>::in_place(a, b) : Two<WideBinary::trunc_divide>::in_place(a, b);
}

// ---- a scalar first

Tensor number(const Scalar& value, const Tensor& beside) {
  const bool whole = is_integral(beside) && value.isIntegral(/*includeBool=*/true);
  Tensor t = at::scalar_tensor(value, whole ? at::kLong : at::kFloat);
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}
Tensor remainder_of_number(const Scalar& a, const Tensor& b) {
  return Two<WideBinary::remainder>::fresh(number(a, b), b);
}
// Before autograd: PyTorch's own gradient takes the logarithm of the number from the machine's library.
Tensor power_of_number(const Scalar& base, const Tensor& exponent) { return at::pow(number(base, exponent), exponent); }
Tensor& power_of_number_out(const Scalar& base, const Tensor& exponent, Tensor& out) {
  return at::pow_out(out, number(base, exponent), exponent);
}

// ---- polygamma: the order is a number

Tensor order_of(std::int64_t n) {
  TORCH_CHECK(n >= 0, "aten::polygamma: n must not be negative, got ", n);
  Tensor order = at::scalar_tensor(n, at::kFloat);
  order.unsafeGetTensorImpl()->set_wrapped_number(true);
  return order;
}
Tensor polygamma_of(std::int64_t n, const Tensor& x) {
  const Tensor order = order_of(n);
  if (n == 0) return One<WideUnary::digamma>::fresh(x);
  return n == 1 ? One<WideUnary::trigamma>::fresh(x) : Two<WideBinary::polygamma>::fresh(order, x);
}
Tensor& polygamma_out(std::int64_t n, const Tensor& x, Tensor& out) {
  return float_out("aten::polygamma", polygamma_of(n, x), out);
}
Tensor& polygamma_(Tensor& x, std::int64_t n) { return x.copy_(polygamma_of(n, x)); }

// ---- logit between bounds

using Bound = std::optional<double>;
// Below and above are the bounds in binary32.
struct Bounds {
  float low, high;
  explicit Bounds(double eps) : low(static_cast<float>(eps)), high(1.0f - low) {}
};
Tensor bounded_logit(const Tensor& x, Bound eps) {
  if (!eps) return One<WideUnary::logit>::fresh(x);
  const Bounds bounds(*eps);
  const Tensor inside = is_integral(x) ? x.to(at::kFloat) : x;
  return One<WideUnary::logit>::fresh(
      inside.masked_fill(inside.gt(bounds.high), bounds.high).masked_fill_(inside.lt(bounds.low), bounds.low));
}
Tensor& logit_out(const Tensor& x, Bound eps, Tensor& out) {
  return float_out("aten::logit", bounded_logit(x, eps), out);
}
Tensor& logit_(Tensor& x, Bound eps) { return x.copy_(bounded_logit(x, eps)); }
Tensor logit_gradient(const Tensor& dy, const Tensor& x, Bound eps) {
  const Tensor dx = pointwise_new<2>("aten::logit_backward", {dy, x}, Two<WideBinary::logit_backward>::kKernel);
  if (!eps) return dx;
  const Bounds bounds(*eps);
  return dx.masked_fill(x.lt(bounds.low).logical_or_(x.gt(bounds.high)), 0);
}
Tensor& logit_backward_out(const Tensor& dy, const Tensor& x, Bound eps, Tensor& dx) {
  return float_out("aten::logit_backward", logit_gradient(dy, x, eps), dx);
}

// ---- nan_to_num: a selection

Tensor& nan_to_num_out(const Tensor& x, Bound nan, Bound high, Bound low, Tensor& out) {
  // Stock's kernel of the CPU selects, too, in one pass; it refuses memory that is shared in part.
  const bool floats = x.scalar_type() == at::kFloat && out.scalar_type() == at::kFloat && working_device() == nullptr &&
                      (!may_meet(out, x) || out.is_same(x));
  if (floats || (is_integral(x) && is_integral(out))) return at::cpu::nan_to_num_out(out, x, nan, high, low);
  const bool wide = require_computed("aten::nan_to_num", x.scalar_type()) == at::kDouble;
  const double largest = wide ? std::numeric_limits<double>::max() : double{std::numeric_limits<float>::max()};
  const auto or_else = [wide](const Bound& given, double value) {
    if (!given) return value;
    return wide ? *given : static_cast<double>(static_cast<float>(*given));
  };
  const double of_nan = or_else(nan, 0.0), above = or_else(high, largest), below = or_else(low, -largest);
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  return float_out(
      "aten::nan_to_num",
      x.masked_fill(x.isnan(), of_nan).masked_fill_(x.eq(kInfinite), above).masked_fill_(x.eq(-kInfinite), below), out);
}

}  // namespace

std::vector<Entry> wide_function_operators() {
  constexpr std::string_view written = "10: written in binary64, rounded once";
  constexpr std::string_view exact = "10: exact, or rounded once";
  constexpr std::string_view quotient = "10: the floor of (a - fmod(a, b)) / b";
  constexpr std::string_view selection = "10: a selection";
  std::vector<Entry> all;
#define ISOBIT_OVERLOADS(name, formula, build, aten, overloads, section) \
  overloads<WideUnary::name>(all, "aten::" #aten "_", section);
  ISOBIT_WIDE_UNARY(ISOBIT_OVERLOADS)
#undef ISOBIT_OVERLOADS
#define ISOBIT_OVERLOADS(name, formula, build, aten, overloads, section) \
  overloads<WideBinary::name>(all, "aten::" #aten "_", section);
  ISOBIT_WIDE_BINARY(ISOBIT_OVERLOADS)
#undef ISOBIT_OVERLOADS
  add_two<WideBinary::fmod, kDivision>(all, "Tensor", "Tensor_out", "aten::fmod_", exact);
  add_two<WideBinary::remainder, kDivision>(all, "Tensor", "Tensor_out", "aten::remainder_", exact);
  add_two<WideBinary::copysign, kElementwise>(all, "Tensor", "out", "aten::copysign_", selection);
  add_two<WideBinary::fmaximum, kSelection>(all, "", "out", "", selection);
  add_two<WideBinary::fminimum, kSelection>(all, "", "out", "", selection);
  add_two<WideBinary::heaviside, kSelection>(all, "", "out", "aten::heaviside_", selection);
  const std::vector<Entry> others = {
      certify<Two<WideBinary::floor_divide>::fresh, kDivision>("aten::floor_divide", "", quotient),
      certify<Two<WideBinary::floor_divide>::out, kDivision>("aten::floor_divide", "out", quotient),
      certify<Two<WideBinary::floor_divide>::in_place, kDivision>("aten::floor_divide_", "Tensor", quotient),
      certify<divide, kElementwise>("aten::div", "Tensor_mode", quotient),
      certify<divide_out, kElementwise>("aten::div", "out_mode", quotient),
      certify<divide_, kElementwise>("aten::div_", "Tensor_mode", quotient),
      certify<remainder_of_number, kDivision>("aten::remainder", "Scalar_Tensor", exact),
      certify_layer<power_of_number, kElementwiseNoIntegers>("aten::pow", "Scalar",
                                                             "10: the power of a tensor of exponents"),
      certify<power_of_number_out, kElementwiseNoIntegers>("aten::pow", "Scalar_out",
                                                           "10: the power of a tensor of exponents"),
      certify<polygamma_of>("aten::polygamma", "", written),
      certify<polygamma_out>("aten::polygamma", "out", written),
      certify<polygamma_>("aten::polygamma_", "", written),
      certify<Two<WideBinary::gamma_slope>::fresh, kElementwise>("aten::_standard_gamma_grad", "",
                                                                 "10: -(dP/da) / (dP/dx), in binary64, rounded once"),
      certify<bounded_logit>("aten::logit", "", written),
      certify<logit_out>("aten::logit", "out", written),
      certify<logit_>("aten::logit_", "", written),
      certify<logit_gradient>("aten::logit_backward", "", "10: dy / (x * (1 - x))"),
      certify<logit_backward_out>("aten::logit_backward", "grad_input", "10: dy / (x * (1 - x))"),
      certify<nan_to_num_out, kIntegersByStockAndOut>("aten::nan_to_num", "out", selection),
  };
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace isobit::aten
