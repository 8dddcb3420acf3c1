// Element-wise operators over flat arrays: type promotion, broadcasting, strides, in-place and out= results.
// Private to this folder. Thread-safe.
#pragma once

#include <ATen/native/Resize.h>

#include <array>
#include <cstddef>
#include <type_traits>

#include "aten/certified/support/tensors.h"

namespace isobit::aten {

// Inputs of one shape, one dense order of memory: element i of each belongs together.
struct FlatLayout {
  at::DimVector sizes, strides;
  std::int64_t count = 0;
};

// Inputs of one type as they are; others are converted to the type that torch's rules name, integers alone to the
// default type. That type is returned: float32 or, where the kernel is `wide`, float64; another is refused.
at::ScalarType promote_types(std::string_view op, at::Tensor* inputs, std::size_t n, bool wide = false);
// The same, and numbers of the host are brought to the working device.
at::ScalarType promote(std::string_view op, at::Tensor* inputs, std::size_t n, bool wide);
// Broadcasts; copies an input only where its order of memory differs from the others'.
[[nodiscard]] FlatLayout flatten(at::Tensor* inputs, std::size_t n);
[[nodiscard]] at::Tensor new_like(const FlatLayout& layout, at::ScalarType type = at::kFloat);
// Sizes `out` for the result; true: the kernel may write straight into it.
[[nodiscard]] bool prepare_flat_out(const at::Tensor& out, const FlatLayout& layout, const at::Tensor* inputs,
                                    std::size_t n);

// Whether a kernel computes binary64 too: kernel(std::array<const T*, N> x, T* y, std::int64_t n) of float or double.
template <std::size_t N, class Kernel>
inline constexpr bool kWide = std::is_invocable_v<Kernel&, const std::array<const double*, N>&, double*, std::int64_t>;

template <std::size_t N>
struct FlatInputs {
  FlatInputs(std::string_view op, std::array<at::Tensor, N> given, bool wide) : tensors(std::move(given)) {
    type = promote(op, tensors.data(), N, wide);
    layout = flatten(tensors.data(), N);
  }
  template <class T>
  [[nodiscard]] std::array<const T*, N> data() const {
    std::array<const T*, N> pointers;
    for (std::size_t i = 0; i < N; ++i) pointers[i] = tensors[i].template const_data_ptr<T>();
    return pointers;
  }
  template <class Kernel>
  void run(Kernel&& kernel, const at::Tensor& y) const {
    if constexpr (kWide<N, Kernel>) {
      if (type == at::kDouble) return kernel(data<double>(), y.mutable_data_ptr<double>(), layout.count);
    }
    kernel(data<float>(), y.mutable_data_ptr<float>(), layout.count);
  }
  std::array<at::Tensor, N> tensors;
  FlatLayout layout;
  at::ScalarType type;
};

template <std::size_t N, class Kernel>
at::Tensor pointwise_new(std::string_view op, std::array<at::Tensor, N> given, Kernel&& kernel) {
  const FlatInputs<N> in(op, std::move(given), kWide<N, Kernel>);
  at::Tensor result = new_like(in.layout, in.type);
  in.run(kernel, result);
  return result;
}

// Into `out` where the kernel may write there, else into a temporary that is copied (and rounded, where out is
// narrower).
template <std::size_t N, class Kernel>
void write_flat(const FlatInputs<N>& in, const at::Tensor& out, Kernel&& kernel) {
  if (out.scalar_type() == in.type && prepare_flat_out(out, in.layout, in.tensors.data(), N))
    return in.run(kernel, out);
  const at::Tensor result = new_like(in.layout, in.type);
  in.run(kernel, result);
  copy_out(out, result);
}

template <std::size_t N, class Kernel>
at::Tensor& pointwise_out(std::string_view op, at::Tensor& out, std::array<at::Tensor, N> given, Kernel&& kernel) {
  kWide<N, Kernel> ? (void)require_computed(op, out.scalar_type()) : require_float(op, out);
  write_flat(FlatInputs<N>(op, std::move(given), kWide<N, Kernel>), out, kernel);
  return out;
}

// In place: self is the first of `given`, and must already have the broadcast shape.
template <std::size_t N, class Kernel>
at::Tensor& pointwise_in_place(std::string_view op, at::Tensor& self, std::array<at::Tensor, N> given,
                               Kernel&& kernel) {
  kWide<N, Kernel> ? (void)require_computed(op, self.scalar_type()) : require_float(op, self);
  const FlatInputs<N> in(op, std::move(given), kWide<N, Kernel>);
  TORCH_CHECK(self.sizes() == at::IntArrayRef(in.layout.sizes), op, ": cannot write a result of sizes ",
              at::IntArrayRef(in.layout.sizes), " into a tensor of sizes ", self.sizes());
  write_flat(in, self, kernel);
  return self;
}

}  // namespace isobit::aten
