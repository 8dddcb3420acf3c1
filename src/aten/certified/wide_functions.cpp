// Functions by binary64 formulas, remainders and quotients, selections (contract, section 10; kernels/wide_functions.h).
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

#include <limits>
#include <optional>

#include "aten/certified/entry.h"
#include "aten/certified/pointwise.h"
#include "aten/device_work.h"
#include "aten/subnormals.h"
#include "kernels/pointwise.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;
using kernels::WideBinary;
using kernels::WideUnary;

// ---- one argument

// clang-format off
constexpr std::string_view name_of(WideUnary op) {
  switch (op) {
    case WideUnary::log2: return "aten::log2";
    case WideUnary::log10: return "aten::log10";
    case WideUnary::exp2: return "aten::exp2";
    case WideUnary::sinh: return "aten::sinh";
    case WideUnary::cosh: return "aten::cosh";
    case WideUnary::tan: return "aten::tan";
    case WideUnary::asin: return "aten::asin";
    case WideUnary::acos: return "aten::acos";
    case WideUnary::atan: return "aten::atan";
    case WideUnary::asinh: return "aten::asinh";
    case WideUnary::acosh: return "aten::acosh";
    case WideUnary::atanh: return "aten::atanh";
    case WideUnary::erfc: return "aten::erfc";
    case WideUnary::logit: return "aten::logit";
    case WideUnary::sinc: return "aten::sinc";
    case WideUnary::entropy: return "aten::special_entr";
  }
  return "aten::?";
}
constexpr std::string_view name_of(WideBinary op) {
  switch (op) {
    case WideBinary::atan2: return "aten::atan2";
    case WideBinary::hypot: return "aten::hypot";
    case WideBinary::logaddexp: return "aten::logaddexp";
    case WideBinary::logaddexp2: return "aten::logaddexp2";
    case WideBinary::fmod: return "aten::fmod";
    case WideBinary::remainder: return "aten::remainder";
    case WideBinary::floor_divide: return "aten::floor_divide";
    case WideBinary::trunc_divide: return "aten::div";
    case WideBinary::copysign: return "aten::copysign";
    case WideBinary::fmaximum: return "aten::fmax";
    case WideBinary::fminimum: return "aten::fmin";
    case WideBinary::heaviside: return "aten::heaviside";
    case WideBinary::xlog1py: return "aten::special_xlog1py";
    case WideBinary::nextafter: return "aten::nextafter";
    case WideBinary::logit_backward: return "aten::logit_backward";
  }
  return "aten::?";
}
// clang-format on

template <WideUnary op>
struct One {
  static constexpr auto kKernel = [](std::array<const float*, 1> x, float* y, std::int64_t n) { kernels::wide_unary(op, x[0], y, n); };
  static Tensor fresh(const Tensor& x) { return pointwise_new<1>(name_of(op), {x}, kKernel); }
  static Tensor& out(const Tensor& x, Tensor& y) { return pointwise_out<1>(name_of(op), y, {x}, kKernel); }
  static Tensor& in_place(Tensor& x) { return pointwise_in_place<1>(name_of(op), x, {x}, kKernel); }
};

template <WideUnary op>
void add_one(std::vector<Entry>& all, std::string_view in_place, std::string_view section) {
  all.push_back(certify<One<op>::fresh>(name_of(op), "", section));
  all.push_back(certify<One<op>::out>(name_of(op), "out", section));
  if (!in_place.empty()) all.push_back(certify<One<op>::in_place>(in_place, "", section));
}

// ---- two arguments

// On a device integers go to stock's kernels.
constexpr DeviceRules kSelection{DeviceIntegers::stock, true, true};
constexpr DeviceRules kDivision{.integers = DeviceIntegers::stock, .host_scalars = true, .out_decides = true, .divides = true};

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

template <WideBinary op>
struct Two {
  static constexpr auto kKernel = [](std::array<const float*, 2> x, float* y, std::int64_t n) {
    kernels::wide_binary(op, x[0], x[1], y, n);
  };
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
void add_two(std::vector<Entry>& all, std::string_view overload, std::string_view out_overload, std::string_view in_place,
             std::string_view section) {
  all.push_back(certify<Two<op>::fresh, rules>(name_of(op), overload, section));
  all.push_back(certify<Two<op>::out, rules>(name_of(op), out_overload, section));
  if (!in_place.empty()) all.push_back(certify<Two<op>::in_place, rules>(in_place, overload, section));
}

// ---- quotients with a rounding mode

using Mode = std::optional<c10::string_view>;
bool floors(const Mode& mode) {
  TORCH_CHECK(*mode == "floor" || *mode == "trunc", "aten::div: rounding_mode is None, 'floor' or 'trunc', got '", *mode, "'");
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
Tensor remainder_of_number(const Scalar& a, const Tensor& b) { return Two<WideBinary::remainder>::fresh(number(a, b), b); }
// Before autograd: PyTorch's own gradient takes the logarithm of the number from the machine's library.
Tensor power_of_number(const Scalar& base, const Tensor& exponent) { return at::pow(number(base, exponent), exponent); }
Tensor& power_of_number_out(const Scalar& base, const Tensor& exponent, Tensor& out) {
  return at::pow_out(out, number(base, exponent), exponent);
}

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
Tensor& logit_out(const Tensor& x, Bound eps, Tensor& out) { return float_out("aten::logit", bounded_logit(x, eps), out); }
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
  if (is_integral(x) && is_integral(out)) return at::cpu::nan_to_num_out(out, x, nan, high, low);
  constexpr float kLargest = std::numeric_limits<float>::max();
  const auto or_else = [](const Bound& given, float value) { return given ? static_cast<float>(*given) : value; };
  const float of_nan = or_else(nan, 0.0f), above = or_else(high, kLargest), below = or_else(low, -kLargest);
  require_float("aten::nan_to_num", x);
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  return float_out("aten::nan_to_num",
                   x.masked_fill(x.isnan(), of_nan).masked_fill_(x.eq(kInfinite), above).masked_fill_(x.eq(-kInfinite), below), out);
}

}  // namespace

