#include "aten/conversions.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/view_as_real.h>

#include "kernels/device.h"
#include "kernels/reduce.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using c10::ScalarType;

template <typename Integer>
constexpr double kLow = static_cast<double>(std::numeric_limits<Integer>::min());
// The first value beyond: a power of two, so a double is exactly it.
template <typename Integer>
constexpr double kBeyond = 2.0 * static_cast<double>(std::numeric_limits<Integer>::max() / 2 + 1);

template <typename Integer>
Integer saturate(double value) {
  if (std::isnan(value)) return 0;
  const double whole = std::trunc(value);
  if (whole < kLow<Integer>) return std::numeric_limits<Integer>::min();
  if (whole >= kBeyond<Integer>) return std::numeric_limits<Integer>::max();
  return static_cast<Integer>(whole);
}

// The smallest and the largest: NaN where one is NaN.
template <typename Float>
std::pair<double, double> extremes(const Tensor& dense) {
  kernels::ReduceShape all;
  all.reduced_rank = 1, all.reduced_size[0] = dense.numel(), all.reduced_stride[0] = 1;
  const kernels::HostScope host;
  Float low = 0, high = 0;
  kernels::minimum(all, dense.const_data_ptr<Float>(), &low);
  kernels::maximum(all, dense.const_data_ptr<Float>(), &high);
  return {static_cast<double>(low), static_cast<double>(high)};
}
template <typename Integer, typename Float>
bool all_within(const Tensor& dense) {
  if (dense.numel() == 0) return true;
  const auto [low, high] = extremes<Float>(dense);
  return std::trunc(low) >= kLow<Integer> && std::trunc(high) < kBeyond<Integer>;  // not where one is NaN
}

// 16-bit and smaller floats become float32: an exact conversion.
Tensor on_host(const Tensor& floats) {
  const ScalarType type = floats.scalar_type() == ScalarType::Double ? ScalarType::Double : ScalarType::Float;
  return floats.to(at::kCPU).to(type).contiguous();
}

template <typename Integer, typename Float>
void saturate_all(const Tensor& from, const Tensor& to) {
  const Float* const values = from.const_data_ptr<Float>();
  Integer* const integers = to.mutable_data_ptr<Integer>();
  for (std::int64_t i = 0; i < from.numel(); ++i) integers[i] = saturate<Integer>(static_cast<double>(values[i]));
}

template <typename Bits>
bool any_other_nan(const Tensor& dense, Bits infinity, Bits canonical) {
  const auto* const bits = static_cast<const Bits*>(dense.const_data_ptr());
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max() >> 1;
  for (std::int64_t i = 0; i < dense.numel(); ++i) {
    if ((bits[i] & kMagnitude) > infinity && bits[i] != canonical) return true;
  }
  return false;
}

// visit(Integer()) for the integer type's C++ type.
template <typename Visit>
auto with_integer_type(ScalarType type, Visit visit) {
  switch (type) {
    case ScalarType::Byte: return visit(std::uint8_t());
    case ScalarType::Char: return visit(std::int8_t());
    case ScalarType::Short: return visit(std::int16_t());
    case ScalarType::Int: return visit(std::int32_t());
    case ScalarType::Long: return visit(std::int64_t());
    case ScalarType::UInt16: return visit(std::uint16_t());
    case ScalarType::UInt32: return visit(std::uint32_t());
    case ScalarType::UInt64: return visit(std::uint64_t());
    default: TORCH_INTERNAL_ASSERT(false, "no integer type: ", type);
  }
}

}  // namespace

bool integer_type_holds(const Tensor& floats, ScalarType type) {
  const ScalarType from = floats.scalar_type();
  if (from != ScalarType::Float && from != ScalarType::Double) return false;
  const Tensor dense = on_host(floats);
  return with_integer_type(type, [&](auto integer) {
    using Integer = decltype(integer);
    return from == ScalarType::Float ? all_within<Integer, float>(dense) : all_within<Integer, double>(dense);
  });
}

Tensor saturated(const Tensor& floats, ScalarType type) {
  const Tensor dense = on_host(floats);
  const Tensor integers = at::empty(dense.sizes(), at::TensorOptions(type).device(at::kCPU));
  with_integer_type(type, [&](auto integer) {
    using Integer = decltype(integer);
    if (dense.scalar_type() == ScalarType::Float) {
      saturate_all<Integer, float>(dense, integers);
    } else {
      saturate_all<Integer, double>(dense, integers);
    }
  });
  return integers.to(floats.device());
}

bool holds_other_nan(const Tensor& floats) {
  const Tensor parts = floats.is_complex() ? at::view_as_real(floats.resolve_conj()) : floats;
  const Tensor dense = parts.resolve_neg().to(at::kCPU).contiguous();
  switch (dense.scalar_type()) {
    case ScalarType::Double: return any_other_nan<std::uint64_t>(dense, 0x7ff0000000000000, 0x7ff8000000000000);
    case ScalarType::Float: return any_other_nan<std::uint32_t>(dense, 0x7f800000, 0x7fc00000);
    case ScalarType::Half: return any_other_nan<std::uint16_t>(dense, 0x7c00, 0x7e00);
    case ScalarType::BFloat16: return any_other_nan<std::uint16_t>(dense, 0x7f80, 0x7fc0);
    default: return at::isnan(dense.to(at::kFloat)).any().item<bool>();
  }
}

}  // namespace isobit::aten
