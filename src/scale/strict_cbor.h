// CBOR (RFC 8949) of whole numbers, texts, bytes, truth values and arrays, as messages of isobit are. Not a public
// header: it names nlohmann-json. No state; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "scale/messages.h"

namespace isobit::scale {

// What a message may look like at all: the library would go into arrays as deep as the stack, and would make them as
// long as their heads say.
class CborShape final : public nlohmann::json_sax<nlohmann::json> {
 public:
  CborShape(std::size_t bytes, bool nulls) : bytes_(bytes), nulls_(nulls) {}
  bool null() override { return nulls_; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return false; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return false; }
  bool key(string_t&) override { return false; }
  bool end_object() override { return false; }
  bool start_array(std::size_t count) override { return ++depth_ <= kDeepest && count <= bytes_; }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  static constexpr int kDeepest = 8;
  std::size_t bytes_;
  bool nulls_;
  int depth_ = 0;
};

// Whether every head says a length, where it stands for one, that lies within `bytes`. Texts and bytes of indefinite
// length (RFC 8949, 3.2.3) hold others, which the library enters by recursion before CborShape sees anything of them.
[[nodiscard]] inline bool has_definite_lengths(const Bytes& bytes) {
  constexpr unsigned kBytes = 2, kText = 3;  // major types
  for (std::size_t at = 0; at < bytes.size();) {
    const unsigned head = bytes[at++], major = head >> 5, small = head & 31;
    if (small > 27) return false;
    const std::size_t more = small < 24 ? 0 : std::size_t{1} << (small - 24);
    if (more > bytes.size() - at) return false;
    std::uint64_t value = small < 24 ? small : 0;
    for (std::size_t i = 0; i < more; ++i) value = value << 8 | bytes[at++];
    if (major != kBytes && major != kText) continue;
    if (value > bytes.size() - at) return false;
    at += static_cast<std::size_t>(value);
  }
  return true;
}

// All of `bytes`, arrays at most 8 deep, lengths definite; nothing where they are not such CBOR.
[[nodiscard]] inline std::optional<nlohmann::json> parse_cbor(const Bytes& bytes, bool nulls) {
  CborShape shape(bytes.size(), nulls);
  if (!has_definite_lengths(bytes)) return std::nullopt;
  if (!nlohmann::json::sax_parse(bytes, &shape, nlohmann::json::input_format_t::cbor)) return std::nullopt;
  auto json = nlohmann::json::from_cbor(bytes, /*strict=*/true, /*allow_exceptions=*/false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

}  // namespace isobit::scale
