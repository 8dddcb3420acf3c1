// A curve with no more points than a page can show.
//
// thin() keeps recorded points only, it never averages: the first, the last, and of each stretch between them the
// lowest and the highest, so that no spike is lost. A NaN or an infinity counts as the highest. The same input gives
// the same points. No state; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace isobit::report {

struct Curve {
  std::vector<std::int64_t> steps;  // ascending
  std::vector<double> values;       // one per step
  std::int64_t of = 0;              // so many points were recorded
};

// At most `most` points (4 or more).
[[nodiscard]] Curve thin(const std::vector<std::int64_t>& steps, const std::vector<double>& values, std::size_t most);

}  // namespace isobit::report
