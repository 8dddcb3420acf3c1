#include "report/show_run.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "archive/field_standing.h"
#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/log_lines.h"
#include "archive/record_file.h"
#include "archive/run_record.h"
#include "archive/run_state.h"
#include "archive/runs.h"
#include "archive/summary_text.h"
#include "archive/user_error.h"
#include "report/tables.h"

namespace isobit::report {
namespace {

// A file's text; "" where it is missing, as in a damaged record.
std::string text_of(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? archive::read_record_file(path) : "";
}

archive::Json parsed(const std::string& text) {
  try {
    return archive::parse_json(text);
  } catch (const std::exception&) {  // the record is damaged, which is said elsewhere
    return nullptr;
  }
}

// Adds to `claimed` what of `value`, which stands under `name` and is the record's `file`, nobody can recompute: the
// key or, where all of it is, the name alone.
void add_claimed(archive::Json& claimed, const std::string& name, const char* file, const archive::Json& value) {
  const auto is_claimed = [&](const std::string& key) {
    const archive::Field* field = archive::find_field(file, {key});
    return field == nullptr || field->standing == archive::Standing::claimed;  // unknown: nobody checks it
  };
  const archive::Field* whole = archive::find_field(file, {});
  if (!value.is_object() || (whole != nullptr && whole->standing == archive::Standing::claimed))
    return claimed.push_back(name);
  for (const auto& [key, part] : value.items()) {
    if (!part.is_structured() && is_claimed(key)) claimed.push_back(name + "." + key);
  }
}

using Checkpoints = std::vector<archive::CheckpointEntry>;  // of a sound record

archive::Json to_json(const Checkpoints& checkpoints) {
  archive::Json list = archive::Json::array();
  for (const archive::CheckpointEntry& entry : checkpoints) {
    list.push_back({{"step", entry.step}, {"file", entry.file}, {"weights_sha256", nullptr}});
    if (!entry.weights_sha256.empty()) list.back()["weights_sha256"] = entry.weights_sha256;
  }
  return list;
}

void print_json(const archive::RunSummary& summary, const std::filesystem::path& folder, const std::string& record,
                const Checkpoints& checkpoints) {
  archive::Json object = archive::summary_json(summary);
  object["path"] = folder.string();
  object["record"] = record;
  object["checkpoints"] = to_json(checkpoints);
  object["experiment"] = text_of(folder / "experiment.toml");
  object["environment"] = parsed(text_of(folder / "environment.json"));
  object["data"] = parsed(text_of(folder / "data.json"));
  object["claimed"] = {"id", "created"};
  for (const std::string& key : archive::claimed_settings(text_of(folder / "experiment.toml")))
    object["claimed"].push_back("experiment: " + key);
  add_claimed(object["claimed"], "environment", archive::kEnvironmentFile, object["environment"]);
  add_claimed(object["claimed"], "data", archive::kDataFile, object["data"]);
  archive::print_json_line(object);
}

void print_text(const archive::RunSummary& summary, const std::filesystem::path& folder, const std::string& record,
                const Checkpoints& checkpoints) {
  fmt::print("run      {}\n", archive::printable(summary.id));
  fmt::print("path     {}\n", archive::printable(folder.string()));
  fmt::print("state    {}{}\n", archive::to_string(summary.state),
             summary.note.empty() ? "" : " (" + archive::printable(summary.note) + ")");
  fmt::print("record   {}\n", record);
  fmt::print("created  {}  (claimed)\n", archive::printable(summary.created));
  if (!summary.contract.empty())
    fmt::print("contract {}{}\n", archive::printable(summary.contract),
               archive::is_stock(summary.contract) ? "  (stock PyTorch: nothing is promised)" : "");
  fmt::print("steps    {}\n", summary.steps);
  for (const archive::MetricsLine& line : summary.metrics) {
    fmt::print("{:<8} {}  (epoch {}, step {})\n", line.set, archive::metrics_text(line), line.epoch, line.step);
  }
  if (!summary.weights.empty()) fmt::print("weights  {}\n", archive::printable(summary.weights));
  if (!summary.weights_sha256.empty()) fmt::print("sha256   {}\n", archive::printable(summary.weights_sha256));
  for (const archive::CheckpointEntry& entry : checkpoints) {
    if (!entry.weights_sha256.empty())
      fmt::print("{:<8} {}  (checkpoint of step {})\n", "", entry.weights_sha256, entry.step);
  }
  fmt::print("\n{}", archive::printable_lines(text_of(folder / "experiment.toml")));
}

// A finished run's logs as columns (docs/formats/tables.md).
int print_tables(const std::filesystem::path& folder) {
  const auto record = archive::RunRecord::open(folder, archive::RunRecord::Contents::but_checkpoints);
  std::map<std::string, std::string> texts;
  for (const char* file :
       {archive::kStepsLog, archive::kMetricsLog, archive::kTimingsLog, archive::kCheckpointsLog,
        archive::kEvaluationsLog, archive::kOutsideLog, archive::kExperimentFile, archive::kDataFile}) {
    if (archive::is_there(folder / file)) texts[file] = archive::read_record_file(folder / file);
  }
  const archive::Json object{{"format", "isobit-tables-1"},
                             {"run", record.summary().id},
                             {"seal", record.seal()},
                             {"claimed", report::claimed_columns(texts)},
                             {"tables", report::run_tables(texts)}};
  fmt::print("{}\n", object.dump(-1, ' ', true, archive::Json::error_handler_t::replace));
  return 0;
}

}  // namespace

int run_show(const ShowOptions& options) {
  const auto folder = archive::find_run(archive::runs_folder(options.runs), options.run);
  if (options.tables) return print_tables(folder);
  archive::RunSummary summary = archive::summarize(folder);
  std::string record = "not sealed: the run is not finished";
  std::optional<archive::UserError> damage;
  Checkpoints checkpoints;
  if (summary.state == archive::RunState::finished || summary.state == archive::RunState::damaged) {
    try {
      const auto sealed = archive::RunRecord::open(folder);
      record = fmt::format("sound: {} files, {} bytes", sealed.files(), sealed.bytes());
      checkpoints = sealed.checkpoints();
    } catch (const archive::UserError& error) {
      damage = error;
      summary.state = archive::RunState::damaged;
      summary.weights.clear();  // what cannot be trusted is not shown
      record = "damaged";
    }
  }
  if (options.json) {
    print_json(summary, folder, record, checkpoints);
  } else {
    print_text(summary, folder, record, checkpoints);
  }
  if (damage) throw *damage;
  return 0;
}

}  // namespace isobit::report
