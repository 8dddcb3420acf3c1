// How a recorded Python program is executed again: what the package says of it (script_plan.h), and the child process.
// No state; errors are archive::UserError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "archive/run_record.h"
#include "process/child_process.h"
#include "process/stop_signal.h"
#include "proof/sandbox_limits.h"
#include "proof/script_plan.h"
#include "proof/verify.h"
#include "trace/trace_lines.h"

namespace isobit::proof {

struct ScriptSettings {
  int threads = 1;
  std::string isa;                         // "": of stock PyTorch, which chooses itself
  bool as_recorded = false;                // the instruction set, though nobody asked for it: no other is as fast here
  [[nodiscard]] std::string text() const;  // "2 threads, avx2", "1 thread, avx2 as recorded"
};

// Where nothing is asked for: other threads and another instruction set of comparable speed than recorded
// (kernels/isa_beside.h). One of the two always differs.
[[nodiscard]] ScriptSettings other_settings(const archive::RunRecord& record, const train::ExecutionOptions& asked);

// Before it runs, on stderr, where that may be long or is not what one would expect: the instruction set, and how long
// it takes by the times of the record's files and the settings. A guess: the recording machine may have been another.
void tell_settings(const archive::RunRecord& record, const ScriptSettings& settings);

// UserError for what is asked of a Python program in vain, and for a record of another contract. `named` is the record.
void expect_repeatable_script(const archive::RunRecord& record, const VerifyOptions& options, const std::string& named);

// Writes the program to `work`/program by $ISOBIT_PYTHON's package, else python3's. Nothing: interrupted.
[[nodiscard]] std::optional<ScriptPlan> plan_again(const archive::RunRecord& record, const VerifyOptions& options,
                                                   const std::filesystem::path& work, const process::StopSignal& stop);

// `settings` with what the plan executes in place of what was recorded; printable.
[[nodiscard]] std::string with_instead(const std::string& settings, const ScriptPlan& plan);

// Where the program was written, and a folder of this execution's own.
struct ProgramFolders {
  std::filesystem::path program, work;
};

// Of a run, the part that is executed (isobit._jobs._job.called_for).
struct ProgramPart {
  std::filesystem::path start;  // the record that it goes on from, an unfinished one; "": from its beginning
  std::string id;               // of that record
  std::int64_t until = 0;       // it ends at the checkpoint after this step; 0: with the program
};

struct ProgramExtras {
  const trace::TraceHeader* traced = nullptr;
  const ProgramPart* part = nullptr;
};

// The child that runs the program, reporting on descriptor 3.
[[nodiscard]] process::ChildRequest program_child(const archive::RunRecord& record, const VerifyOptions& options,
                                                  const ScriptPlan& plan, const ScriptSettings& settings,
                                                  const SandboxLimits& limits, const ProgramFolders& at,
                                                  const ProgramExtras& extras = {});

// What must not be seen by the program: the record, others of its archive (the same run may be there twice), the
// exported file. `beside` is the folder whose files it sees.
[[nodiscard]] std::vector<std::filesystem::path> kept_from_program(const archive::RunRecord& record,
                                                                   const VerifyOptions& options,
                                                                   const std::filesystem::path& beside);

}  // namespace isobit::proof
