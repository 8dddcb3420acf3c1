#include "train/recording.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "archive/json_text.h"
#include "archive/sha256.h"
#include "archive/user_error.h"
#include "archive/weights_digest.h"
#include "contract/platform.h"
#include "train/checkpoint_state.h"

namespace isobit::train {

archive::StepLine step_line(const StepReport& report) {
  archive::StepLine line;
  line.step = report.result.place.step;
  line.epoch = report.result.place.epoch;
  line.loss_bits = contract::bits_of(report.result.loss);
  if (report.result.loss != report.result.loss) line.loss_bits = 0x7fc00000;  // any NaN is one
  line.batch = kernels::to_hex(report.result.batch_digest);
  if (report.weights) line.weights = kernels::to_hex(*report.weights);
  if (report.optimizer) line.optimizer = kernels::to_hex(*report.optimizer);
  return line;
}

std::vector<archive::MetricsLine> metrics_lines(const MetricsReport& report) {
  std::vector<archive::MetricsLine> lines;
  lines.push_back(
      {report.step, report.epoch, "train", {{"loss", report.train_loss}, {"accuracy", report.train_accuracy}}});
  if (report.test) {
    lines.push_back(
        {report.step, report.epoch, "test", {{"loss", report.test->loss}, {"accuracy", report.test->accuracy}}});
  }
  return lines;
}

std::string weights_name(const kernels::Fingerprint& fingerprint) {
  return fmt::format("{}:{}", contract::kContractVersion, kernels::to_hex(fingerprint));
}

std::string weights_sha256(const Trainer& trainer) {
  const TrainingState state = trainer.state();
  return archive::weights_sha256(weight_tensors(state));
}

std::string describe_data(const DataSettings& settings) {
  const std::string* names[] = {&settings.train_images, &settings.train_labels, &settings.test_images,
                                &settings.test_labels};
  const auto paths = data_files(settings);
  nlohmann::ordered_json json;
  json["format"] = settings.format;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const archive::FileDigest digest = archive::digest_file(paths[i]);
    json["files"].push_back({{"name", *names[i]}, {"size", digest.size}, {"sha256", digest.sha256}});
  }
  return json.dump(2);
}

void expect_data(const std::string& description, const DataSettings& settings) {
  const std::string now = describe_data(settings);
  if (now == description) return;
  const auto paths = data_files(settings);
  const auto recorded = archive::parse_json(description), found = archive::parse_json(now);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    try {
      if (recorded.at("files").at(i) == found.at("files").at(i)) continue;
      throw archive::UserError(
          paths[i],
          fmt::format("is not the file that was recorded (its SHA-256 is {:.12}..., the record says {:.12}...)",
                      found["files"][i]["sha256"].get<std::string>(),
                      recorded.at("files").at(i).at("sha256").get<std::string>()),
          "name the folder of the recorded files with --data");
    } catch (const nlohmann::json::exception&) {
      break;
    }
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
  writer_.append_timing({report.step, "epoch", epoch_seconds_, epoch_samples_});
  epoch_seconds_ = 0;
  epoch_samples_ = 0;
}

void Recorder::on_checkpoint(const Trainer& trainer) {
  const TrainingState state = trainer.state();
  writer_.write_checkpoint(checkpoint_tensors(state), checkpoint_text(state, trainer.timetable()), keep_,
                           archive::weights_sha256(weight_tensors(state)));
}

}  // namespace isobit::train
