#include "archive/toml_names.h"

#include <algorithm>

namespace isobit::archive {
namespace {

std::size_t quotes_at(std::string_view text, std::size_t at, char quote) {
  std::size_t count = 0;
  while (at + count < text.size() && text[at + count] == quote) ++count;
  return count;
}

// Behind the string whose first quote is text[at]. A string of one line that no quote ends is toml++'s error.
std::size_t behind_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::size_t opening = quotes_at(text, at, quote);
  if (opening == 2) return at + 2;
  const bool lines = opening >= 3;
  at += lines ? 3 : 1;
  while (at < text.size()) {
    if (text[at] == '\\' && quote == '"') {
      at += 2;
    } else if (text[at] != quote) {
      if (!lines && text[at] == '\n') return at;
      ++at;
    } else {
      // Of several lines: three quotes end it, and up to two before them are its own.
      const std::size_t count = quotes_at(text, at, quote);
      if (!lines) return at + 1;
      if (count >= 3) return at + std::min<std::size_t>(count, 5);
      at += count;
    }
  }
  return text.size();
}

}  // namespace

std::int64_t line_of_long_name(std::string_view text) {
  std::int64_t parts = 1, line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      const std::size_t end = std::min(behind_string(text, at), text.size());
      line += std::count(text.begin() + static_cast<std::ptrdiff_t>(at),
                         text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
      at = end;
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '\n') ++line;
    if (c == '\n' || c == '=' || c == ',') parts = 1;  // no name goes on behind these
    if (c == '.' && ++parts > kMostNameParts) return line;
    ++at;
  }
  return 0;
}

}  // namespace isobit::archive
