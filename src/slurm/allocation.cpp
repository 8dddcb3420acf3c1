#include "slurm/allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "archive/user_error.h"
#include "slurm/host_list.h"

namespace isobit::slurm {
namespace {

using archive::UserError;

constexpr const char* kJobRemedy = "start it by srun in a job, or unset the variables SLURM_* to run without Slurm";
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// The variables of one task, read strictly.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  [[nodiscard]] std::string text(const std::string& name) const { return environment_(name).value_or(""); }
  [[nodiscard]] bool has(const std::string& name) const { return !text(name).empty(); }
  [[nodiscard]] std::string required(const std::string& name) const {
    const std::string value = text(name);
    if (value.empty()) throw UserError(name, "is not set, though this is a Slurm job", kJobRemedy);
    return value;
  }
  // `other` where it is not set.
  [[nodiscard]] std::int64_t count(const std::string& name, std::int64_t other) const {
    return has(name) ? required_count(name) : other;
  }
  [[nodiscard]] std::int64_t required_count(const std::string& name) const {
    std::int64_t value = 0;
    const std::string given = required(name);
    if (!parse_count(given, value)) throw UserError(name, "is no whole number: '" + given + "'", kJobRemedy);
    return value;
  }
  [[nodiscard]] std::vector<std::string> hosts(const std::string& name) const {
    return expand_hosts(required(name), name);
  }

