// Writes the record of one run (docs/formats/run.md).
//
// Whoever holds a RunWriter holds the run's lock: no other process writes this record. What append_* was
// given survives a kill of the process at any moment; what a checkpoint covers also survives a power failure.
// Files other than the logs appear whole or not at all. Errors (no space, read-only, no permission, another
// writer) are UserError naming the file; the record stays sound and resumable. One thread per object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "archive/checkpoint.h"
#include "archive/record_types.h"
#include "contract/platform.h"

namespace isobit::archive {

struct RunInputs {
  std::string name;         // of the experiment: 1 to 64 of A-Z a-z 0-9 - _ . and no dot first
  std::string experiment;   // resolved, TOML
  std::string environment;  // JSON: environment.h
  std::string data;         // JSON: digests of the data files
  std::string ending = {};  // of the id; "": random
  std::string contract =
      contract::kContractVersion;  // what computes: the contract, or stock PyTorch (experiment_text.h)
};

class RunWriter {
 public:
  // A new folder in `runs` (created where missing), complete when it appears.
  [[nodiscard]] static RunWriter create(const std::filesystem::path& runs, const RunInputs& inputs);

  // Resumes an unfinished run: the logs are cut to the newest checkpoint that is sound, or to nothing
  // where there never was one; what is cut off stays aside until the next checkpoint (run_folder.h). UserError for a
  // finished run, one of another arithmetic than `contract`, one whose writer may live, damaged logs before the
  // checkpoint, and where no checkpoint is sound.
  [[nodiscard]] static RunWriter resume(const std::filesystem::path& run, const std::string& environment,
                                        const std::string& contract = contract::kContractVersion);

  RunWriter(RunWriter&&) noexcept;
  RunWriter& operator=(RunWriter&&) noexcept;
  ~RunWriter();  // releases the lock; the record is as it stands

  [[nodiscard]] const std::string& id() const;
  [[nodiscard]] const std::filesystem::path& folder() const;
  // As given to create.
  [[nodiscard]] const std::string& experiment() const;
  [[nodiscard]] const std::string& data() const;
  // Where resume starts: nothing means from the beginning.
  [[nodiscard]] const std::optional<Checkpoint>& checkpoint() const;

  // Steps ascend by one. After resume a step that the cut-off log held already must come out the same:
  // UserError naming the step and both values otherwise.
  // A step's line waits for those after it, a quarter of a second at most where they come; measurements and timings are
  // written at once, with all that waits. What waits is lost with the process: resuming computes those steps again.
  void append_step(const StepLine& line);
  void append_metrics(const MetricsLine& line);
  void append_timing(const TimingLine& line);
  // Precondition: the experiment keeps predictions (experiment_text.h).
  void append_predictions(const PredictionsLine& line);
  void flush();  // writes what waits
  // A part of a component: a JSON object with a "format" (record_part.h), new or instead of the one that is there.
  void write_part(const std::string& name, const std::string& json);

  // After the step last appended; `state` is kept word for word. The logs are made durable first. Of earlier
  // checkpoints those stay that `keep` says. One checkpoint a step: throws std::logic_error at a second.
  void write_checkpoint(std::span<const TensorView> tensors, const std::string& state, const Retention& keep = 0,
                        const std::string& weights_sha256 = "");

  // Seals the record: state, then the manifest. `weights` is "<contract>:<32 hex>", `sha256` that of the same
  // weights (weights_digest.h).
  void finish(const std::string& weights, const std::string& sha256 = "");
  // Notes why the run ended early; never throws (the reason may be a full disk).
  void fail(const std::string& reason) noexcept;

 private:
  struct Impl;
  explicit RunWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit::archive
