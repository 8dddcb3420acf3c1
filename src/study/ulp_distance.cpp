#include "study/ulp_distance.h"

#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>

namespace isobit::study {
namespace {

struct Format {
  std::string_view dtype;
  int size;                          // bytes
  int exponent_bits, fraction_bits;  // 0: a whole number
  bool is_signed;
};
constexpr Format kFormats[] = {{"F32", 4, 8, 23, true}, {"F64", 8, 11, 52, true}, {"F16", 2, 5, 10, true},
                               {"BF16", 2, 8, 7, true}, {"I64", 8, 0, 0, true},   {"I32", 4, 0, 0, true},
                               {"I16", 2, 0, 0, true},  {"I8", 1, 0, 0, true},    {"U64", 8, 0, 0, false},
                               {"U32", 4, 0, 0, false}, {"U16", 2, 0, 0, false},  {"U8", 1, 0, 0, false},
                               {"BOOL", 1, 0, 0, false}};

std::uint64_t read(const std::byte* at, int size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<std::size_t>(size));  // little-endian, as safetensors
  return bits;
}

std::int64_t extended(std::uint64_t bits, int size) {
  const int above = 64 - 8 * size;
  return static_cast<std::int64_t>(bits << above) >> above;
}

std::uint64_t distance(std::uint64_t a, std::uint64_t b, const Format& format) {
  if (format.exponent_bits > 0) return ulp_distance(a, b, format.exponent_bits, format.fraction_bits);
  if (!format.is_signed) return a > b ? a - b : b - a;
  const std::int64_t x = extended(a, format.size), y = extended(b, format.size);
  return x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
               : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x);
}

bool is_nan(std::uint64_t magnitude, int exponent_bits, int fraction_bits) {
  return magnitude > ((std::uint64_t{1} << exponent_bits) - 1) << fraction_bits;
}

}  // namespace

std::uint64_t ulp_distance(std::uint64_t a, std::uint64_t b, int exponent_bits, int fraction_bits) {
  const std::uint64_t sign = std::uint64_t{1} << (exponent_bits + fraction_bits);
  const std::uint64_t a_size = a & (sign - 1), b_size = b & (sign - 1);
  const bool a_nan = is_nan(a_size, exponent_bits, fraction_bits), b_nan = is_nan(b_size, exponent_bits, fraction_bits);
  if (a_nan || b_nan) return a_nan && b_nan ? 0 : kUnordered;
  if ((a & sign) != (b & sign)) return a_size + b_size;
  return a_size > b_size ? a_size - b_size : b_size - a_size;
}

std::uint64_t ulp_distance(float a, float b) {
  return ulp_distance(std::bit_cast<std::uint32_t>(a), std::bit_cast<std::uint32_t>(b), 8, 23);
}

std::uint64_t ulp_distance(double a, double b) {
  return ulp_distance(std::bit_cast<std::uint64_t>(a), std::bit_cast<std::uint64_t>(b), 11, 52);
}

ValueDifference compare_values(std::string_view dtype, std::span<const std::byte> a, std::span<const std::byte> b) {
  const Format* format = nullptr;
  for (const Format& one : kFormats) {
    if (one.dtype == dtype) format = &one;
  }
  if (format == nullptr) throw std::invalid_argument("no distance is known for values of " + std::string(dtype));
  const auto size = static_cast<std::size_t>(format->size);
  if (a.size() != b.size() || a.size() % size != 0) throw std::invalid_argument("values of other sizes");
  ValueDifference result;
  result.elements = static_cast<std::int64_t>(a.size() / size);
  for (std::int64_t i = 0; i < result.elements; ++i) {
    const std::uint64_t x = read(a.data() + static_cast<std::size_t>(i) * size, format->size);
    const std::uint64_t y = read(b.data() + static_cast<std::size_t>(i) * size, format->size);
    if (x == y) continue;
    const std::uint64_t ulp = distance(x, y, *format);
    const std::uint64_t zero = format->exponent_bits > 0 ? std::uint64_t{1} << (8 * size - 1) : 0;
    if (ulp == 0 && ((x | y) & ~zero) != 0) continue;  // two NaNs
    ++result.differing;
    if (result.at < 0 || ulp > result.max_ulp) {
      result.max_ulp = ulp;
      result.at = i;
    }
  }
  return result;
}

}  // namespace isobit::study
