// isobit submit: a run as a job of a cluster under Slurm, in one line.
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
#include "cli/child_process.h"
#include "cli/command.h"
#include "cli/slurm_programs.h"
#include "cli/submitted_experiment.h"
#include "slurm/host_list.h"
#include "slurm/job_folder.h"
#include "slurm/job_script.h"
#include "slurm/step_time.h"

namespace isobit::cli {
namespace {

namespace fs = std::filesystem;
using archive::UserError;

struct SubmitOptions {
  std::string file, runs, name, gpus, time, partition, memory, container, device;
  std::int64_t nodes = 1, workers = 0, cpus = 0, at_once = 0;
  std::vector<std::string> overrides, array;
  bool dry_run = false, json = false;
};

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

Action declare_submit(OptionSet& app) {
  auto options = std::make_shared<SubmitOptions>();
  app.add("file", options->file, "The experiment (docs/experiment.md)").type("FILE.toml").required();
  app.add("--set", options->overrides, "Override a key: --set optimizer.lr=0.1 (repeatable)")
      .type("KEY=VALUE")
      .repeatable();
  app.add("--nodes", options->nodes, "Nodes (of each type of GPU)").type("N").at_least(1).show_default();
  app.add("--workers-per-node", options->workers, "Workers on each node (default: one per GPU, else one)")
      .type("N")
      .at_least(1);
  app.add("--gpus", options->gpus, "GPUs of each node; several types: nodes of each").type("TYPE:N,...");
  app.add("--cpus", options->cpus, "CPUs of each worker (default: Slurm's)").type("N").at_least(1);
  app.add("--mem", options->memory, "Memory of each node: 1500M, 4G (default: Slurm's)").type("SIZE");
  app.add("--time", options->time, "Time limit; the job is requeued there and resumes (default: the partition's)")
      .type("D-H:M:S");
  app.add("--partition", options->partition, "Partition (default: the cluster's)").type("NAME");
  app.add("--array", options->array, "A run for each value: seed=1..5, optimizer.lr=0.1,0.01 (repeatable: all pairs)")
      .type("KEY=V,V")
      .repeatable();
  app.add("--at-once", options->at_once, "Runs of the array at a time").type("N").at_least(1);
  app.add("--container", options->container, "Run inside this image, by Apptainer (guides/slurm.md)").type("IMAGE");
  app.add("--device", options->device, "Where the workers compute (default: cuda with --gpus, else cpu)").type("NAME");
  app.add("--name", options->name, "The job's name (default: the file's)").type("NAME");
  app.add("--runs", options->runs,
          "The archive, on a file system that all nodes share (default: $ISOBIT_RUNS, else runs)")
      .type("DIR");
  app.flag("--dry-run", options->dry_run, "Check, print the job script, and submit nothing");
  app.flag("--json", options->json, "One JSON object on stdout instead of the job's id or script");
  return [options] { return run_submit(*options); };
}

const CommandRegistration submit_command({.name = "submit",
                                          .summary = "Submit a run to a cluster under Slurm",
                                          .example = "isobit submit examples/fashion-lenet5.toml --time 30",
                                          .rank = 12,
                                          .declare = declare_submit});

}  // namespace
}  // namespace isobit::cli
