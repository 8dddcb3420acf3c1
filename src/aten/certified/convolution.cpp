// Convolutions, transposed ones too, of one to three dimensions (contract, section 3). conv1d, conv2d, conv3d,
// conv_transpose and their modules all reach aten::convolution, and their backward aten::convolution_backward.
#include <ATen/Context.h>
#include <ATen/TracerMode.h>
#include <ATen/ops/_convolution.h>

#include <array>
#include <optional>
#include <tuple>

#include "aten/certified/support/convolution_plan.h"
#include "aten/certified/support/entry.h"
#include "aten/certified/support/products.h"
#include "aten/refusal.h"
#include "kernels/reduce.h"

namespace isobit::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;

struct Options {
  IntArrayRef stride, padding, dilation, output_padding;
  bool transposed = false;
  std::int64_t groups = 1;
};

// One spatial dimension: the plain convolution's, whose output a transposed one's input is.
struct Extent {
  std::int64_t in = 1, kernel = 1, stride = 1, pad = 0, dilation = 1;
};

Extent extent_of(const char* op, const Tensor& x, const Tensor& weight, const Options& options, std::size_t d) {
  const auto rank = static_cast<std::size_t>(weight.dim()) - 2;
  const auto along = [&](IntArrayRef values, std::int64_t absent) {
    if (values.empty()) return absent;
    TORCH_CHECK(values.size() == 1 || values.size() == rank, op, ": ", rank, " values expected, got ", values);
    return values.size() == 1 ? values[0] : values[d];
  };
  const auto dim = static_cast<std::int64_t>(d) + 2;
  Extent e{x.size(dim), weight.size(dim), along(options.stride, 1), along(options.padding, 0),
           along(options.dilation, 1)};
  TORCH_CHECK(e.stride > 0 && e.dilation > 0 && e.pad >= 0 && e.kernel > 0, op,
              ": strides, dilations and kernel sizes must be positive, padding not negative");
  const std::int64_t reach = e.dilation * (e.kernel - 1) + 1;
  if (options.transposed) {
    const std::int64_t more = along(options.output_padding, 0);
    if (more >= e.stride && more < e.dilation) {
      refuse(op, "is not certified with an output padding that is not smaller than the stride", "pad the result");
    }
    TORCH_CHECK(more >= 0 && more < e.stride, op, ": output padding must be smaller than stride or dilation");
    e.in = (e.in - 1) * e.stride - 2 * e.pad + reach + more;
    TORCH_CHECK(e.in > 0, op, ": the output of input ", x.sizes(), " and weight ", weight.sizes(), " would be empty");
  } else {
    TORCH_CHECK(e.in + 2 * e.pad >= reach, op, ": the kernel of weight ", weight.sizes(),
                " is larger than the padded input ", x.sizes());
  }
  return e;
}

// Of the plain convolution; x is its input or, where transposed, its output.
ConvolutionPlan plan_of(const char* op, const Tensor& x, const Tensor& weight, const Options& options) {
  ConvolutionPlan p;
  p.rank = weight.dim() - 2;
  if (p.rank < 1 || p.rank > 3) refuse(op, "is certified for one to three spatial dimensions only");
  if (p.rank == 3) {
    require_ordered_products(op, "has products over three spatial dimensions", "compute with products = \"ordered\"");
  }
  TORCH_CHECK(x.dim() == weight.dim(), op, ": input ", x.sizes(), " does not fit weight ", weight.sizes());
  require_float(op, {&x, &weight});
  TORCH_CHECK(options.groups > 0, op, ": groups must be positive");
  kernels::Conv2dShape& s = p.plane;
  s.groups = options.groups, s.n = x.size(0), s.co = weight.size(0), s.ci = weight.size(1) * s.groups;
  TORCH_CHECK(x.size(1) == (options.transposed ? s.co : s.ci) && s.co % s.groups == 0, op, ": input ", x.sizes(),
              " does not fit weight ", weight.sizes(), " in ", s.groups, " groups");
  Extent e[3];
  for (std::int64_t d = 0; d < p.rank; ++d)
    e[3 - p.rank + d] = extent_of(op, x, weight, options, static_cast<std::size_t>(d));
  p.depth = e[0].in, p.kd = e[0].kernel, p.stride_d = e[0].stride, p.pad_d = e[0].pad, p.dilation_d = e[0].dilation;
  s.h = e[1].in, s.kh = e[1].kernel, s.stride_h = e[1].stride, s.pad_h = e[1].pad, s.dilation_h = e[1].dilation;
  s.w = e[2].in, s.kw = e[2].kernel, s.stride_w = e[2].stride, s.pad_w = e[2].pad, s.dilation_w = e[2].dilation;
  return p;
}

