// What a user asks Slurm for: read from the words of `isobit submit`, and checked against the cluster before anything
// is written or submitted, since Slurm's own answer ("Requested node configuration is not available") names nothing.
//
// Errors are UserError with the option, what the cluster has, and what to do. No state; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slurm/cluster.h"

namespace isobit::slurm {

struct GpuRequest {
  std::string type;  // "": any
  std::int64_t count = 0;
};

struct JobRequest {
  std::string name, partition;                  // partition "": the cluster's default one
  std::int64_t nodes = 1;                       // of each group
  std::int64_t workers = 0;                     // on each node; 0: one per GPU, else one
  std::vector<GpuRequest> gpus;                 // of each node; several types: a group of nodes for each
  std::int64_t seconds = 0;                     // time limit; 0: the partition's
  std::int64_t memory = 0;                      // MiB of each node; 0: Slurm's default
  std::int64_t cpus = 0;                        // of each worker; 0: Slurm's default
  std::vector<std::vector<std::string>> array;  // overrides of each run of an array; none: one run alone
  std::int64_t at_once = 0;                     // runs of the array; 0: as many as fit

  // Nodes alike: one group, or one for each type of GPU. `gpu` is nothing where none is asked for.
  struct Group {
    std::optional<GpuRequest> gpu;
    std::int64_t workers = 1;  // on each node
  };
  [[nodiscard]] std::vector<Group> groups() const;
  [[nodiscard]] std::int64_t all_workers() const;
};

// "gtx970:1,rtx2080:2", "2": GPUs of each node. No type twice, no count of 0.
[[nodiscard]] std::vector<GpuRequest> parse_gpu_request(const std::string& text);
// "4G", "1500M", "1500": MiB.
[[nodiscard]] std::int64_t parse_memory(const std::string& text);
// "90", "1:30:00", "2-00": seconds, at least a minute.
[[nodiscard]] std::int64_t parse_time_limit(const std::string& text);
// Of each run: all combinations of "KEY=V1,V2,...", where A..B is every whole number from A to B; the last key fastest.
// At most 1000 runs.
[[nodiscard]] std::vector<std::vector<std::string>> parse_array(const std::vector<std::string>& words);

// The same word, where it can be the name of a partition.
[[nodiscard]] std::string parse_partition(const std::string& text);

// UserError where the cluster can never run it; one that has to wait is fine. Fills in the partition.
void check(JobRequest& request, const Cluster& cluster);

// What a step of the experiment took in a record.
struct StepTime {
  double seconds = 0;
  std::string run;
};
// How long before the time limit Slurm tells the job to stop: two steps (one under way, and a checkpoint), two minutes
// at least where the limit leaves them. UserError where the limit has no room for a step.
[[nodiscard]] std::int64_t notice_before_limit(std::int64_t limit, const std::optional<StepTime>& step);

}  // namespace isobit::slurm
