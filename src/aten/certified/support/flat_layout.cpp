#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/Allocator.h>
#include <c10/core/DefaultDtype.h>

#include "aten/certified/support/pointwise.h"
#include "aten/device_work.h"
#include "aten/memory_overlap.h"

namespace isobit::aten {

namespace {

// Numbers that are still on the host, to the working device; without waiting for it.
void bring_scalars(at::Tensor* inputs, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    if (!inputs[i].device().is_cpu()) continue;
    inputs[i] = new_tensor(inputs[i].sizes()).fill_(inputs[i].item());
  }
}

}  // namespace

at::ScalarType promote_types(std::string_view op, at::Tensor* inputs, std::size_t n, bool wide) {
  bool all_float = true;
  for (std::size_t i = 0; i < n; ++i) all_float &= is_float(inputs[i]);
  if (all_float) return at::kFloat;
  at::native::ResultTypeState state = {};
  for (std::size_t i = 0; i < n; ++i) state = at::native::update_result_type_state(inputs[i], state);
  at::ScalarType type = at::native::result_type(state);
  if (at::isIntegralType(type, /*includeBool=*/true)) type = c10::get_default_dtype_as_scalartype();
  if (wide) {
    require_computed(op, type);
  } else if (type != at::kFloat) {
    refuse_type(op, type);
  }
  for (std::size_t i = 0; i < n; ++i) inputs[i] = inputs[i].to(type);
  return type;
}

at::ScalarType promote(std::string_view op, at::Tensor* inputs, std::size_t n, bool wide) {
  const at::ScalarType type = promote_types(op, inputs, n, wide);
  if (working_device() != nullptr) bring_scalars(inputs, n);
  return type;
}

FlatLayout flatten(at::Tensor* inputs, std::size_t n) {
  const at::Tensor& first = inputs[0];
  bool alike = first.is_non_overlapping_and_dense();
  for (std::size_t i = 1; i < n && alike; ++i) {
    alike = inputs[i].sizes() == first.sizes() && inputs[i].strides() == first.strides();
  }
  FlatLayout layout;
  if (alike) {
    layout.sizes = first.sizes();
    layout.strides = first.strides();
    layout.count = first.numel();
    return layout;
  }
  layout.sizes = first.sizes();
  for (std::size_t i = 1; i < n; ++i) layout.sizes = at::infer_size_dimvector(layout.sizes, inputs[i].sizes());
  for (std::size_t i = 0; i < n; ++i) {
    if (inputs[i].sizes() != at::IntArrayRef(layout.sizes)) inputs[i] = inputs[i].expand(layout.sizes);
    inputs[i] = contiguous(inputs[i]);
  }
  layout.strides.resize(layout.sizes.size());
  layout.count = 1;
  for (std::size_t d = layout.sizes.size(); d-- > 0;) {
    layout.strides[d] = layout.count;
    layout.count *= layout.sizes[d];
  }
  return layout;
}

at::Tensor new_like(const FlatLayout& layout, at::ScalarType type) {
  if (working_device() == nullptr) {
    return at::Tensor(at::detail::empty_strided_cpu(layout.sizes, layout.strides, type));
  }
  return at::Tensor(at::detail::empty_strided_generic(layout.sizes, layout.strides, c10::GetAllocator(c10::kCUDA),
                                                      c10::DispatchKeySet(c10::DispatchKey::CUDA), type));
}

bool prepare_flat_out(const at::Tensor& out, const FlatLayout& layout, const at::Tensor* inputs, std::size_t n) {
  at::assert_no_internal_overlap(out);
  bool shares = false;
  for (std::size_t i = 0; i < n; ++i) {
    if (!may_meet(out, inputs[i])) continue;
    // The same elements in the same places: each is read before it is written.
    shares |= !lie_alike(out, inputs[i]);
    shares |= out.sizes() != at::IntArrayRef(layout.sizes);
  }
  if (shares) return false;
  at::native::resize_output(out, layout.sizes);
  if (out.is_contiguous()) {  // whatever the strides of dimensions of size one
    bool row_major = true;
    std::int64_t expected = 1;
    for (std::size_t d = layout.sizes.size(); d-- > 0;) {
      row_major &= layout.sizes[d] == 1 || layout.strides[d] == expected;
      expected *= layout.sizes[d];
    }
    if (row_major) return true;
  }
  return out.strides() == at::IntArrayRef(layout.strides) && out.is_non_overlapping_and_dense();
}

}  // namespace isobit::aten
