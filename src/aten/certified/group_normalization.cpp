// Layer and group normalisation (contract, section 4; formulas in kernels/group_norm.h). nn.LayerNorm and nn.GroupNorm
// reach these; nn.InstanceNorm is batch normalisation.
#include <array>
#include <optional>
#include <tuple>
#include <type_traits>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "kernels/group_norm.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using kernels::GroupShape;
using Optional = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

constexpr const char* kLayer = "aten::native_layer_norm";
constexpr const char* kLayerBackward = "aten::native_layer_norm_backward";
constexpr const char* kGroup = "aten::native_group_norm";
constexpr const char* kGroupBackward = "aten::native_group_norm_backward";

// Contiguous, of x's type, `count` values; undefined where absent.
Tensor values_of(const char* op, const Tensor& x, const Optional& tensor, std::int64_t count) {
  if (!tensor || !tensor->defined()) return {};
  require_computed(op, {&x, &*tensor});
  TORCH_CHECK(tensor->numel() == count, op, ": ", count, " values expected, got sizes ", tensor->sizes());
  return contiguous(*tensor);
}
template <class T>
const T* read(const Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}
template <class T>
T* write(const Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<T>() : nullptr;
}

Three forward(const char* op, const GroupShape& shape, const Tensor& input, const Optional& weight,
              const Optional& bias, double eps, at::IntArrayRef statistics) {
  const at::ScalarType type = require_computed(op, input.scalar_type());
  const Tensor x = contiguous(input), w = values_of(op, x, weight, shape.c), b = values_of(op, x, bias, shape.c);
  const Tensor y = new_tensor(x.sizes(), type), mean = new_tensor(statistics, type),
               invstd = new_tensor(statistics, type);
  with_data(y, [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    kernels::group_norm(kernels::GroupNormForwardOf<T>{.shape = shape,
                                                       .x = read<T>(x),
                                                       .weight = read<T>(w),
                                                       .bias = read<T>(b),
                                                       .y = to,
                                                       .mean = write<T>(mean),
                                                       .invstd = write<T>(invstd),
                                                       .eps = eps});
  });
  return {y, mean, invstd};
}

Three backward(const char* op, const GroupShape& shape, const Tensor& grad_output, const Tensor& input,
               const Tensor& saved_mean, const Tensor& saved_invstd, const Optional& weight,
               at::IntArrayRef weight_sizes, std::array<bool, 3> mask) {
  const at::ScalarType type = require_computed(op, {&grad_output, &input});
  TORCH_CHECK(grad_output.numel() == input.numel(), op, ": grad_output has sizes ", grad_output.sizes(), ", input ",
              input.sizes());
  const Tensor x = contiguous(input), dy = contiguous(grad_output), w = values_of(op, x, weight, shape.c);
  const Tensor mean = values_of(op, x, saved_mean, shape.rows()), invstd = values_of(op, x, saved_invstd, shape.rows());
  Tensor dx, dweight, dbias;
  if (mask[0]) dx = new_tensor(x.sizes(), type);
  if (mask[1]) dweight = new_tensor(weight_sizes, type);
  if (mask[2]) dbias = new_tensor(weight_sizes, type);
  const auto run = [&]<class T>(T) {
    kernels::group_norm_backward(kernels::GroupNormBackwardOf<T>{.shape = shape,
                                                                 .x = read<T>(x),
                                                                 .dy = read<T>(dy),
                                                                 .weight = read<T>(w),
                                                                 .mean = read<T>(mean),
                                                                 .invstd = read<T>(invstd),
                                                                 .dx = write<T>(dx),
                                                                 .dweight = write<T>(dweight),
                                                                 .dbias = write<T>(dbias)});
  };
  is_wide(x) ? run(double{}) : run(float{});
  return {dx, dweight, dbias};
}

// ---- layers: the last dimensions

GroupShape layer_shape(const char* op, const Tensor& x, at::IntArrayRef normalized) {
  const auto axis = x.dim() - static_cast<std::int64_t>(normalized.size());
  TORCH_CHECK(!normalized.empty() && axis >= 0 && x.sizes().slice(static_cast<std::size_t>(axis)) == normalized, op,
              ": normalized_shape ", normalized, " does not end the input's sizes ", x.sizes());
  GroupShape shape;
  shape.n = c10::multiply_integers(x.sizes().slice(0, static_cast<std::size_t>(axis)));
  shape.c = c10::multiply_integers(normalized);
  return shape;
}

Three layer_norm(const Tensor& x, at::IntArrayRef normalized, const Optional& weight, const Optional& bias,
                 double eps) {
  const GroupShape shape = layer_shape(kLayer, x, normalized);
  at::DimVector statistics(x.sizes());
  for (std::size_t d = statistics.size() - normalized.size(); d < statistics.size(); ++d) statistics[d] = 1;
  return forward(kLayer, shape, x, weight, bias, eps, statistics);
}
Three layer_norm_backward(const Tensor& dy, const Tensor& x, at::IntArrayRef normalized, const Tensor& mean,
                          const Tensor& invstd, const Optional& weight, const Optional& /*bias*/,
                          std::array<bool, 3> mask) {
  return backward(kLayerBackward, layer_shape(kLayerBackward, x, normalized), dy, x, mean, invstd, weight, normalized,
                  mask);
}

// ---- groups of channels

GroupShape group_shape(const char* op, const Tensor& x, std::int64_t n, std::int64_t c, std::int64_t inner,
                       std::int64_t groups) {
  TORCH_CHECK(groups > 0 && c % groups == 0 && x.numel() == n * c * inner, op, ": ", groups, " groups of ", c,
              " channels, input ", x.sizes());
  return {n, c, inner, groups};
}

Three group_norm(const Tensor& x, const Optional& weight, const Optional& bias, std::int64_t n, std::int64_t c,
                 std::int64_t inner, std::int64_t groups, double eps) {
  return forward(kGroup, group_shape(kGroup, x, n, c, inner, groups), x, weight, bias, eps, {n, groups});
}
Three group_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& invstd,
                          const Optional& weight, std::int64_t n, std::int64_t c, std::int64_t inner,
                          std::int64_t groups, std::array<bool, 3> mask) {
  return backward(kGroupBackward, group_shape(kGroupBackward, x, n, c, inner, groups), dy, x, mean, invstd, weight, {c},
                  mask);
}

}  // namespace

std::vector<Entry> group_normalization_operators() {
  constexpr std::string_view moments = "4: leaf moments; y = fma(x - mean, weight * invstd, bias)";
  constexpr std::string_view gradient = "4: sums of g = dy * weight and g * (x - mean); kernels/group_norm.h";
  return {
      certify<layer_norm>(kLayer, "", moments),
      certify<layer_norm_backward>(kLayerBackward, "", gradient),
      certify<group_norm>(kGroup, "", moments),
      certify<group_norm_backward>(kGroupBackward, "", gradient),
  };
}

}  // namespace isobit::aten
