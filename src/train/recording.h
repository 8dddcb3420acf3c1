// What a run leaves in its record, and what is needed to check it (docs/formats/run.md).
//
// Recorder is the listener that writes; the other functions turn reports into record lines, so that verifying
// compares exactly what recording wrote. One thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "archive/record_types.h"
#include "archive/run_writer.h"
#include "samples/source.h"
#include "train/execution.h"

namespace isobit::train {

[[nodiscard]] archive::StepLine step_line(const StepReport& report);
// "train", and "test" where it was evaluated.
[[nodiscard]] std::vector<archive::MetricsLine> metrics_lines(const MetricsReport& report);
// Of the evaluation, where it kept predictions.
[[nodiscard]] std::optional<archive::PredictionsLine> predictions_line(const MetricsReport& report);
// "isobit-0.1:<32 hex>", "stock-2.13.0:<32 hex>": of the trainer's weights, by the experiment's arithmetic.
[[nodiscard]] std::string weights_name(const Trainer& trainer);

// Of the trainer's weights, by the names of its state: archive::weights_sha256.
[[nodiscard]] std::string weights_sha256(const Trainer& trainer);

// JSON: format, the decoder where one matters, and name, size and SHA-256 of the files (samples/source.h). UserError
// where one is missing.
[[nodiscard]] std::string describe_data(const Experiment& experiment,
                                        samples::Digests digests = samples::Digests::fresh);
// Nothing if the files are those described, else UserError naming the first that is not, or is missing, with this
// remedy. Reads them whole.
inline constexpr const char* kNameDataFolder = "name the folder of the recorded files with --data";
void expect_data(const std::string& description, const Experiment& experiment,
                 const std::string& remedy = kNameDataFolder);

class Recorder : public Listener {
 public:
  Recorder(archive::RunWriter& writer, const Experiment& experiment)
      : writer_(writer), newest_(experiment.checkpoint.keep) {}

  void on_step(const StepReport& report) override;
  void on_metrics(const MetricsReport& report) override;
  void on_checkpoint(const Trainer& trainer) override;

 private:
  archive::RunWriter& writer_;
  std::int64_t newest_;
  double epoch_seconds_ = 0;  // since the last timing line
  std::int64_t epoch_samples_ = 0;
};

}  // namespace isobit::train
