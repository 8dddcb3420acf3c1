#include "archive/record_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>

#include "archive/experiment_text.h"
#include "archive/json_text.h"
#include "archive/manifest.h"
#include "archive/printable.h"
#include "archive/record_part.h"
#include "archive/run_export.h"
#include "archive/user_error.h"
#include "contract/product_tier.h"

namespace isobit::archive {
namespace {

// What run.log takes (python/isobit/_recording/_record_texts.py).
bool is_name_of_set(const std::string& name) {
  constexpr std::string_view kMarks = "_./:@%+=()[]#-";
  const bool fine = std::all_of(name.begin(), name.end(), [&](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == ' ' || kMarks.find(static_cast<char>(c)) != kMarks.npos);
  });
  return fine && !name.empty() && name.size() <= 100 && name.front() != ' ' && name.back() != ' ';
}

class Rules {
 public:
  explicit Rules(const SealedParts& parts) : p_(parts), last_(static_cast<std::int64_t>(parts.steps.size())) {}

  void check() const {
    check_steps();
    check_state();
    check_arithmetic();
    check_inputs();
    check_json();
    check_data();
    check_experiment();
    check_program();
    check_export();
    check_metrics();
    check_predictions();
    check_other_logs();
    check_checkpoints();
    check_files();
  }

 private:
  [[noreturn]] void damaged(const std::string& file, const std::string& what) const {
    throw UserError((p_.folder / file).string(), "damaged: " + what, kRestore);
  }
  [[noreturn]] void damaged(const std::string& log, std::size_t line, const std::string& what) const {
    damaged(fmt::format("{}:{}", log, line + 1), what);
  }

  void check_state() const {
    const StateFile& state = p_.state;
    if (state.state != "finished" || state.id != p_.manifest.run || state.steps != last_) {
      damaged(kStateFile, "state, manifest and log disagree");
    }
    if (!state.reason.empty()) damaged(kStateFile, "a finished run has no reason for its end");
    if (!is_run_id(state.id, state.name)) damaged(kStateFile, "id and name are not those of a run");
    const std::string prefix = state.contract + ":";
    if (!state.weights.starts_with(prefix) || !is_hex(std::string_view(state.weights).substr(prefix.size()), 32)) {
      damaged(kStateFile, "the weights' fingerprint is none");
    }
    if (!state.weights_sha256.empty() && !is_hex(state.weights_sha256, 64)) {
      damaged(kStateFile, "the weights' SHA-256 is none");
    }
  }

  // What promises nothing must not pass for what does, nor the other way round: the record says it in two places.
  void check_arithmetic() const {
    const std::string& contract = p_.state.contract;
    const bool stock = asks_for_stock(p_.contents->at(kExperimentFile));
    if (stock != is_stock(contract)) {
      damaged(kStateFile, fmt::format("its contract is {}, but the experiment asks for {}", printable(contract),
                                      stock ? "stock PyTorch" : "isobit"));
    }
    const std::string asked = asked_products(p_.contents->at(kExperimentFile));
    const std::string_view named = stock ? "ordered" : name(contract::products_of(contract));
    if (asked != named) {
      damaged(kStateFile, fmt::format("its contract is {}, but the experiment asks for products \"{}\"",
                                      printable(contract), printable(asked)));
    }
    if (contract.empty() || contract.size() > 64 || !std::all_of(contract.begin(), contract.end(), is_name_character))
      damaged(kStateFile, "its contract's name is none");
  }
  static bool is_name_character(char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' || c == '-' ||
           c == '_' || c == '+';
  }

  // state.json names the inputs with their digests; a seal made anew has to agree with them.
  void check_inputs() const {
    for (const auto& [path, digest] : p_.state.inputs) {
      const auto found = p_.manifest.files.find(path);
      if (found == p_.manifest.files.end()) damaged(path, "state.json names it, the manifest does not");
      if (found->second.size != digest.size || found->second.sha256 != digest.sha256) {
        damaged(path, "it is not the file that state.json names");
      }
      if (!is_input(path)) damaged(path, "no run has such an input");
    }
    for (const char* path : {kExperimentFile, kEnvironmentFile, kDataFile}) {
      if (!p_.state.inputs.contains(path)) damaged(kStateFile, fmt::format("it does not name {}", path));
    }
  }

