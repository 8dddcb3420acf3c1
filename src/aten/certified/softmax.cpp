// Softmax, log-softmax and their gradients (contract, section 4).
#include "kernels/softmax.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_safe_softmax_native.h>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/masked_rows.h"
#include "aten/certified/support/tensors.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using kernels::SoftmaxShape;

SoftmaxShape shape_of(const Tensor& x, std::int64_t dim) {
  dim = at::maybe_wrap_dim(dim, x.dim());
  SoftmaxShape shape;
  shape.outer = 1, shape.size = 1, shape.inner = 1;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    (d < dim ? shape.outer : d == dim ? shape.size : shape.inner) *= x.size(d);
  }
  return shape;
}

// A kernel of both types and its operator's name.
struct Softmax {
  static constexpr const char* kName = "aten::_softmax";
  static void run(const SoftmaxShape& s, const auto* x, auto* y) { kernels::softmax(s, x, y); }
};
struct LogSoftmax {
  static constexpr const char* kName = "aten::_log_softmax";
  static void run(const SoftmaxShape& s, const auto* x, auto* y) { kernels::log_softmax(s, x, y); }
};
struct SoftmaxGradient {
  static constexpr const char* kName = "aten::_softmax_backward_data";
  static void run(const SoftmaxShape& s, const auto* dy, const auto* y, auto* dx) {
    kernels::softmax_backward(s, dy, y, dx);
  }
};
struct LogSoftmaxGradient {
  static constexpr const char* kName = "aten::_log_softmax_backward_data";
  static void run(const SoftmaxShape& s, const auto* dy, const auto* y, auto* dx) {
    kernels::log_softmax_backward(s, dy, y, dx);
  }
};

template <class Kernel>
Tensor forward(const Tensor& input, std::int64_t dim, bool /*half_to_float*/) {
  const at::ScalarType type = require_computed(Kernel::kName, input.scalar_type());
  const Tensor x = contiguous(input);
  return write_new(x.sizes(), type, [&](auto* y) { Kernel::run(shape_of(x, dim), data_like(y, x), y); });
}
template <class Kernel>
Tensor& forward_out(const Tensor& input, std::int64_t dim, bool /*half_to_float*/, Tensor& out) {
  const at::ScalarType type = require_computed(Kernel::kName, input.scalar_type());
  const Tensor x = contiguous(input);
  return write_out(Kernel::kName, out, x.sizes(), type, {&x},
                   [&](auto* y) { Kernel::run(shape_of(x, dim), data_like(y, x), y); });
}

template <class Kernel>
Tensor backward(const Tensor& grad_output, const Tensor& output, std::int64_t dim, at::ScalarType input_type) {
  const at::ScalarType type = require_computed(Kernel::kName, {&grad_output, &output});
  if (input_type != type) refuse_type(Kernel::kName, input_type);
  const Tensor dy = contiguous(grad_output), y = contiguous(output);
  return write_new(y.sizes(), type,
                   [&](auto* dx) { Kernel::run(shape_of(y, dim), data_like(dx, dy), data_like(dx, y), dx); });
}
template <class Kernel>
Tensor& backward_out(const Tensor& grad_output, const Tensor& output, std::int64_t dim, at::ScalarType input_type,
                     Tensor& out) {
  return float_out(Kernel::kName, backward<Kernel>(grad_output, output, dim, input_type), out);
}

Tensor safe_softmax(const Tensor& input, std::int64_t dim, std::optional<at::ScalarType> type) {
  if (!input.is_cpu() || type.value_or(input.scalar_type()) != at::kFloat) {
    return at::native::_safe_softmax(input, dim, type);
  }
  require_float("aten::_safe_softmax", input);
  const Tensor x = contiguous(input);
  return write_new(x.sizes(), [&](float* y) {
    const SoftmaxShape shape = shape_of(x, dim);
    kernels::softmax(shape, x.const_data_ptr<float>(), y);
    clear_masked_rows(shape, x.const_data_ptr<float>(), y);
  });
}

}  // namespace

std::vector<Entry> softmax_operators() {
  constexpr std::string_view softmax = "4: row maximum m, e = exp(x - m), e / sum";
  constexpr std::string_view log_softmax = "4: row maximum m, (x - m) - log(sum of exp(x - m))";
  constexpr std::string_view softmax_gradient = "4: (dy - d) * y, d the fma-lane sum of dy * y";
  constexpr std::string_view log_softmax_gradient = "4: fma(-exp(y), d, dy), d the sum of dy";
  return {
      certify<safe_softmax>("aten::_safe_softmax", "", "4: softmax; a row of -inf alone is +0"),
      certify<forward<Softmax>>("aten::_softmax", "", softmax),
      certify<forward_out<Softmax>>("aten::_softmax", "out", softmax),
      certify<forward<LogSoftmax>>("aten::_log_softmax", "", log_softmax),
      certify<forward_out<LogSoftmax>>("aten::_log_softmax", "out", log_softmax),
      certify<backward<SoftmaxGradient>>("aten::_softmax_backward_data", "", softmax_gradient),
      certify<backward_out<SoftmaxGradient>>("aten::_softmax_backward_data", "out", softmax_gradient),
      certify<backward<LogSoftmaxGradient>>("aten::_log_softmax_backward_data", "", log_softmax_gradient),
      certify<backward_out<LogSoftmaxGradient>>("aten::_log_softmax_backward_data", "out", log_softmax_gradient),
  };
}

}  // namespace isobit::aten
