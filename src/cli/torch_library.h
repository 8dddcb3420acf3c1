// The library with the commands that compute, opened when one is called: reading records needs no torch.
#pragma once

#include <string>

namespace isobit::cli {

struct TorchLibrary {
  int (*program)(int argc, char** argv) = nullptr;  // nullptr: it did not load
  std::string problem;                              // why
  bool missing = false;                             // the library itself, not torch
};

// libisobit_torch.so beside this executable, as the package has it (../) or the build (python/isobit/), and the torch
// that it was built for: beside the package, else in the folder that $ISOBIT_TORCH_DIR names (a torch package).
[[nodiscard]] TorchLibrary open_torch_library();

}  // namespace isobit::cli
