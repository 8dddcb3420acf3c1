#include "study/checkpoint_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "archive/checkpoint_compare.h"
#include "archive/safetensors.h"
#include "study/ulp_distance.h"

namespace isobit::study {
namespace {

std::string different_tensor(const archive::TensorView& a, const archive::TensorView& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return a.name + ": another type or shape";
  if (std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end())) return "";
  const ValueDifference found = compare_values(a.dtype, a.data, b.data);
  if (found.differing == 0) return "";  // other bits of NaN
  return fmt::format(
      "{}: {} of {} elements differ, {} ULP at index {}", a.name, found.differing, found.elements,
      found.max_ulp == kUnordered ? "NaN against a number, no" : fmt::format("at most {}", found.max_ulp), found.at);
}

}  // namespace

std::string different_checkpoint(const std::filesystem::path& a, const std::filesystem::path& b) {
  if (a.extension() != ".safetensors" || b.extension() != ".safetensors") return archive::different_part(a, b);
  const auto in_a = archive::Safetensors::read(a), in_b = archive::Safetensors::read(b);
  for (const archive::TensorView& tensor : in_a.tensors()) {
    const archive::TensorView* other = in_b.find(tensor.name);
    if (other == nullptr) return tensor.name + ": only one has it";
    if (std::string difference = different_tensor(tensor, *other); !difference.empty()) return difference;
  }
  if (in_a.tensors().size() != in_b.tensors().size()) return "one has more tensors";
  return in_a.metadata() == in_b.metadata() ? "" : "the state beside the tensors";
}

}  // namespace isobit::study
