#include "aten/certified/support/tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>

#include <c10/core/Allocator.h>

#include <string>

#include "aten/device_work.h"
#include "aten/refusal.h"
#include "aten/memory_overlap.h"

namespace isobit::aten {

void refuse_type(std::string_view op, at::ScalarType type) {
  refuse(op, std::string("is certified for float32 only, got ") + at::toString(type),
         "convert with .float(), or run this part outside isobit (with isobit.disabled():)");
}

at::ScalarType require_computed(std::string_view op, at::ScalarType type) {
  if (!is_computed(type)) {
    refuse(op, std::string("is certified for float32 and float64 only, got ") + at::toString(type),
           "convert with .float() or .double(), or run this part outside isobit (with isobit.disabled():)");
  }
  if (type == at::kDouble && working_device() != nullptr) {
    refuse(op, "is certified on a GPU for float32 only, got Double",
           "convert with .float(), or compute this part on the CPU");
  }
  return type;
}
at::ScalarType require_computed(std::string_view op, std::initializer_list<const at::Tensor*> tensors) {
  const at::ScalarType type = (*tensors.begin())->scalar_type();
  for (const at::Tensor* tensor : tensors) {
    require_computed(op, tensor->scalar_type());
    if (tensor->scalar_type() == type) continue;
    refuse(op, "takes tensors of one type, got Float and Double", "convert them with .to() to one of the two");
  }
  return type;
}

at::Tensor new_tensor(at::IntArrayRef sizes, at::ScalarType type) {
  if (working_device() == nullptr) return at::Tensor(at::detail::empty_cpu(sizes, type));
  return at::Tensor(at::detail::empty_generic(sizes, c10::GetAllocator(c10::kCUDA),
                                              c10::DispatchKeySet(c10::DispatchKey::CUDA), type, std::nullopt));
}

bool prepare_out(std::string_view op, const at::Tensor& out, at::IntArrayRef sizes, at::ScalarType type,
                 std::initializer_list<const at::Tensor*> inputs, bool same_allowed) {
  if (out.scalar_type() != type) {
    refuse(op, std::string("gives ") + at::toString(type) + ", got an out of type " + at::toString(out.scalar_type()),
           "give an out of the result's type, or convert the inputs first");
  }
  at::assert_no_internal_overlap(out);
  for (const at::Tensor* input : inputs) {
    if (!input->defined() || !may_meet(out, *input)) continue;
    const bool same = same_allowed && at::get_overlap_status(out, *input) == at::MemOverlapStatus::Full;
    if (out.sizes() != sizes || !same) return false;
  }
  at::native::resize_output(out, sizes);
  return out.is_contiguous();
}

std::int64_t planes_of(const char* op, const at::Tensor& x, std::int64_t rank) {
  require_float(op, x);
  TORCH_CHECK(x.dim() == rank + 1 || x.dim() == rank + 2, op, ": ", rank + 1, " or ", rank + 2,
              " dimensions expected, got ", x.sizes());
  return x.size(-rank - 1) * (x.dim() == rank + 2 ? x.size(0) : 1);
}

void copy_out(const at::Tensor& out, const at::Tensor& result) {
  at::native::resize_output(out, result.sizes());
  out.copy_(result);
}

at::Tensor& float_out(std::string_view what, const at::Tensor& result, at::Tensor& out) {
  require_computed(what, {&result, &out});
  copy_out(out, result);
  return out;
}

}  // namespace isobit::aten
