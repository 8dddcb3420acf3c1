#include "slurm/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "archive/user_error.h"
#include "slurm/host_list.h"
#include "slurm/slurm_json.h"

namespace isobit::slurm {
namespace {

using archive::UserError;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (std::size_t end = 0; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1))
    pieces.push_back(text.substr(0, end));
  pieces.push_back(text);
  return pieces;
}

Amount amount(std::int64_t total, std::int64_t used, bool usable) {
  return {total, usable ? std::max<std::int64_t>(0, total - used) : 0};
}

Node parse_node(const Entry& entry) {
  Node node;
  node.name = entry.text("name");
  // The first word says what the node does, flags what is wrong with it.
  std::vector<std::string> words = entry.words("state");
  for (const std::string& flag : entry.words("state_flags")) words.push_back(flag);
  static const std::set<std::string> kWorking = {"idle", "mixed", "allocated", "completing", "cloud", "dynamic_norm"};
  node.usable = !words.empty();
  for (const std::string& word : words) {
    node.usable = node.usable && kWorking.contains(lower(word));
    node.state += (node.state.empty() ? "" : "+") + lower(word);
  }
  node.partitions = entry.words("partitions");
  node.cpus = amount(entry.number("cpus"), entry.number("alloc_cpus"), node.usable);
  node.memory = amount(entry.number("real_memory"), entry.number("alloc_memory"), node.usable);
  const auto used = parse_gpus(entry.text("gres_used"));
  for (const auto& [type, total] : parse_gpus(entry.text("gres"))) {
    const auto busy = used.find(type);
    node.gpus[type] = amount(total, busy == used.end() ? 0 : busy->second, node.usable);
  }
  return node;
}

// "12_3", or "12_[0-9%2]" where tasks of an array still wait; "12+1" for a group of a heterogeneous job.
std::string job_id(const Entry& entry) {
  const std::int64_t id = entry.number("job_id"), array = entry.number("array_job_id");
  const std::int64_t groups = entry.number("het_job_id");
  if (groups != 0) return fmt::format("{}+{}", groups, entry.number("het_job_offset"));
  if (array == 0) return std::to_string(id);
  const std::string waiting = entry.text("array_task_string");
  return waiting.empty() ? fmt::format("{}_{}", array, entry.number("array_task_id"))
                         : fmt::format("{}_[{}]", array, waiting);
}

}  // namespace

std::map<std::string, std::int64_t> parse_gpus(std::string_view resources) {
  std::map<std::string, std::int64_t> gpus;
  for (std::string_view piece : split_outside_brackets(resources)) {
    piece = piece.substr(0, piece.find('('));  // which ones
    const auto parts = split(piece, ':');
    if (parts[0] != "gpu" || parts.size() > 3) continue;
    std::int64_t count = 1;
    const bool counted = parts.size() > 1 && parse_count(parts.back(), count);
    const bool typed = parts.size() == 3 || (parts.size() == 2 && !counted);
    gpus[typed ? std::string(parts[1]) : "gpu"] += counted || parts.size() < 3 ? count : 0;
  }
  return gpus;
}

std::vector<Node> parse_nodes(std::string_view sinfo_json) {
  const Answer answer(sinfo_json, "sinfo", "nodes");
  std::vector<Node> nodes;
  for (const Entry& entry : answer.entries()) nodes.push_back(parse_node(entry));
  return nodes;
}

