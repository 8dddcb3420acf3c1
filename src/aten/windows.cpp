// Kaiser's window (contract, section 10). It takes no tensor, so that no backend's key leads to it: ours stands where
// the library operators do.
#include <ATen/core/Tensor.h>
#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <optional>

#include "aten/certified/support/tensors.h"
#include "aten/library_operators.h"
#include "aten/refusal.h"
#include "contract/functions_bessel.h"
#include "kernels/float_environment.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using Type = std::optional<at::ScalarType>;
using Layout = std::optional<at::Layout>;
using Device = std::optional<at::Device>;

// I0(b sqrt((1 - x) (1 + x))) / I0(b), both with their exponential taken out.
double kaiser(double x, double beta) {
  const double inner = beta * __builtin_sqrt((1.0 - x) * (1.0 + x));
  return contract::scaled_bessel_i(inner, 0) / contract::scaled_bessel_i(beta, 0) * contract::exp_of(inner - beta);
}

Tensor kaiser_window(std::int64_t length, bool periodic, double beta, Type type, Layout layout, Device device,
                     std::optional<bool> /*pinned*/) {
  constexpr const char* op = "aten::kaiser_window";
  TORCH_CHECK(length >= 0, op, ": the length must not be negative, got ", length);
  const at::ScalarType wanted = require_computed(op, type.value_or(at::typeMetaToScalarType(at::get_default_dtype())));
  if (layout.value_or(at::kStrided) != at::kStrided) refuse(op, "is certified for dense tensors only", "make it dense");
  const double size = beta < 0.0 ? -beta : beta;
  const Tensor window = at::empty({length}, at::TensorOptions(wanted).device(at::kCPU));
  const double steps = static_cast<double>(periodic ? length : length - 1);
  const kernels::FloatEnvironment environment;
  with_data(window, [&](auto* y) {
    for (std::int64_t i = 0; i < length; ++i) {
      y[i] = like(y, length == 1 ? 1.0 : kaiser(2.0 * static_cast<double>(i) / steps - 1.0, size));
    }
  });
  return device ? window.to(*device) : window;
}
Tensor periodic_window(std::int64_t length, bool periodic, Type type, Layout layout, Device device,
                       std::optional<bool> pinned) {
  return kaiser_window(length, periodic, 12.0, type, layout, device, pinned);
}
Tensor plain_window(std::int64_t length, Type type, Layout layout, Device device, std::optional<bool> pinned) {
  return kaiser_window(length, true, 12.0, type, layout, device, pinned);
}

}  // namespace

std::vector<LibraryOperator> window_operators() {
  using c10::KernelFunction;
  constexpr std::string_view rule = "10: a quotient of Bessel functions in binary64, rounded once";
  return {
      {"aten::kaiser_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
       "bool? pin_memory=None) -> Tensor",
       rule, [] { return KernelFunction::makeFromUnboxedFunction(TORCH_FN(plain_window)); }},
      {"aten::kaiser_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, "
       "Device? device=None, bool? pin_memory=None) -> Tensor",
       rule, [] { return KernelFunction::makeFromUnboxedFunction(TORCH_FN(periodic_window)); }},
      {"aten::kaiser_window.beta(int window_length, bool periodic, float beta, *, ScalarType? dtype=None, Layout? "
       "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
       rule, [] { return KernelFunction::makeFromUnboxedFunction(TORCH_FN(kaiser_window)); }},
  };
}

}  // namespace isobit::aten
