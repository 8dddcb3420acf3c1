#include "train/segments.h"

#include <algorithm>

namespace isobit::train {
namespace {

// The ends of segments of at most `longest` steps, each as long as it can be; empty where that is not possible.
std::vector<std::int64_t> ends_within(const std::vector<std::int64_t>& places, std::int64_t start,
                                      std::int64_t longest) {
  std::vector<std::int64_t> ends;
  for (std::int64_t at = start; at != places.back();) {
    const auto next = std::upper_bound(places.begin(), places.end(), at + longest);
    if (next == places.begin() || *(next - 1) <= at) return {};
    ends.push_back(at = *(next - 1));
  }
  return ends;
}

}  // namespace

std::vector<Segment> cut_into_segments(std::span<const std::int64_t> checkpoints, std::int64_t start,
                                       std::int64_t first, std::int64_t last, std::int64_t most) {
  std::vector<std::int64_t> places;  // where a segment may end
  for (const std::int64_t step : checkpoints) {
    if (step >= first && step < last) places.push_back(step);
  }
  places.push_back(last);

  std::int64_t shortest = 1, longest = last - start;  // the longest segment of the best way lies between
  while (shortest < longest) {
    const std::int64_t tried = shortest + (longest - shortest) / 2;
    const auto ends = ends_within(places, start, tried);
    if (ends.empty() || static_cast<std::int64_t>(ends.size()) > most) {
      shortest = tried + 1;
    } else {
      longest = tried;
    }
  }
  std::vector<Segment> segments;
  for (const std::int64_t end : ends_within(places, start, longest))
    segments.push_back({segments.empty() ? first : segments.back().last + 1, end});
  return segments;
}

}  // namespace isobit::train
