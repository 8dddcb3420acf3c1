#include "slurm/submitted_experiment.h"

#include <fmt/format.h>

#include <filesystem>

#include "archive/files.h"
#include "archive/toml.h"
#include "archive/toml_names.h"
#include "archive/user_error.h"
#include "process/child_process.h"

namespace isobit::slurm {
namespace {

using archive::UserError;

constexpr std::uint64_t kLargest = 1 << 20;
// What the program says where it has no PyTorch (main.cpp).
constexpr const char* kNoTorch = "isobit: 'run' needs PyTorch";

void check_toml(const std::string& text, const std::string& file) {
  if (const std::int64_t line = archive::line_of_long_name(text); line > 0)
    throw UserError(fmt::format("{}:{}", file, line),
                    fmt::format("has a name of more than {} parts", archive::kMostNameParts), "correct the line");
  try {
    static_cast<void>(toml::parse(text, file));
  } catch (const toml::parse_error& error) {
    const auto& begin = error.source().begin;
    throw UserError(fmt::format("{}:{}:{}", file, begin.line, begin.column), std::string(error.description()),
                    "correct the line; docs/experiment.md lists the keys");
  }
}

}  // namespace

SubmittedExperiment check_experiment(const std::string& file, const std::vector<std::string>& overrides,
                                     const std::vector<std::vector<std::string>>& array, const std::string& program) {
  SubmittedExperiment experiment;
  experiment.text = archive::read_file(file, kLargest);
  const auto all = array.empty() ? std::vector<std::vector<std::string>>{{}} : array;
  for (const std::vector<std::string>& run : all) {
    process::ChildRequest request;
    request.words = {program.empty() ? std::filesystem::read_symlink("/proc/self/exe").string() : program, "run", file,
                     "--dry-run"};
    for (const std::string& setting : overrides) request.words.insert(request.words.end(), {"--set", setting});
    for (const std::string& setting : run) request.words.insert(request.words.end(), {"--set", setting});
    const process::ChildResult result = process::run_child(request);
    if (result.code != 0 && result.err.starts_with(kNoTorch)) {
      check_toml(experiment.text, file);
      return experiment;
    }
    if (result.code != 0) throw UserError("", result.error_line(), "");
    if (experiment.resolved.empty()) experiment.resolved = result.output;
  }
  return experiment;
}

}  // namespace isobit::slurm
