#include "slurm/submit.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "archive/files.h"
#include "archive/printable.h"
#include "archive/run_state.h"
#include "archive/runs.h"
#include "archive/sha256.h"
#include "archive/user_error.h"
#include "process/child_process.h"
#include "slurm/host_list.h"
#include "slurm/job_folder.h"
#include "slurm/job_script.h"
#include "slurm/programs.h"
#include "slurm/step_time.h"
#include "slurm/submitted_experiment.h"

namespace isobit::slurm {
namespace {

namespace fs = std::filesystem;
using archive::UserError;

// The file's name without its end, as far as Slurm and a run take it.
std::string name_of(const SubmitOptions& options) {
  std::string name = options.name.empty() ? fs::path(options.file).stem().string() : options.name;
  if (options.name.empty()) {
    for (char& c : name) c = archive::is_run_name(std::string(1, c)) ? c : '-';
    name = name.substr(0, 64);
  }
  if (!archive::is_run_name(name) || name[0] == '-')
    throw UserError("--name", fmt::format("'{}' is not a name for a job", name),
                    "use 1 to 64 letters, digits, - _ and ., not beginning with a dash or a dot");
  return name;
}

slurm::JobRequest request_of(const SubmitOptions& options) {
  slurm::JobRequest request;
  request.name = name_of(options);
  request.partition = slurm::parse_partition(options.partition);
  request.nodes = options.nodes;
  request.workers = options.workers;
  if (!options.gpus.empty()) request.gpus = slurm::parse_gpu_request(options.gpus);
  if (!options.time.empty()) request.seconds = slurm::parse_time_limit(options.time);
  if (!options.memory.empty()) request.memory = slurm::parse_memory(options.memory);
  request.cpus = options.cpus;
  request.array = slurm::parse_array(options.array);
  request.at_once = options.at_once;
  if (request.at_once > 0 && request.array.empty())
    throw UserError("--at-once", "limits the runs of an array, and there is none", "give --array, or leave it out");
  return request;
}

// A file, or NAME.sif in the folder that $ISOBIT_CONTAINERS names.
slurm::Container find_container(const std::string& name) {
  slurm::Container container;
  if (name.empty()) return container;
  fs::path path = name;
  const char* folder = std::getenv("ISOBIT_CONTAINERS");
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored) && folder != nullptr) path = fs::path(folder) / (name + ".sif");
  if (!fs::is_regular_file(path, ignored))
    throw UserError("--container", fmt::format("there is no image '{}'", name),
                    folder != nullptr ? fmt::format("name a file, or one of {}", folder)
                                      : "name a file, or set ISOBIT_CONTAINERS to a folder of images NAME.sif");
  container.image = fs::canonical(path).string();
  container.sha256 = archive::digest_file(path).sha256;
  container.runner = "apptainer";
  return container;
}

// Places that the nodes must see under the same names.
slurm::JobScript job_of(const SubmitOptions& options, slurm::JobRequest request) {
  slurm::JobScript job;
  job.request = std::move(request);
  job.container = find_container(options.container);
  job.program = job.container.image.empty() ? fs::read_symlink("/proc/self/exe").string() : "isobit";
  job.working_folder = fs::current_path().string();
  job.runs = fs::absolute(archive::runs_folder(options.runs)).lexically_normal().string();
  job.token = slurm::make_token();
  job.folder = job.runs + "/" + slurm::kJobsFolder + "/" + job.request.name + "-" + job.token;
  const std::string device = options.device.empty() && !options.gpus.empty() ? "cuda" : options.device;
  if (!device.empty()) job.arguments = {"--device", device};
  for (const std::string& setting : options.overrides) job.arguments.insert(job.arguments.end(), {"--set", setting});
  return job;
}

// sbatch's answer: the job's number, and with several clusters ";" and the cluster.
std::string submitted(const std::string& script) {
  std::string answer = call_slurm({"sbatch", "--parsable", script});
  while (!answer.empty() && answer.back() == '\n') answer.pop_back();
  const std::string id = answer.substr(0, answer.find(';'));
  std::int64_t number = 0;
  if (!slurm::parse_count(id, number)) throw UserError("sbatch", "answered '" + answer + "'", "see squeue --me");
  return id;
}

// What is known of a job before Slurm gave it a number.
nlohmann::ordered_json about(const slurm::JobScript& job) {
  return {{"name", job.request.name},
          {"partition", job.request.partition},
          {"workers", job.request.all_workers()},
          {"runs", job.request.array.empty() ? 1 : job.request.array.size()},
          {"folder", job.folder}};
}

void print_script(const SubmitOptions& options, const slurm::JobScript& job, const std::string& script) {
  if (!options.json) return fmt::print("{}", script);
  nlohmann::ordered_json result = about(job);
  result["script"] = script;
  fmt::print("{}\n", result.dump());
}

void print(const SubmitOptions& options, const slurm::JobScript& job, const std::string& id) {
  const std::string log = job.folder + (job.request.array.empty() ? "/" + id + ".log" : "/" + id + "_INDEX.log");
  if (!options.json) {
    fmt::print("job {}\n", id);
    fmt::print(stderr, "output: {}\nisobit queue shows it; scancel {} ends it\n", archive::printable(log), id);
    return;
  }
  nlohmann::ordered_json result{{"job", id}};
  result.update(about(job));
  result["output"] = log;
  fmt::print("{}\n", result.dump());
}

}  // namespace

int run_submit(const SubmitOptions& options) {
  slurm::JobRequest request = request_of(options);
  const SubmittedExperiment experiment = check_experiment(options.file, options.overrides, request.array);
  if (experiment.resolved.empty())
    fmt::print(stderr, "isobit: PyTorch does not load here: of the experiment, only its TOML was checked\n");
  if (has_slurm() || !options.dry_run) {
    slurm::check(request, slurm::read_cluster(call_slurm));
  } else {
    fmt::print(stderr, "isobit: no Slurm on this machine: nothing was compared with a cluster\n");
  }
  slurm::JobScript job = job_of(options, std::move(request));
  std::optional<slurm::StepTime> step;
  if (!experiment.resolved.empty()) step = slurm::recorded_step_time(job.runs, experiment.resolved);
  job.notice = slurm::notice_before_limit(job.request.seconds, step);
  const std::string script = slurm::write_script(job);
  if (options.dry_run) {
    print_script(options, job, script);
    return 0;
  }
  slurm::JobFolder folder(job.folder);
  folder.write("experiment.toml", experiment.text);
  folder.write("job.sh", script);
  if (job.request.all_workers() > 1) folder.write_keys(static_cast<std::int64_t>(job.request.array.size()));
  const std::string id = submitted((folder.path() / "job.sh").string());
  folder.keep();
  print(options, job, id);
  return 0;
}

}  // namespace isobit::slurm
