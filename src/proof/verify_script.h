// Records that hold code: of Python programs (isobit.record), and of networks in TorchScript. They are executed again
// in a sandbox (sandbox.h), or with --trust with all rights; the verdict is made here, over the record that this left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "archive/run_record.h"
#include "proof/verify.h"
#include "trace/trace_lines.h"
#include "train/verdict.h"

namespace isobit::proof {

struct ScriptVerdict {
  train::Verdict verdict;
  std::string settings;  // "2 threads, reference"
  std::string hint;      // why it differs, where that can be seen: "nothing seeded: call isobit.seed"
};

// Calls the Python package ($ISOBIT_PYTHON, else python3) to write the recorded program out, runs it, and compares
// steps, metrics, evaluations and final weights. `named` is the record in error messages: its folder, or the exported
// file. Where nothing else is asked for, threads and instruction set are others than those recorded. `printed` becomes
// the last of what the program printed, escaped, even where this throws. UserError where it cannot judge; a program
// that fails, or is no isobit, never looks like a verdict.
[[nodiscard]] ScriptVerdict verify_script(const archive::RunRecord& record, const VerifyOptions& options,
                                          const std::string& named, std::string& printed);

// The same program with `isobit.trace` around its record's block, on as many threads as were recorded. The verdict says
// whether the repeat is the recorded run; `out` is the trace (trace_file.h), with its values beside it where they were
// asked for. What came out of the sandbox is read before it gets that name.
[[nodiscard]] ScriptVerdict trace_script(const archive::RunRecord& record, const VerifyOptions& options,
                                         const std::string& named, const trace::TraceHeader& asked,
                                         const std::filesystem::path& out);

// The same for a run of this program whose network is a TorchScript file: `isobit run` in a sandbox. Threads,
// instruction set and device are those asked for.
[[nodiscard]] ScriptVerdict verify_network(const archive::RunRecord& record, const VerifyOptions& options,
                                           const std::string& named, std::string& printed);

// What a traced repeat says of itself; of a stranger's code, as true as its record.
struct TracedAgain {
  bool interrupted = false;
  std::int64_t start = 0;                  // the checkpoint's step; 0: the seed
  std::optional<std::int64_t> differs_at;  // the first executed step that is not as it was recorded
};

// The same for such a run: `isobit trace` in a sandbox, which sees the record. `out` as above.
[[nodiscard]] TracedAgain trace_network(const archive::RunRecord& record, const VerifyOptions& options,
                                        const std::string& named, const trace::TraceHeader& asked,
                                        const std::filesystem::path& out);

// The trace in `made` (second_record.h has its names) becomes `out`, with its values beside it where they were asked
// for: read first, whole or not at all, and no file is replaced. UserError where it is none.
void take_made_trace(const std::filesystem::path& made, const trace::TraceHeader& asked,
                     const std::filesystem::path& out);

}  // namespace isobit::proof
