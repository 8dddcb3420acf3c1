// MLflow's file store, as mlflow.store.tracking.file_store reads it: EXPERIMENT/meta.yaml, and for each run meta.yaml,
// metrics/KEY ("milliseconds value step" per line), params/KEY, tags/KEY and artifacts/.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <ctime>
#include <map>

#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/log_lines.h"
#include "archive/run_state.h"
#include "archive/sha256.h"
#include "archive/user_error.h"
#include "report/export_formats.h"
#include "report/output_folder.h"
#include "report/run_entry.h"
#include "report/settings.h"

namespace isobit::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestValue = 6000;  // MLflow's limit for a parameter

// A JSON text is a YAML text.
std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace); }

// A name of ours as one that MLflow takes for a key, and that is a file's name.
std::string key_of(const std::string& name) {
  std::string key;
  for (const char c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    key += plain ? c : '_';
  }
  if (key.empty() || key.find_first_not_of('.') == std::string::npos) key = "_" + key;
  return key.substr(0, 200);
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

// "2026-11-21T04:58:35.123456Z" as milliseconds since 1970; 0 where it is none.
std::int64_t milliseconds_of(const std::string& created) {
  std::tm time{};
  const char* rest = ::strptime(created.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (rest == nullptr) return 0;
  std::int64_t milliseconds = 0;
  if (*rest == '.')
    std::from_chars(rest + 1, rest + std::min<std::size_t>(4, std::string_view(rest).size()), milliseconds);
  return std::int64_t{::timegm(&time)} * 1000 + milliseconds;
}

// An id of an experiment, as MLflow makes them: digits. From the name, so that runs of one name meet in one experiment.
std::string experiment_id(const std::string& name) {
  std::uint64_t value = 0;
  const std::string digits = archive::sha256("isobit experiment " + name).substr(0, 15);
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return fmt::format("{:018d}", value % 899'999'999'999'999'999u + 100'000'000'000'000'000u);
}

std::string uri_of(const fs::path& folder) {
  std::string uri = "file://";
  for (const char c : fs::absolute(folder).lexically_normal().string()) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("/-_.~").find(c) != std::string_view::npos;
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri;
}

void write_experiment(const fs::path& store, const std::string& id, const std::string& name, std::int64_t time) {
  const fs::path meta = store / id / "meta.yaml";
  if (archive::is_there(meta)) return;
  archive::make_folders(store / id);
  archive::write_file(
      meta, fmt::format("artifact_location: {}\ncreation_time: {}\nexperiment_id: '{}'\nlast_update_time: {}\n"
                        "lifecycle_stage: active\nname: {}\n",
                        quoted(uri_of(store / id)), time, id, time, quoted(name)));
}

void write_metrics(const OutputFolder& out, const archive::ExportPlan& plan, std::int64_t time) {
  std::map<std::string, std::string> series;
  std::map<std::string, std::string> whose;  // key -> the name that has it
  const auto add = [&](const std::string& key, double value, std::int64_t step) {
    series[key] += fmt::format("{} {} {}\n", time, number_text(value), step);
  };
  // Names that differ only in what a key cannot hold are told apart by the digest of all but the first; the folder of a
  // set named as the file of the training's losses is another.
  const auto own_key = [&](const std::string& set, const std::string& name) {
    const std::string folder = key_of(set) == "loss" ? "loss_set" : key_of(set), full = set + '\n' + name;
    const std::string key = folder + "/" + key_of(name);
    if (whose.try_emplace(key, full).first->second == full) return key;
    return key + "-" + archive::sha256(full).substr(0, 8);
  };
  for (const auto& line : archive::parse_log<archive::StepLine>(plan.texts.at(archive::kStepsLog), archive::kStepsLog))
    add("loss", decimal_loss(line.loss_bits), line.step);
  for (const auto& line :
       archive::parse_log<archive::MetricsLine>(plan.texts.at(archive::kMetricsLog), archive::kMetricsLog)) {
    for (const auto& [name, value] : line.values) add(own_key(line.set, name), value, line.step);
  }
  for (const auto& [key, text] : series) out.write("metrics/" + key, text);
}

void require_store(const fs::path& folder) {
  if (!archive::is_there(folder)) return;
  const auto names = archive::names_in(folder);
  for (const std::string& name : names) {
    if (archive::is_there(folder / name / "meta.yaml")) return;
  }
  if (!names.empty()) {
    throw archive::UserError(folder.string(), "exists and is no MLflow store",
                             "name another folder, or an MLflow store");
  }
}

}  // namespace

std::string mlflow_run_id(const std::string& run) { return archive::sha256(run).substr(0, 32); }

void write_mlflow(const archive::ExportPlan& plan, const archive::RunRecord& record, const fs::path& folder) {
  require_store(folder);
  const std::string& name = record.summary().name;
  const std::string id = mlflow_run_id(plan.run), experiment = experiment_id(name);
  const std::int64_t time = milliseconds_of(record.summary().created);
  double seconds = 0;
  for (const auto& line : record.timings())
    seconds += line.phase == "epoch" || line.phase == "evaluate" ? line.seconds : 0;
  const fs::path run = folder / experiment / id;
  if (archive::is_there(run)) throw archive::UserError(run.string(), "exists already", "the store has this run");
  write_experiment(folder, experiment, name, time);
  OutputFolder out(run);
  out.write(
      "meta.yaml",
      fmt::format("artifact_uri: {}\nend_time: {}\nentry_point_name: ''\nexperiment_id: '{}'\nlifecycle_stage: active\n"
                  "run_id: {}\nrun_name: {}\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: {}\n"
                  "status: 3\ntags: []\nuser_id: isobit\n",
                  quoted(uri_of(run / "artifacts")), time + static_cast<std::int64_t>(seconds * 1000), experiment, id,
                  quoted(plan.run), time));
  write_metrics(out, plan, time);
  for (const auto& [key, value] : parse_settings(plan.texts.at(archive::kExperimentFile))) {
    out.write("params/" + key_of(key), value.substr(0, kLongestValue));
  }
  const std::map<std::string, std::string> tags = {
      {"mlflow.runName", plan.run},
      {"mlflow.note.content", fmt::format("A record of isobit. To execute it again: isobit verify {}", plan.run)},
      {"isobit.run", plan.run},
      {"isobit.contract", record.contract()},
      {"isobit.weights", record.weights()},
      {"isobit.weights_sha256", record.weights_sha256()},
      {"isobit.seal", record.seal()},
      {"isobit.claimed", "run id, start_time, end_time, environment.json: nobody can recompute them"}};
  for (const auto& [key, value] : tags) out.write("tags/" + key, value);
  for (const char* file : {archive::kExperimentFile, archive::kEnvironmentFile, archive::kDataFile})
    out.write(fmt::format("artifacts/{}", file), plan.texts.at(file));
  out.commit();
}

}  // namespace isobit::report
