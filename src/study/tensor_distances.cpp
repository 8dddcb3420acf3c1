#include "study/tensor_distances.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "study/ulp_distance.h"

namespace isobit::study {
namespace {

template <class Bits>
Bits read(const std::byte* at) {
  Bits bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

std::uint64_t apart(std::int64_t a, std::int64_t b) {
  const auto distance = a > b ? static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b)
                              : static_cast<std::uint64_t>(b) - static_cast<std::uint64_t>(a);
  return std::min(distance, kNotComparable);
}

// binary16, whose value is a binary32's.
double value_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude = exponent == 31  ? (fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                                                            : std::numeric_limits<double>::infinity())
                           : exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

struct Float32 {
  using Bits = std::uint32_t;
  static constexpr int kExponent = 8, kFraction = 23;
  static double value(Bits bits) { return std::bit_cast<float>(bits); }
};
struct Float64 {
  using Bits = std::uint64_t;
  static constexpr int kExponent = 11, kFraction = 52;
  static double value(Bits bits) { return std::bit_cast<double>(bits); }
};
struct Half {
  using Bits = std::uint16_t;
  static constexpr int kExponent = 5, kFraction = 10;
  static double value(Bits bits) { return value_of_half(bits); }
};
struct BFloat16 {
  using Bits = std::uint16_t;
  static constexpr int kExponent = 8, kFraction = 7;
  static double value(Bits bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

void add_values(Distances& d, double a, double b, std::uint64_t ulp) {
  d.ulp.push_back(ulp);
  d.squared_difference += (b - a) * (b - a);
  d.squared_reference += a * a;
  if ((a > 0 && b < 0) || (a < 0 && b > 0)) ++d.flipped;
}

template <class Format>
void add_floats(Distances& d, const archive::TensorView& a, const archive::TensorView& b) {
  using Bits = typename Format::Bits;
  for (std::size_t i = 0; i < a.data.size(); i += sizeof(Bits)) {
    const auto x = read<Bits>(a.data.data() + i), y = read<Bits>(b.data.data() + i);
    const double u = Format::value(x), v = Format::value(y);
    // Any NaN is as good as another (contract, section 1).
    const std::uint64_t ulp = std::min(ulp_distance(x, y, Format::kExponent, Format::kFraction), kNotComparable);
    if (std::isnan(u) && std::isnan(v)) {
      d.ulp.push_back(ulp);
    } else {
      add_values(d, u, v, ulp);
    }
  }
}

template <class Whole>
void add_integers(Distances& d, const archive::TensorView& a, const archive::TensorView& b) {
  for (std::size_t i = 0; i < a.data.size(); i += sizeof(Whole)) {
    const auto x = read<Whole>(a.data.data() + i), y = read<Whole>(b.data.data() + i);
    std::uint64_t distance = 0;
    if constexpr (std::is_signed_v<Whole>) {
      distance = apart(x, y);
    } else {
      distance = std::min<std::uint64_t>(x > y ? x - y : y - x, kNotComparable);
    }
    add_values(d, static_cast<double>(x), static_cast<double>(y), distance);
  }
}

}  // namespace

void Distances::add(const archive::TensorView& reference, const archive::TensorView& other) {
  if (reference.dtype != other.dtype || reference.shape != other.shape)
    throw std::invalid_argument("tensors of other dtype or shape");
  using Add = void (*)(Distances&, const archive::TensorView&, const archive::TensorView&);
  constexpr std::pair<std::string_view, Add> kKinds[] = {
      {"F32", add_floats<Float32>},         {"F64", add_floats<Float64>},         {"F16", add_floats<Half>},
      {"BF16", add_floats<BFloat16>},       {"I64", add_integers<std::int64_t>},  {"I32", add_integers<std::int32_t>},
      {"I16", add_integers<std::int16_t>},  {"I8", add_integers<std::int8_t>},    {"U64", add_integers<std::uint64_t>},
      {"U32", add_integers<std::uint32_t>}, {"U16", add_integers<std::uint16_t>}, {"U8", add_integers<std::uint8_t>},
      {"BOOL", add_integers<std::uint8_t>}};
  for (const auto& [dtype, add] : kKinds) {
    if (dtype == reference.dtype) return add(*this, reference, other);
  }
  throw std::invalid_argument("tensors of dtype " + reference.dtype);
}

std::uint64_t Distances::max_ulp() const { return ulp.empty() ? 0 : *std::max_element(ulp.begin(), ulp.end()); }

std::uint64_t Distances::median_ulp() {
  if (ulp.empty()) return 0;
  const auto middle = ulp.begin() + static_cast<std::ptrdiff_t>((ulp.size() - 1) / 2);
  std::nth_element(ulp.begin(), middle, ulp.end());
  return *middle;
}

double Distances::relative_norm() const {
  if (squared_difference == 0) return 0;
  return std::sqrt(squared_difference) / std::sqrt(squared_reference);
}

double Distances::flipped_share() const {
  return ulp.empty() ? 0 : static_cast<double>(flipped) / static_cast<double>(ulp.size());
}

}  // namespace isobit::study
