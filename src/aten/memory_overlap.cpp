#include "aten/memory_overlap.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/clone.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "aten/refusal.h"

namespace isobit::aten {
namespace {

using at::Tensor;

struct Dimension {
  std::int64_t stride, size, other_size;  // in elements; of the second tensor
};
using Dimensions = c10::SmallVector<Dimension, 8>;

bool has_places(const Tensor& t) {
  return t.defined() && t.layout() == at::kStrided && t.has_storage() && t.numel() > 0 && !t.is_meta();
}

// The bytes [first, last) between which all elements lie.
struct Range {
  const char *first, *last;

  static Range of(const Tensor& t) {
    std::int64_t before = 0, after = 0;
    for (std::int64_t d = 0; d < t.dim(); ++d) {
      const std::int64_t reach = (t.size(d) - 1) * t.stride(d);
      (reach < 0 ? before : after) += reach;
    }
    const auto* const start = static_cast<const char*>(t.const_data_ptr());
    const auto size = static_cast<std::int64_t>(t.element_size());
    return {start + before * size, start + (after + 1) * size};
  }
};

// From the largest stride on; nullopt where a stride is 0 or negative, or where the two have different ones.
std::optional<Dimensions> by_stride(const Tensor& a, const Tensor& b) {
  if (a.dim() != b.dim()) return {};
  Dimensions all;
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) == 1 && b.size(d) == 1) continue;
    const std::int64_t stride = a.size(d) == 1 ? b.stride(d) : a.stride(d);
    if (stride <= 0 || (b.size(d) != 1 && b.stride(d) != stride)) return {};
    all.push_back({stride, a.size(d), b.size(d)});
  }
  std::sort(all.begin(), all.end(), [](const Dimension& x, const Dimension& y) { return x.stride > y.stride; });
  return all;
}

// Whether sum(k[d] * stride[d]) = distance for some k[d] in (-size, other size), the difference of an index of the
// second and one of the first. `tries` bounds the search; true where it is used up.
bool reaches(const Dimensions& all, std::size_t d, std::int64_t distance, int& tries) {
  if (d == all.size()) return distance == 0;
  std::int64_t rest = 0;
  for (std::size_t i = d + 1; i < all.size(); ++i)
    rest += (std::max(all[i].size, all[i].other_size) - 1) * all[i].stride;
  const auto floor_of = [](std::int64_t x, std::int64_t y) { return x / y - (x % y < 0 ? 1 : 0); };
  const std::int64_t stride = all[d].stride;
  const std::int64_t low = std::max(-(all[d].size - 1), -floor_of(-(distance - rest), stride));
  const std::int64_t high = std::min(all[d].other_size - 1, floor_of(distance + rest, stride));
  for (std::int64_t k = low; k <= high; ++k) {
    if (--tries < 0 || reaches(all, d + 1, distance - k * stride, tries)) return true;
  }
  return false;
}

}  // namespace

bool may_overlap_itself(const Tensor& tensor) {
  if (!has_places(tensor) || tensor.is_non_overlapping_and_dense()) return false;
  const auto all = by_stride(tensor, tensor);
  if (!all) return true;
  std::int64_t reach = 0;  // of the smaller strides
  for (std::size_t d = all->size(); d-- > 0;) {
    if ((*all)[d].stride <= reach) return true;
    reach += ((*all)[d].size - 1) * (*all)[d].stride;
  }
  return false;
}

bool may_meet(const Tensor& a, const Tensor& b) {
  if (!has_places(a) || !has_places(b) || a.device() != b.device()) return false;
  const Range x = Range::of(a), y = Range::of(b);
  if (x.last <= y.first || y.last <= x.first) return false;
  const auto size = static_cast<std::int64_t>(a.element_size());
  const std::int64_t bytes =
      static_cast<const char*>(a.const_data_ptr()) - static_cast<const char*>(b.const_data_ptr());
  const auto all = by_stride(a, b);
  if (!all || b.element_size() != a.element_size() || bytes % size != 0) return true;
  int tries = 64;
  return reaches(*all, 0, bytes / size, tries);
}

bool lie_apart(std::span<const Tensor* const> tensors) {
  c10::SmallVector<Range, 16> ranges;  // at each step of small models: no memory is asked for
  for (const Tensor* t : tensors) {
    if (!t->defined() || t->nbytes() == 0) continue;
    if (!t->is_non_overlapping_and_dense()) return false;
    ranges.push_back(Range::of(*t));
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  return std::adjacent_find(ranges.begin(), ranges.end(),
                            [](const Range& a, const Range& b) { return b.first < a.last; }) == ranges.end();
}

bool lie_alike(const Tensor& a, const Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.scalar_type() == b.scalar_type();
}

Tensor apart_from(const Tensor& written, const Tensor& read) {
  if (written.is_same(read) || !may_meet(written, read) || lie_alike(written, read)) return read;
  return at::get_overlap_status(written, read) == at::MemOverlapStatus::Partial ? read : read.clone();
}

void require_own_places(std::string_view op, const Tensor& written) {
  if (!may_overlap_itself(written)) return;
  refuse(op, "writes a tensor whose elements lie on each other, whose values depend on the order of writing",
         "write to a copy of it (x.clone())");
}

}  // namespace isobit::aten
