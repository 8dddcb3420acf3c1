#include "archive/suggest.h"

#include <algorithm>

namespace isobit::archive {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the usual table (Damerau's restricted distance): the two before the current one suffice.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t least = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t longer = std::max(word.size(), candidate.size());
    const std::size_t allowed = std::max<std::size_t>(1, longer / 3);
    const bool prefix = word.size() >= 2 && candidate.compare(0, word.size(), word) == 0;
    // What is so much longer is no misspelling; its table would cost the product of both lengths.
    if (longer - std::min(word.size(), candidate.size()) > allowed && !prefix) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance > allowed && !prefix) continue;
    if (best.empty() || distance < least) {
      best = candidate;
      least = distance;
    }
  }
  return best;
}

}  // namespace isobit::archive
