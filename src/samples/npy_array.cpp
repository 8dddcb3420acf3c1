#include "samples/npy_array.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "archive/user_error.h"

namespace isobit::samples {
namespace {

using archive::UserError;

static_assert(std::endian::native == std::endian::little, "arrays are little-endian, and copied as they are");

template <class Value>
Value load(const std::byte* from) {
  Value value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class From, class To>
void widen(const std::byte* from, std::uint64_t n, std::byte* out) {
  for (std::uint64_t i = 0; i < n; ++i) {
    const auto value = static_cast<To>(load<From>(from + i * sizeof(From)));
    std::memcpy(out + i * sizeof(To), &value, sizeof value);
  }
}

// Truth values are 0 and 1, whatever byte stands for true.
template <class To>
void truths(const std::byte* from, std::uint64_t n, std::byte* out) {
  for (std::uint64_t i = 0; i < n; ++i) {
    const To value = from[i] == std::byte{0} ? 0 : 1;
    std::memcpy(out + i * sizeof(To), &value, sizeof value);
  }
}

// The first number that float32 cannot hold, or `n`.
std::uint64_t narrow(const std::byte* from, std::uint64_t n, std::byte* out) {
  for (std::uint64_t i = 0; i < n; ++i) {
    const auto value = load<double>(from + i * sizeof(double));
    // Half a unit beyond the largest float32, from where a number would be rounded to infinity.
    if (std::isfinite(value) && std::abs(value) >= 0x1.ffffffp127) return i;
    const auto rounded = static_cast<float>(value);
    std::memcpy(out + i * sizeof(float), &rounded, sizeof rounded);
  }
  return n;
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | code >> 12);
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xf0 | code >> 18);
    tail(12), tail(6), tail(0);
  }
}

}  // namespace

NpyArray::NpyArray(std::shared_ptr<const MappedFile> file, std::span<const std::byte> data,
                   std::vector<std::byte> owned, std::string place)
    : file_(std::move(file)), owned_(std::move(owned)), place_(std::move(place)) {
  if (!owned_.empty()) data = owned_;
  header_ = parse_npy_header(data, place_);
  const std::uint64_t there = data.size() - header_.data_at;
  if (header_.shape.empty()) throw UserError(place_, "a single value: no dimension is that of the samples", "");
  if (header_.elements() == 0)
    throw UserError(place_, fmt::format("empty: {}", header_.text()), "save an array that has elements");
  if (there != header_.bytes()) {
    throw UserError(
        place_,
        fmt::format("{}: {} bytes of elements where {} has {}", there < header_.bytes() ? "truncated" : "too long",
                    there, header_.text(), header_.bytes()),
        "write the array with numpy.save");
  }
  elements_ = data.data() + header_.data_at;
}

Element NpyArray::element(Role role) const {
  if (header_.kind == 'f') return Element::float32;
  const bool byte = header_.kind == 'b' || (header_.kind == 'u' && header_.width == 1);
  return byte && role == Role::input ? Element::uint8 : Element::int64;
}

void NpyArray::check_unchanged() const {
  if (file_) file_->check_unchanged();
}

void NpyArray::read(std::uint64_t first, std::uint64_t n, Element as, std::byte* out) const {
  const std::byte* const from = elements_ + first * header_.width;
  const std::size_t width = header_.width;
  if (header_.kind == 'f') {
    if (width == 4) {
      std::memcpy(out, from, n * width);
    } else if (const std::uint64_t at = narrow(from, n, out); at < n) {
      const std::uint64_t sample = (first + at) / (header_.elements() / static_cast<std::uint64_t>(count()));
      throw UserError(fmt::format("{}, sample {}", place_, sample),
                      fmt::format("{} is beyond the range of float32", load<double>(from + at * width)),
                      "scale the array, or leave the sample out");
    }
    return;
  }
  if (header_.kind == 'b')
    return as == Element::uint8 ? truths<std::uint8_t>(from, n, out) : truths<std::int64_t>(from, n, out);
  if (as == Element::uint8) {
    std::memcpy(out, from, n);
    return;
  }
  const bool is_signed = header_.kind == 'i';
  switch (width) {
    case 1:
      return is_signed ? widen<std::int8_t, std::int64_t>(from, n, out)
                       : widen<std::uint8_t, std::int64_t>(from, n, out);
    case 2:
      return is_signed ? widen<std::int16_t, std::int64_t>(from, n, out)
                       : widen<std::uint16_t, std::int64_t>(from, n, out);
    case 4:
      return is_signed ? widen<std::int32_t, std::int64_t>(from, n, out)
                       : widen<std::uint32_t, std::int64_t>(from, n, out);
    default: std::memcpy(out, from, n * width);
  }
}

std::string NpyArray::text(std::int64_t index) const {
  const std::byte* const from = elements_ + static_cast<std::size_t>(index) * header_.width;
  if (!is_text()) {
    std::int64_t value = 0;
    read(static_cast<std::uint64_t>(index), 1, Element::int64, reinterpret_cast<std::byte*>(&value));
    return std::to_string(value);
  }
  std::string text;
  if (header_.kind == 'S') {
    text.assign(reinterpret_cast<const char*>(from), header_.width);
    text.resize(text.find_last_not_of('\0') + 1);
    return text;
  }
  std::size_t length = header_.width / 4;
  while (length > 0 && load<std::uint32_t>(from + 4 * (length - 1)) == 0) --length;
  for (std::size_t i = 0; i < length; ++i) {
    const auto code = load<std::uint32_t>(from + 4 * i);
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      throw UserError(fmt::format("{}, sample {}", place_, index), "its text is no Unicode", "save the array again");
    append_utf8(text, code);
  }
  return text;
}

}  // namespace isobit::samples