std::vector<Entry> wide_function_operators() {
  constexpr std::string_view formula = "10: written in binary64, rounded once";
  constexpr std::string_view exact = "10: exact, or rounded once";
  constexpr std::string_view quotient = "10: the floor of (a - fmod(a, b)) / b";
  constexpr std::string_view select = "10: a selection";
  std::vector<Entry> all;
  add_one<WideUnary::log2>(all, "aten::log2_", formula);
  add_one<WideUnary::log10>(all, "aten::log10_", formula);
  add_one<WideUnary::exp2>(all, "aten::exp2_", formula);
  add_one<WideUnary::sinh>(all, "aten::sinh_", formula);
  add_one<WideUnary::cosh>(all, "aten::cosh_", formula);
  add_one<WideUnary::tan>(all, "aten::tan_", formula);
  add_one<WideUnary::asin>(all, "aten::asin_", formula);
  add_one<WideUnary::acos>(all, "aten::acos_", formula);
  add_one<WideUnary::atan>(all, "aten::atan_", formula);
  add_one<WideUnary::asinh>(all, "aten::asinh_", formula);
  add_one<WideUnary::acosh>(all, "aten::acosh_", formula);
  add_one<WideUnary::atanh>(all, "aten::atanh_", formula);
  add_one<WideUnary::erfc>(all, "aten::erfc_", formula);
  add_one<WideUnary::sinc>(all, "aten::sinc_", "10: sinpi(x) / RN(pi x), 1 at 0");
  add_one<WideUnary::entropy>(all, "", "10: -x * log(x)");
  add_two<WideBinary::atan2, kElementwise>(all, "", "out", "aten::atan2_", formula);
  add_two<WideBinary::hypot, kElementwise>(all, "", "out", "aten::hypot_", formula);
  add_two<WideBinary::logaddexp, kElementwise>(all, "", "out", "", formula);
  add_two<WideBinary::logaddexp2, kElementwise>(all, "", "out", "", formula);
  add_two<WideBinary::fmod, kDivision>(all, "Tensor", "Tensor_out", "aten::fmod_", exact);
  add_two<WideBinary::remainder, kDivision>(all, "Tensor", "Tensor_out", "aten::remainder_", exact);
  add_two<WideBinary::copysign, kElementwise>(all, "Tensor", "out", "aten::copysign_", select);
  add_two<WideBinary::fmaximum, kSelection>(all, "", "out", "", select);
  add_two<WideBinary::fminimum, kSelection>(all, "", "out", "", select);
  add_two<WideBinary::heaviside, kSelection>(all, "", "out", "aten::heaviside_", select);
  add_two<WideBinary::nextafter, kElementwise>(all, "", "out", "aten::nextafter_", exact);
  add_two<WideBinary::xlog1py, kElementwise>(all, "", "out", "", "10: a = 0 ? +0 : a * log1p(b)");
  const std::vector<Entry> others = {
      certify<Two<WideBinary::floor_divide>::fresh, kDivision>("aten::floor_divide", "", quotient),
      certify<Two<WideBinary::floor_divide>::out, kDivision>("aten::floor_divide", "out", quotient),
      certify<Two<WideBinary::floor_divide>::in_place, kDivision>("aten::floor_divide_", "Tensor", quotient),
      certify<divide, kElementwise>("aten::div", "Tensor_mode", quotient),
      certify<divide_out, kElementwise>("aten::div", "out_mode", quotient),
      certify<divide_, kElementwise>("aten::div_", "Tensor_mode", quotient),
      certify<remainder_of_number, kDivision>("aten::remainder", "Scalar_Tensor", exact),
      certify_layer<power_of_number, kElementwiseNoIntegers>("aten::pow", "Scalar", "10: the power of a tensor of exponents"),
      certify<power_of_number_out, kElementwiseNoIntegers>("aten::pow", "Scalar_out", "10: the power of a tensor of exponents"),
      certify<bounded_logit>("aten::logit", "", formula),
      certify<logit_out>("aten::logit", "out", formula),
      certify<logit_>("aten::logit_", "", formula),
      certify<logit_gradient>("aten::logit_backward", "", "10: dy / (x * (1 - x))"),
      certify<logit_backward_out>("aten::logit_backward", "grad_input", "10: dy / (x * (1 - x))"),
      certify<nan_to_num_out, kIntegersByStockAndOut>("aten::nan_to_num", "out", select),
  };
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace isobit::aten
