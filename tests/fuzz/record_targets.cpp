// A run's whole folder. An input is a text of parts, each the content of a file that replaces or joins a sound
// record's:
//
//   experiment sealed        (or: script; raw: the digests stay as they were)
//   ==== metrics.jsonl
//   ...
//
// The record is sealed anew over what the input says (state's inputs, the checkpoints' digests and what they say of the
// logs, the manifest), as whoever writes it can: else every input would end at the first digest.
#include <fmt/format.h>

#include <map>
#include <numeric>
#include <span>

#include "archive/log_lines.h"
#include "archive/patch_summary.h"
#include "archive/record_rules.h"
#include "archive/run_export.h"
#include "archive/run_folder.h"
#include "archive/small_run.h"
#include "archive/summary_text.h"
#include "archive/unfinished_run.h"
#include "fuzz/target.h"
#include "fuzz/targets.h"

namespace isobit::fuzz {
namespace {

namespace fs = std::filesystem;
using namespace archive;

using Files = std::map<std::string, std::string>;

constexpr const char* kId = "20261121-045835-small-3f9a2c01";
constexpr const char* kScriptText =
    "# A Python program under isobit.record.\n[script]\nfile = \"train.py\"\narguments = []\nfolder = \"\"\ncommit = "
    "\"0123456789012345678901234567890123456789\"\ndirty = true\nfingerprint_every = 2\n";
constexpr const char* kPatchText =
    "diff --git a/train.py b/train.py\n--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-pass\n+pass  # now\n";

const std::string kDigits(32, 'c');

// What lies in the folder, and an id and a time that do not change, so that one input always means the same.
Files files_of(const fs::path& folder) {
  Files files;
  for (const std::string& path : list_files(folder)) files[path] = read_file(folder / path);
  StateFile state = parse_state(files[kStateFile], kStateFile);
  state.id = kId;
  state.name = "small";
  state.created = "2026-11-21T04:58:35.123456Z";
  files[kStateFile] = format_state(state);
  return files;
}

Files experiment_files() {
  const fs::path runs = scratch() / "made";
  const Files files = files_of(finished_run(runs));
  fs::remove_all(runs);
  return files;
}

Files script_files() {
  const fs::path runs = scratch() / "made";
  RunFolder run =
      RunFolder::create(runs, "small",
                        {{kExperimentFile, kScriptText},
                         {kEnvironmentFile, "{\"run\": {\"threads\": \"1\", \"isa\": \"avx2\"}}\n"},
                         {kDataFile, "{\"format\": \"isobit-data-1\", \"files\": []}\n"},
                         {kSourcesFile, "{\"format\": \"isobit-sources-1\", \"files\": {\"train.py\": \"pass\"}}\n"},
                         {kPatchFile, kPatchText}},
                        kScriptRun);
  run.append(kMetricsLog, format_line(MetricsLine{0, 1, "test", {{"accuracy", 0.1}}}));
  for (std::int64_t step = 1; step <= 4; ++step) {
    run.append_step(step, format_line(StepLine{step, 1, 7, kDigits, "", ""}));
    run.append(kEvaluationsLog, format_line(EvaluationLine{step, 1, 1, kDigits}));
    if (step == 2) run.append(kOutsideLog, format_line(OutsideLine{1, 2, "__main__:7", "disabled"}));
    const auto piece = std::as_bytes(std::span("abc", 3));
    if (step >= 3) run.write_checkpoint(".pt", std::span(&piece, 1), 2, std::string(64, 'a'));
  }
  run.finish(kWeights, std::string(64, 'e'));
  Files files = files_of(run.path());
  fs::remove_all(runs);
  return files;
}

const Files& base(bool script) {
  static const Files experiment = experiment_files(), program = script_files();
  return script ? program : experiment;
}

// A name that stays within the folder.
bool is_kept(const std::string& path) {
  const std::string name = path.starts_with("checkpoints/") ? path.substr(12) : path;
  return !name.empty() && name.size() < 100 && name.find_first_of(std::string_view("/\0", 2)) == std::string::npos &&
         name != "." && name != ".." && path != kCheckpointFolder;
}

struct Input {
  std::string kind;
  Files parts;
};

Input parse_input(std::string_view text) {
  constexpr std::string_view kMark = "\n==== ";
  Input input;
  const std::size_t first = text.find(kMark);
  input.kind = text.substr(0, first);
  for (std::size_t at = first; at != std::string_view::npos;) {
    const std::size_t name = at + kMark.size(), end = text.find('\n', name);
    if (end == std::string_view::npos) break;
    at = text.find(kMark, end);
    // The line feed before the mark is the part's own last one.
    const std::size_t last = at == std::string_view::npos ? text.size() : at + 1;
    const std::string path(text.substr(name, end - name));
    if (is_kept(path)) input.parts[path] = text.substr(end + 1, last - end - 1);
  }
  return input;
}

std::string checkpoint_lines(const Files& files) {
  std::string lines;
  const std::string& log = files.at(kCheckpointsLog);
  for (CheckpointLine& line : parse_unfinished_log<CheckpointLine>(log)) {
    if (const auto file = files.find(line.entry.file); file != files.end()) {
      line.entry.size = file->second.size();
      line.entry.sha256 = sha256(file->second);
    }
    for (auto& [name, digest] : line.logs) {
      const auto content = files.find(name);
      if (content == files.end()) continue;
      digest.size = std::min<std::uint64_t>(digest.size, content->second.size());
      digest.sha256 = sha256(std::string_view(content->second).substr(0, digest.size));
    }
    lines += format_line(line);
  }
  return lines + log.substr(std::min(lines.size(), log.size()));
}

void seal(Files& files, bool manifest) {
  if (files.contains(kCheckpointsLog)) files[kCheckpointsLog] = checkpoint_lines(files);
  std::string id = kId;
  try {
    StateFile state = parse_state(files[kStateFile], kStateFile);
    for (auto& [path, digest] : state.inputs) {
      if (files.contains(path)) digest = {files[path].size(), sha256(files[path])};
    }
    files[kStateFile] = format_state(state);
    id = state.id;
  } catch (const UserError&) {  // as the input says
  }
  if (!manifest) return;
  Manifest sealed;
  sealed.run = id;
  for (const auto& [path, content] : files) {
    if (path != kManifest) sealed.files[path] = {content.size(), sha256(content)};
  }
  files[kManifest] = format_manifest(sealed);
}

// Writes what differs from the last input's files.
class Folder {
 public:
  explicit Folder(const char* name) : path_(scratch() / name / kId) {
    fs::create_directories(path_ / kCheckpointFolder);
  }
  const fs::path& fill(const Files& files) {
    for (const auto& [path, content] : there_) {
      if (!files.contains(path)) fs::remove(path_ / path);
    }
    for (const auto& [path, content] : files) {
      const auto before = there_.find(path);
      if (before == there_.end() || before->second != content) put(path_ / path, content);
    }
    there_ = files;
    return path_;
  }
  // Whoever worked in it left something else.
  void empty() {
    fs::remove_all(path_);
    fs::create_directories(path_ / kCheckpointFolder);
    there_.clear();
  }

