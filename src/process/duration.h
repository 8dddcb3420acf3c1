// Times as people read them. No state; thread-safe.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace isobit::process {

// "1:02:03", "2:03"
[[nodiscard]] inline std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace isobit::process
