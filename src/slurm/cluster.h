// What a Slurm cluster has, what of it is free, and its jobs, as Slurm's own programs tell.
//
// Understands Slurm 22.05 and the later forms of the same values; a value that is missing counts as nothing, one of
// another kind is a UserError that names the program and the value. Text of other users (names of jobs, reasons) is
// returned as it is: whoever prints it escapes it. Memory is in MiB, as Slurm counts; times are in seconds. No state;
// thread-safe as far as the caller is.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::slurm {

// Calls one of Slurm's programs and gives what it prints. UserError where there is none, or it fails.
using Caller = std::function<std::string(const std::vector<std::string>& words)>;

struct Amount {
  std::int64_t total = 0, free = 0;
};

struct Node {
  std::string name, state;  // "idle", "mixed", "down+not_responding"
  bool usable = false;      // takes jobs: neither down nor drained nor reserved; nothing of another one is free
  std::vector<std::string> partitions;
  Amount cpus, memory;
  std::map<std::string, Amount> gpus;  // by type; "gpu" where Slurm knows none
};

struct Partition {
  std::string name;
  bool is_default = false, is_up = false;
  std::int64_t longest = 0;     // a job's time limit; 0: none
  std::int64_t most_nodes = 0;  // of one job; 0: all
};

struct Cluster {
  std::vector<Partition> partitions;
  std::vector<Node> nodes;

  [[nodiscard]] std::vector<const Node*> nodes_of(const std::string& partition) const;
};

struct Job {
  std::string id;  // "12", "12_3", "12_[0-9%2]", "12+1"
  std::string name, user, partition, state, reason, nodes;
  std::int64_t user_id = 0, node_count = 0, restarts = 0;
  std::int64_t start = 0;       // UTC, seconds since 1970; 0: not yet
  std::int64_t time_limit = 0;  // 0: none
};

[[nodiscard]] Cluster read_cluster(const Caller& call);
[[nodiscard]] std::vector<Job> read_jobs(const Caller& call);

// The network address that Slurm itself uses for a node.
[[nodiscard]] std::string address_of(const std::string& node, const Caller& call);

// From what the programs print; read_cluster and read_jobs call them.
[[nodiscard]] std::vector<Node> parse_nodes(std::string_view sinfo_json);
[[nodiscard]] std::vector<Partition> parse_partitions(std::string_view sinfo_lines);
[[nodiscard]] std::vector<Job> parse_jobs(std::string_view squeue_json);
// "gpu:gtx970:2(IDX:0-1),shard:8": how many of each type of GPU.
[[nodiscard]] std::map<std::string, std::int64_t> parse_gpus(std::string_view resources);

// A time as Slurm writes and takes it: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S; in seconds. False for other texts.
[[nodiscard]] bool parse_time(std::string_view text, std::int64_t& seconds);
// "1-02:03:04", "00:10:00"
[[nodiscard]] std::string format_time(std::int64_t seconds);

}  // namespace isobit::slurm