// NAME|NAME*|up|time limit|nodes of a job (sinfo -o '%R|%P|%a|%l|%s'): a line for each kind of node.
std::vector<Partition> parse_partitions(std::string_view sinfo_lines) {
  std::vector<Partition> partitions;
  for (const std::string_view line : split(sinfo_lines, '\n')) {
    if (line.empty()) continue;
    const auto fields = split(line, '|');
    if (fields.size() != 5)
      throw UserError("sinfo", fmt::format("printed '{}' for a partition", line),
                      "isobit reads what Slurm 22.05 prints");
    Partition partition;
    partition.name = fields[0];
    partition.is_default = fields[1].ends_with('*');
    partition.is_up = fields[2] == "up";
    if (!parse_time(fields[3], partition.longest)) partition.longest = 0;  // "infinite", "n/a"
    const auto most = fields[4].substr(fields[4].find('-') + 1);
    if (!parse_count(most, partition.most_nodes)) partition.most_nodes = 0;
    const auto same = [&](const Partition& other) { return other.name == partition.name; };
    if (std::none_of(partitions.begin(), partitions.end(), same)) partitions.push_back(partition);
  }
  return partitions;
}

std::vector<Job> parse_jobs(std::string_view squeue_json) {
  const Answer answer(squeue_json, "squeue", "jobs");
  std::vector<Job> jobs;
  for (const Entry& entry : answer.entries()) {
    Job job;
    job.id = job_id(entry);
    job.name = entry.text("name");
    job.user = entry.text("user_name");
    job.user_id = entry.number("user_id");
    job.partition = entry.text("partition");
    const auto states = entry.words("job_state");
    job.state = states.empty() ? "" : lower(states.front());
    job.reason = entry.text("state_reason");
    if (job.reason == "None") job.reason.clear();
    job.nodes = entry.text("nodes");
    job.node_count = entry.number("node_count");
    job.restarts = entry.number("restart_cnt");
    job.start = job.state == "pending" ? 0 : entry.number("start_time");
    job.time_limit = entry.number("time_limit") * 60;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::vector<const Node*> Cluster::nodes_of(const std::string& partition) const {
  std::vector<const Node*> found;
  for (const Node& node : nodes) {
    if (std::find(node.partitions.begin(), node.partitions.end(), partition) != node.partitions.end())
      found.push_back(&node);
  }
  return found;
}

Cluster read_cluster(const Caller& call) {
  return {parse_partitions(call({"sinfo", "--noheader", "--format=%R|%P|%a|%l|%s"})),
          parse_nodes(call({"sinfo", "--json"}))};
}

std::vector<Job> read_jobs(const Caller& call) { return parse_jobs(call({"squeue", "--json"})); }

std::string address_of(const std::string& node, const Caller& call) {
  const std::string text = call({"scontrol", "show", "node", "--oneliner", node});
  // Before any value that people wrote (Reason=, Comment=).
  for (const std::string_view word : split(std::string_view(text).substr(0, text.find(" OS=")), ' ')) {
    if (word.starts_with("NodeAddr=")) return std::string(word.substr(std::string_view("NodeAddr=").size()));
  }
  throw UserError(node, "has no address that Slurm knows", "name the node as sinfo does");
}

bool parse_time(std::string_view text, std::int64_t& seconds) {
  const std::size_t dash = text.find('-');
  std::int64_t days = 0;
  if (dash != std::string_view::npos && !parse_count(text.substr(0, dash), days)) return false;
  const auto parts = split(dash == std::string_view::npos ? text : text.substr(dash + 1), ':');
  if (parts.size() > 3) return false;
  std::int64_t values[3] = {0, 0, 0};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parse_count(parts[i], values[i])) return false;
  }
  constexpr std::int64_t kMost = 1'000'000'000;
  if (days > kMost || *std::max_element(values, values + 3) > kMost) return false;
  // With days the first number is hours; without, the last is seconds, and one alone is minutes.
  const bool hours_first = dash != std::string_view::npos || parts.size() == 3;
  seconds = days * 86'400 + (hours_first ? values[0] * 3600 + values[1] * 60 + values[2] : values[0] * 60 + values[1]);
  return true;
}

std::string format_time(std::int64_t seconds) {
  const std::int64_t days = seconds / 86'400, hours = seconds / 3600 % 24, minutes = seconds / 60 % 60;
  return fmt::format("{}{:02}:{:02}:{:02}", days == 0 ? "" : fmt::format("{}-", days), hours, minutes, seconds % 60);
}

}  // namespace isobit::slurm
