#include "cli/verify_script.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "archive/run_export.h"
#include "archive/user_error.h"
#include "cli/child_process.h"
#include "cli/compare_records.h"
#include "contract/platform.h"

namespace isobit::cli {
namespace {

namespace fs = std::filesystem;
using archive::RunRecord;
using archive::UserError;

struct Settings {
  int threads = 1;
  std::string isa;
  [[nodiscard]] std::string text() const {
    return fmt::format("{} thread{}, {}", threads, threads == 1 ? "" : "s", isa);
  }
};

// Where nothing is asked for: other threads and another instruction set than recorded.
Settings other_settings(const RunRecord& record, const ExecutionOptions& asked) {
  Settings settings{asked.threads, asked.isa};
  const auto environment = nlohmann::json::parse(record.environment(), nullptr, false);
  const auto recorded = [&](const char* key) {
    const auto* run = environment.is_object() && environment.contains("run") ? &environment["run"] : nullptr;
    const bool there = run != nullptr && run->is_object() && run->contains(key) && (*run)[key].is_string();
    return there ? (*run)[key].get<std::string>() : std::string();
  };
  if (settings.threads == 0) settings.threads = recorded("threads") == "1" || recorded("threads").empty() ? 2 : 1;
  if (settings.isa == "auto") {
    const std::string isa = recorded("isa");
    settings.isa = isa == "avx512" ? "avx2" : isa == "reference" ? "auto" : "reference";
  }
  return settings;
}

// The one record that the program left in `runs`.
RunRecord second_record(const fs::path& runs) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(runs, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with('.')) found.push_back(it->path());
  }
  if (found.size() != 1)
    throw UserError("", fmt::format("the program wrote {} records instead of one", found.size()), "");
  return RunRecord::open(found[0]);
}

// False: it was interrupted.
bool execute_again(const RunRecord& record, const VerifyOptions& options, const Settings& settings,
                   const fs::path& work) {
  const char* named = std::getenv("ISOBIT_PYTHON");
  const std::string python = named != nullptr && named[0] != '\0' ? named : "python3";
  std::vector<std::string> words = {python,
                                    "-m",
                                    "isobit._verify",
                                    fs::absolute(record.folder()).string(),
                                    work.string(),
                                    "--threads",
                                    std::to_string(settings.threads),
                                    "--isa",
                                    settings.isa,
                                    "--repository",
                                    options.repository.empty() ? "." : options.repository,
                                    "--"};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  const ChildResult result = run_child(words);
  if (result.code == 0) return true;
  if (result.code == 128 + SIGINT || result.code == 128 + SIGTERM) return false;
  if (result.code == 2 && !result.output.empty())
    throw UserError("", result.output.substr(0, result.output.find_last_not_of('\n') + 1), "");
  throw UserError(python, fmt::format("'{} -m isobit._verify' {}", python, result.how_it_ended()),
                  "set ISOBIT_PYTHON to a Python that has this isobit");
}

}  // namespace

bool is_script(const std::string& experiment) { return ("\n" + experiment).find("\n[script]\n") != std::string::npos; }

ScriptVerdict verify_script(const RunRecord& record, const VerifyOptions& options, const std::string& named) {
  if (options.from != 0 || options.to != 0 || !options.data.empty() || options.execution.device != "cpu") {
    throw UserError(named, "is the record of a Python program; it can only be verified as a whole and on the CPU",
                    "leave out --from, --to, --data and --device");
  }
  if (record.contract() != contract::kContractVersion) {
    throw UserError(named,
                    fmt::format("was recorded under {}, this program computes by {}", record.contract(),
                                contract::kContractVersion),
                    "verify it with the isobit that recorded it");
  }
  const Settings settings = other_settings(record, options.execution);
  const archive::TemporaryFolder work;
  if (!execute_again(record, options, settings, work.path())) {
    train::Verdict interrupted;
    interrupted.interrupted = true;
    return {interrupted, settings.text()};
  }
  const RunRecord second = second_record(work.path() / "runs");
  return {verdict_of(record, second), settings.text()};
}

}  // namespace isobit::cli
