// Makes a program's CUDA device the emulated one (tests/aten/fake_cuda.h). ISOBIT_FAKE_CUDA_MEMORY: its bytes.
#include <cstdio>
#include <cstdlib>

#include "aten/fake_cuda.h"
#include "cli/program.h"

namespace {

const bool installed = [] {
  if (const char* reason = isobit_install_fake_cuda()) {
    std::fprintf(stderr, "no fake device: %s\n", reason);
    std::exit(77);
  }
  if (const char* bytes = std::getenv("ISOBIT_FAKE_CUDA_MEMORY")) {
    isobit::test::limit_fake_cuda_memory(static_cast<std::size_t>(std::atoll(bytes)));
  }
  return true;
}();

}  // namespace

int main(int argc, char** argv) { return isobit::cli::program(argc, argv); }
