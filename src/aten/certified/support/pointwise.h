// Element-wise operators over flat arrays: type promotion, broadcasting, strides, in-place and out= results.
// Private to this folder. Thread-safe.
#pragma once

#include <ATen/native/Resize.h>

#include <array>
#include <cstddef>

#include "aten/certified/support/tensors.h"

namespace isobit::aten {

// Inputs of one shape, one dense order of memory: element i of each belongs together.
struct FlatLayout {
  at::DimVector sizes, strides;
  std::int64_t count = 0;
};

// float32 inputs as they are; integers (and scalars) beside a float32 are converted to it as torch does; a
// result of another floating type is refused. With integers only: converted to float32.
void promote_types(std::string_view op, at::Tensor* inputs, std::size_t n);
// The same, and numbers of the host are brought to the working device.
void promote(std::string_view op, at::Tensor* inputs, std::size_t n);
// Broadcasts; copies an input only where its order of memory differs from the others'.
[[nodiscard]] FlatLayout flatten(at::Tensor* inputs, std::size_t n);
[[nodiscard]] at::Tensor new_like(const FlatLayout& layout);
// Sizes `out` for the result; true: the kernel may write straight into it.
[[nodiscard]] bool prepare_flat_out(const at::Tensor& out, const FlatLayout& layout, const at::Tensor* inputs,
                                    std::size_t n);

template <std::size_t N>
struct FlatInputs {
  FlatInputs(std::string_view op, std::array<at::Tensor, N> given) : tensors(std::move(given)) {
    promote(op, tensors.data(), N);
    layout = flatten(tensors.data(), N);
    for (std::size_t i = 0; i < N; ++i) data[i] = tensors[i].template const_data_ptr<float>();
  }
  std::array<at::Tensor, N> tensors;
  FlatLayout layout;
  std::array<const float*, N> data;
};

// kernel(std::array<const float*, N> x, float* y, std::int64_t n)
template <std::size_t N, class Kernel>
at::Tensor pointwise_new(std::string_view op, std::array<at::Tensor, N> given, Kernel&& kernel) {
  const FlatInputs<N> in(op, std::move(given));
  at::Tensor result = new_like(in.layout);
  kernel(in.data, result.mutable_data_ptr<float>(), in.layout.count);
  return result;
}

template <std::size_t N, class Kernel>
at::Tensor& pointwise_out(std::string_view op, at::Tensor& out, std::array<at::Tensor, N> given, Kernel&& kernel) {
  require_float(op, out);
  const FlatInputs<N> in(op, std::move(given));
  if (prepare_flat_out(out, in.layout, in.tensors.data(), N)) {
    kernel(in.data, out.mutable_data_ptr<float>(), in.layout.count);
  } else {
    const at::Tensor result = new_like(in.layout);
    kernel(in.data, result.mutable_data_ptr<float>(), in.layout.count);
    copy_out(out, result);
  }
  return out;
}

// In place: self is the first of `given`, and must already have the broadcast shape.
template <std::size_t N, class Kernel>
at::Tensor& pointwise_in_place(std::string_view op, at::Tensor& self, std::array<at::Tensor, N> given,
                               Kernel&& kernel) {
  require_float(op, self);
  const FlatInputs<N> in(op, std::move(given));
  TORCH_CHECK(self.sizes() == at::IntArrayRef(in.layout.sizes), op, ": cannot write a result of sizes ",
              at::IntArrayRef(in.layout.sizes), " into a tensor of sizes ", self.sizes());
  if (prepare_flat_out(self, in.layout, in.tensors.data(), N)) {
    kernel(in.data, self.mutable_data_ptr<float>(), in.layout.count);
  } else {
    const at::Tensor result = new_like(in.layout);
    kernel(in.data, result.mutable_data_ptr<float>(), in.layout.count);
    self.copy_(result);
  }
  return self;
}

}  // namespace isobit::aten
