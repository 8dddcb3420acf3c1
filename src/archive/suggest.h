// The name that was probably meant, for error messages. No state; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace isobit::archive {

// Insertions, deletions, substitutions and swaps of neighbours that turn one word into the other.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest distance (the first of equals), if that is at most a third of the longer
// word's length, at least 1; else "". A candidate that begins with `word` (two letters at least) counts as
// near.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace isobit::archive
