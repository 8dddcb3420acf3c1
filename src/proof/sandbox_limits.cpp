#include "proof/sandbox_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include "archive/user_error.h"
#include "process/free_memory.h"

namespace isobit::proof {
namespace {

constexpr std::uint64_t kLeast = std::uint64_t{64} << 20;

[[noreturn]] void refuse(const std::string& word) {
  throw archive::UserError("--limit " + word, "is no limit",
                           "memory=8G, disk=20G, processes=500 or time=2h, each at least 1");
}

// "8G": 8 times what `units` say of G.
std::uint64_t amount(const std::string& word, std::string_view text,
                     std::initializer_list<std::pair<char, std::uint64_t>> units) {
  std::uint64_t value = 0, factor = 1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const auto& [unit, size] : units) {
    if (rest.size() == 1 && rest[0] == unit) factor = size;
  }
  const bool understood = rest.empty() || factor != 1;
  if (error != std::errc() || !understood || value == 0 || value > (std::uint64_t{1} << 62) / factor) refuse(word);
  return value * factor;
}

std::string size_text(std::uint64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1 << 20);
  return mebibytes < 1024 ? fmt::format("{:.0f} MiB", mebibytes) : fmt::format("{:.1f} GiB", mebibytes / 1024);
}

std::string twice(std::uint64_t bytes) { return fmt::format("{}M", (2 * bytes) >> 20); }

}  // namespace

SandboxLimits sandbox_limits(const std::vector<std::string>& words) {
  SandboxLimits limits;
  const std::uint64_t free = process::free_memory();
  limits.memory = std::max(kLeast, free / 2);
  limits.disk = std::max(kLeast, free / 4);
  for (const std::string& word : words) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals);
    const std::string_view value = std::string_view(word).substr(std::min(equals + 1, word.size()));
    const auto bytes = [&] { return amount(word, value, {{'K', 1 << 10}, {'M', 1 << 20}, {'G', 1 << 30}}); };
    if (name == "memory") {
      limits.memory = std::max(kLeast, bytes());
    } else if (name == "disk") {
      limits.disk = std::max(kLeast, bytes());
    } else if (name == "processes") {
      limits.processes = static_cast<std::int64_t>(amount(word, value, {}));
    } else if (name == "time") {
      limits.seconds =
          static_cast<std::int64_t>(amount(word, value, {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 24 * 3600}}));
    } else {
      refuse(word);
    }
  }
  return limits;
}

LimitText describe_limit(const SandboxLimits& limits, const std::string& which) {
  if (which == "memory")
    return {fmt::format("took more than {} of memory", size_text(limits.memory)),
            "--limit memory=" + twice(limits.memory)};
  if (which == "processes")
    return {fmt::format("started more than {} processes", limits.processes),
            fmt::format("--limit processes={}", 2 * limits.processes)};
  if (which == "disk")
    return {fmt::format("left a record of more than {}", size_text(limits.disk)), "--limit disk=" + twice(limits.disk)};
  return {fmt::format("took longer than {} seconds", limits.seconds),
          fmt::format("--limit time={}", 2 * limits.seconds)};
}

}  // namespace isobit::proof