 private:
  const Environment& environment_;
};

// The nodes of a heterogeneous job in the order of their tasks: SLURM_STEP_NODELIST has them sorted.
std::vector<std::string> grouped_nodes(const Variables& variables, const std::vector<std::string>& sorted) {
  const std::int64_t groups = variables.count("SLURM_HET_SIZE", 0);
  if (groups == 0) return sorted;
  const std::set<std::string> wanted(sorted.begin(), sorted.end());
  std::vector<std::string> nodes;
  for (std::int64_t group = 0; group < groups; ++group) {
    for (const std::string& node : variables.hosts(fmt::format("SLURM_JOB_NODELIST_HET_GROUP_{}", group))) {
      if (wanted.contains(node) && std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    }
  }
  if (nodes.size() != wanted.size())
    throw UserError("SLURM_STEP_NODELIST", "names nodes that are in no group of the job", kJobRemedy);
  return nodes;
}

void read_step(const Variables& variables, Allocation& task) {
  task.step = variables.required_count("SLURM_STEP_ID");
  task.task = variables.required_count("SLURM_PROCID");
  task.local_task = variables.required_count("SLURM_LOCALID");
  task.tasks = variables.has("SLURM_STEP_NUM_TASKS") ? variables.required_count("SLURM_STEP_NUM_TASKS")
                                                     : variables.required_count("SLURM_NTASKS");
  if (task.task >= task.tasks)
    throw UserError("SLURM_PROCID", fmt::format("is {} of {} tasks", task.task, task.tasks), kJobRemedy);
  // The tasks of this node by their numbers, this one among them at its place.
  const std::string here = variables.required("SLURM_GTIDS");
  const auto numbers = split_outside_brackets(here);
  task.local_tasks = static_cast<std::int64_t>(numbers.size());
  std::int64_t own = -1;
  if (task.local_task >= task.local_tasks || !parse_count(numbers[static_cast<std::size_t>(task.local_task)], own) ||
      own != task.task)
    throw UserError("SLURM_GTIDS", fmt::format("'{}' has no task {} at place {}", here, task.task, task.local_task),
                    kJobRemedy);

  const bool by_step = variables.has("SLURM_STEP_NODELIST");
  task.nodes = grouped_nodes(variables, variables.hosts(by_step ? "SLURM_STEP_NODELIST" : "SLURM_NODELIST"));
  const auto index = static_cast<std::size_t>(variables.required_count("SLURM_NODEID"));
  if (index >= task.nodes.size() || task.nodes[index] != task.node)
    throw UserError("SLURM_NODEID", fmt::format("{} is not the place of {} among the step's nodes", index, task.node),
                    "start the step without --distribution=arbitrary");
  if (task.task == 0 && index != 0)
    throw UserError("SLURM_PROCID", "task 0 is not on the step's first node", "start the step without --relative");
}

void read_batch(const Variables& variables, Allocation& task) {
  const bool known = variables.has("SLURM_JOB_NODELIST");
  task.nodes = known ? variables.hosts("SLURM_JOB_NODELIST") : std::vector<std::string>{task.node};
  // A shell of salloc stands on another node than those of its job.
  const auto own = std::find(task.nodes.begin(), task.nodes.end(), task.node);
  if (own != task.nodes.end()) std::rotate(task.nodes.begin(), own, own + 1);
}

// Part `index` of `parts` of a whole.
std::int64_t share(std::int64_t whole, std::int64_t parts, std::int64_t index) {
  return whole / parts + (index < whole % parts ? 1 : 0);
}

std::vector<std::string> gpus_of(const Variables& variables, const Allocation& task) {
  const std::string visible = variables.text("CUDA_VISIBLE_DEVICES");
  if (visible.empty() || visible == "NoDevFiles") return {};
  std::vector<std::string> all;
  for (const std::string_view word : split_outside_brackets(visible)) all.emplace_back(word);
  if (variables.has("SLURM_GPUS_PER_TASK") || task.local_tasks == 1) return all;
  const auto count = static_cast<std::int64_t>(all.size());
  if (count <= task.local_tasks) return {all[static_cast<std::size_t>(task.local_task % count)]};
  std::vector<std::string> own;
  for (std::int64_t index = task.local_task; index < count; index += task.local_tasks)
    own.push_back(all[static_cast<std::size_t>(index)]);
  return own;
}

void read_share(const Variables& variables, Allocation& task) {
  const std::int64_t on_node = variables.count("SLURM_CPUS_ON_NODE", 1);
  const std::int64_t even = share(on_node, task.local_tasks, task.local_task);
  task.cpus = std::max<std::int64_t>(1, task.in_step ? variables.count("SLURM_CPUS_PER_TASK", even) : even);
  if (variables.has("SLURM_MEM_PER_CPU")) {
    task.memory = variables.required_count("SLURM_MEM_PER_CPU") * kMiB * task.cpus;
  } else {  // 0: all of the node, as Slurm counts; no limit to tell
    task.memory = variables.count("SLURM_MEM_PER_NODE", 0) * kMiB / task.local_tasks;
  }
  task.gpus = gpus_of(variables, task);
}

}  // namespace

std::optional<Allocation> allocation(const Environment& environment) {
  const Variables variables(environment);
  if (!variables.has("SLURM_JOB_ID")) return std::nullopt;
  Allocation task;
  task.cluster = variables.text("SLURM_CLUSTER_NAME");
  const std::string array = variables.text("SLURM_ARRAY_JOB_ID"), index = variables.text("SLURM_ARRAY_TASK_ID");
  task.job = array.empty() || index.empty() ? variables.text("SLURM_JOB_ID") : array + "_" + index;
  task.restarts = variables.count("SLURM_RESTART_COUNT", 0);
  task.in_step = variables.has("SLURM_STEP_ID");
  task.node = task.in_step ? variables.required("SLURMD_NODENAME") : variables.text("SLURMD_NODENAME");
  if (task.in_step) {
    read_step(variables, task);
  } else {
    read_batch(variables, task);
  }
  task.first_node = task.nodes.front();
  if (task.node.empty()) task.node = task.first_node;
  task.host = variables.has("ISOBIT_JOB_HOST") ? variables.text("ISOBIT_JOB_HOST") : task.first_node;
  task.launcher = variables.text("SLURM_LAUNCH_NODE_IPADDR");
  read_share(variables, task);
  return task;
}

std::optional<Allocation> allocation() {
  return allocation([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

std::string run_name_of(const Allocation& allocation) { return allocation.cluster + "/" + allocation.job; }

}  // namespace isobit::slurm
