// How much a sandboxed program may take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace isobit::proof {

struct SandboxLimits {
  std::uint64_t memory = 0, disk = 0;  // bytes; disk: of what it writes, which is kept in memory
  std::int64_t processes = 4096, seconds = 24 * 3600;
};

// Memory: half of what this machine has free; disk: a quarter. `words` say otherwise: "memory=8G", "disk=20G",
// "processes=500", "time=90" (seconds; also 30m, 2h, 3d). UserError for other words. No state.
[[nodiscard]] SandboxLimits sandbox_limits(const std::vector<std::string>& words);

// "memory" as a message names it, with the option that raises it: {"more than 8.0 GiB of memory", "--limit memory=16G"}
struct LimitText {
  std::string problem, remedy;
};
[[nodiscard]] LimitText describe_limit(const SandboxLimits& limits, const std::string& which);

}  // namespace isobit::proof
