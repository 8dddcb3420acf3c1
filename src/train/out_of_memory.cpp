#include "train/out_of_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <regex>

namespace isobit::train {
namespace {

constexpr const char* kSize = R"(([0-9.]+) (bytes|KiB|MiB|GiB))";

// The size in bytes at the pattern's SIZE.
std::optional<double> find_size(const std::string& message, const std::string& before, const std::string& after) {
  std::smatch match;
  if (!std::regex_search(message, match, std::regex(before + kSize + after))) return {};
  const std::string unit = match[2];
  const double scale = unit == "GiB" ? 0x1p30 : unit == "MiB" ? 0x1p20 : unit == "KiB" ? 0x1p10 : 1;
  return std::stod(match[1]) * scale;
}

std::string text(std::optional<double> bytes) {
  if (!bytes) return "an unknown size";
  return *bytes >= 0x1p30 ? fmt::format("{:.2f} GiB", *bytes / 0x1p30) : fmt::format("{:.1f} MiB", *bytes / 0x1p20);
}

std::int64_t fitting_grain(const std::string& message, const MemoryUse& use) {
  const auto asked = find_size(message, "Tried to allocate ", ""), free = find_size(message, "of which ", " is free");
  auto allocated = find_size(message, "Of the allocated memory ", " is allocated by PyTorch");
  const auto capacity = find_size(message, "total capacity of ", "");
  if (!allocated && capacity && free) allocated = *capacity - *free;
  std::int64_t samples = use.grain / 2;
  if (asked && free && allocated) {
    const double fixed = static_cast<double>(use.fixed_bytes);
    const double per_sample = std::max(1.0, *allocated + *asked - fixed) / static_cast<double>(use.grain);
    samples =
        std::min(samples, static_cast<std::int64_t>(std::max(0.0, 0.9 * (*allocated + *free - fixed)) / per_sample));
  }
  return samples < 1 ? 0 : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(samples)));
}

}  // namespace

archive::UserError out_of_memory(const std::string& message, const MemoryUse& use) {
  const std::int64_t grain = fitting_grain(message, use);
  const std::string problem = fmt::format("out of memory in step {} with grain {}: asked for {}, {} free", use.step,
                                          use.grain, text(find_size(message, "Tried to allocate ", "")),
                                          text(find_size(message, "of which ", " is free")));
  const std::string remedy =
      grain == 0 ? "one sample does not fit: use a smaller model or another device"
                 : fmt::format("start a new run with --set grain={}, which should fit, or use another device", grain);
  return archive::UserError("--device " + use.device, problem, remedy);
}

}  // namespace isobit::train
