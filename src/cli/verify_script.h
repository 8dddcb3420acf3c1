// Records of Python programs (isobit.record): the Python package executes the script again, this compares the two
// records.
#pragma once

#include <string>

#include "archive/run_record.h"
#include "cli/verify.h"
#include "train/verification.h"

namespace isobit::cli {

// Whether the experiment is a Python program's: it has a table [script].
[[nodiscard]] bool is_script(const std::string& experiment);

struct ScriptVerdict {
  train::Verdict verdict;
  std::string settings;  // "2 threads, reference"
};

// Executes the recorded program as a child process, `python3 -m isobit._verify` ($ISOBIT_PYTHON, where set), and waits
// for it; then compares steps, metrics, evaluations and final weights. `named` is the record in error messages: its
// folder, or the exported file. Where nothing else is asked for, threads and instruction set are others than those
// recorded. UserError where it cannot judge; a program that differs, fails or is no isobit never looks like a verdict.
[[nodiscard]] ScriptVerdict verify_script(const archive::RunRecord& record, const VerifyOptions& options,
                                          const std::string& named);

}  // namespace isobit::cli
