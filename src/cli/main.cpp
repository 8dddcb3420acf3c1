// The executable: commands that read records run here, all others in the library with PyTorch (torch_library.h).
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "cli/command.h"
#include "cli/error_report.h"
#include "cli/program.h"
#include "cli/torch_library.h"

namespace {

bool runs_here(int argc, char** argv) {
  for (const isobit::cli::Command& command : isobit::cli::commands()) {
    if (argc < 2 || command.name != argv[1]) continue;
    const std::string& with = command.without_torch_only_with;
    return with.empty() || std::any_of(argv + 2, argv + argc, [&](const char* word) { return word == with; });
  }
  return false;
}

bool asks_for_help(std::string_view word) { return word == "--help" || word == "-h" || word == "--version"; }

}  // namespace

int main(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "--help";
  if (runs_here(argc, argv)) return isobit::cli::program(argc, argv);
  const isobit::cli::TorchLibrary library = isobit::cli::open_torch_library();
  if (library.program != nullptr) return library.program(argc, argv);
  if (asks_for_help(word)) {
    const int code = isobit::cli::program(argc, argv);
    std::fprintf(stderr, "\nisobit: commands that compute are not listed, since %s does not load (%s)\n",
                 library.missing ? "their library" : "PyTorch " ISOBIT_TORCH_VERSION, library.problem.c_str());
    return code;
  }
  const std::string problem =
      library.missing
          ? fmt::format(
                "'{}' needs isobit's library with the commands that compute: {}\n  do     run isobit from the "
                "folder where it was built or installed, or through a symbolic link to it",
                word, library.problem)
          : fmt::format(
                "'{}' needs PyTorch {}, which does not load: {}\n  do     pip install torch=={} beside isobit, or "
                "set ISOBIT_TORCH_DIR to a torch package's folder; without torch,\n         isobit only reads "
                "records (isobit --help lists the commands)",
                word, ISOBIT_TORCH_VERSION, library.problem, ISOBIT_TORCH_VERSION);
  return isobit::cli::report_error(problem, isobit::cli::asks_for_json(argc, argv));
}
