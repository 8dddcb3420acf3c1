#include "archive/record_types.h"

namespace isobit::archive {

std::vector<MetricsLine> last_of_each_set(const std::vector<MetricsLine>& lines) {
  std::map<std::string, MetricsLine> last;
  for (const MetricsLine& line : lines) last[line.set] = line;
  std::vector<MetricsLine> result;
  for (auto& [set, line] : last) result.push_back(line);
  return result;
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
