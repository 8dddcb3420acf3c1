#include "aten/certified/support/broadcast.h"

#include <ATen/ExpandUtils.h>
#include <ATen/native/Resize.h>

#include "aten/certified/support/pointwise.h"
#include "aten/refusal.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using kernels::ElementShape;
using kernels::ExactBinary;
using kernels::Operand;

ElementShape shape_of(std::string_view op, at::IntArrayRef sizes) {
  if (sizes.size() > kernels::kMostDimensions) refuse(op, "takes at most 16 dimensions");
  ElementShape shape;
  shape.rank = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), shape.size);
  return shape;
}

// A tensor that stayed on the host is a number.
Operand operand_of(const Tensor& x, at::IntArrayRef sizes) {
  Operand operand;
  if (x.device().is_cpu()) {
    operand.value = *x.const_data_ptr<float>();
    return operand;
  }
  operand.data = x.const_data_ptr<float>();
  const std::int64_t missing = static_cast<std::int64_t>(sizes.size()) - x.dim();
  for (std::int64_t d = 0; d < x.dim(); ++d) operand.stride[missing + d] = x.size(d) == 1 ? 0 : x.stride(d);
  return operand;
}

struct Two {
  Two(std::string_view op, const Tensor& first, const Tensor& second) : inputs{first, second} {
    promote_types(op, inputs, 2);
    sizes = at::infer_size_dimvector(inputs[0].sizes(), inputs[1].sizes());
    shape = shape_of(op, sizes);
  }
  void run(ExactBinary kind, float* y) const {
    kernels::exact_binary(kind, shape, operand_of(inputs[0], sizes), operand_of(inputs[1], sizes), y);
  }
  Tensor inputs[2];
  at::DimVector sizes;
  ElementShape shape;
};

}  // namespace

Tensor exact_new(std::string_view op, ExactBinary kind, const Tensor& a, const Tensor& b) {
  const Two two(op, a, b);
  return write_new(two.sizes, [&](float* y) { two.run(kind, y); });
}
Tensor& exact_out(std::string_view op, ExactBinary kind, const Tensor& a, const Tensor& b, Tensor& out) {
  const Two two(op, a, b);
  if (prepare_out(op, out, two.sizes, at::kFloat, {&two.inputs[0], &two.inputs[1]}, /*same_allowed=*/true)) {
    two.run(kind, out.mutable_data_ptr<float>());
  } else {
    copy_out(out, write_new(two.sizes, [&](float* y) { two.run(kind, y); }));
  }
  return out;
}
Tensor& exact_in_place(std::string_view op, ExactBinary kind, Tensor& a, const Tensor& b) {
  require_float(op, a);
  TORCH_CHECK(a.sizes() == at::IntArrayRef(at::infer_size_dimvector(a.sizes(), b.sizes())), op,
              ": cannot broadcast a tensor of sizes ", a.sizes(), " in place with ", b.sizes());
  return exact_out(op, kind, a, b, a);
}

Tensor exact_new(std::string_view op, const Tensor& x, ExactKernel kernel, const void* context) {
  Tensor input = x;
  promote_types(op, &input, 1);
  const ElementShape shape = shape_of(op, input.sizes());
  return write_new(input.sizes(), [&](float* y) { kernel(shape, operand_of(input, input.sizes()), y, context); });
}
Tensor& exact_out(std::string_view op, const Tensor& x, Tensor& out, ExactKernel kernel, const void* context) {
  Tensor input = x;
  promote_types(op, &input, 1);
  const ElementShape shape = shape_of(op, input.sizes());
  if (prepare_out(op, out, input.sizes(), at::kFloat, {&input}, /*same_allowed=*/true)) {
    kernel(shape, operand_of(input, input.sizes()), out.mutable_data_ptr<float>(), context);
  } else {
    copy_out(out, exact_new(op, x, kernel, context));
  }
  return out;
}

}  // namespace isobit::aten
