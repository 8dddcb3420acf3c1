#include "aten/flat_elements.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/flat_elements.h"
#include "kernels/threads.h"
#include "aten/element_pieces.h"
#include "aten/memory_overlap.h"
#include "aten/plain_memory.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using kernels::ExactBinary;

constexpr std::int64_t kFewestBytes = 1 << 16;  // that a thread should at least have

// Without gaps, on the CPU, and large; several threads are there to share it.
bool is_flat(const Tensor& tensor) {
  return tensor.defined() && tensor.dim() > 0 && tensor.numel() >= kWorthSeveralThreads && tensor.device().is_cpu() &&
         tensor.layout() == at::kStrided && !tensor.is_conj() && !tensor.is_neg() && !tensor.is_quantized() &&
         !tensor._is_zerotensor() && tensor.is_non_overlapping_and_dense() && kernels::thread_count() > 1;
}
bool are_alike(const Tensor& a, const Tensor& b) { return a.sizes() == b.sizes() && a.strides() == b.strides(); }
bool is_floats(const Tensor& tensor) { return tensor.scalar_type() == at::kFloat && is_flat(tensor); }

// Rounded to binary32 as stock does; nothing where it is no real number.
std::optional<float> real_number(const Tensor& tensor) {
  if (tensor.dim() != 0 || !tensor.device().is_cpu() || tensor.is_neg() || tensor._is_zerotensor()) return std::nullopt;
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case at::kFloat: return *static_cast<const float*>(data);
    case at::kDouble: return static_cast<float>(*static_cast<const double*>(data));
    case at::kLong: return static_cast<float>(*static_cast<const std::int64_t*>(data));
    case at::kInt: return static_cast<float>(*static_cast<const std::int32_t*>(data));
    case at::kBool: return *static_cast<const bool*>(data) ? 1.0f : 0.0f;
    default: return std::nullopt;
  }
}

// The array of a pair and the number beside it, if one is a number.
struct Pair {
  const Tensor* array = nullptr;
  std::optional<float> number;
  bool number_first = false;

  static std::optional<Pair> of(const Tensor& a, const Tensor& b) {
    if (!a.defined() || !b.defined()) return std::nullopt;
    Pair pair{&a, real_number(b), false};
    if (!pair.number && a.dim() == 0) pair = {&b, real_number(a), true};
    if (!is_floats(*pair.array)) return std::nullopt;
    if (pair.number) return pair;
    return is_floats(a) && is_floats(b) && are_alike(a, b) ? std::optional(pair) : std::nullopt;
  }
  void compute(ExactBinary op, const Tensor& a, const Tensor& b, const Tensor& out) const {
    auto* y = out.mutable_data_ptr<float>();
    if (number) {
      kernels::flat_with_number(op, array->const_data_ptr<float>(), *number, number_first, y, out.numel());
    } else {
      kernels::flat_binary(op, a.const_data_ptr<float>(), b.const_data_ptr<float>(), y, out.numel());
    }
  }
};

// Memory that is the tensor's own or, element by element, the other's.
bool apart_or_same(const Tensor& to, const Tensor& from) {
  return !may_meet(to, from) || to.const_data_ptr() == from.const_data_ptr();
}

}  // namespace

std::optional<Tensor> flat_new(ExactBinary op, const Tensor& a, const Tensor& b) {
  const auto pair = Pair::of(a, b);
  if (!pair) return std::nullopt;
  const Tensor& like = *pair->array;
  const Tensor result = like.is_contiguous()
                            ? Tensor(at::detail::empty_cpu(like.sizes(), at::kFloat))
                            : Tensor(at::detail::empty_strided_cpu(like.sizes(), like.strides(), at::kFloat));
  pair->compute(op, a, b, result);
  return result;
}

bool flat_into(ExactBinary op, const Tensor& a, const Tensor& b, const Tensor& out) {
  const auto pair = Pair::of(a, b);
  if (!pair || !is_floats(out) || !are_alike(out, *pair->array) || !apart_or_same(out, *pair->array)) return false;
  if (!pair->number && !apart_or_same(out, b)) return false;
  pair->compute(op, a, b, out);
  return true;
}

bool flat_copy(const Tensor& to, const Tensor& from) {
  if (!is_flat(to) || !is_flat(from) || to.scalar_type() != from.scalar_type() || !are_alike(to, from)) return false;
  auto* target = static_cast<char*>(to.mutable_data_ptr());
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  if (target == source) return true;
  if (!apart_or_same(to, from)) return false;
  kernels::parallel_for(0, static_cast<std::int64_t>(to.nbytes()), kFewestBytes, [=](std::int64_t b, std::int64_t e) {
    std::memcpy(target + b, source + b, static_cast<std::size_t>(e - b));
  });
  return true;
}

