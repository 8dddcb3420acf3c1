#include "slurm/job_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "archive/suggest.h"
#include "archive/user_error.h"
#include "slurm/host_list.h"

namespace isobit::slurm {
namespace {

using archive::UserError;

constexpr std::size_t kMostRuns = 1000;

std::vector<std::string> split_commas(const std::string& text) {
  std::vector<std::string> words;
  for (const std::string_view word : split_outside_brackets(text)) words.emplace_back(word);
  return words;
}

// A word that Slurm takes as one: it stands in a line of the script.
bool is_plain(const std::string& word) {
  const char* letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  return !word.empty() && word[0] != '-' && word.find_first_not_of(letters) == std::string::npos;
}

// "-3..5"
bool parse_range(const std::string& text, std::int64_t& first, std::int64_t& last) {
  const auto dots = text.find("..");
  if (dots == std::string::npos) return false;
  const auto number = [](std::string word, std::int64_t& value) {
    const bool negative = !word.empty() && word[0] == '-';
    const bool sound = parse_count(std::string_view(word).substr(negative ? 1 : 0), value);
    if (negative) value = -value;
    return sound;
  };
  return number(text.substr(0, dots), first) && number(text.substr(dots + 2), last);
}

std::vector<std::string> values_of(const std::string& key, const std::string& list) {
  std::vector<std::string> values;
  for (const std::string& word : split_commas(list)) {
    std::int64_t first = 0, last = 0;
    if (!parse_range(word, first, last)) {
      values.push_back(word);
      continue;
    }
    if (last < first || static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first) >= kMostRuns)
      throw UserError("--array", fmt::format("'{}' of {} has no values, or too many", word, key),
                      fmt::format("write the smaller number first, at most {} values", kMostRuns));
    for (std::int64_t value = first; value <= last; ++value) values.push_back(std::to_string(value));
  }
  if (std::any_of(values.begin(), values.end(), [](const std::string& value) { return value.empty(); }))
    throw UserError("--array", key + " has an empty value", "write for example: --array optimizer.lr=0.1,0.01");
  return values;
}

const Partition& find_partition(const std::string& name, const Cluster& cluster) {
  std::vector<std::string> names;
  for (const Partition& partition : cluster.partitions) {
    if (name.empty() ? partition.is_default : partition.name == name) return partition;
    names.push_back(partition.name);
  }
  const std::string all = fmt::format("{}", fmt::join(names, ", "));
  if (name.empty()) throw UserError("--partition", "the cluster has no default partition", "name one of: " + all);
  const std::string nearest = archive::nearest(name, names);
  throw UserError("--partition", fmt::format("the cluster has no partition '{}'", name),
                  nearest.empty() ? "it has: " + all : fmt::format("did you mean '{}'? It has: {}", nearest, all));
}

std::string describe(const GpuRequest& gpu) {
  return fmt::format("{} {}", gpu.count, gpu.type.empty() ? "GPUs of any type" : gpu.type);
}

// GPUs of the asked type; of any type together where none is named.
std::int64_t gpus_of(const Node& node, const std::string& type) {
  std::int64_t count = 0;
  for (const auto& [name, amount] : node.gpus) count += type.empty() || name == type ? amount.total : 0;
  return count;
}

// "2 gtx970, 6 rtx2080"
std::string gpus_of(const std::vector<const Node*>& nodes) {
  std::map<std::string, std::int64_t> all;
  for (const Node* node : nodes) {
    for (const auto& [type, amount] : node->gpus) all[type] += amount.total;
  }
  std::vector<std::string> words;
  for (const auto& [type, count] : all) words.push_back(fmt::format("{} {}", count, type));
  return words.empty() ? "no GPUs" : fmt::format("{}", fmt::join(words, ", "));
}

// The nodes that have so much of one thing; UserError about the option where those are fewer than asked for.
template <class Measure>
std::vector<const Node*> narrowed(const std::vector<const Node*>& nodes, std::int64_t wanted_nodes, std::int64_t wanted,
                                  const Measure& measure, const char* option, const std::string& what) {
  std::vector<const Node*> enough;
  std::int64_t most = 0;
  for (const Node* node : nodes) {
    most = std::max(most, measure(*node));
    if (measure(*node) >= wanted) enough.push_back(node);
  }
  if (static_cast<std::int64_t>(enough.size()) >= wanted_nodes) return enough;
  throw UserError(option,
                  enough.empty()
                      ? fmt::format("no node that is asked for has {}; the most is {}", what, most)
                      : fmt::format("{} nodes with {} are asked for, there are {}", wanted_nodes, what, enough.size()),
                  "ask for less, or another partition (isobit queue shows what the nodes have)");
}

std::vector<const Node*> check_group(const JobRequest& request, const JobRequest::Group& group,
                                     const std::string& partition, std::vector<const Node*> nodes) {
  if (group.gpu) {
    const GpuRequest& gpu = *group.gpu;
    const auto has = [&](const Node* node) { return gpus_of(*node, gpu.type) > 0; };
    if (std::none_of(nodes.begin(), nodes.end(), has))
      throw UserError("--gpus", fmt::format("partition {} has no GPU of type '{}'", partition, gpu.type),
                      "it has: " + gpus_of(nodes));
    nodes = narrowed(
        nodes, request.nodes, gpu.count, [&](const Node& node) { return gpus_of(node, gpu.type); }, "--gpus",
        describe(gpu));
  }
  const std::int64_t cpus = group.workers * std::max<std::int64_t>(1, request.cpus);
  nodes = narrowed(
      nodes, request.nodes, cpus, [](const Node& node) { return node.cpus.total; },
      request.cpus > 0 ? "--cpus" : "--workers-per-node", fmt::format("{} CPUs", cpus));
  return narrowed(
      nodes, request.nodes, request.memory, [](const Node& node) { return node.memory.total; }, "--mem",
      fmt::format("{} MiB of memory", request.memory));
}

}  // namespace

