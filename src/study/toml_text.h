// TOML from a file that anybody may have written, and places in it for errors. Not a public header: it names toml++.
// Thread-safe; no state.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "archive/toml.h"
#include "archive/toml_names.h"
#include "archive/user_error.h"

namespace isobit::study {

inline constexpr std::size_t kLargestToml = std::size_t{4} << 20;

[[nodiscard]] inline std::string place_in(const std::string& origin, const toml::source_region& source) {
  if (source.begin.line == 0) return origin;
  return fmt::format("{}:{}:{}", origin, source.begin.line, source.begin.column);
}

// UserError with file, line and column where the text is no TOML.
[[nodiscard]] inline toml::table parse_table(const std::string& text, const std::string& origin) {
  using archive::UserError;
  if (text.size() > kLargestToml)
    throw UserError(origin, fmt::format("has more than {} bytes", kLargestToml), "shorten the file");
  if (const std::int64_t line = archive::line_of_long_name(text); line > 0)
    throw UserError(fmt::format("{}:{}", origin, line),
                    fmt::format("has a name of more than {} parts", archive::kMostNameParts), "correct the line");
  try {
    return toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    throw UserError(place_in(origin, error.source()), fmt::format("not TOML: {}", error.description()),
                    "correct the line");
  }
}

}  // namespace isobit::study
