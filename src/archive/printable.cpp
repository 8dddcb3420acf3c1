#include "archive/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace isobit::archive {
namespace {

constexpr std::uint32_t kNoCharacter = 0xffffffff;

// The character that begins the text and its length in bytes; kNoCharacter and 1 where no valid UTF-8 begins there.
std::pair<std::uint32_t, std::size_t> first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xf0 && lead < 0xf5 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead >= 0xf5 || text.size() < length) return {kNoCharacter, 1};
  std::uint32_t character = lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {kNoCharacter, 1};
    character = character << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  if (character < kSmallest[length] || character > 0x10ffff || surrogate) return {kNoCharacter, 1};
  return {character, length};
}

// What a terminal obeys or hides rather than shows.
bool is_hidden(std::uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x34f || c == 0x61c || (c >= 0x115f && c <= 0x1160) ||
         (c >= 0x17b4 && c <= 0x17b5) || (c >= 0x180b && c <= 0x180f) || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0x2800 || c == 0x3164 ||
         (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff || c == 0xffa0 || (c >= 0xfff0 && c <= 0xfffb) ||
         (c >= 0x1bca0 && c <= 0x1bca3) || (c >= 0x1d173 && c <= 0x1d17a) || (c >= 0xe0000 && c <= 0xe0fff);
}

std::string escaped(std::uint32_t c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  if (c == '\r') return "\\r";
  return c < 0x80 ? fmt::format("\\x{:02x}", c) : fmt::format("\\u{:04x}", c);
}

std::string escape(std::string_view text, bool lines) {
  // Nearly all text is printable ASCII, and lists show much of it.
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  if (plain) return std::string(text);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [character, length] = first_character(text);
    if (character == kNoCharacter) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (is_hidden(character) && !(lines && (character == '\n' || character == '\t'))) {
      out += escaped(character);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escape(text, false); }
std::string printable_lines(std::string_view text) { return escape(text, true); }

std::string plural(std::size_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

}  // namespace isobit::archive
