#include "cli/submitted_experiment.h"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#define TOML_EXCEPTIONS 1
#define TOML_MAX_NESTED_VALUES 32  // as the experiment's reader has it (train/experiment.cpp)
#include <toml++/toml.h>

#include "archive/files.h"
#include "archive/user_error.h"
#include "cli/child_process.h"

namespace isobit::cli {
namespace {

using archive::UserError;

constexpr std::uint64_t kLargest = 1 << 20;
// What the program says where it has no PyTorch (main.cpp).
constexpr const char* kNoTorch = "isobit: 'run' needs PyTorch";

void check_toml(const std::string& text, const std::string& file) {
  try {
    static_cast<void>(toml::parse(text, file));
  } catch (const toml::parse_error& error) {
    const auto& begin = error.source().begin;
    throw UserError(fmt::format("{}:{}:{}", file, begin.line, begin.column), std::string(error.description()),
                    "correct the line; docs/experiment.md lists the keys");
  }
}

// The one line of the program's error, which names place, problem and remedy.
[[noreturn]] void throw_error_of(const ChildResult& result) {
  std::istringstream lines(result.err);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kPrefix = "isobit: ";
    if (line.starts_with(kPrefix)) throw UserError("", line.substr(kPrefix.size()), "");
  }
  throw UserError("isobit run --dry-run", result.how_it_ended(), "");
}

}  // namespace

SubmittedExperiment check_experiment(const std::string& file, const std::vector<std::string>& overrides,
                                     const std::vector<std::vector<std::string>>& array) {
  SubmittedExperiment experiment;
  experiment.text = archive::read_file(file, kLargest);
  const auto all = array.empty() ? std::vector<std::vector<std::string>>{{}} : array;
  for (const std::vector<std::string>& run : all) {
    ChildRequest request;
    request.words = {std::filesystem::read_symlink("/proc/self/exe").string(), "run", file, "--dry-run"};
    for (const std::string& setting : overrides) request.words.insert(request.words.end(), {"--set", setting});
    for (const std::string& setting : run) request.words.insert(request.words.end(), {"--set", setting});
    const ChildResult result = run_child(request);
    if (result.code != 0 && result.err.starts_with(kNoTorch)) {
      check_toml(experiment.text, file);
      return experiment;
    }
    if (result.code != 0) throw_error_of(result);
    if (experiment.resolved.empty()) experiment.resolved = result.output;
  }
  return experiment;
}

}  // namespace isobit::cli
