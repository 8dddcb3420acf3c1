#include "archive/weights_digest.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "archive/sha256.h"

namespace isobit::archive {
namespace {

// safetensors' own order of dtypes, by alignment; it lays out the last first.
constexpr std::string_view kOrder[] = {"BOOL", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "I16", "U16", "F16",
                                       "BF16", "I32", "U32", "F32",     "F64",     "I64", "U64"};

std::ptrdiff_t rank_of(std::string_view dtype) {
  return std::find(std::begin(kOrder), std::end(kOrder), dtype) - kOrder;
}

struct FloatFormat {
  std::uint64_t infinity = 0, nan = 0, magnitude = 0;  // bits; infinity 0: no type with NaNs
};

FloatFormat format_of(std::string_view dtype) {
  if (dtype == "F32") return {0x7f800000, 0x7fc00000, 0x7fffffff};
  if (dtype == "F64") return {0x7ff0000000000000, 0x7ff8000000000000, 0x7fffffffffffffff};
  if (dtype == "F16") return {0x7c00, 0x7e00, 0x7fff};
  if (dtype == "BF16") return {0x7f80, 0x7fc0, 0x7fff};
  return {};
}

template <class Bits>
void canonical_nans(std::span<std::byte> bytes, const FloatFormat& format) {
  for (std::size_t i = 0; i + sizeof(Bits) <= bytes.size(); i += sizeof(Bits)) {
    Bits bits = 0;
    std::memcpy(&bits, bytes.data() + i, sizeof bits);
    if ((bits & format.magnitude) <= format.infinity) continue;
    bits = static_cast<Bits>(format.nan);
    std::memcpy(bytes.data() + i, &bits, sizeof bits);
  }
}

void hash_elements(Sha256& hash, const TensorView& tensor) {
  const FloatFormat format = format_of(tensor.dtype);
  if (format.infinity == 0) return hash.update(tensor.data);
  std::array<std::byte, 1 << 16> piece{};
  for (std::size_t begin = 0; begin < tensor.data.size(); begin += piece.size()) {
    const auto part = tensor.data.subspan(begin, std::min(piece.size(), tensor.data.size() - begin));
    const std::span<std::byte> copy(piece.data(), part.size());
    std::copy(part.begin(), part.end(), copy.begin());
    switch (dtype_size(tensor.dtype)) {
      case 2: canonical_nans<std::uint16_t>(copy, format); break;
      case 4: canonical_nans<std::uint32_t>(copy, format); break;
      default: canonical_nans<std::uint64_t>(copy, format); break;
    }
    hash.update(copy);
  }
}

}  // namespace

std::string weights_sha256(std::span<const TensorView> tensors) {
  std::vector<TensorView> sorted(tensors.begin(), tensors.end());
  std::sort(sorted.begin(), sorted.end(), [](const TensorView& a, const TensorView& b) {
    const std::ptrdiff_t first = rank_of(a.dtype), second = rank_of(b.dtype);
    return first != second ? first > second : a.name < b.name;
  });
  Sha256 hash;
  hash.update(safetensors_header(sorted, {}));
  for (const TensorView& tensor : sorted) hash_elements(hash, tensor);
  return hash.hex();
}

}  // namespace isobit::archive
