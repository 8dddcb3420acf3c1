#include "slurm/step_time.h"

#include <array>
#include <charconv>
#include <string_view>

#include "archive/files.h"
#include "archive/log_lines.h"
#include "archive/runs.h"
#include "archive/user_error.h"

namespace isobit::slurm {
namespace {

constexpr std::array<std::string_view, 4> kNoMatter = {"name = ", "seed = ", "steps = ", "epochs = "};

// The experiment without what the time of a step does not depend on. These keys stand before the first table; inside a
// table another `name` is the network's or the optimizer's.
std::string essence(std::string_view experiment, std::int64_t& batch) {
  std::string kept;
  bool in_table = false;
  for (std::size_t end = 0; (end = experiment.find('\n')) != std::string_view::npos;
       experiment.remove_prefix(end + 1)) {
    const std::string_view line = experiment.substr(0, end);
    in_table = in_table || line.starts_with('[');
    bool matters = true;
    for (const std::string_view key : kNoMatter) matters = matters && (in_table || !line.starts_with(key));
    constexpr std::string_view kBatch = "batch = ";
    if (!in_table && line.starts_with(kBatch))
      std::from_chars(line.data() + kBatch.size(), line.data() + line.size(), batch);
    if (matters) kept += std::string(line) + "\n";
  }
  return kept;
}

std::optional<double> seconds_of(const std::filesystem::path& run, std::int64_t batch) {
  const std::string log = archive::read_file(run / archive::kTimingsLog);
  double seconds = 0;
  std::int64_t samples = 0;
  for (const archive::TimingLine& line : archive::parse_unfinished_log<archive::TimingLine>(log)) {
    if (line.phase != "epoch") continue;
    seconds += line.seconds;
    samples += line.samples;
  }
  if (samples <= 0 || !(seconds > 0)) return std::nullopt;
  return seconds / static_cast<double>(samples) * static_cast<double>(batch);
}

}  // namespace

std::optional<StepTime> recorded_step_time(const std::filesystem::path& runs, const std::string& experiment) {
  constexpr int kLookedAt = 100;
  std::int64_t batch = 0;
  const std::string wanted = essence(experiment, batch);
  if (batch <= 0) return std::nullopt;
  try {
    const auto names = archive::names_in(runs);
    int looked_at = 0;
    for (auto name = names.rbegin(); name != names.rend() && looked_at < kLookedAt; ++name) {
      if (name->starts_with('.')) continue;
      ++looked_at;
      try {
        std::int64_t same = 0;
        if (essence(archive::read_file(runs / *name / "experiment.toml", 1 << 20), same) != wanted) continue;
        if (const auto seconds = seconds_of(runs / *name, batch)) return StepTime{*seconds, *name};
      } catch (const archive::UserError&) {  // no record, or one that cannot be read
      }
    }
  } catch (const archive::UserError&) {  // no archive yet
  }
  return std::nullopt;
}

}  // namespace isobit::slurm
