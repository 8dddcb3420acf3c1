// How many parts the names of a TOML text have (a.b.c: three): toml++ knows no limit for them, and takes the tables
// that they make apart by recursion. With 32 values within each other (archive/toml.h) tables are 2,048 deep at most.
// To be asked before a text that anybody may have written is parsed.
//
// Strings and comments are skipped as toml++ skips them, so that dots of paths, of prose and of column names count for
// nothing. Of a text that is no TOML it is enough that all before toml++'s first error is seen alike. Thread-safe; no
// state; takes time that grows as the text does.
#pragma once

#include <cstdint>
#include <string_view>

namespace isobit::archive {

inline constexpr std::int64_t kMostNameParts = 64;

// The first line, counted from 1, with a name of more than kMostNameParts parts; 0: there is none.
[[nodiscard]] std::int64_t line_of_long_name(std::string_view text);

}  // namespace isobit::archive