bool flat_fill(const Tensor& to, const at::Scalar& value) {
  if (!is_floats(to) || value.isComplex()) return false;
  const double number = value.toDouble();
  if (std::abs(number) > double{std::numeric_limits<float>::max()} && !std::isinf(number))
    return false;  // stock's error
  const auto filled = static_cast<float>(number);
  auto* target = to.mutable_data_ptr<float>();
  kernels::parallel_for(0, to.numel(), kFewestBytes / 4,
                        [=](std::int64_t b, std::int64_t e) { std::fill(target + b, target + e, filled); });
  return true;
}

bool flat_zero(const Tensor& to) {
  if (!is_flat(to)) return false;
  auto* target = static_cast<char*>(to.mutable_data_ptr());
  kernels::parallel_for(0, static_cast<std::int64_t>(to.nbytes()), kFewestBytes, [=](std::int64_t b, std::int64_t e) {
    std::memset(target + b, 0, static_cast<std::size_t>(e - b));
  });
  return true;
}

namespace {

// What lies one after the other, `outer` times.
struct Parts {
  c10::SmallVector<Tensor, 8> tensors;
  c10::SmallVector<std::int64_t, 9> begin = {0};  // in a row of the result, bytes; the last is the row's size
  at::DimVector sizes;
  std::int64_t outer = 1;

  // False where one does not fit the others, or stock gives the result another layout.
  bool collect(const at::ITensorListRef& list, std::int64_t dim) {
    for (const Tensor& tensor : list) {
      if (!tensor.defined() || !tensor.is_cpu() || !is_plain_memory(tensor) || tensor.numel() == 0 ||
          !tensor.is_contiguous() || tensor.suggest_memory_format() != at::MemoryFormat::Contiguous)
        return false;
      if (tensors.empty()) sizes = at::DimVector(tensor.sizes());
      if (dim < 0) dim += tensor.dim();
      if (dim < 0 || dim >= tensor.dim() || tensor.dim() != static_cast<std::int64_t>(sizes.size())) return false;
      for (std::int64_t d = 0; d < tensor.dim(); ++d) {
        if (d != dim && tensor.size(d) != sizes[static_cast<std::size_t>(d)]) return false;
      }
      if (!tensors.empty() && tensor.dtype() != tensors[0].dtype()) return false;
      if (!tensors.empty()) sizes[static_cast<std::size_t>(dim)] += tensor.size(dim);
      tensors.push_back(tensor);
    }
    for (std::int64_t d = 0; d < dim; ++d) outer *= sizes[static_cast<std::size_t>(d)];
    for (const Tensor& tensor : tensors)
      begin.push_back(begin.back() + static_cast<std::int64_t>(tensor.nbytes()) / outer);
    return !tensors.empty();
  }

  // The result's bytes [first, last).
  void copy(std::int64_t first, std::int64_t last, char* to) const {
    const std::int64_t row = begin.back();
    while (first < last) {
      const std::int64_t o = first / row, at = first % row;
      const auto part = static_cast<std::size_t>(std::upper_bound(begin.begin(), begin.end(), at) - begin.begin() - 1);
      const std::int64_t size = begin[part + 1] - begin[part], offset = at - begin[part];
      const std::int64_t n = std::min(size - offset, last - first);
      const auto* const from = static_cast<const char*>(tensors[part].const_data_ptr());
      std::memcpy(to + first, from + o * size + offset, static_cast<std::size_t>(n));
      first += n;
    }
  }
};

}  // namespace

std::optional<Tensor> flat_cat(const at::ITensorListRef& tensors, std::int64_t dim) {
  constexpr std::int64_t kFewest = 4 * kFewestBytes;
  Parts parts;
  if (kernels::thread_count() < 2 || !parts.collect(tensors, dim)) return std::nullopt;
  const std::int64_t bytes = parts.outer * parts.begin.back();
  if (bytes < kFewest) return std::nullopt;
  Tensor result(at::detail::empty_cpu(parts.sizes, parts.tensors[0].scalar_type()));
  auto* const to = static_cast<char*>(result.mutable_data_ptr());
  kernels::parallel_for(0, bytes, kFewestBytes,
                        [&](std::int64_t begin, std::int64_t end) { parts.copy(begin, end, to); });
  return result;
}

}  // namespace isobit::aten
