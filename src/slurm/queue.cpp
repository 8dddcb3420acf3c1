#include "slurm/queue.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "archive/printable.h"
#include "archive/summary_text.h"
#include "slurm/cluster.h"
#include "slurm/programs.h"

namespace isobit::slurm {
namespace {

// What of one partition can be had now.
struct Free {
  slurm::Amount nodes, cpus, memory;  // a free node is one that nobody uses
  std::map<std::string, slurm::Amount> gpus;
};

void add(slurm::Amount& sum, const slurm::Amount& amount) {
  sum.total += amount.total;
  sum.free += amount.free;
}

Free free_in(const slurm::Cluster& cluster, const std::string& partition) {
  Free free;
  for (const slurm::Node* node : cluster.nodes_of(partition)) {
    add(free.nodes, {1, node->usable && node->cpus.free == node->cpus.total ? 1 : 0});
    add(free.cpus, node->cpus);
    add(free.memory, node->memory);
    for (const auto& [type, amount] : node->gpus) add(free.gpus[type], amount);
  }
  return free;
}

std::int64_t seconds_since(std::int64_t start) {
  return start == 0 ? 0 : std::max<std::int64_t>(0, static_cast<std::int64_t>(std::time(nullptr)) - start);
}

archive::Json amount_json(const slurm::Amount& amount) { return {{"free", amount.free}, {"total", amount.total}}; }

archive::Json jobs_json(const std::vector<slurm::Job>& jobs) {
  archive::Json list = archive::Json::array();
  for (const slurm::Job& job : jobs) {
    list.push_back({{"id", job.id},
                    {"name", job.name},
                    {"user", job.user},
                    {"partition", job.partition},
                    {"state", job.state},
                    {"reason", job.reason},
                    {"nodes", job.nodes},
                    {"node_count", job.node_count},
                    {"seconds", seconds_since(job.start)},
                    {"time_limit", job.time_limit == 0 ? archive::Json() : archive::Json(job.time_limit)},
                    {"restarts", job.restarts}});
  }
  return list;
}

archive::Json partitions_json(const slurm::Cluster& cluster) {
  archive::Json list = archive::Json::array();
  for (const slurm::Partition& partition : cluster.partitions) {
    const Free free = free_in(cluster, partition.name);
    archive::Json gpus = archive::Json::object();
    for (const auto& [type, amount] : free.gpus) gpus[type] = amount_json(amount);
    list.push_back({{"name", partition.name},
                    {"default", partition.is_default},
                    {"up", partition.is_up},
                    {"time_limit", partition.longest == 0 ? archive::Json() : archive::Json(partition.longest)},
                    {"nodes", amount_json(free.nodes)},
                    {"cpus", amount_json(free.cpus)},
                    {"memory_mib", amount_json(free.memory)},
                    {"gpus", gpus}});
  }
  return list;
}

std::string amount_text(const slurm::Amount& amount) { return fmt::format("{}/{}", amount.free, amount.total); }

// Rows as columns that stand under each other.
void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

void print_jobs(const std::vector<slurm::Job>& jobs, bool all) {
  if (jobs.empty()) {
    fmt::print("no jobs\n");
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"job", "name", "state", "nodes", "time", "restarts", "reason"}};
  if (all) rows[0].insert(rows[0].begin() + 1, "user");
  for (const slurm::Job& job : jobs) {
    std::vector<std::string> row = {job.id,
                                    archive::printable(job.name),
                                    archive::printable(job.state),
                                    job.nodes.empty() ? std::to_string(job.node_count) : archive::printable(job.nodes),
                                    slurm::format_time(seconds_since(job.start)),
                                    std::to_string(job.restarts),
                                    job.reason.empty() ? "-" : archive::printable(job.reason)};
    if (all) row.insert(row.begin() + 1, archive::printable(job.user));
    rows.push_back(std::move(row));
  }
  print_table(rows);
}

void print_partitions(const slurm::Cluster& cluster) {
  std::vector<std::vector<std::string>> rows = {{"partition", "state", "nodes", "cpus", "memory", "gpus"}};
  for (const slurm::Partition& partition : cluster.partitions) {
    const Free free = free_in(cluster, partition.name);
    std::string gpus;
    for (const auto& [type, amount] : free.gpus)
      gpus += fmt::format("{}{} {}", gpus.empty() ? "" : ", ", archive::printable(type), amount_text(amount));
    rows.push_back({archive::printable(partition.name) + (partition.is_default ? "*" : ""),
                    partition.is_up ? "up" : "down", amount_text(free.nodes), amount_text(free.cpus),
                    fmt::format("{:.1f}/{:.1f} GiB", static_cast<double>(free.memory.free) / 1024,
                                static_cast<double>(free.memory.total) / 1024),
                    gpus.empty() ? "-" : gpus});
  }
  fmt::print("\nfree/all\n");
  print_table(rows);
}

}  // namespace

int run_queue(const QueueOptions& options) {
  std::vector<slurm::Job> jobs = slurm::read_jobs(call_slurm);
  const auto user = static_cast<std::int64_t>(::getuid());
  if (!options.all) std::erase_if(jobs, [&](const slurm::Job& job) { return job.user_id != user; });
  // Slurm lists jobs for some minutes after their end. A state that is not known here is shown.
  const auto ended = [](const slurm::Job& job) {
    constexpr const char* kEnded[] = {"completed", "cancelled", "failed",   "timeout",       "node_fail",
                                      "preempted", "boot_fail", "deadline", "out_of_memory", "revoked"};
    return std::any_of(std::begin(kEnded), std::end(kEnded), [&](const char* state) { return job.state == state; });
  };
  std::erase_if(jobs, ended);
  const slurm::Cluster cluster = slurm::read_cluster(call_slurm);
  if (options.json) {
    archive::print_json_line({{"jobs", jobs_json(jobs)}, {"partitions", partitions_json(cluster)}});
  } else {
    print_jobs(jobs, options.all);
    print_partitions(cluster);
  }
  return 0;
}

}  // namespace isobit::slurm
