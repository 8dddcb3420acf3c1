// What a run's record says, as plain values (docs/formats/run.md gives the bytes). No state; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::archive {

// One executed step. Digests and fingerprints are lower-case hex; steps and epochs count from 1.
struct StepLine {
  std::int64_t step = 0, epoch = 0;
  std::uint32_t loss_bits = 0;     // the loss, a binary32, as its bits
  std::string batch;               // digest of the batch as the network saw it
  std::string weights, optimizer;  // fingerprints after the step; "" where none was taken
  std::string gradients{};         // of those that the step was made of; "" where none was taken
  friend bool operator==(const StepLine&, const StepLine&) = default;
};

// What was measured after a step. Values are binary64 and are kept exactly, infinities included; any NaN is
// the one NaN.
struct MetricsLine {
  std::int64_t step = 0, epoch = 0;
  std::string set;                       // "train" or "test"
  std::map<std::string, double> values;  // "loss", "accuracy", ...
};

// The last line of each set, in the order of the sets' names.
[[nodiscard]] std::vector<MetricsLine> last_of_each_set(const std::vector<MetricsLine>& lines);

// What a Python program evaluated (without gradients) between two steps.
struct EvaluationLine {
  std::int64_t step = 0, epoch = 0;
  std::int64_t tensors = 0;  // so many entered models
  std::string batches;       // digest of all
  friend bool operator==(const EvaluationLine&, const EvaluationLine&) = default;
};

// What a network said of each sample of a set, in an evaluation.
struct PredictionsLine {
  std::int64_t step = 0, epoch = 0;
  std::string set;                        // "test"
  std::vector<std::int64_t> predictions;  // classes, in the order of the evaluated samples
  std::string targets;                    // SHA-256 of the samples' classes, each 8 bytes, little-endian
  friend bool operator==(const PredictionsLine&, const PredictionsLine&) = default;
};

// A stretch of a Python program's recorded block in which the switch was off: what ran there is stock arithmetic.
struct OutsideLine {
  std::int64_t after = 0, until = 0;  // it began when `after` steps were done and ended when `until` were
  std::string place;                  // "module:line" of the program
  std::string call;  // "disabled", "disable", or "enable": one that nothing undid, so nothing ran outside
  friend bool operator==(const OutsideLine&, const OutsideLine&) = default;
};
// "steps 6..8 ran outside isobit (train:42)"
[[nodiscard]] std::string describe(const OutsideLine& line);

// How long something took: never compared.
struct TimingLine {
  std::int64_t step = 0;
  std::string phase;  // "epoch", "evaluate", "checkpoint", ...
  double seconds = 0;
  std::int64_t samples = 0;
};

enum class RunState {
  running,      // its writer is alive (or on another host, which cannot be asked)
  interrupted,  // no writer, no manifest: can be resumed
  failed,       // ended by an error, which is recorded: can be resumed
  finished,     // sealed by its manifest
  damaged,      // its files cannot be read as a record
};
[[nodiscard]] const char* to_string(RunState state);

// What a list of runs shows.
struct RunSummary {
  std::string id, name;
  RunState state = RunState::damaged;
  std::string contract;              // "isobit-0.1"; "stock-2.13.0": PyTorch of that version, which promises nothing
  std::string created;               // UTC, ISO 8601 with microseconds
  std::int64_t steps = 0;            // recorded so far
  std::string weights;               // "isobit-0.1:<32 hex>" of the end; "" before
  std::string weights_sha256;        // of the same weights (weights_digest.h); "" before, and in records of isobit 0.1
  std::vector<MetricsLine> metrics;  // the last line of each set
  std::string note;                  // why it failed, what is damaged, who runs it; else ""
};

// Whether two fingerprints of final weights ("isobit-0.1:0011...", "stock-2.13.0:0011...") are of equal values: the
// digits alone say so, the name before them is of what computed. Stock runs of two versions of PyTorch may well end
// alike.
[[nodiscard]] inline bool same_values_of(std::string_view a, std::string_view b) {
  return a.substr(a.find(':') + 1) == b.substr(b.find(':') + 1);
}

}  // namespace isobit::archive
