// One run as a report shows it, read from its folder whatever its state.
//
// A finished run is opened as archive::RunRecord, which proves every file but the checkpoints against the seal (of
// those only the size). A run that is not finished is read as far as its logs are whole. A damaged one is an entry
// without numbers whose note says what is wrong: one bad run never hides the others. Thread-safe; no state.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "archive/record_types.h"
#include "report/curve.h"
#include "report/predictions.h"
#include "report/settings.h"

namespace isobit::report {

struct RunEntry {
  archive::RunSummary summary;
  std::string path;         // as it was named, with ~ for the home folder
  std::string record;       // "sealed: 11 files, 38 kB, each as sealed", or why not
  std::string seal;         // the manifest's digest; "" where there is none
  std::string verify;       // the command that executes it again; "" where that cannot be done
  std::string experiment;   // experiment.toml
  std::string environment;  // environment.json
  std::string data;         // data.json
  Settings settings;
  Curve loss;  // of every recorded step, not thinned
  std::vector<archive::MetricsLine> metrics;
  std::vector<archive::OutsideLine> outside;
  double seconds = 0;                        // of its epochs and evaluations, by the recorder's clock
  bool script = false;                       // of a Python program
  std::vector<PredictionsLine> predictions;  // the last of each set
  std::map<std::string, std::string> parts;  // of components, by name (archive/record_part.h)
  nlohmann::ordered_json sections;           // what they show of it (page_section.h), by name; an object
};

[[nodiscard]] RunEntry read_run(const std::filesystem::path& folder);

// What read_run would look at, as one text: where it has not changed, neither has the entry. "running" and the like are
// part of it.
[[nodiscard]] std::string stamp_of_run(const std::filesystem::path& folder);

// Of all the folders, on as many threads as the process has cores. `tick` is told how many are done, on one thread at a
// time.
[[nodiscard]] std::vector<RunEntry> read_runs(const std::vector<std::filesystem::path>& folders,
                                              const std::function<void(std::size_t done)>& tick = {});

// The value of a loss, given as the bits of a binary32, in as few decimal digits as read back to them, as a double with
// those digits: 2.305131, not 2.3051309585571289. NaN and infinities as they are.
[[nodiscard]] double decimal_loss(std::uint32_t bits);
[[nodiscard]] std::string hex_bits(std::uint32_t bits);  // "401386c4"

// Whether the run's arithmetic was PyTorch's own: then nothing was promised about its bits.
[[nodiscard]] bool is_stock(const archive::RunSummary& summary);

}  // namespace isobit::report
