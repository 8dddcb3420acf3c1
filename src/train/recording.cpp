#include "train/recording.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "archive/json_text.h"
#include "archive/sha256.h"
#include "archive/user_error.h"
#include "archive/weights_digest.h"
#include "contract/platform.h"
#include "train/arithmetic.h"
#include "train/checkpoint_state.h"
#include "train/dataset.h"

namespace isobit::train {

archive::StepLine step_line(const StepReport& report) {
  archive::StepLine line;
  line.step = report.result.place.step;
  line.epoch = report.result.place.epoch;
  line.loss_bits = contract::bits_of(report.result.loss);
  if (report.result.loss != report.result.loss) line.loss_bits = 0x7fc00000;  // any NaN is one
  line.batch = kernels::to_hex(report.result.batch_digest);
  if (report.result.gradients) line.gradients = kernels::to_hex(*report.result.gradients);
  if (report.weights) line.weights = kernels::to_hex(*report.weights);
  if (report.optimizer) line.optimizer = kernels::to_hex(*report.optimizer);
  return line;
}

std::vector<archive::MetricsLine> metrics_lines(const MetricsReport& report) {
  std::vector<archive::MetricsLine> lines;
  lines.push_back({report.step, report.epoch, "train", report.train.values()});
  if (report.test) lines.push_back({report.step, report.epoch, "test", report.test->values()});
  return lines;
}

std::optional<archive::PredictionsLine> predictions_line(const MetricsReport& report) {
  if (!report.test || !report.test->predictions) return {};
  const auto& [classes, targets] = *report.test->predictions;
  return archive::PredictionsLine{report.step, report.epoch, "test", classes, targets};
}

std::string weights_name(const Trainer& trainer) {
  return fmt::format("{}:{}", contract_of(trainer.experiment().arithmetic),
                     kernels::to_hex(trainer.weights_fingerprint()));
}

std::string weights_sha256(const Trainer& trainer) {
  const TrainingState state = trainer.state();
  return archive::weights_sha256(weight_tensors(state));
}

std::string describe_data(const Experiment& experiment, samples::Digests digests) {
  nlohmann::ordered_json json;
  json["format"] = experiment.data.format;
  for (const samples::Source& source : data_sources(experiment)) {
    if (const std::string decoder = samples::decoder(source); !decoder.empty()) json["decoder"] = decoder;
    for (const samples::Identity& file : samples::identify(source, digests))
      json["files"].push_back({{"name", file.name}, {"size", file.size}, {"sha256", file.sha256}});
  }
  return json.dump(2);
}

namespace {

std::string describe_recorded(const Experiment& experiment, const std::string& remedy) try {
  return describe_data(experiment);
} catch (const archive::UserError& error) {
  throw archive::UserError(error.place(), error.problem(), remedy);
}

}  // namespace

void expect_data(const std::string& description, const Experiment& experiment, const std::string& remedy) {
  const auto found = archive::parse_json(describe_recorded(experiment, remedy));
  try {
    const auto recorded = archive::parse_json(description);
    const auto &now = found.at("files"), &then = recorded.at("files");
    if (recorded.at("format") == found.at("format") && now == then) return;
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (then.at(i) == now[i]) continue;
      throw archive::UserError(
          (std::filesystem::path(experiment.data.path) / now[i]["name"].get<std::string>()).string(),
          fmt::format("is not the file that was recorded (its SHA-256 is {:.12}..., the record says {:.12}...)",
                      now[i]["sha256"].get<std::string>(), then.at(i).at("sha256").get<std::string>()),
          remedy);
    }
  } catch (const nlohmann::json::exception&) {  // below
  }
  throw archive::UserError("data.json", "does not describe the experiment's files",
                           "another program wrote the record: use that one");
}

void Recorder::on_step(const StepReport& report) {
  writer_.append_step(step_line(report));
  epoch_seconds_ += report.seconds;
  epoch_samples_ += report.result.place.count;
}

void Recorder::on_metrics(const MetricsReport& report) {
  for (const archive::MetricsLine& line : metrics_lines(report)) writer_.append_metrics(line);
  if (const auto line = predictions_line(report)) writer_.append_predictions(*line);
  writer_.append_timing({report.step, "epoch", epoch_seconds_, epoch_samples_});
  epoch_seconds_ = 0;
  epoch_samples_ = 0;
}

void Recorder::on_checkpoint(const Trainer& trainer) {
  const TrainingState state = trainer.state();
  const Timetable& timetable = trainer.timetable();
  const archive::Retention keep(newest_, [&](std::int64_t step) { return timetable.segment_ends_after(step); });
  writer_.write_checkpoint(checkpoint_tensors(state), checkpoint_text(state, timetable), keep,
                           archive::weights_sha256(weight_tensors(state)));
}

}  // namespace isobit::train
