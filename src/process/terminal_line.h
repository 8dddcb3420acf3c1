// Lines on stderr that are written over while something goes on.
//
// No state; thread-safe.
#pragma once

#include <string>

namespace isobit::process {

// Whether stderr is a terminal that moves its cursor: not with TERM=dumb.
[[nodiscard]] bool rewrites_lines();

// As much of the text as one line of that terminal shows: a longer one wraps, and its first part would stay.
[[nodiscard]] std::string fitted(const std::string& text);
// The same for a width; 0: unknown, all of it. Counts characters of UTF-8.
[[nodiscard]] std::string fitted(const std::string& text, std::size_t width);

}  // namespace isobit::process
