#include "archive/record_types.h"

#include <fmt/format.h>

namespace isobit::archive {

std::vector<MetricsLine> last_of_each_set(const std::vector<MetricsLine>& lines) {
  std::map<std::string, MetricsLine> last;
  for (const MetricsLine& line : lines) last[line.set] = line;
  std::vector<MetricsLine> result;
  for (auto& [set, line] : last) result.push_back(line);
  return result;
}

std::string describe(const OutsideLine& line) {
  if (line.call == "enable") return fmt::format("an enable() that nothing undid ({})", line.place);
  if (line.until == line.after) {
    return fmt::format("something between steps {} and {} ran outside isobit ({})", line.after, line.after + 1,
                       line.place);
  }
  return fmt::format("steps {}..{} ran outside isobit ({})", line.after + 1, line.until, line.place);
}

const char* to_string(RunState state) {
  switch (state) {
    case RunState::running: return "running";
    case RunState::interrupted: return "interrupted";
    case RunState::failed: return "failed";
    case RunState::finished: return "finished";
    case RunState::damaged: return "damaged";
  }
  return "damaged";
}

}  // namespace isobit::archive