Tensor forward(const char* op, const Tensor& input, const Tensor& kernel, const std::optional<Tensor>& bias,
               const Options& options) {
  const ConvolutionPlan plan = plan_of(op, input, kernel, options);
  const Tensor x = contiguous(input), weight = contiguous(kernel);
  Tensor b;
  if (bias && bias->defined()) {
    require_float(op, *bias);
    TORCH_CHECK(bias->dim() == 1 && bias->size(0) == (options.transposed ? plan.plane.ci : plan.plane.co), op,
                ": bias ", bias->sizes(), " does not fit weight ", kernel.sizes());
    b = contiguous(*bias);
  }
  if (!options.transposed) return convolve(plan, x, weight, b);
  Tensor y = input_gradient(plan, x, weight);
  if (b.defined()) {
    at::DimVector sizes(static_cast<std::size_t>(y.dim()), 1);
    sizes[1] = b.size(0);
    y.add_(b.view(sizes));
  }
  return y;
}

// torch.jit.trace records nothing of aten::convolution: it waits for the aten::_convolution that stock's kernel calls,
// and without one takes the result for a constant. While it traces, so does this kernel.
Tensor convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                   std::int64_t groups) {
  if (at::tracer::impl::is_dispatch_enabled()) [[unlikely]] {
    const at::Context& context = at::globalContext();
    return at::_convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups,
                            context.benchmarkCuDNN(), context.deterministicCuDNN(), context.userEnabledCuDNN(),
                            context.allowTF32CuDNN(at::Float32Op::CONV));
  }
  return forward("aten::convolution", input, weight, bias,
                 {stride, padding, dilation, output_padding, transposed, groups});
}
Tensor _convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, IntArrayRef stride,
                    IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                    std::int64_t groups, bool /*benchmark*/, bool /*deterministic*/, bool /*cudnn_enabled*/,
                    bool /*allow_tf32*/) {
  return forward("aten::_convolution", input, weight, bias,
                 {stride, padding, dilation, output_padding, transposed, groups});
}

// Section 4 sum over (n, od, oh, ow); dy contiguous.
Tensor bias_gradient(const Tensor& dy) {
  kernels::ReduceShape reduce;
  const std::int64_t channels = dy.size(1), plane = c10::multiply_integers(dy.sizes().slice(2));
  reduce.kept_rank = 1;
  reduce.kept_size[0] = channels, reduce.kept_stride[0] = plane;
  reduce.reduced_rank = 2;
  reduce.reduced_size[0] = dy.size(0), reduce.reduced_stride[0] = channels * plane;
  reduce.reduced_size[1] = plane, reduce.reduced_stride[1] = 1;
  return write_new({channels}, [&](float* out) { kernels::sum(reduce, dy.const_data_ptr<float>(), out); });
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad_output, const Tensor& input,
                                                        const Tensor& kernel, at::OptionalIntArrayRef /*bias_sizes*/,
                                                        IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                                                        bool transposed, IntArrayRef output_padding,
                                                        std::int64_t groups, std::array<bool, 3> mask) {
  constexpr const char* op = "aten::convolution_backward";
  const ConvolutionPlan plan =
      plan_of(op, input, kernel, {stride, padding, dilation, output_padding, transposed, groups});
  require_float(op, grad_output);
  const at::DimVector expected = transposed ? plan.input_sizes() : plan.output_sizes();
  TORCH_CHECK(grad_output.sizes() == IntArrayRef(expected), op, ": grad_output has sizes ", grad_output.sizes(),
              ", not those of the output");
  const Tensor dy = contiguous(grad_output);
  Tensor dx, dweight, dbias;
  if (mask[0]) {
    const Tensor weight = contiguous(kernel);
    dx = transposed ? convolve(plan, dy, weight, {}) : input_gradient(plan, dy, weight);
  }
  if (mask[1]) {
    const Tensor x = contiguous(input);
    // As stock gives it, so that autograd keeps it as the parameter's gradient instead of a copy.
    dweight = in_format_of(kernel, transposed ? weight_gradient(plan, dy, x) : weight_gradient(plan, x, dy));
  }
  if (mask[2]) dbias = bias_gradient(dy);
  return {dx, dweight, dbias};
}

}  // namespace

std::vector<Entry> convolution_operators() {
  constexpr std::string_view order =
      "3: order (ci, kd, kh, kw), one addition of the bias; transposed: the input gradient's";
  return {
      certify<convolution>("aten::convolution", "", order),
      certify<_convolution>("aten::_convolution", "", order),
      certify<convolution_backward>("aten::convolution_backward", "",
                                    "3: input gradient (co, kd, kh, kw), weight gradient (n, od, oh, ow); bias 4"),
  };
}

}  // namespace isobit::aten
