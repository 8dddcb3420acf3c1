#include "report/curve.h"

#include <algorithm>
#include <cmath>

namespace isobit::report {
namespace {

// Whether a lies above b: what is no finite number lies above all that are, and the first of its kind is kept.
bool above(double a, double b) {
  if (!std::isfinite(b)) return false;
  return !std::isfinite(a) || a > b;
}

}  // namespace

Curve thin(const std::vector<std::int64_t>& steps, const std::vector<double>& values, std::size_t most) {
  const std::size_t count = std::min(steps.size(), values.size());
  Curve curve;
  curve.of = static_cast<std::int64_t>(count);
  const auto keep = [&](std::size_t i) {
    curve.steps.push_back(steps[i]);
    curve.values.push_back(values[i]);
  };
  if (count <= most) {
    for (std::size_t i = 0; i < count; ++i) keep(i);
    return curve;
  }
  const std::size_t inner = count - 2, stretches = std::max<std::size_t>((std::max<std::size_t>(most, 4) - 2) / 2, 1);
  keep(0);
  for (std::size_t s = 0; s < stretches; ++s) {
    const std::size_t begin = 1 + inner * s / stretches, end = 1 + inner * (s + 1) / stretches;
    if (begin == end) continue;
    std::size_t lowest = begin, highest = begin;
    for (std::size_t i = begin + 1; i < end; ++i) {
      if (above(values[i], values[highest])) highest = i;
      if (above(values[lowest], values[i])) lowest = i;
    }
    keep(std::min(lowest, highest));
    if (lowest != highest) keep(std::max(lowest, highest));
  }
  keep(count - 1);
  return curve;
}

}  // namespace isobit::report