 private:
  fs::path path_;
  Files there_;
};

std::string input_of(const std::string& kind, const Files& parts) {
  std::string text = kind;
  for (const auto& [path, content] : parts)
    text += fmt::format("{}==== {}\n{}", text.ends_with('\n') ? "" : "\n", path, content);
  return text;
}

// As commands print it.
void print(const RunSummary& summary) {
  static_cast<void>(summary_json(summary).dump(2, ' ', true, Json::error_handler_t::replace));
  for (const MetricsLine& line : summary.metrics) static_cast<void>(metrics_text(line));
}

// A record that is sound can be given away, and whoever gets it finds the same.
void give_away(const RunRecord& record) {
  static const SecretScan scan({}, {}, "/home/me");
  const fs::path file = scratch() / "given.tar", runs = scratch() / "got";
  fs::remove(file);
  fs::remove_all(runs);
  accepts([&] {
    const ExportPlan plan = plan_export(record, {true, false}, scan);
    if (!plan.findings.empty()) return;
    write_export(plan, file);
    require(accepts([&] {
              const RunRecord second = RunRecord::open(import_run(file, runs));
              require(second.summary().id == record.summary().id && second.steps() == record.steps() &&
                          second.weights() == record.weights(),
                      "what is given away is the record");
            }),
            "what is exported can be imported");
  });
}

void open(const fs::path& folder, bool given) {
  const RunSummary listed = summarize(folder);
  print(listed);
  const bool sound = accepts([&] {
    const RunRecord record = RunRecord::open(folder);
    require(record.summary().steps == static_cast<std::int64_t>(record.steps().size()), "steps are counted");
    require(is_run_id(record.summary().id, record.summary().name), "an id is that of a run");
    for (const OutsideLine& line : record.outside().value_or(std::vector<OutsideLine>()))
      static_cast<void>(describe(line));
    static_cast<void>(record.missing_digests());
    for (const CheckpointEntry& entry : record.checkpoints()) {
      if (!record.is_script()) accepts([&] { static_cast<void>(record.checkpoint(entry).contents()); });
    }
    if (given) give_away(record);
  });
  require(sound || listed.state != RunState::finished || !fs::exists(folder / kManifest),
          "what is listed as finished opens");
}

}  // namespace

std::map<std::string, std::string> sound_record() {
  Files files = base(false), named;
  seal(files, true);
  for (const auto& [path, content] : files) named[std::string(kId) + "/" + path] = content;
  return named;
}

void run_record(std::string_view text) {
  static Folder folder("records");
  const Input input = parse_input(text);
  Files files = base(input.kind.starts_with("script"));
  for (const auto& [path, content] : input.parts) files[path] = content;
  if (input.kind.find("raw") == std::string::npos) seal(files, true);
  // Giving away takes ten times as long as all else: one input in eight.
  const bool given = std::accumulate(text.begin(), text.end(), 0u) % 8 == 0;
  open(folder.fill(files), given);
}

std::vector<std::string> record_seeds() {
  const Files &experiment = base(false), &script = base(true);
  std::vector<std::string> seeds = {"experiment sealed", "script sealed"};
  for (const auto& [path, content] : experiment) {
    if (path != kManifest) seeds.push_back(input_of("experiment sealed", {{path, content}}));
  }
  for (const auto& [path, content] : script) {
    if (path != kManifest) seeds.push_back(input_of("script sealed", {{path, content}}));
  }
  const std::string sha(64, 'b');
  const std::string predictions =
      format_line(PredictionsLine{4, 1, "test", {1, 2}, sha}) + format_line(PredictionsLine{8, 2, "test", {1, 3}, sha});
  seeds.push_back(input_of("experiment sealed",
                           {{kExperimentFile, experiment.at(kExperimentFile) + "\n[evaluate]\npredictions = true\n"},
                            {kPredictionsLog, predictions}}));
  StateFile stock = parse_state(experiment.at(kStateFile), kStateFile);
  stock.contract = "stock-2.13.0";
  stock.weights.replace(0, std::string_view("isobit-0.1").size(), stock.contract);
  seeds.push_back(input_of("experiment sealed",
                           {{kExperimentFile, experiment.at(kExperimentFile) + "\n[arithmetic]\nkind = \"stock\"\n"},
                            {kStateFile, format_state(stock)}}));
  // An id that leads out of the archive.
  StateFile state = parse_state(experiment.at(kStateFile), kStateFile);
  state.id.replace(0, 16, "../../../../etc/");
  seeds.push_back(input_of("experiment sealed", {{kStateFile, format_state(state)}}));
  Files raw = experiment;
  seal(raw, true);
  seeds.push_back(input_of("experiment raw", {{kManifest, raw[kManifest]}}));
  seeds.push_back(
      input_of("script sealed", {{kExportFile, "{\"format\": \"isobit-export-1\", \"run\": \"" + std::string(kId) +
                                                   "\", \"manifest\": \"\", \"left_out\": [], \"changed\": []}\n"},
                                 {kExportReadme, "read\n"}}));
  return seeds;
}

// A run that ended early, resumed.
void run_unfinished(std::string_view text) {
  static Folder folder("unfinished");
  const Input input = parse_input(text);
  const bool script = input.kind.starts_with("script");
  Files files = base(script);
  files.erase(kManifest);
  StateFile state = parse_state(files[kStateFile], kStateFile);
  state.state = "running";
  state.weights.clear();
  state.weights_sha256.clear();
  files[kStateFile] = format_state(state);
  for (const auto& [path, content] : input.parts) files[path] = content;
  if (input.kind.find("raw") == std::string::npos) seal(files, false);
  const fs::path& run = folder.fill(files);
  print(summarize(run));
  accepts([&] {
    RunFolder resumed = RunFolder::resume(run, "{}\n", script ? kScriptRun : kExperimentRun);
    require(resumed.steps() >= 0, "steps are counted");
    if (const auto& checkpoint = resumed.checkpoint()) {
      const std::string name = fmt::format("{}/step-{}", kCheckpointFolder, resumed.steps());
      require(checkpoint->file == name + ".pt" || checkpoint->file == name + ".safetensors",
              "a checkpoint is the run's");
    }
    resumed.fail("ended");
    accepts([&] { static_cast<void>(RunRecord::open(run)); });
  });
  folder.empty();
}

std::vector<std::string> unfinished_seeds() {
  std::vector<std::string> seeds = {"experiment sealed", "script sealed"};
  for (const char* path : {kStepsLog, kMetricsLog, kCheckpointsLog, kStateFile}) {
    seeds.push_back(input_of("experiment sealed", {{path, base(false).at(path)}}));
    seeds.push_back(input_of("script sealed", {{path, base(true).at(path)}}));
  }
  // A checkpoint that is another file: it would be deleted as too old.
  const CheckpointLine line{{3, kExperimentFile, 0, "", ""}, {}};
  seeds.push_back(input_of("script sealed", {{kCheckpointsLog, format_line(line)}}));
  seeds.push_back(input_of("script sealed", {{".cut-2", "x"}, {".tmp-1", "y"}, {".before-state.json", "z"}}));
  return seeds;
}

}  // namespace isobit::fuzz
