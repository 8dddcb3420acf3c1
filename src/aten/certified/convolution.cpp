// Convolutions (contract, section 3). conv2d, conv1d and their modules all reach aten::convolution, and their
// backward aten::convolution_backward; one dimension is two with a height of one. Transposed and
// three-dimensional convolutions are refused.
#include <array>
#include <optional>
#include <tuple>

#include "aten/certified/entry.h"
#include "aten/certified/tensors.h"
#include "aten/refusal.h"
#include "kernels/conv2d.h"
#include "kernels/reduce.h"

namespace isobit::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;
using kernels::Conv2dShape;

struct Options {
  IntArrayRef stride, padding, dilation;
  bool transposed = false;
  std::int64_t groups = 1;
};

// Value of the d-th of `rank` spatial dimensions (0 = height, 1 = width), given for all or once for all.
std::int64_t along(IntArrayRef values, std::int64_t rank, std::int64_t d, std::int64_t absent) {
  if (rank == 1) return d == 0 ? absent : values[0];
  return values.size() == 1 ? values[0] : values[d];
}

Conv2dShape shape_of(const char* op, const Tensor& x, const Tensor& weight, const Options& options) {
  const std::int64_t rank = weight.dim() - 2;
  if (options.transposed) refuse(op, "is not certified for transposed convolutions");
  if (rank < 1 || rank > 2) refuse(op, "is certified for one and two spatial dimensions only");
  TORCH_CHECK(x.dim() == weight.dim(), op, ": input ", x.sizes(), " does not fit weight ", weight.sizes());
  require_float(op, {&x, &weight});
  Conv2dShape shape;
  shape.groups = options.groups;
  shape.n = x.size(0), shape.ci = x.size(1), shape.co = weight.size(0);
  shape.h = rank == 2 ? x.size(2) : 1, shape.w = x.size(rank + 1);
  shape.kh = rank == 2 ? weight.size(2) : 1, shape.kw = weight.size(rank + 1);
  shape.stride_h = along(options.stride, rank, 0, 1), shape.stride_w = along(options.stride, rank, 1, 1);
  shape.pad_h = along(options.padding, rank, 0, 0), shape.pad_w = along(options.padding, rank, 1, 0);
  shape.dilation_h = along(options.dilation, rank, 0, 1),
  shape.dilation_w = along(options.dilation, rank, 1, 1);
  TORCH_CHECK(shape.groups > 0 && shape.stride_h > 0 && shape.stride_w > 0 && shape.dilation_h > 0 &&
                  shape.dilation_w > 0 && shape.pad_h >= 0 && shape.pad_w >= 0 && shape.kh > 0 &&
                  shape.kw > 0,
              op, ": groups, strides, dilations and kernel sizes must be positive, padding not negative");
  TORCH_CHECK(shape.ci == weight.size(1) * shape.groups && shape.co % shape.groups == 0, op, ": input ",
              x.sizes(), " does not fit weight ", weight.sizes(), " in ", shape.groups, " groups");
  TORCH_CHECK(shape.h + 2 * shape.pad_h >= shape.dilation_h * (shape.kh - 1) + 1 &&
                  shape.w + 2 * shape.pad_w >= shape.dilation_w * (shape.kw - 1) + 1,
              op, ": the kernel of weight ", weight.sizes(), " is larger than the padded input ", x.sizes());
  return shape;
}

at::DimVector output_sizes(const Conv2dShape& shape, std::int64_t rank) {
  at::DimVector sizes{shape.n, shape.co};
  if (rank == 2) sizes.push_back(shape.out_h());
  sizes.push_back(shape.out_w());
  return sizes;
}

Tensor forward(const char* op, const Tensor& input, const Tensor& kernel, const std::optional<Tensor>& bias,
               const Options& options) {
  const Conv2dShape shape = shape_of(op, input, kernel, options);
  const Tensor x = contiguous(input), weight = contiguous(kernel);
  Tensor b;
  if (bias && bias->defined()) {
    require_float(op, *bias);
    TORCH_CHECK(bias->dim() == 1 && bias->size(0) == shape.co, op, ": bias ", bias->sizes(),
                " does not fit weight ", kernel.sizes());
    b = contiguous(*bias);
  }
  return write_new(output_sizes(shape, kernel.dim() - 2), [&](float* y) {
    kernels::conv2d_forward(shape, x.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                            b.defined() ? b.const_data_ptr<float>() : nullptr, y);
  });
}

Tensor convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                   IntArrayRef /*output_padding*/, std::int64_t groups) {
  return forward("aten::convolution", input, weight, bias, {stride, padding, dilation, transposed, groups});
}
Tensor _convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                    IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                    IntArrayRef /*output_padding*/, std::int64_t groups, bool /*benchmark*/,
                    bool /*deterministic*/, bool /*cudnn_enabled*/, bool /*allow_tf32*/) {
  return forward("aten::_convolution", input, weight, bias, {stride, padding, dilation, transposed, groups});
}

// Section 4 sum over (n, oh, ow).
Tensor bias_gradient(const Conv2dShape& shape, const Tensor& dy) {
  kernels::ReduceShape reduce;
  const std::int64_t plane = shape.out_h() * shape.out_w();
  reduce.kept_rank = 1;
  reduce.kept_size[0] = shape.co, reduce.kept_stride[0] = plane;
  reduce.reduced_rank = 2;
  reduce.reduced_size[0] = shape.n, reduce.reduced_stride[0] = shape.co * plane;
  reduce.reduced_size[1] = plane, reduce.reduced_stride[1] = 1;
  return write_new({shape.co}, [&](float* out) { kernels::sum(reduce, dy.const_data_ptr<float>(), out); });
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& grad_output, const Tensor& input, const Tensor& kernel,
    at::OptionalIntArrayRef /*bias_sizes*/, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
    bool transposed, IntArrayRef /*output_padding*/, std::int64_t groups, std::array<bool, 3> mask) {
  constexpr const char* op = "aten::convolution_backward";
  const Conv2dShape shape = shape_of(op, input, kernel, {stride, padding, dilation, transposed, groups});
  require_float(op, grad_output);
  TORCH_CHECK(grad_output.sizes() == IntArrayRef(output_sizes(shape, kernel.dim() - 2)), op,
              ": grad_output has sizes ", grad_output.sizes(), ", not those of the output");
  const Tensor dy = contiguous(grad_output);
  Tensor dx, dweight, dbias;
  if (mask[0]) {
    const Tensor weight = contiguous(kernel);
    dx = write_new(input.sizes(), [&](float* out) {
      kernels::conv2d_input_gradient(shape, dy.const_data_ptr<float>(), weight.const_data_ptr<float>(), out);
    });
  }
  if (mask[1]) {
    const Tensor x = contiguous(input);
    dweight = write_new(kernel.sizes(), [&](float* out) {
      kernels::conv2d_weight_gradient(shape, x.const_data_ptr<float>(), dy.const_data_ptr<float>(), out);
    });
  }
  if (mask[2]) dbias = bias_gradient(shape, dy);
  return {dx, dweight, dbias};
}

}  // namespace

std::vector<Entry> convolution_operators() {
  return {
      certify<convolution>("aten::convolution", "", "3: order (ci, kh, kw), one addition of the bias"),
      certify<_convolution>("aten::_convolution", "", "3: order (ci, kh, kw), one addition of the bias"),
      certify<convolution_backward>("aten::convolution_backward", "",
                                    "3: input gradient (co, kh, kw), weight gradient (n, oh, ow); bias 4"),
  };
}

}  // namespace isobit::aten
