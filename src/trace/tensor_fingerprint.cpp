#include "trace/tensor_fingerprint.h"

#include <algorithm>
#include <stdexcept>

namespace isobit::trace {

const char* dtype_name(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return "float32";
    case at::kLong: return "int64";
    case at::kByte: return "uint8";
    case at::kBool: return "bool";
    default:
      throw std::invalid_argument(std::string("no fingerprint is defined for tensors of ") +
                                  toString(tensor.scalar_type()));
  }
}

kernels::Fingerprint fingerprint(const at::Tensor& tensor) {
  const char* dtype = dtype_name(tensor);
  const at::Tensor dense = tensor.detach().resolve_neg().contiguous();
  kernels::Fingerprint sums;
  if (dense.scalar_type() == at::kFloat) sums = kernels::element_sums(dense.const_data_ptr<float>(), 0, dense.numel());
  if (dense.scalar_type() == at::kLong)
    sums = kernels::element_sums(dense.const_data_ptr<std::int64_t>(), 0, dense.numel());
  if (dense.scalar_type() == at::kByte)
    sums = kernels::element_sums(dense.const_data_ptr<std::uint8_t>(), 0, dense.numel());
  if (dense.scalar_type() == at::kBool) {
    sums = kernels::element_sums(static_cast<const std::uint8_t*>(dense.const_data_ptr()), 0, dense.numel());
  }
  return kernels::close_tensor(sums, dtype, dense.sizes().data(), static_cast<int>(dense.dim()));
}

std::vector<NamedTensor> sorted_by_name(std::vector<NamedTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  return tensors;
}

kernels::Fingerprint fingerprint(std::vector<NamedTensor> tensors) {
  kernels::ListFingerprint list;
  for (const auto& [name, tensor] : sorted_by_name(std::move(tensors))) {
    list.add(name, dtype_name(tensor), tensor.sizes().data(), static_cast<int>(tensor.dim()), fingerprint(tensor));
  }
  return list.result();
}

}  // namespace isobit::trace
