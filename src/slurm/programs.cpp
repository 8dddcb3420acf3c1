#include "slurm/programs.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "archive/user_error.h"
#include "process/child_process.h"

extern char** environ;

namespace isobit::slurm {
namespace {

using archive::UserError;

constexpr std::array<std::string_view, 5> kStay = {"SLURM_CONF", "SLURM_CLUSTERS", "SBATCH_ACCOUNT", "SBATCH_QOS",
                                                   "SBATCH_RESERVATION"};
constexpr std::array<std::string_view, 4> kGoPrefixes = {"SLURM_", "SBATCH_", "SQUEUE_", "SINFO_"};
constexpr std::array<std::string_view, 2> kGo = {"ISOBIT_JOB_KEY", "ISOBIT_JOB_HOST"};

bool goes_along(std::string_view name) {
  for (const std::string_view stays : kStay) {
    if (name == stays) return true;
  }
  for (const std::string_view gone : kGo) {
    if (name == gone) return false;
  }
  for (const std::string_view prefix : kGoPrefixes) {
    if (name.starts_with(prefix)) return false;
  }
  return true;
}

// "sinfo: error: ..." of several lines, as one.
std::string in_one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text) c = c == '\n' ? ' ' : c;
  return text;
}

}  // namespace

bool has_slurm() { return !process::find_program("sbatch").empty(); }

std::vector<std::string> environment_for_slurm() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (goes_along(text.substr(0, text.find('=')))) environment.emplace_back(text);
  }
  return environment;
}

std::string call_slurm(const std::vector<std::string>& words) {
  const std::string& program = words.at(0);
  if (process::find_program(program).empty())
    throw UserError(
        program, "is not on PATH: this machine has no Slurm",
        "call this where Slurm's programs are, for example on the cluster's login node; isobit run trains here");
  process::ChildRequest request;
  request.words = words;
  request.own_environment = true;
  request.environment = environment_for_slurm();
  request.keep = std::size_t{1} << 30;
  request.seconds = 60;
  const process::ChildResult result = process::run_child(request);
  if (!result.limit.empty())
    throw UserError(program, "does not answer within a minute", "see whether Slurm runs: scontrol ping");
  if (result.code != 0)
    throw UserError(program, fmt::format("{}: {}", result.how_it_ended(), in_one_line(result.err)),
                    "see whether Slurm runs here: scontrol ping");
  return result.output;
}

}  // namespace isobit::slurm
