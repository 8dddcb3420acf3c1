// Reads a finished run's record, after proving that it is the one that was sealed (docs/formats/run.md).
//
// open() reads every file once, checks size and SHA-256 against the manifest, the manifest against its own
// digest, and the folder for files that do not belong; contents are parsed from the bytes that were checked.
// A record with any bit altered, a file missing or added, with parts that contradict each other (record_rules.h), or
// not sealed at all never becomes an object: UserError names the file and what is wrong with it. That it was sealed
// says nothing of who sealed it: a sound record is a claim until isobit verify has computed it again. Immutable;
// thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "archive/checkpoint.h"
#include "archive/experiment_text.h"
#include "archive/record_types.h"

namespace isobit::archive {

class RunRecord {
 public:
  // Contents::but_checkpoints: of checkpoints only the size is looked at, not the content, as for a list of runs.
  enum class Contents { all, but_checkpoints };
  [[nodiscard]] static RunRecord open(const std::filesystem::path& folder, Contents read = Contents::all);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const RunSummary& summary() const { return summary_; }
  [[nodiscard]] const std::string& contract() const { return summary_.contract; }
  [[nodiscard]] const std::string& weights() const { return summary_.weights; }
  [[nodiscard]] const std::string& weights_sha256() const { return summary_.weights_sha256; }
  // SHA-256 of the manifest: two records with one seal have the same bytes.
  [[nodiscard]] const std::string& seal() const { return seal_; }
  // Whether PyTorch computed as it comes, so that nothing was promised: contract() is then "stock-<version>".
  [[nodiscard]] bool is_stock() const { return archive::is_stock(summary_.contract); }
  // Whether it is a Python program's.
  [[nodiscard]] bool is_script() const { return script_; }

  [[nodiscard]] const std::string& experiment() const { return experiment_; }    // TOML
  [[nodiscard]] const std::string& environment() const { return environment_; }  // JSON, of the first start
  [[nodiscard]] const std::string& data() const { return data_; }                // JSON

  // What components added, by name: JSON objects (record_part.h). isobit verify judges them.
  [[nodiscard]] const std::map<std::string, std::string>& parts() const { return parts_; }

  [[nodiscard]] const std::vector<StepLine>& steps() const { return steps_; }
  [[nodiscard]] const std::vector<MetricsLine>& metrics() const { return metrics_; }
  // Of a Python program; nothing where the record has no such log.
  [[nodiscard]] const std::optional<std::vector<EvaluationLine>>& evaluations() const { return evaluations_; }
  // Nothing where the record has no such log, as in those of isobit 0.1: then it is not known what ran outside.
  [[nodiscard]] const std::optional<std::vector<OutsideLine>>& outside() const { return outside_; }
  // Of each evaluation; nothing where the experiment keeps none (evaluate.predictions).
  [[nodiscard]] const std::optional<std::vector<PredictionsLine>>& predictions() const { return predictions_; }
  [[nodiscard]] const std::vector<TimingLine>& timings() const { return timings_; }
  [[nodiscard]] const std::vector<CheckpointEntry>& checkpoints() const { return checkpoints_; }
  // By step, the SHA-256 of the weights at each checkpoint that was written, deleted ones too; "" in records
  // of earlier versions.
  [[nodiscard]] const std::map<std::int64_t, std::string>& checkpoint_weights() const { return checkpoint_weights_; }
  // Those of checkpoints that a program replaced by another one after the same step.
  [[nodiscard]] const std::multimap<std::int64_t, std::string>& replaced_weights() const { return replaced_weights_; }
  // Of what records of this version have digests and this one has none, in words.
  [[nodiscard]] std::vector<std::string> missing_digests() const;
  // Read and checked again.
  [[nodiscard]] Checkpoint checkpoint(const CheckpointEntry& entry) const;

  [[nodiscard]] std::int64_t files() const { return files_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::filesystem::path folder_;
  RunSummary summary_;
  std::string seal_, experiment_, environment_, data_;
  std::map<std::string, std::string> parts_;
  std::vector<StepLine> steps_;
  std::vector<MetricsLine> metrics_;
  std::optional<std::vector<EvaluationLine>> evaluations_;
  std::optional<std::vector<OutsideLine>> outside_;
  std::optional<std::vector<PredictionsLine>> predictions_;
  std::vector<TimingLine> timings_;
  std::vector<CheckpointEntry> checkpoints_;
  std::map<std::int64_t, std::string> checkpoint_weights_;
  std::multimap<std::int64_t, std::string> replaced_weights_;
  bool script_ = false;
  std::int64_t files_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace isobit::archive