std::vector<JobRequest::Group> JobRequest::groups() const {
  if (gpus.empty()) return {{std::nullopt, std::max<std::int64_t>(1, workers)}};
  std::vector<Group> all;
  for (const GpuRequest& gpu : gpus) all.push_back({gpu, workers > 0 ? workers : gpu.count});
  return all;
}

std::int64_t JobRequest::all_workers() const {
  std::int64_t count = 0;
  for (const Group& group : groups()) count += nodes * group.workers;
  return count;
}

std::vector<GpuRequest> parse_gpu_request(const std::string& text) {
  std::vector<GpuRequest> gpus;
  std::set<std::string> types;
  for (const std::string& word : split_commas(text)) {
    const auto colon = word.find(':');
    GpuRequest gpu;
    const std::string count = colon == std::string::npos ? word : word.substr(colon + 1);
    if (colon != std::string::npos) gpu.type = word.substr(0, colon);
    const bool sound = parse_count(count, gpu.count) && gpu.count > 0 && gpu.count <= 1024 &&
                       (colon == std::string::npos || is_plain(gpu.type));
    if (!sound)
      throw UserError("--gpus", fmt::format("cannot read '{}'", word),
                      "write TYPE:COUNT, for example gtx970:1,rtx2080:2, or a count alone");
    if (!types.insert(gpu.type).second)
      throw UserError("--gpus", fmt::format("names '{}' twice", gpu.type), "give one count for each type");
    gpus.push_back(gpu);
  }
  if (types.contains("") && gpus.size() > 1)
    throw UserError("--gpus", "a count without a type stands beside types", "give each a type");
  return gpus;
}

std::int64_t parse_memory(const std::string& text) {
  std::int64_t value = 0, unit = 1;  // KiB below: 0
  std::string digits = text;
  if (!digits.empty()) {
    switch (digits.back()) {
      case 'M': break;
      case 'G': unit = 1024; break;
      case 'T': unit = 1024 * 1024; break;
      default: unit = 0; break;
    }
    if (unit != 0) digits.pop_back();
    if (unit == 0) unit = 1;
  }
  if (!parse_count(digits, value) || value < 1 || value > (std::int64_t{1} << 40) / unit)
    throw UserError("--mem", fmt::format("cannot read '{}'", text), "write MiB, or for example 1500M, 4G, 1T");
  return value * unit;
}