  [[nodiscard]] bool is_input(const std::string& path) const {
    if (path == kExperimentFile || path == kEnvironmentFile || path == kDataFile) return true;
    if (path == kSourcesFile || path == kPatchFile) return p_.script;
    if (!part_name(path).empty()) return true;
    constexpr std::string_view begin = "environment-", end = ".json";  // one for each time it was resumed
    if (!path.starts_with(begin) || !path.ends_with(end) || path.size() <= begin.size() + end.size()) return false;
    const std::string number = path.substr(begin.size(), path.size() - begin.size() - end.size());
    return number.size() < 6 && number[0] != '0' && number.find_first_not_of("0123456789") == std::string::npos;
  }

  // What is printed or read by keys later.
  void check_json() const {
    for (const auto& [path, text] : *p_.contents) {
      if (!path.ends_with(".json")) continue;
      try {
        const auto object = parse_json(text);
        if (!object.is_object()) damaged(path, "it is no JSON object");
        if (!part_name(path).empty() && !(object.contains("format") && object["format"].is_string()))
          damaged(path, "a part of a record says its format");
      } catch (const UserError&) {
        throw;
      } catch (const std::invalid_argument& error) {
        damaged(path, fmt::format("it {}", error.what()));
      } catch (const std::exception&) {
        damaged(path, "it is not JSON");
      }
    }
  }

  // Nobody recomputes a key that isobit does not write; a program's batches are in its log, and it names no files.
  void check_data() const {
    const auto data = parse_json(p_.contents->at(kDataFile));
    for (const auto& [key, value] : data.items()) {
      if (key == "format" || key == "files" || key == (p_.script ? "note" : "decoder")) continue;
      damaged(kDataFile, fmt::format("'{}' is not a key that isobit writes", printable(key)));
    }
    if (!p_.script) return;
    if (data.contains("format") && data["format"] != "isobit-data-1") damaged(kDataFile, "its format is another one");
    if (data.contains("files") && !(data["files"].is_array() && data["files"].empty()))
      damaged(kDataFile, "a program's record names no data files");
    if (data.contains("note") && !data["note"].is_string()) damaged(kDataFile, "its note is no text");
  }

