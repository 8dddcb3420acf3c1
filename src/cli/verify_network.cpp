#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "archive/files.h"
#include "archive/printable.h"
#include "archive/run_export.h"
#include "archive/runs.h"
#include "archive/sha256.h"
#include "archive/user_error.h"
#include "cli/compare_records.h"
#include "cli/sandbox.h"
#include "cli/second_record.h"
#include "cli/verify_script.h"
#include "kernels/threads.h"
#include "train/arithmetic.h"
#include "train/dataset.h"
#include "train/recording.h"
#include "train/verification.h"

namespace isobit::cli {
namespace {

namespace fs = std::filesystem;
using archive::RunRecord;
using archive::UserError;

// Runs the words, tells how many steps they have recorded, and sends their record on descriptor 3, as isobit._again
// does for Python programs.
constexpr const char* kShell = R"sh("$@" &
run=$!
cd /verify/runs || exit 2
while kill -0 $run 2> /dev/null; do
  for log in ./*/steps.jsonl; do
    [ -e "$log" ] && printf 'step %d\n' "$(wc -l < "$log")" >&3
  done
  sleep 0.2
done
wait $run; code=$?
count=$(ls | wc -l)
printf 'ended %d\nrecords %d\n' "$code" "$count" >&3
[ "$count" = 1 ] || exit 0
echo record >&3
find . -path ./.locks -prune -o -type f -printf '%P\0' | tar --null --no-recursion -T - --format=ustar -cf - >&3
)sh";

int add_library(dl_phdr_info* info, std::size_t, void* context) {
  auto& found = *static_cast<std::set<fs::path>*>(context);
  const fs::path path = info->dlpi_name;
  if (!path.is_absolute()) return 0;
  found.insert(path);
  // Others of its packages are loaded when they are called for.
  if (path.filename() == "libtorch_cpu.so") found.insert(path.parent_path().parent_path().parent_path());
  return 0;
}

// The program, the libraries that it has loaded, and the packages around torch.
std::vector<fs::path> program_files() {
  std::set<fs::path> found{fs::read_symlink("/proc/self/exe")};
  ::dl_iterate_phdr(add_library, &found);
  return {found.begin(), found.end()};
}

std::vector<std::string> environment(bool stock) {
  std::vector<std::string> all = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "TMPDIR=/tmp",
                                  "HOME=/home/verify", "XDG_CACHE_HOME=/tmp/cache"};
  for (const char* name : {"ISOBIT_TORCH_DIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"}) {
    if (const char* value = std::getenv(name)) all.push_back(fmt::format("{}={}", name, value));
  }
  for (const char* name : {"ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA"}) {
    if (const char* value = stock ? std::getenv(name) : nullptr) all.push_back(fmt::format("{}={}", name, value));
  }
  return all;
}

// The network's file: the record's own, or the one on disk that has the recorded digest.
fs::path network_of(const RunRecord& record, const train::ModelSettings& model) {
  const fs::path own = record.folder() / archive::kNetworkFile;
  if (fs::is_regular_file(fs::symlink_status(own))) return own;
  const fs::path named = model.torchscript;
  std::error_code error;
  if (!fs::is_regular_file(named, error))
    throw UserError(archive::printable(named.string()), "no such file (model.torchscript)",
                    "restore the network's file");
  if (model.sha256.empty() || archive::digest_file(named).sha256 != model.sha256)
    throw UserError(archive::printable(named.string()), "is not the network that was recorded",
                    "restore the recorded file");
  return named;
}

// The files (folders of images) alone, whose digests are the recorded ones: not the folder that a record names.
std::vector<fs::path> data_of(const RunRecord& record, train::Experiment& experiment) {
  experiment.data.path = fs::absolute(experiment.data.path).lexically_normal().string();
  train::expect_data(record.data(), experiment);
  return train::data_paths(experiment);
}

void expect_possible(const RunRecord& record, const VerifyOptions& options, const std::string& named) {
  if (options.from != 0 || options.to != 0) {
    throw UserError(named, "has a network of code (TorchScript), which is verified in a sandbox, and as a whole",
                    "leave out --from and --to, or --trust the network");
  }
  const train::ArithmeticSettings arithmetic = train::arithmetic_of(record.contract());
  if (record.contract() == train::contract_of(arithmetic)) return;
  throw UserError(named,
                  fmt::format("was recorded under {}, this program computes by {}",
                              archive::printable(record.contract()), train::contract_of(arithmetic)),
                  "verify it with the isobit that recorded it");
}

std::vector<std::string> run_words(const ExecutionOptions& asked, int threads) {
  std::vector<std::string> words = {"/bin/sh",
                                    "-c",
                                    kShell,
                                    "sh",
                                    fs::read_symlink("/proc/self/exe").string(),
                                    "run",
                                    fmt::format("{}/experiment.toml", kProgramFolder),
                                    "--runs",
                                    kRunsFolder};
  const std::vector<std::string> same = asked.words();
  words.insert(words.end(), same.begin(), same.end());
  if (threads != 0) words.insert(words.end(), {"--threads", std::to_string(threads)});
  return words;
}

}  // namespace

ScriptVerdict verify_network(const RunRecord& record, const VerifyOptions& options, const std::string& named,
                             std::string& printed) {
  expect_possible(record, options, named);
  const std::string place = (record.folder() / "experiment.toml").string();
  train::Experiment experiment = train::recorded_experiment(record.experiment(), place);
  train::require_same_run(record, experiment, record.summary().steps);  // the steps that it makes are compared
  experiment.data.path = train::recorded_data_path(experiment.data.path, options.data);
  SandboxRequest request;
  request.readable = data_of(record, experiment);
  const fs::path network = network_of(record, experiment.model);
  require_sandbox();

  const archive::TemporaryFolder work;
  const fs::path program = work.path() / "program";
  archive::make_folders(program);
  fs::copy_file(network, program / archive::kNetworkFile);
  experiment.model.torchscript = fmt::format("{}/{}", kProgramFolder, archive::kNetworkFile);
  archive::write_file(program / "experiment.toml", train::to_toml(experiment));
  request.layers = {program};
  for (const fs::path& file : program_files()) request.readable.push_back(file);
  for (const std::string& path : options.read) request.readable.emplace_back(path);
  request.hidden = kept_from_program(record, options, "");
  request.home = "/home/verify";
  request.devices = options.execution.device != "cpu";
  request.words = run_words(options.execution, record.is_stock() ? kernels::thread_count() : options.execution.threads);
  request.environment = environment(record.is_stock());
  request.limits = sandbox_limits(options.limits);
  fmt::print(stderr, "isobit: running the network {} in a sandbox without network connections\n",
             archive::printable(network.filename().string()));

  const StopSignal stop;
  const Again again{static_cast<std::int64_t>(record.steps().size()),
                    {"the network", {}, true},
                    request.limits,
                    work.path(),
                    stop.flag()};
  const auto second = run_again(again, in_sandbox(request, work.path()), printed);
  ScriptVerdict result;
  result.verdict.interrupted = true;
  if (!second) return result;
  result.verdict = verdict_of(record, *second);
  return result;
}

}  // namespace isobit::cli
