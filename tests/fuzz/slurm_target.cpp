// What Slurm's programs print: names of jobs, reasons and comments in it are other users'.
#include "fuzz/target.h"
#include "fuzz/targets.h"
#include "slurm/cluster.h"
#include "slurm/host_list.h"

namespace isobit::fuzz {

void run_slurm(std::string_view input) {
  accepts([&] { static_cast<void>(slurm::parse_jobs(input)); });
  accepts([&] { static_cast<void>(slurm::parse_partitions(input)); });
  static_cast<void>(slurm::parse_gpus(input));
  accepts([&] {
    for (const slurm::Node& node : slurm::parse_nodes(input)) {
      require(node.cpus.free >= 0 && node.cpus.free <= node.cpus.total, "no more is free than there is");
      for (const auto& [type, amount] : node.gpus)
        require(amount.free >= 0 && amount.free <= amount.total, "no more is free than there is");
    }
  });
  accepts([&] {
    for (const std::string& host : slurm::expand_hosts(input, "LIST"))
      require(!host.empty() && host.find_first_of("[]") == std::string::npos, "a name has no brackets");
  });
  std::int64_t seconds = 0, again = 0;
  if (slurm::parse_time(input, seconds)) {
    require(slurm::parse_time(slurm::format_time(seconds), again) && again == seconds,
            "a time is written as it is read");
  }
}

std::vector<std::string> slurm_seeds() {
  return {"n[1-3,07-09],gpu1,rack[0-1]node[01-02]-ib",
          "main|main*|up|7-00:00:00|1-infinite\nshort|short|down|10:00|1-2\n",
          "gpu:rtx2080:2(IDX:0,2),gpu:gtx970:0(IDX:N/A),shard:8",
          "1-02:03:04",
          R"json({"errors": [], "nodes": [{"name": "n1", "state": "mixed", "state_flags": ["DRAIN"], "cpus": 8,
            "alloc_cpus": 2, "real_memory": 2000, "alloc_memory": 400, "gres": "gpu:gtx970:2",
            "gres_used": "gpu:gtx970:1(IDX:0)", "partitions": ["main", "short"], "owner": null}]})json",
          R"json({"errors": [], "jobs": [{"job_id": 2, "array_job_id": {"set": true, "infinite": false, "number": 4},
            "array_task_id": null, "array_task_string": "1-5%2", "name": "job", "user_id": 0, "job_state": ["RUNNING"],
            "state_reason": "None", "nodes": "n[1-2]", "node_count": 2, "start_time": 1795400311, "time_limit": 10}]})json"};
}

}  // namespace isobit::fuzz
