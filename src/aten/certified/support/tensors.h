// What every certified operator does with its tensors: types, new results, out= and in-place results.
// Private to this folder. Thread-safe.
#pragma once

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <string_view>

#include "aten/turned_copy.h"

namespace isobit::aten {

[[nodiscard]] inline bool is_float(const at::Tensor& tensor) { return tensor.scalar_type() == at::kFloat; }
[[nodiscard]] inline bool is_wide(const at::Tensor& tensor) { return tensor.scalar_type() == at::kDouble; }
// The types that kernels compute in; of float64 on the CPU only.
[[nodiscard]] inline bool is_computed(at::ScalarType type) { return type == at::kFloat || type == at::kDouble; }
// Integers and booleans: stock arithmetic on them is exact, whatever its order.
[[nodiscard]] inline bool is_integral(const at::Tensor& tensor) {
  return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

// Host scalars are binary64 and become binary32 here (contract, section 1).
[[nodiscard]] inline float to_float(const at::Scalar& scalar) { return static_cast<float>(scalar.toDouble()); }

[[noreturn]] void refuse_type(std::string_view op, at::ScalarType type);
inline void require_float(std::string_view op, const at::Tensor& tensor) {
  if (!is_float(tensor)) refuse_type(op, tensor.scalar_type());
}
inline void require_float(std::string_view op, std::initializer_list<const at::Tensor*> tensors) {
  for (const at::Tensor* tensor : tensors) require_float(op, *tensor);
}

// float32 or float64, all tensors alike, else refused; which of the two.
at::ScalarType require_computed(std::string_view op, at::ScalarType type);
at::ScalarType require_computed(std::string_view op, std::initializer_list<const at::Tensor*> tensors);

// A host scalar as an element of the array.
template <class T>
[[nodiscard]] T like(const T*, double value) {
  return static_cast<T>(value);
}
// The array's data as the other array's type.
template <class T>
[[nodiscard]] const T* data_like(const T*, const at::Tensor& tensor) {
  return tensor.const_data_ptr<T>();
}

// function(float*) or function(double*), to a tensor's memory.
template <class Function>
decltype(auto) with_data(const at::Tensor& tensor, Function&& function) {
  return is_wide(tensor) ? function(tensor.mutable_data_ptr<double>()) : function(tensor.mutable_data_ptr<float>());
}

// Contiguous, uninitialised, on the working device (aten/device_work.h); without a detour through the dispatcher.
[[nodiscard]] at::Tensor new_tensor(at::IntArrayRef sizes, at::ScalarType type = at::kFloat);
// Row-major, itself if it is already.
[[nodiscard]] inline at::Tensor contiguous(const at::Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : in_row_major(tensor);
}

// Says whether a kernel may write to `out` directly (and then gives it the result's size): contiguous, of the
// result's type, sharing no memory with an input (with `same_allowed`: or being that input exactly). Where
// not, out is left alone for copy_out: resizing memory that an input still needs would be too early.
[[nodiscard]] bool prepare_out(std::string_view op, const at::Tensor& out, at::IntArrayRef sizes, at::ScalarType type,
                               std::initializer_list<const at::Tensor*> inputs, bool same_allowed = false);

// How many images of `rank` dimensions a float tensor [n, channels, ...] or [channels, ...] has; throws for another.
[[nodiscard]] std::int64_t planes_of(const char* op, const at::Tensor& x, std::int64_t rank);

// out becomes `result`, resized if need be.
void copy_out(const at::Tensor& out, const at::Tensor& result);

// The same where out must be of the result's type, else refused in the name of `what`; returns out.
at::Tensor& float_out(std::string_view what, const at::Tensor& result, at::Tensor& out);

// fill(float*) writes the result, row-major; into out itself, or into a temporary that is copied.
template <class Fill>
at::Tensor& write_out(std::string_view op, at::Tensor& out, at::IntArrayRef sizes,
                      std::initializer_list<const at::Tensor*> inputs, Fill&& fill) {
  if (prepare_out(op, out, sizes, at::kFloat, inputs)) {
    fill(out.mutable_data_ptr<float>());
  } else {
    const at::Tensor result = new_tensor(sizes);
    fill(result.mutable_data_ptr<float>());
    copy_out(out, result);
  }
  return out;
}

// The same of float32 or float64: fill(float*) or fill(double*).
template <class Fill>
at::Tensor& write_out(std::string_view op, at::Tensor& out, at::IntArrayRef sizes, at::ScalarType type,
                      std::initializer_list<const at::Tensor*> inputs, Fill&& fill) {
  if (prepare_out(op, out, sizes, type, inputs)) {
    with_data(out, fill);
  } else {
    const at::Tensor result = new_tensor(sizes, type);
    with_data(result, fill);
    copy_out(out, result);
  }
  return out;
}
template <class Fill>
at::Tensor write_new(at::IntArrayRef sizes, at::ScalarType type, Fill&& fill) {
  at::Tensor result = new_tensor(sizes, type);
  with_data(result, fill);
  return result;
}

template <class Fill>
at::Tensor write_new(at::IntArrayRef sizes, Fill&& fill) {
  at::Tensor result = new_tensor(sizes);
  fill(result.mutable_data_ptr<float>());
  return result;
}

}  // namespace isobit::aten
