#include "proof/compare_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "archive/checked_files.h"
#include "archive/checkpoint_compare.h"
#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/log_lines.h"
#include "archive/run_export.h"

namespace isobit::proof {
namespace {

namespace fs = std::filesystem;
using archive::RunRecord;
using train::Difference;

std::optional<Difference> difference_at(std::int64_t step, const char* what, const std::string& recorded,
                                        const std::string& recomputed) {
  const auto shown = [](const std::string& text) { return text.empty() ? "nothing" : text; };
  if (recorded == recomputed) return {};
  return Difference{step, what, shown(recorded), shown(recomputed)};
}

std::optional<Difference> different_step(const archive::StepLine& a, const archive::StepLine& b) {
  if (auto d = difference_at(a.step, "epoch", std::to_string(a.epoch), std::to_string(b.epoch))) return d;
  if (auto d = difference_at(a.step, "batch", a.batch, b.batch)) return d;
  if (auto d = difference_at(a.step, "loss", fmt::format("{:08x}", a.loss_bits), fmt::format("{:08x}", b.loss_bits)))
    return d;
  if (auto d = difference_at(a.step, "gradients", a.gradients, b.gradients)) return d;
  if (auto d = difference_at(a.step, "weights", a.weights, b.weights)) return d;
  return difference_at(a.step, "optimizer", a.optimizer, b.optimizer);
}

std::optional<Difference> different_count(std::int64_t step, const char* what, std::size_t a, std::size_t b) {
  return difference_at(step, what, std::to_string(a), std::to_string(b));
}

template <class Line>
std::string line_of(const Line& line) {
  const std::string text = format_line(line);
  return text.substr(0, text.size() - 1);
}

// The files of checkpoints that both still have (an exported record may have none), and the weights at every one.
std::optional<Difference> different_checkpoint(const RunRecord& a, const RunRecord& b, std::int64_t after,
                                               train::Verdict& so_far) {
  for (const archive::CheckpointEntry& before : a.checkpoints()) {
    if (before.step <= after) continue;
    const auto now = std::find_if(b.checkpoints().begin(), b.checkpoints().end(),
                                  [&](const archive::CheckpointEntry& entry) { return entry.step == before.step; });
    if (now == b.checkpoints().end()) return Difference{before.step, "checkpoint", "present", "nothing"};
    ++so_far.checkpoints;
    if (now->sha256 == before.sha256) continue;  // of files whose digests were checked
    const archive::TemporaryFolder work;
    const fs::path checked = work.path() / "checkpoint";
    archive::CheckedFiles(a).copy(before.file, checked);
    const std::string part = archive::different_part(checked, b.folder() / now->file);
    if (!part.empty()) return Difference{before.step, fmt::format("checkpoint ({})", part), before.sha256, now->sha256};
  }
  for (const auto& [step, sha256] : a.checkpoint_weights()) {  // of deleted ones, too
    if (sha256.empty()) continue;                              // records of earlier versions
    const auto now = b.checkpoint_weights().find(step);
    const std::string recomputed = now == b.checkpoint_weights().end() ? "" : now->second;
    if (auto d = difference_at(step, "SHA-256 of the weights at the checkpoint", sha256, recomputed)) return d;
  }
  // A program that is resumed may save once more after a step, but no other weights than it has there.
  for (const auto& [step, sha256] : a.replaced_weights()) {
    if (sha256.empty() || sha256 == a.checkpoint_weights().at(step)) continue;
    const auto [first, end] = b.replaced_weights().equal_range(step);
    if (std::any_of(first, end, [&text = sha256](const auto& now) { return now.second == text; })) continue;
    return Difference{step, "SHA-256 of the weights at a checkpoint that was replaced", sha256, "nothing"};
  }
  for (const auto& [step, sha256] : b.checkpoint_weights()) {
    if (a.checkpoint_weights().count(step) == 0) return Difference{step, "checkpoint", "nothing", "present"};
  }
  return {};
}

std::optional<Difference> different_outside(const RunRecord& a, const RunRecord& b, std::int64_t last) {
  if (!a.outside()) return {};  // the verdict says what the repeat did
  const std::vector<archive::OutsideLine> before = a.outside().value(), now = b.outside().value_or(decltype(before){});
  for (std::size_t i = 0; i < std::min(before.size(), now.size()); ++i) {
    if (auto d = difference_at(before[i].after + 1, "what ran outside isobit", line_of(before[i]), line_of(now[i])))
      return d;
  }
  return different_count(last, "stretches outside isobit", before.size(), now.size());
}

std::optional<Difference> different_evaluation(const RunRecord& a, const RunRecord& b, std::int64_t last) {
  if (!a.evaluations()) return {};  // the verdict says so
  const std::vector<archive::EvaluationLine> before = a.evaluations().value_or(std::vector<archive::EvaluationLine>()),
                                             now = b.evaluations().value_or(std::vector<archive::EvaluationLine>());
  for (std::size_t i = 0; i < std::min(before.size(), now.size()); ++i) {
    if (auto d = difference_at(before[i].step, "evaluated batches", before[i].batches, now[i].batches)) return d;
    if (auto d = difference_at(before[i].step, "evaluated batches", line_of(before[i]), line_of(now[i]))) return d;
  }
  return different_count(last, "evaluations", before.size(), now.size());
}

std::optional<Difference> different_predictions(const RunRecord& a, const RunRecord& b, std::int64_t last) {
  const std::vector<archive::PredictionsLine> before = a.predictions().value_or(decltype(before){}),
                                              now = b.predictions().value_or(decltype(before){});
  for (std::size_t i = 0; i < std::min(before.size(), now.size()); ++i) {
    const auto &x = before[i], &y = now[i];
    if (auto d = difference_at(x.step, "set of the predictions", x.set, y.set)) return d;
    if (auto d = difference_at(x.step, "targets of the predictions", x.targets, y.targets)) return d;
    const auto [old, other] =
        std::mismatch(x.predictions.begin(), x.predictions.end(), y.predictions.begin(), y.predictions.end());
    if (old != x.predictions.end() && other != y.predictions.end()) {
      return Difference{x.step, fmt::format("prediction of {} sample {}", x.set, old - x.predictions.begin()),
                        std::to_string(*old), std::to_string(*other)};
    }
    const auto shape = [](const archive::PredictionsLine& line) {
      return fmt::format("{} after step {} in epoch {}", line.predictions.size(), line.step, line.epoch);
    };
    if (auto d = difference_at(x.step, "predictions", shape(x), shape(y))) return d;
  }
  return different_count(last, "evaluations with predictions", before.size(), now.size());
}

// A key of [script], which follows from what the program does.
std::string setting_of(const RunRecord& record, const std::string& name) {
  const std::string key = "\n" + name + " = ";
  const auto at = record.experiment().find(key);
  if (at == std::string::npos) return "";
  const auto begin = at + key.size();
  return record.experiment().substr(begin, record.experiment().find('\n', begin) - begin);
}

std::set<std::string> sources_of(const RunRecord& record) {
  std::set<std::string> names;
  const auto sources = archive::parse_json(archive::CheckedFiles(record).read(archive::kSourcesFile));
  for (const auto& [name, text] : sources.at("files").items()) names.insert(name);
  return names;
}

// Sources that only one of the two programs imported: recorded text that played no part, and text that did and was not
// recorded.
void compare_sources(const RunRecord& recorded, const RunRecord& recomputed, std::vector<std::string>& unproven) {
  const std::set<std::string> before = sources_of(recorded), now = sources_of(recomputed);
  const auto tell = [&](const char* what, const std::set<std::string>& of, const std::set<std::string>& other) {
    std::vector<std::string> names;
    std::set_difference(of.begin(), of.end(), other.begin(), other.end(), std::back_inserter(names));
    if (!names.empty()) unproven.push_back(fmt::format("{}: {}", what, fmt::join(names, ", ")));
  };
  tell("sources that the program did not import", before, now);
  tell("sources that it imported and that were not recorded", now, before);
}

std::optional<Difference> first_difference(const RunRecord& a, const RunRecord& b, std::int64_t after,
                                           train::Verdict& so_far) {
  if (auto d = difference_at(0, "arithmetic", a.contract(), b.contract())) return d;
  if (auto d = difference_at(0, "name of the run", a.summary().name, b.summary().name)) return d;
  for (const auto& [key, what] : {std::pair("fingerprint_every", "interval of the fingerprints"),
                                  std::pair("fingerprint_gradients", "interval of the gradients' fingerprints"),
                                  std::pair("predictions", "whether predictions are kept"),
                                  std::pair("processes", "processes that share a group")}) {
    if (auto d = difference_at(0, what, setting_of(a, key), setting_of(b, key))) return d;
  }
  const std::size_t steps = std::min(a.steps().size(), b.steps().size());
  for (std::size_t i = 0; i < steps; ++i) {
    if (auto d = different_step(a.steps()[i], b.steps()[i])) return d;
  }
  if (auto d = different_count(static_cast<std::int64_t>(steps + 1), "steps", a.steps().size(), b.steps().size()))
    return d;
  const auto last = static_cast<std::int64_t>(steps);
  for (std::size_t i = 0; i < std::min(a.metrics().size(), b.metrics().size()); ++i) {
    if (auto d = difference_at(a.metrics()[i].step, "metrics", line_of(a.metrics()[i]), line_of(b.metrics()[i])))
      return d;
  }
  if (auto d = different_count(last, "metrics", a.metrics().size(), b.metrics().size())) return d;
  if (auto d = different_predictions(a, b, last)) return d;
  if (auto d = different_evaluation(a, b, last)) return d;
  if (auto d = different_outside(a, b, last)) return d;
  if (auto d = different_checkpoint(a, b, after, so_far)) return d;
  if (auto d = difference_at(last, "weights", a.weights(), b.weights())) return d;
  if (a.weights_sha256().empty()) return {};  // records of isobit 0.1
  return difference_at(last, "SHA-256 of the final weights", a.weights_sha256(), b.weights_sha256());
}

// Logs that every program's record of this version has. Of which version one without them is, nobody knows.
void tell_missing_logs(const RunRecord& recorded, const RunRecord& recomputed, std::vector<std::string>& unproven) {
  if (!recorded.outside())
    unproven.emplace_back("what ran outside isobit when it was recorded (the record does not say)");
  const auto evaluated = recomputed.evaluations().value_or(std::vector<archive::EvaluationLine>());
  if (!recorded.evaluations() && !evaluated.empty())
    unproven.emplace_back("evaluated batches (the record does not say)");
}

}  // namespace

train::Verdict verdict_of(const RunRecord& recorded, const RunRecord& recomputed, std::int64_t after) {
  train::Verdict verdict;
  verdict.first = 1;
  verdict.last = static_cast<std::int64_t>(recorded.steps().size());
  verdict.whole = true;
  verdict.difference = first_difference(recorded, recomputed, after, verdict);
  // Where both have it, it is the same, or the difference. What the record leaves out is said all the same.
  verdict.outside = (recomputed.outside() ? recomputed : recorded).outside().value_or(decltype(verdict.outside){});
  if (recorded.is_script()) tell_missing_logs(recorded, recomputed, verdict.not_recomputed);
  if (recorded.is_script()) compare_sources(recorded, recomputed, verdict.not_recomputed);
  for (std::string& missing : recorded.missing_digests()) verdict.not_recomputed.push_back(std::move(missing));
  verdict.stock = recorded.is_stock();
  if (verdict.stock) {
    verdict.recorded_metrics = recorded.summary().metrics;
    verdict.repeated_metrics = recomputed.summary().metrics;
  }
  if (!verdict.difference || verdict.stock) {
    verdict.weights = recomputed.weights();
    verdict.weights_sha256 = recomputed.weights_sha256();
  }
  return verdict;
}

}  // namespace isobit::proof
