// The instruction set of stock PyTorch's kernels, and of MKL and oneDNN, which it calls: fixed by variables when a
// process starts. isobit's own kernels have --isa instead; no bit of theirs depends on either.
//
// A record's environment is its author's claim: of its variables only those named here, with plain values, are taken
// over into a process. No state; thread-safe but for begin_anew.
#pragma once

#include <string>
#include <vector>

namespace isobit::process {

// "default" (SSE on x86), "avx2", "avx512": those that this CPU can execute, the widest last.
[[nodiscard]] std::vector<std::string> capability_levels();

// UserError that names `place` for a level that is unknown, or that this CPU lacks: PyTorch itself would believe it,
// and be ended by the first instruction.
void expect_capability(const std::string& level, const std::string& place);

// "ATEN_CPU_CAPABILITY=avx2", and what holds MKL and oneDNN to the same level. None for "".
[[nodiscard]] std::vector<std::string> capability_variables(const std::string& level);

// What a process needs in order to repeat a stock run whose environment.json this is: the recorded variables, or the
// recorded level, where this CPU would choose another one. Empty where nothing is said.
[[nodiscard]] std::vector<std::string> recorded_variables(const std::string& environment);

// Thrown where a command finds that its process should have begun with other variables. `program` begins it anew, once
// every destructor has run.
struct BeginAnew {
  std::vector<std::string> variables;
};

// Throws BeginAnew, unless this process has these variables.
void require_variables(const std::vector<std::string>& variables);

// The same program with the same words and these variables, in place of this process. Returns where that fails: 2,
// said.
int begin_anew(const BeginAnew& request);

}  // namespace isobit::process
