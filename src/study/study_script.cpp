#include "study/study_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "archive/files.h"
#include "archive/printable.h"
#include "archive/runs.h"
#include "archive/user_error.h"
#include "process/capability.h"

namespace isobit::study {
namespace {

namespace fs = std::filesystem;
using archive::UserError;

constexpr std::size_t kLongestReason = 300;

std::string own_python() {
  const char* named = std::getenv("ISOBIT_PYTHON");
  return named != nullptr && named[0] != '\0' ? named : "python3";
}

void check_interpreter(const std::string& name, const std::string& python) {
  process::ChildRequest request;
  request.words = {python, "-c", "import torch, isobit\nisobit.record"};
  const std::string place = name.empty() ? python : fmt::format("environment {} ({})", name, python);
  constexpr const char* kRemedy = "name a Python that has PyTorch and isobit: [environments], or ISOBIT_PYTHON";
  process::ChildResult result;
  try {
    result = process::run_child(request);
  } catch (const UserError& error) {
    throw UserError(place, error.problem(), kRemedy);
  }
  if (result.code == 0) return;
  const std::string reason = last_words(result.err);
  throw UserError(place, "cannot make runs: " + (reason.empty() ? result.how_it_ended() : reason), kRemedy);
}

}  // namespace

void check_script(const study::Study& study) {
  const study::StudyFactor* environments = study.find(study::kEnvironment);
  if (environments == nullptr) return check_interpreter("", own_python());
  for (const study::Level& level : environments->levels) check_interpreter(level.text, level.settings[0].second);
}

process::ChildRequest script_request(const study::Study& study, const study::Cell& cell, const fs::path& runs,
                                     std::int64_t threads) {
  const study::Level* environment = cell.level(study::kEnvironment);
  process::ChildRequest request;
  request.words = {environment == nullptr ? own_python() : environment->settings[0].second,
                   fs::absolute(study.experiment).lexically_normal().string()};
  const std::vector<std::string> arguments = study::arguments_of(study, cell);
  request.words.insert(request.words.end(), arguments.begin(), arguments.end());
  const nlohmann::ordered_json told{{"runs", fs::absolute(runs).lexically_normal().string()},
                                    {"ending", archive::ending_of(study::once_name(study, cell))},
                                    {"threads", threads}};
  request.environment = process::capability_variables(study::option_of(cell, "capability"));
  request.environment.push_back("ISOBIT_STUDY=" + told.dump());
  request.environment.push_back(fmt::format("OMP_NUM_THREADS={}", threads));  // of what precedes the record
  return request;
}

std::optional<archive::RunSummary> script_record(const study::Study& study, const study::Cell& cell,
                                                 const fs::path& runs) {
  const std::string ending = "-" + archive::ending_of(study::once_name(study, cell));
  std::optional<archive::RunSummary> newest;
  if (!archive::is_there(runs)) return newest;
  for (const std::string& name : archive::names_in(runs)) {
    if (name.starts_with('.') || !name.ends_with(ending)) continue;
    archive::RunSummary summary = archive::summarize(runs / name);
    if (summary.state == archive::RunState::finished) return summary;
    if (!newest || newest->id < summary.id) newest = std::move(summary);
  }
  return newest;
}

std::string last_words(const std::string& err) {
  const auto end = err.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const auto begin = err.rfind('\n', end);
  const auto first = begin == std::string::npos ? 0 : begin + 1;
  return archive::printable(err.substr(first, std::min(end - first + 1, kLongestReason)));
}

}  // namespace isobit::study
