// What a program that is executed again tells while it runs, and the record that it leaves. All of it is said by the
// code that is judged: lines of other forms end the program, a record is unpacked as any stranger's
// (archive/tar_file.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "archive/files.h"
#include "archive/run_record.h"
#include "process/child_process.h"
#include "proof/sandbox_limits.h"
#include "proof/script_failure.h"

namespace isobit::proof {

// Lines "step N", "ended CODE", "records N", "record"; after that one, a tar file. One thread.
class Reports {
 public:
  // The tar file goes to `folder`; at most `most` bytes, and no more than a third of what is free there.
  Reports(const std::filesystem::path& folder, std::uint64_t most);

  // False: no such line, or more than `most`.
  bool hear(std::string_view bytes);

  [[nodiscard]] std::int64_t step() const { return step_; }
  [[nodiscard]] std::optional<std::int64_t> ended() const { return ended_; }  // the program's exit code
  [[nodiscard]] std::int64_t records() const { return records_; }
  [[nodiscard]] bool too_large() const { return too_large_; }

  // The folder of the record, unpacked and not read. UserError where there is none. `traced`: with a trace, which is
  // taken out of it.
  [[nodiscard]] std::filesystem::path unpack(bool traced) const;
  [[nodiscard]] archive::RunRecord record(bool traced) const;  // read; UserError as above

 private:
  bool hear_line(std::string_view line);
  bool keep(std::string_view bytes);

  std::filesystem::path folder_;
  std::uint64_t most_;
  std::string line_;
  std::optional<archive::AppendFile> tar_;
  std::int64_t step_ = 0, records_ = 0;
  std::optional<std::int64_t> ended_;
  bool too_large_ = false;
};

// On a terminal, one line on stderr that is rewritten: step, rate, time left. Elsewhere nothing. One thread.
class AgainProgress {
 public:
  explicit AgainProgress(std::int64_t steps);
  ~AgainProgress();
  AgainProgress(const AgainProgress&) = delete;
  AgainProgress& operator=(const AgainProgress&) = delete;
  void show(std::int64_t step);

 private:
  using Clock = std::chrono::steady_clock;
  std::int64_t steps_, first_ = 0;
  bool terminal_, open_ = false;
  Clock::time_point start_;  // of the first step that was seen
};

// A folder's one record that was not packed. UserError as above.
[[nodiscard]] archive::RunRecord only_record(const std::filesystem::path& runs);

// How a program is run again.
struct Again {
  std::int64_t steps;  // of the first record
  ScriptPlace place;
  SandboxLimits limits;
  std::filesystem::path work;
  const std::atomic<bool>& stop;
  bool traced = false;  // it was asked for a trace, too: run_again leaves it in `work`/trace
  // Of a program that runs beside others: becomes the step that it has reached; nothing is shown.
  std::atomic<std::int64_t>* reached = nullptr;
};

inline constexpr const char* kTraceFile =
    "trace";  // beside it, where values were asked for, kTraceFile.values.safetensors
inline constexpr const char* kTraceValues = "trace.values.safetensors";

// Runs it and shows progress. The record that it left; nothing where it was interrupted. `printed` becomes the last of
// what it printed, escaped; where this throws, that was shown. UserError where it failed, or left no record that can be
// read.
[[nodiscard]] std::optional<archive::RunRecord> run_again(const Again& again, process::ChildRequest child,
                                                          std::string& printed);

// The same for a program that ends at a checkpoint: the folder of its record, which it did not seal, and which was not
// read. In a sandbox alone.
[[nodiscard]] std::optional<std::filesystem::path> run_part(const Again& again, process::ChildRequest child,
                                                            std::string& printed);

}  // namespace isobit::proof
