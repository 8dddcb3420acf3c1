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

using Forward = void (*)(const SoftmaxShape&, const float*, float*);
using Backward = void (*)(const SoftmaxShape&, const float*, const float*, float*);

constexpr std::string_view forward_name(Forward kernel) {
  return kernel == &kernels::softmax ? "aten::_softmax" : "aten::_log_softmax";
}
constexpr std::string_view backward_name(Backward kernel) {
  return kernel == &kernels::softmax_backward ? "aten::_softmax_backward_data" : "aten::_log_softmax_backward_data";
}

template <Forward kernel>
Tensor forward(const Tensor& input, std::int64_t dim, bool /*half_to_float*/) {
  require_float(forward_name(kernel), input);
  const Tensor x = contiguous(input);
  return write_new(x.sizes(), [&](float* y) { kernel(shape_of(x, dim), x.const_data_ptr<float>(), y); });
}
template <Forward kernel>
Tensor& forward_out(const Tensor& input, std::int64_t dim, bool /*half_to_float*/, Tensor& out) {
  require_float(forward_name(kernel), input);
  const Tensor x = contiguous(input);
  return write_out(forward_name(kernel), out, x.sizes(), {&x},
                   [&](float* y) { kernel(shape_of(x, dim), x.const_data_ptr<float>(), y); });
}

template <Backward kernel>
Tensor backward(const Tensor& grad_output, const Tensor& output, std::int64_t dim, at::ScalarType input_type) {
  require_float(backward_name(kernel), {&grad_output, &output});
  if (input_type != at::kFloat) refuse_type(backward_name(kernel), input_type);
  const Tensor dy = contiguous(grad_output), y = contiguous(output);
  return write_new(y.sizes(), [&](float* dx) {
    kernel(shape_of(y, dim), dy.const_data_ptr<float>(), y.const_data_ptr<float>(), dx);
  });
}
template <Backward kernel>
Tensor& backward_out(const Tensor& grad_output, const Tensor& output, std::int64_t dim, at::ScalarType input_type,
                     Tensor& out) {
  require_float(backward_name(kernel), {&grad_output, &output});
  if (input_type != at::kFloat) refuse_type(backward_name(kernel), input_type);
  const Tensor dy = contiguous(grad_output), y = contiguous(output);
  return write_out(backward_name(kernel), out, y.sizes(), {&dy, &y}, [&](float* dx) {
    kernel(shape_of(y, dim), dy.const_data_ptr<float>(), y.const_data_ptr<float>(), dx);
  });
}

Tensor safe_softmax(const Tensor& input, std::int64_t dim, std::optional<at::ScalarType> type) {
  if (!input.is_cpu() || type.value_or(at::kFloat) != at::kFloat) return at::native::_safe_softmax(input, dim, type);
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
      certify<forward<&kernels::softmax>>("aten::_softmax", "", softmax),
      certify<forward_out<&kernels::softmax>>("aten::_softmax", "out", softmax),
      certify<forward<&kernels::log_softmax>>("aten::_log_softmax", "", log_softmax),
      certify<forward_out<&kernels::log_softmax>>("aten::_log_softmax", "out", log_softmax),
      certify<backward<&kernels::softmax_backward>>("aten::_softmax_backward_data", "", softmax_gradient),
      certify<backward_out<&kernels::softmax_backward>>("aten::_softmax_backward_data", "out", softmax_gradient),
      certify<backward<&kernels::log_softmax_backward>>("aten::_log_softmax_backward_data", "", log_softmax_gradient),
      certify<backward_out<&kernels::log_softmax_backward>>("aten::_log_softmax_backward_data", "out",
                                                            log_softmax_gradient),
  };
}

}  // namespace isobit::aten