  // An experiment's tables, keys and values, each once: no words beside them, which some reader would show as facts.
  void check_experiment() const {
    if (p_.script) return;
    std::set<std::string> seen;
    std::string table, name;
    std::istringstream lines(p_.contents->at(kExperimentFile));
    for (std::string line; std::getline(lines, line);) {
      if (line.empty()) continue;
      const std::string key = line.substr(0, line.find(" = "));
      const bool is_table = line.front() == '[' && line.back() == ']';
      if (is_table) table = line;
      const bool good = is_table ? is_word(std::string_view(line).substr(1, line.size() - 2))
                                 : is_word(key) && is_value(line.substr(std::min(line.size(), key.size() + 3)));
      if (!good || !seen.insert(is_table ? line : table + key).second)
        damaged(kExperimentFile, fmt::format("'{}' is not a line that isobit writes", printable(line)));
      if (table.empty() && key == "name") name = line.substr(key.size() + 3);
    }
    if (name != '"' + p_.state.name + '"') damaged(kExperimentFile, "the run has another name");
  }
  static bool is_word(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return is_name_character(c); });
  }
  static bool is_value(const std::string& text) {
    return text == "inf" || text == "-inf" || text == "nan" || is_json(text);
  }

  // Of a program's texts: the keys that isobit writes, and no words beside them.
  void check_program() const {
    if (!p_.script) return;
    std::set<std::string> keys, headings;
    std::istringstream lines(p_.contents->at(kExperimentFile));
    for (std::string line; std::getline(lines, line);) {
      const bool heading = line == "# A Python program under isobit.record." || line == "[script]";
      if (heading && keys.empty() && headings.insert(line).second) continue;
      const std::string key = line.substr(0, line.find(" = "));
      constexpr const char* known[] = {
          "file",       "folder",   "arguments", "commit",        "dirty",       "fingerprint_every",
          "arithmetic", "products", "processes", "patch_applies", "predictions", "fingerprint_gradients"};
      const bool good =
          std::find(std::begin(known), std::end(known), key) != std::end(known) && keys.insert(key).second;
      if (!good || !is_value_of(key, line.substr(std::min(line.size(), key.size() + 3)))) {
        damaged(kExperimentFile, fmt::format("'{}' is not a line that isobit writes", printable(line)));
      }
    }
    const auto text = p_.contents->find(kSourcesFile);
    if (text == p_.contents->end()) damaged(kSourcesFile, "the record has no sources");
    const auto sources = parse_json(text->second);
    const bool good = sources.size() == 2 && sources.contains("format") && sources["format"] == "isobit-sources-1" &&
                      sources.contains("files") && sources["files"].is_object();
    if (!good) damaged(kSourcesFile, "it holds no program's sources");
    for (const auto& [path, source] : sources["files"].items()) {
      if (!source.is_string()) damaged(kSourcesFile, "it holds something that is no text");
    }
  }

  // What the recorder writes for a key of [script]: nobody recomputes the words that another type would have room for,
  // and what is spelt otherwise than isobit spells it could be read as something else than here.
  static bool is_value_of(const std::string& key, const std::string& text) {
    if (key == "arithmetic") return text == "\"isobit\"" || text == "\"stock\"";
    if (key == "dirty" || key == "patch_applies" || key == "predictions") return text == "true" || text == "false";
    if (!is_json(text)) return false;
    if (key.starts_with("fingerprint_") || key == "processes") return true;  // held against the repeat's, as spelt
    return text[0] == (key == "arguments" ? '[' : '"');
  }
  static bool is_json(const std::string& text) {
    try {
      static_cast<void>(parse_json(text));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  void check_export() const {
    const auto text = p_.contents->find(kExportFile);
    if (text == p_.contents->end()) return;
    const auto about = parse_json(text->second);
    const bool good = about.size() == 5 && about.contains("format") && about["format"] == "isobit-export-1" &&
                      about.contains("run") && about["run"] == p_.state.id && about.contains("manifest") &&
                      about.contains("left_out") && about.contains("changed");
    if (!good) damaged(kExportFile, "it describes no exported run");
  }

  void check_steps() const {
    for (std::size_t i = 0; i < p_.steps.size(); ++i) {
      if (p_.steps[i].step != static_cast<std::int64_t>(i + 1)) damaged(kStepsLog, i, "its steps are out of order");
    }
  }

  // A program may measure before its first step and as often as it likes; an experiment once per set after a step.
  void check_metrics() const {
    for (std::size_t i = 0; i < p_.metrics.size(); ++i) {
      const MetricsLine& line = p_.metrics[i];
      require_step(kMetricsLog, i, line.step, p_.script ? 0 : 1);
      const bool known = p_.script ? is_name_of_set(line.set) : line.set == "train" || line.set == "test";
      if (!known) damaged(kMetricsLog, i, "no run measures such a set");
      for (const auto& [name, value] : line.values) {
        if (!is_name_of_set(name)) damaged(kMetricsLog, i, "no run measures such a value");
      }
      if (i > 0) {
        const MetricsLine& before = p_.metrics[i - 1];
        const bool again = before.step == line.step && (before.set == line.set || before.set == "test");
        if (line.step < before.step || (again && !p_.script))
          damaged(kMetricsLog, i, "its measurements are out of order, or doubled");
      }
      if (!p_.script && line.epoch != p_.steps[static_cast<std::size_t>(line.step) - 1].epoch)
        damaged(kMetricsLog, i, "it is of another epoch than its step");
    }
  }

  // Of an experiment one line for each measurement of the test set, with one class per sample, always of the same
  // samples; of a program those that it asked for.
  void check_predictions() const {
    if (p_.predictions.has_value() != keeps_predictions(p_.contents->at(kExperimentFile))) {
      damaged(p_.predictions ? kPredictionsLog : kExperimentFile,
              p_.predictions ? "the experiment keeps no predictions" : "it keeps predictions, and there are none");
    }
    if (!p_.predictions) return;
    if (p_.script) {
      require_ascending(kPredictionsLog, *p_.predictions);
      for (std::size_t i = 0; i < p_.predictions->size(); ++i) {
        if (!is_name_of_set((*p_.predictions)[i].set)) damaged(kPredictionsLog, i, "its set has no name");
      }
      return;
    }
    std::size_t next = 0;
    for (const MetricsLine& line : p_.metrics) {
      if (line.set != "test") continue;
      if (next == p_.predictions->size()) damaged(kPredictionsLog, next, "an evaluation's predictions are missing");
      const PredictionsLine &now = (*p_.predictions)[next], &first = p_.predictions->front();
      if (now.step != line.step || now.epoch != line.epoch || now.set != line.set)
        damaged(kPredictionsLog, next, fmt::format("it is not of the evaluation after step {}", line.step));
      if (now.predictions.size() != first.predictions.size() || now.targets != first.targets)
        damaged(kPredictionsLog, next, "it is of other samples than the first line");
      ++next;
    }
    if (next < p_.predictions->size()) damaged(kPredictionsLog, next, "there was no such evaluation");
  }

  void check_other_logs() const {
    if (!p_.script && (p_.evaluations || p_.outside)) {
      damaged(p_.evaluations ? kEvaluationsLog : kOutsideLog, "only programs leave this log");
    }
    if (p_.script &&
        !p_.state.weights_sha256.empty()) {  // of version 0.1, which had neither, the latter is missing, too
      if (!p_.evaluations) damaged(kEvaluationsLog, "a program's record has this log");
      if (!p_.outside) damaged(kOutsideLog, "a program's record has this log");
    }
    if (p_.evaluations) require_ascending(kEvaluationsLog, *p_.evaluations);
    require_ascending(kTimingsLog, p_.timings);
    for (std::size_t i = 0; i < p_.timings.size(); ++i) {
      const TimingLine& line = p_.timings[i];
      if (!(line.seconds >= 0) || std::isinf(line.seconds) || line.samples < 0) {
        damaged(kTimingsLog, i, "nothing takes such a time");
      }
    }
    if (!p_.outside) return;
    for (std::size_t i = 0; i < p_.outside->size(); ++i) {
      const OutsideLine& line = (*p_.outside)[i];
      require_step(kOutsideLog, i, line.after, 0);
      if (line.until < line.after || line.until > last_ || (i > 0 && line.after < (*p_.outside)[i - 1].until)) {
        damaged(kOutsideLog, i, "its steps are out of order");
      }
    }
  }

  template <class Line>
  void require_ascending(const char* log, const std::vector<Line>& lines) const {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      require_step(log, i, lines[i].step, 0);
      if (i > 0 && lines[i].step < lines[i - 1].step) damaged(log, i, "its steps are out of order");
    }
  }

  void require_step(const char* log, std::size_t line, std::int64_t step, std::int64_t first) const {
    if (step < first || step > last_) {
      damaged(log, line, fmt::format("step {} is not one of the run's {}..{}", step, first, last_));
    }
  }

  // Digests of ever longer beginnings of one text, hashing every byte once.
  class Prefixes {
   public:
    bool are(const std::string& content, const FileDigest& digest) {
      if (digest.size < read_ || digest.size > content.size()) return false;
      hash_.update(std::string_view(content).substr(read_, digest.size - read_));
      read_ = digest.size;
      return hash_.hex() == digest.sha256;
    }

   private:
    Sha256 hash_;
    std::uint64_t read_ = 0;
  };

  // What the checkpoints so far said of the logs.
  struct Covered {
    std::map<std::string, Prefixes> prefixes;
    std::uint64_t read = 0;  // of steps.jsonl
    std::int64_t steps = 0;  // lines in it
  };

  // Each line also says what the other logs were when the checkpoint was written: their beginnings.
  void check_checkpoints() const {
    Covered covered;
    for (std::size_t i = 0; i < p_.checkpoints.size(); ++i) {
      const CheckpointLine& line = p_.checkpoints[i];
      require_step(kCheckpointsLog, i, line.entry.step, p_.script ? 0 : 1);
      const bool later = i == 0 || line.entry.step > p_.checkpoints[i - 1].entry.step ||
                         (p_.script && line.entry.step == p_.checkpoints[i - 1].entry.step);
      if (!later) damaged(kCheckpointsLog, i, "its checkpoints are out of order, or doubled");
      const char* suffix = p_.script ? ".pt" : ".safetensors";
      if (line.entry.file != fmt::format("{}/step-{}{}", kCheckpointFolder, line.entry.step, suffix)) {
        damaged(kCheckpointsLog, i, "a checkpoint of this step has another name");
      }
      if (!is_hex(line.entry.sha256, 64)) damaged(kCheckpointsLog, i, "its SHA-256 is none");
      check_covered(i, line, covered);
      const bool replaced = i + 1 < p_.checkpoints.size() && p_.checkpoints[i + 1].entry.step == line.entry.step;
      const auto file = p_.manifest.files.find(line.entry.file);
      if (file == p_.manifest.files.end() || replaced) continue;  // removed as too old
      if (file->second.size != line.entry.size || file->second.sha256 != line.entry.sha256) {
        damaged(line.entry.file, "it is not the checkpoint that checkpoints.jsonl names");
      }
    }
    check_due_checkpoints();
  }

  // All logs of the run, each to the end of a line; of the steps those up to this one.
  void check_covered(std::size_t i, const CheckpointLine& line, Covered& covered) const {
    for (const auto& [log, digest] : line.logs) {
      if (!is_covered(log)) damaged(kCheckpointsLog, i, fmt::format("no checkpoint covers '{}'", log));
      const auto content = p_.contents->find(log);
      const bool sound = content != p_.contents->end() && covered.prefixes[log].are(content->second, digest) &&
                         (digest.size == 0 || content->second[digest.size - 1] == '\n');
      if (!sound) damaged(kCheckpointsLog, i, fmt::format("{} did not begin like this", log));
    }
    for (const char* log : {kStepsLog, kMetricsLog, kTimingsLog, kEvaluationsLog, kOutsideLog}) {
      if (p_.contents->contains(log) && !line.logs.contains(log))
        damaged(kCheckpointsLog, i, fmt::format("it does not say how {} began", log));
    }
    const std::string& steps = p_.contents->at(kStepsLog);
    for (const std::uint64_t end = line.logs.at(kStepsLog).size; covered.read < end; ++covered.read)
      covered.steps += steps[covered.read] == '\n' ? 1 : 0;
    if (covered.steps != line.entry.step)
      damaged(kCheckpointsLog, i, fmt::format("{} had other steps then", kStepsLog));
  }

  // A program saves when it wants to; a run of an experiment at fixed steps (train/schedule.h).
  void check_due_checkpoints() const {
    const auto due = p_.script ? std::nullopt : checkpoints_due(p_.contents->at(kExperimentFile));
    if (!due) return;
    std::set<std::int64_t> present;
    for (const CheckpointLine& line : p_.checkpoints) present.insert(line.entry.step);
    const auto require = [&](std::int64_t step) {
      if (!present.contains(step))
        damaged(kCheckpointsLog, fmt::format("it has no line of the checkpoint after step {}", step));
    };
    for (std::int64_t step = 1; step <= last_; ++step) {
      const auto& now = p_.steps[static_cast<std::size_t>(step) - 1];
      const bool ends_epoch = step == last_ || p_.steps[static_cast<std::size_t>(step)].epoch != now.epoch;
      if (due->every > 0 ? step % due->every == 0 || step == last_ : ends_epoch) require(step);
    }
    for (std::int64_t part = 1; part < std::min(due->segments, last_ + 1); ++part) {
      if (const std::int64_t end = part * last_ / due->segments; end > 0) require(end);
    }
  }

  static bool is_covered(const std::string& log) {
    return log == kStepsLog || log == kMetricsLog || log == kTimingsLog || log == kEvaluationsLog ||
           log == kOutsideLog || log == kPredictionsLog;
  }

  void check_files() const {
    std::set<std::string> known = {kStateFile,      kStepsLog,   kMetricsLog,   kTimingsLog,     kOutsideLog,
                                   kEvaluationsLog, kExportFile, kExportReadme, kCheckpointsLog, kPredictionsLog};
    for (const auto& [path, digest] : p_.state.inputs) known.insert(path);
    for (const CheckpointLine& line : p_.checkpoints) known.insert(line.entry.file);
    if (!p_.script && p_.contents->at(kExperimentFile).find("\ntorchscript = ") != std::string::npos) {
      known.insert(kNetworkFile);
    }
    for (const auto& [path, digest] : p_.manifest.files) {
      if (!known.contains(path)) damaged(path, "no part of the record names it (move it away)");
    }
    if (p_.manifest.files.contains(kExportReadme) && !p_.manifest.files.contains(kExportFile)) {
      damaged(kExportReadme, "only an exported record has it");
    }
  }

  const SealedParts& p_;
  std::int64_t last_;
};

}  // namespace

void require_rules(const SealedParts& parts) { Rules(parts).check(); }

}  // namespace isobit::archive