std::int64_t parse_time_limit(const std::string& text) {
  std::int64_t seconds = 0;
  if (!parse_time(text, seconds))
    throw UserError("--time", fmt::format("cannot read '{}'", text), "write minutes, H:M:S, D-H or D-H:M:S");
  if (seconds < 60)
    throw UserError("--time", fmt::format("'{}' is less than a minute, in which Slurm counts", text),
                    "write minutes, H:M:S, D-H or D-H:M:S");
  return seconds;
}

std::vector<std::vector<std::string>> parse_array(const std::vector<std::string>& words) {
  std::vector<std::vector<std::string>> runs;
  if (words.empty()) return runs;
  runs.emplace_back();
  std::set<std::string> keys;
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (equals == std::string::npos || key.empty())
      throw UserError("--array", fmt::format("cannot read '{}'", word),
                      "write KEY=VALUE,VALUE,..., for example seed=1..5 or optimizer.lr=0.1,0.01");
    if (!keys.insert(key).second) throw UserError("--array", key + " is given twice", "give all of its values at once");
    const std::vector<std::string> values = values_of(key, word.substr(equals + 1));
    if (runs.size() * values.size() > kMostRuns)
      throw UserError("--array", fmt::format("{} runs and more", kMostRuns + 1),
                      fmt::format("submit at most {} at a time", kMostRuns));
    std::vector<std::vector<std::string>> combined;
    for (const auto& run : runs) {
      for (const std::string& value : values) {
        combined.push_back(run);
        combined.back().push_back(key + "=" + value);
      }
    }
    runs = std::move(combined);
  }
  return runs;
}

std::string parse_partition(const std::string& text) {
  if (text.empty() || is_plain(text)) return text;
  throw UserError("--partition", fmt::format("'{}' is no name of a partition", text), "isobit queue lists them");
}

void check(JobRequest& request, const Cluster& cluster) {
  const Partition& partition = find_partition(request.partition, cluster);
  request.partition = partition.name;
  const std::vector<const Node*> nodes = cluster.nodes_of(partition.name);
  const auto groups = request.groups();
  if (groups.size() > 1 && !request.array.empty())
    throw UserError("--array", "Slurm has no arrays of jobs with several types of GPU",
                    "submit one job for each run, or ask for one type");
  const auto wanted = request.nodes * static_cast<std::int64_t>(groups.size());
  auto most = static_cast<std::int64_t>(nodes.size());
  if (partition.most_nodes > 0) most = std::min(most, partition.most_nodes);
  if (wanted > most)
    throw UserError(
        "--nodes",
        fmt::format("{} nodes are asked for, a job in partition {} has at most {}", wanted, partition.name, most),
        "ask for fewer, or another partition (isobit queue)");
  for (const JobRequest::Group& group : groups) static_cast<void>(check_group(request, group, partition.name, nodes));
  if (partition.longest > 0 && request.seconds > partition.longest)
    throw UserError("--time",
                    fmt::format("{} is longer than jobs in partition {} may take: {}", format_time(request.seconds),
                                partition.name, format_time(partition.longest)),
                    "ask for less: the job is requeued at its time limit and resumes");
}

std::int64_t notice_before_limit(std::int64_t limit, const std::optional<StepTime>& step) {
  constexpr double kLongestStep = 30'000;  // Slurm's notice is at most 65,535 seconds
  const auto two_steps =
      static_cast<std::int64_t>(step ? std::ceil(2 * std::clamp(step->seconds, 0.0, kLongestStep)) : 0);
  const std::int64_t notice = std::max<std::int64_t>(120, two_steps);
  if (limit == 0) return notice;
  if (step && 3 * step->seconds > static_cast<double>(limit))
    throw UserError("--time",
                    fmt::format("{} is too short: a step took {:.1f} s in run {}, and a job stops between steps",
                                format_time(limit), step->seconds, step->run),
                    fmt::format("give at least {}",
                                format_time(static_cast<std::int64_t>(std::ceil(3 * step->seconds / 60) * 60))));
  return std::max(two_steps, std::min(notice, limit / 3));
}

}  // namespace isobit::slurm
