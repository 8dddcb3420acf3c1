// A recorded run executed again and compared, as `isobit verify` does it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/execution_options.h"

namespace isobit::proof {

struct VerifyOptions {
  std::string run, runs, data, into, signers;
  std::string repository;              // of a Python program: "" is here
  std::vector<std::string> arguments;  // of a Python program: empty are the recorded ones
  bool trust = false;                  // code from the record runs without a sandbox
  std::vector<std::string> read;       // what a sandboxed program may read besides
  std::vector<std::string> limits;     // of the sandbox (sandbox_limits.h)
  std::int64_t from = 0, to = 0;       // 0: not given
  std::int64_t workers = 1;            // processes side by side (verify_segments.h)
  std::string segment;                 // this is one of them: the seal of the record that it is to judge
  bool json = false;
  train::ExecutionOptions execution;
};

inline constexpr int kDifferentExit = 1;
inline constexpr int kStockEqualExit = 3;  // not 0: nothing was promised, so nothing is proven

// Prints the verdict; one of several segments tells its steps on descriptor 3, too. The process's exit code: 0
// identical, 1 different, 3 a run of stock PyTorch whose repeat has equal bits, 130 interrupted. Throws
// archive::UserError.
int verify(const VerifyOptions& options);

}  // namespace isobit::proof
