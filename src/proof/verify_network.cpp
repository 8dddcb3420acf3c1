#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/printable.h"
#include "archive/run_export.h"
#include "archive/runs.h"
#include "archive/sha256.h"
#include "archive/tar_file.h"
#include "archive/user_error.h"
#include "kernels/threads.h"
#include "process/child_process.h"
#include "process/stop_signal.h"
#include "proof/compare_records.h"
#include "proof/sandbox.h"
#include "proof/script_program.h"
#include "proof/second_record.h"
#include "proof/verify_script.h"
#include "train/arithmetic.h"
#include "train/dataset.h"
#include "train/recording.h"
#include "train/verification.h"

namespace isobit::proof {
namespace {

namespace fs = std::filesystem;
using archive::RunRecord;
using archive::UserError;

// Runs the words, tells how many steps they have recorded, and sends their record on descriptor 3, as
// isobit._proof._again does for Python programs.
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

// Traces, and sends what it made on descriptor 3, as a tar file. What the trace says of itself goes to stdout.
constexpr const char* kTraceShell = R"sh(mkdir /verify/runs/traced && "$@" || exit
cd /verify/runs && tar --format=ustar -cf - traced/* >&3
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

std::string this_program() { return fs::read_symlink("/proc/self/exe").string(); }

std::vector<std::string> in_shell(const char* shell, const std::vector<std::string>& words) {
  std::vector<std::string> all = {"/bin/sh", "-c", shell, "sh", this_program()};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

// With --threads, which decides the bits of stock PyTorch.
void add_execution(std::vector<std::string>& words, const RunRecord& record, const train::ExecutionOptions& asked) {
  const std::vector<std::string> same = asked.words();
  words.insert(words.end(), same.begin(), same.end());
  const int threads = record.is_stock() ? kernels::thread_count() : asked.threads;
  if (threads != 0) words.insert(words.end(), {"--threads", std::to_string(threads)});
}

// The sandbox in which the network runs, but its words: the data alone, and the network in `program`, a new folder, as
// `experiment` names it from now on.
SandboxRequest network_sandbox(const RunRecord& record, const VerifyOptions& options, train::Experiment& experiment,
                               const fs::path& program) {
  experiment.data.path = train::recorded_data_path(experiment.data.path, options.data);
  SandboxRequest request;
  request.readable = data_of(record, experiment);
  const fs::path network = network_of(record, experiment.model);
  require_sandbox();
  archive::make_folders(program);
  fs::copy_file(network, program / archive::kNetworkFile);
  experiment.model.torchscript = fmt::format("{}/{}", kProgramFolder, archive::kNetworkFile);
  request.layers = {program};
  for (const fs::path& file : program_files()) request.readable.push_back(file);
  for (const std::string& path : options.read) request.readable.emplace_back(path);
  request.home = "/home/verify";
  request.devices = options.execution.device != "cpu";
  request.environment = environment(record.is_stock());
  request.limits = sandbox_limits(options.limits);
  return request;
}

}  // namespace

ScriptVerdict verify_network(const RunRecord& record, const VerifyOptions& options, const std::string& named,
                             std::string& printed) {
  expect_possible(record, options, named);
  const std::string place = (record.folder() / "experiment.toml").string();
  train::Experiment experiment = train::recorded_experiment(record.experiment(), place);
  train::require_same_run(record, experiment, record.summary().steps);  // the steps that it makes are compared
  const std::string named_network = experiment.model.torchscript;
  const archive::TemporaryFolder work;
  const fs::path program = work.path() / "program";
  SandboxRequest request = network_sandbox(record, options, experiment, program);
  archive::write_file(program / "experiment.toml", train::to_toml(experiment));
  request.hidden = kept_from_program(record, options, "");
  std::vector<std::string> words = {"run", fmt::format("{}/experiment.toml", kProgramFolder), "--runs", kRunsFolder};
  add_execution(words, record, options.execution);
  request.words = in_shell(kShell, words);

  fmt::print(stderr, "isobit: running the network {} in a sandbox without network connections\n",
             archive::printable(fs::path(named_network).filename().string()));

  const process::StopSignal stop;
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

TracedAgain trace_network(const RunRecord& record, const VerifyOptions& options, const std::string& named,
                          const trace::TraceHeader& asked, const fs::path& out) {
  train::Experiment experiment =
      train::recorded_experiment(record.experiment(), (record.folder() / "experiment.toml").string());
  const archive::TemporaryFolder work;
  SandboxRequest request = network_sandbox(record, options, experiment, work.path() / "program");
  const fs::path folder = fs::canonical(record.folder());
  request.readable.push_back(folder);
  std::vector<std::string> words = {"trace",
                                    folder.string(),
                                    "--steps",
                                    fmt::format("{}:{}", asked.window.first, asked.window.count),
                                    "--out",
                                    fmt::format("{}/traced/{}", kRunsFolder, kTraceFile),
                                    "--json",
                                    "--quiet",
                                    "--trust",
                                    "--data",
                                    experiment.data.path,
                                    "--network",
                                    experiment.model.torchscript,
                                    "--samples",
                                    std::to_string(asked.samples)};
  if (asked.statistics) words.emplace_back("--statistics");
  if (!asked.values.empty()) words.insert(words.end(), {"--values", asked.values});
  add_execution(words, record, options.execution);
  request.words = in_shell(kTraceShell, words);

  TracedAgain traced;
  const process::StopSignal stop;
  process::ChildResult result;
  {
    archive::AppendFile tar(work.path() / "trace.tar");
    process::ChildRequest child = in_sandbox(request, work.path());
    child.together = false;
    child.report = [&](std::string_view bytes) {
      if (tar.size() + bytes.size() > request.limits.disk) return false;
      tar.append(bytes);
      return true;
    };
    child.stop = &stop.flag();
    result = process::run_child(child);
  }
  traced.interrupted = result.interrupted;
  if (traced.interrupted) return traced;
  if (!result.limit.empty()) {
    const LimitText text = describe_limit(request.limits, result.limit);
    throw UserError(named, text.problem + " and was ended", text.remedy);
  }
  if (result.code != 0)
    throw UserError(named, "cannot be traced: " + archive::printable(result.error_line()),
                    "--trust runs it outside of a sandbox");
  try {
    const auto said = archive::parse_json(result.output);
    traced.start = archive::integer<std::int64_t>(said.at("start"));
    if (const auto& differs = said.at("differs_at"); !differs.is_null())
      traced.differs_at = archive::integer<std::int64_t>(differs);
    const fs::path made = work.path() / "made";
    archive::make_folders(made);
    take_made_trace(made / archive::unpack_tar(work.path() / "trace.tar", made), asked, out);
  } catch (const nlohmann::json::exception&) {
    throw UserError(named, "cannot be traced: what ran in the sandbox is no isobit",
                    "--trust runs it outside of a sandbox");
  } catch (const std::invalid_argument&) {
    throw UserError(named, "cannot be traced: what ran in the sandbox is no isobit",
                    "--trust runs it outside of a sandbox");
  }
  return traced;
}

}  // namespace isobit::proof
