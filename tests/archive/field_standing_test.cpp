// Every field of a record stands in the table of what identical means, and the page says the same.
#include "archive/field_standing.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "archive/environment.h"
#include "archive/log_lines.h"
#include "archive/run_export.h"
#include "archive/run_folder.h"
#include "small_run.h"

namespace isobit::archive {
namespace {

using Json = nlohmann::ordered_json;
using Visit = std::function<void(const std::vector<std::string>&)>;

void walk(const Json& value, std::vector<std::string>& key, const Visit& visit) {
  if (!value.is_structured()) return visit(key);
  for (const auto& [name, part] : value.items()) {
    key.push_back(value.is_array() ? "[]" : name);
    walk(part, key, visit);
    key.pop_back();
  }
}

void expect_known(const std::string& file, const Json& value, std::set<const Field*>& seen) {
  std::vector<std::string> key;
  walk(value, key, [&](const std::vector<std::string>& way) {
    const Field* field = find_field(file, way);
    std::string text;
    for (const std::string& part : way) text += part + ".";
    ASSERT_NE(field, nullptr) << file << " " << text;
    seen.insert(field);
  });
}

// Every key of every file of a record.
void expect_all_known(const fs::path& run, std::set<const Field*>& seen) {
  std::vector<std::string> files = list_files(run);
  files.emplace_back(kManifest);
  for (const std::string& file : files) {
    const std::string text = is_checkpoint(file) ? "" : read_file(run / file);
    if (file.ends_with(".json")) {
      expect_known(file, Json::parse(text), seen);
    } else if (file.ends_with(".jsonl")) {
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) expect_known(file, Json::parse(line), seen);
    } else if (file.ends_with(".toml")) {
      std::istringstream lines(text);
      std::string table;
      for (std::string line; std::getline(lines, line);) {
        const std::string key = line.substr(0, line.find(" = "));
        if (line.starts_with('[')) table = line.substr(1, line.size() - 2);
        if (line.empty() || line[0] == '[' || line[0] == '#') continue;
        const Field* field = find_field(file, table.empty() ? std::vector{key} : std::vector{table, key});
        ASSERT_NE(field, nullptr) << file << " " << table << "." << key;
        seen.insert(field);
      }
    } else {
      ASSERT_NE(find_field(file, {}), nullptr) << file;
      seen.insert(find_field(file, {}));
    }
  }
}

fs::path program_run(const fs::path& runs) {
  RunFolder run = RunFolder::create(
      runs, "train",
      {{kExperimentFile,
        "# A Python program under isobit.record.\n[script]\nfile = \"train.py\"\nfolder = \"\"\n"
        "arguments = []\ncommit = \"" +
            std::string(40, 'a') +
            "\"\ndirty = true\nfingerprint_every = 1\nfingerprint_gradients = 2\narithmetic = \"isobit\"\n"
            "products = \"ordered\"\nprocesses = 2\npatch_applies = false\npredictions = false\n"},
       {kEnvironmentFile, environment_json({})},
       {kDataFile, "{\"format\": \"isobit-data-1\", \"files\": [], \"note\": \"none\"}\n"},
       {"sources.json", "{\"format\": \"isobit-sources-1\", \"files\": {\"train.py\": \"pass\"}}\n"},
       {"dirty.patch", "--- a\n+++ b\n"}},
      kScriptRun);
  const std::string digits(32, 'c');
  run.append_step(1, format_line(StepLine{1, 1, 7, digits, digits, digits, digits}));
  run.append(kMetricsLog, format_line(MetricsLine{1, 1, "test", {{"accuracy", 0.1}}}));
  run.append(kEvaluationsLog, format_line(EvaluationLine{1, 1, 1, digits}));
  run.append(kOutsideLog, format_line(OutsideLine{0, 1, "__main__:7", "disabled"}));
  run.append(kTimingsLog, format_line(TimingLine{1, "epoch", 1, 1}));
  const auto piece = std::as_bytes(std::span("abc", 3));
  run.write_checkpoint(".pt", std::span(&piece, 1), 2, std::string(64, 'e'));
  run.finish(kWeights, std::string(64, 'e'));
  return run.path();
}

fs::path run_with_predictions(const fs::path& runs) {
  RunInputs inputs = small_inputs("predicting");
  inputs.experiment += "\n[evaluate]\npredictions = true\n";
  RunWriter writer = RunWriter::create(runs, inputs);
  writer.append_step(small_step(1));
  writer.append_metrics({1, 1, "test", {{"accuracy", 0.5}}});
  writer.append_predictions({1, 1, "test", {3, 0}, std::string(64, 'b')});
  writer.write_part("machine", "{\"format\": \"isobit-machine-1\", \"cores\": 4}\n");
  writer.finish(kWeights);
  return writer.folder();
}

TEST(FieldStanding, EveryFieldOfARecordStandsInTheTable) {
  const Scratch scratch;
  std::set<const Field*> seen;
  expect_all_known(run_with_predictions(scratch.runs()), seen);
  expect_all_known(program_run(scratch.runs()), seen);
  expect_all_known(finished_run(scratch.runs()), seen);
  const RunRecord record = RunRecord::open(finished_run(scratch.runs()));
  const ExportPlan plan = plan_export(record, {}, SecretScan({}, {}, ""));
  write_export(plan, scratch.path() / "run.tar");
  expect_all_known(import_run(scratch.path() / "run.tar", scratch.path() / "imported"), seen);
  // Rows that this record cannot have.
  const std::set<std::string_view> rare = {"network.pt"};
  for (const Field& field : record_fields()) {
    const bool elsewhere = rare.contains(field.file) || field.key.starts_with("changed") || field.file == "data.json";
    EXPECT_TRUE(elsewhere || seen.contains(&field)) << field.file << " " << field.key << ": no record has it";
  }
}

TEST(FieldStanding, WhatIsNotInTheTableIsFound) {
  EXPECT_EQ(find_field("state.json", {"prize"}), nullptr);
  EXPECT_EQ(find_field("state.json", {"steps", "more"}), nullptr);
  EXPECT_EQ(find_field("notes.txt", {}), nullptr);
  EXPECT_EQ(find_field("state.json", {"inputs", "data.json", "mode"}), nullptr);
  EXPECT_EQ(find_field("environment-2.json", {"hardware", "cpu"})->standing, Standing::claimed);
  EXPECT_EQ(find_field("experiment.toml", {"script", "dirty"})->standing, Standing::claimed);
  EXPECT_EQ(find_field("experiment.toml", {"script", "accuracy"}), nullptr);
  EXPECT_EQ(claimed_settings("name = \"a\"\n[script]\nfile = \"a\"\ndirty = true\n\n[other]\npatch_applies = true\n"),
            std::vector<std::string>{"script.dirty"});
  EXPECT_EQ(find_field("experiment.toml", {"optimizer", "lr"})->standing, Standing::bound);
}

TEST(FieldStanding, ThePageHasTheSameTable) {
  const std::string page = read_file(fs::path(ISOBIT_SOURCE_DIR) / "docs/formats/run.md");
  std::size_t rows = 0;
  for (const Field& field : record_fields()) {
    const std::string key = field.key.empty() ? "all of it" : "`" + std::string(field.key) + "`";
    const std::string row = "| `" + std::string(field.file) + "` | " + key + " | " + to_string(field.standing) + " | " +
                            std::string(field.because) + " |\n";
    EXPECT_NE(page.find(row), std::string::npos) << row;
    ++rows;
  }
  std::size_t found = 0;
  for (const char* word : {" | recomputed | ", " | bound | ", " | claimed | "}) {
    for (auto at = page.find(word); at != std::string::npos; at = page.find(word, at + 1)) ++found;
  }
  EXPECT_EQ(found, rows);
}

}  // namespace
}  // namespace isobit::archive
