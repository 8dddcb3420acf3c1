#include "trace/tensor_fingerprint.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace isobit::trace {

const char* dtype_name(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return "float32";
    case at::kLong: return "int64";
    case at::kByte: return "uint8";
    case at::kBool: return "bool";
    case at::kDouble: return "float64";
    case at::kHalf: return "float16";
    case at::kBFloat16: return "bfloat16";
    default:
      throw std::invalid_argument(std::string("no fingerprint is defined for tensors of ") +
                                  toString(tensor.scalar_type()));
  }
}

namespace {

// Patterns with one NaN, as the integers that are summed.
kernels::Fingerprint element_sums(const double* x, std::int64_t n) {
  std::vector<std::int64_t> bits(static_cast<std::size_t>(n));
  const double nan = std::bit_cast<double>(0x7ff8000000000000);
  std::transform(x, x + n, bits.begin(),
                 [nan](double value) { return std::bit_cast<std::int64_t>(std::isnan(value) ? nan : value); });
  return kernels::element_sums(bits.data(), 0, n);
}

// Those of the numbers in float32, which is exact.
template <class Reduced>
kernels::Fingerprint widened_sums(const at::Tensor& tensor) {
  const auto* const x = tensor.const_data_ptr<Reduced>();
  const std::vector<float> wide(x, x + tensor.numel());
  return kernels::element_sums(wide.data(), 0, tensor.numel());
}

}  // namespace

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
  if (dense.scalar_type() == at::kDouble) sums = element_sums(dense.const_data_ptr<double>(), dense.numel());
  if (dense.scalar_type() == at::kHalf) sums = widened_sums<c10::Half>(dense);
  if (dense.scalar_type() == at::kBFloat16) sums = widened_sums<c10::BFloat16>(dense);
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
