// CBOR (RFC 8949) of whole numbers, texts, bytes, truth values and arrays, as messages of isobit are. Not a public
// header: it names nlohmann-json. No state; thread-safe.
#pragma once

#include <cstddef>
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

// All of `bytes`, arrays at most 8 deep; nothing where they are not such CBOR.
[[nodiscard]] inline std::optional<nlohmann::json> parse_cbor(const Bytes& bytes, bool nulls) {
  CborShape shape(bytes.size(), nulls);
  if (!nlohmann::json::sax_parse(bytes, &shape, nlohmann::json::input_format_t::cbor)) return std::nullopt;
  auto json = nlohmann::json::from_cbor(bytes, /*strict=*/true, /*allow_exceptions=*/false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

}  // namespace isobit::scale
