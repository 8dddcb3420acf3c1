// The folder of a run that is being written (docs/formats/run.md): what the records of `isobit run` (run_writer.h) and
// of Python programs (extension/records.h) have in common.
//
// Whoever holds a RunFolder holds the run's lock: no other process writes this record. Whoever lost it (a later restart
// of its job took it over) writes nothing into it any more, not even where it was stopped in the middle of writing.
// Appended lines survive a kill of the process, but for those that wait; what a checkpoint covers also survives a power
// failure. Files other than the logs appear whole or not at all. Errors are UserError naming the file, those of the
// file system FileError; the record stays sound and resumable. One thread per object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "archive/checkpoint.h"
#include "contract/platform.h"

namespace isobit::archive {

// Who writes the run decides which logs it has beside checkpoints.jsonl, and what helps where a step done twice
// differs, and where no checkpoint is left.
struct RunKind {
  std::vector<const char*> logs;
  const char* other_step_remedy;
  const char* start_over_remedy;
};
extern const RunKind kExperimentRun;  // isobit run
extern const RunKind kScriptRun;      // isobit.record

class RunFolder {
 public:
  // A new folder in `runs` (created where missing), complete when it appears. `inputs`: contents by file name,
  // experiment.toml, environment.json and data.json among them. `ending` takes the place of the id's 8 random digits
  // (runs.h: ending_of). `contract`: what computes, the contract or stock PyTorch (experiment_text.h).
  [[nodiscard]] static RunFolder create(const std::filesystem::path& runs, const std::string& name,
                                        std::map<std::string, std::string> inputs, const RunKind& kind,
                                        const std::string& ending = "",
                                        const std::string& contract = contract::kContractVersion);

  // Resumes an unfinished run: the logs are cut to the newest checkpoint that is sound, or to nothing where there never
  // was one, and `environment` is added. What is cut off stays aside until the new writer has a sound checkpoint of its
  // own or seals the record. UserError for a finished run, one of another arithmetic than `contract`, one whose writer
  // may live, damage before the checkpoint, and one whose checkpoints are all damaged; FileError where something cannot
  // be read: then nothing was changed.
  [[nodiscard]] static RunFolder resume(const std::filesystem::path& run, const std::string& environment,
                                        const RunKind& kind, const std::string& contract = contract::kContractVersion);

  RunFolder(RunFolder&&) noexcept;
  RunFolder& operator=(RunFolder&&) noexcept;
  ~RunFolder();  // releases the lock; the record is as it stands

  [[nodiscard]] const std::string& id() const;
  [[nodiscard]] const std::filesystem::path& path() const;
  [[nodiscard]] std::int64_t steps() const;                                // appended so far
  [[nodiscard]] const std::string& input(const std::string& name) const;   // as it was given
  [[nodiscard]] const std::optional<CheckpointEntry>& checkpoint() const;  // where resume starts
  [[nodiscard]] std::uint64_t size(const std::string& log) const;          // in bytes, what waits included

  // A whole line, with its end. A line that waits is written with those after it, a quarter of a second later at most
  // where they come; one that does not wait takes along what waits. What waits is lost with the process.
  enum class Wait { no, for_more };
  void append(const std::string& log, const std::string& line, Wait wait = Wait::no);
  // To steps.jsonl; steps ascend by one. After resume a step that the cut-off log held already must come out the same:
  // UserError naming the step and both lines otherwise. (Of stock PyTorch it need not.)
  void append_step(std::int64_t step, const std::string& line, Wait wait = Wait::no);
  void flush();  // writes what waits

  // checkpoints/step-<steps><suffix> of these pieces, one after the other, then its line; the logs are made durable
  // first. Of earlier checkpoints those stay that `keep` says. `weights_sha256`: of the weights now (weights_digest.h).
  void write_checkpoint(const std::string& suffix, std::span<const std::span<const std::byte>> pieces,
                        const Retention& keep, const std::string& weights_sha256 = "");
  // Another content for an input.
  void replace(const std::string& name, const std::string& content);
  // A part of a component (record_part.h), new or instead of the one that is there.
  void write_part(const std::string& name, const std::string& content);

  // Seals the record: state, then the manifest. `weights` is "<contract>:<32 hex>", `sha256` that of the same
  // weights (weights_digest.h).
  void finish(const std::string& weights, const std::string& sha256 = "");
  // Notes why the run ended early; never throws (the reason may be a full disk).
  void fail(const std::string& reason) noexcept;

 private:
  struct Impl;
  explicit RunFolder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit::archive
