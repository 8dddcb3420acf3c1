#include "slurm/cluster.h"

#include <gtest/gtest.h>

#include "slurm/refused.h"

namespace isobit::slurm {
namespace {

TEST(Gpus, AreCountedByType) {
  using Counts = std::map<std::string, std::int64_t>;
  EXPECT_EQ(parse_gpus(""), Counts());
  EXPECT_EQ(parse_gpus("(null)"), Counts());
  EXPECT_EQ(parse_gpus("gpu:gtx970:1,shard:gtx970:4"), Counts({{"gtx970", 1}}));
  EXPECT_EQ(parse_gpus("gpu:rtx2080:2(IDX:0,2),gpu:gtx970:0(IDX:N/A)"), Counts({{"gtx970", 0}, {"rtx2080", 2}}));
  EXPECT_EQ(parse_gpus("gpu:a100:4(S:0-1),gpu:a100:4(S:2-3)"), Counts({{"a100", 8}}));
  EXPECT_EQ(parse_gpus("gpu:4"), Counts({{"gpu", 4}}));
  EXPECT_EQ(parse_gpus("gpu"), Counts({{"gpu", 1}}));
  EXPECT_EQ(parse_gpus("gpu:a100"), Counts({{"a100", 1}}));
}

TEST(Nodes, OfSlurm2205) {
  const auto nodes = parse_nodes(R"json({"meta": {}, "errors": [], "nodes": [
    {"name": "n1", "state": "mixed", "state_flags": [], "cpus": 8, "alloc_cpus": 2, "real_memory": 2000, "alloc_memory": 400,
     "gres": "gpu:gtx970:2", "gres_used": "gpu:gtx970:1(IDX:0)", "partitions": ["main", "short"], "owner": null},
    {"name": "n2", "state": "idle", "state_flags": ["DRAIN"], "cpus": 8, "gres": "gpu:gtx970:2", "partitions": ["main"]},
    {"name": "n3", "state": "down", "state_flags": ["NOT_RESPONDING"], "cpus": 8, "partitions": []}]
})json");
  ASSERT_EQ(nodes.size(), 3);
  EXPECT_EQ(nodes[0].state, "mixed");
  EXPECT_EQ(nodes[0].cpus.free, 6);
  EXPECT_EQ(nodes[0].memory.free, 1600);
  EXPECT_EQ(nodes[0].gpus.at("gtx970").free, 1);
  EXPECT_EQ(nodes[0].gpus.at("gtx970").total, 2);
  EXPECT_EQ(nodes[1].state, "idle+drain");
  EXPECT_FALSE(nodes[1].usable);
  EXPECT_EQ(nodes[1].gpus.at("gtx970").free, 0);
  EXPECT_EQ(nodes[1].gpus.at("gtx970").total, 2);
  EXPECT_EQ(nodes[2].state, "down+not_responding");
  EXPECT_EQ(nodes[2].cpus.free, 0);
}

TEST(Nodes, OfLaterVersions) {
  const auto nodes = parse_nodes(R"json({"errors": [], "nodes": [{"name": "n1", "state": ["IDLE", "DRAIN"], "cpus": 8},
    {"name": "n2", "state": ["ALLOCATED"], "cpus": 8, "alloc_cpus": 8, "future": {"set": true}}]})json");
  EXPECT_FALSE(nodes[0].usable);
  EXPECT_EQ(nodes[0].state, "idle+drain");
  EXPECT_TRUE(nodes[1].usable);
}

TEST(Nodes, OfAnUnknownStateAreNotFree) {
  EXPECT_FALSE(parse_nodes(R"json({"nodes": [{"name": "n1", "state": "melting", "cpus": 8}]})json")[0].usable);
  EXPECT_FALSE(parse_nodes(R"json({"nodes": [{"name": "n1", "cpus": 8}]})json")[0].usable);
  // More in use than there is.
  EXPECT_EQ(
      parse_nodes(R"json({"nodes": [{"name": "n1", "state": "idle", "cpus": 8, "alloc_cpus": 9}]})json")[0].cpus.free,
      0);
}

TEST(Jobs, OfSlurm2205) {
  const auto jobs = parse_jobs(R"json({"errors": [], "jobs": [
    {"job_id": 2, "array_job_id": 0, "array_task_id": null, "array_task_string": "", "name": "we ird\"jo|b", "user_id": 0,
     "user_name": "root", "job_state": "RUNNING", "state_reason": "None", "nodes": "n[1-2]", "node_count": 2,
     "start_time": 1795400311, "time_limit": 10, "restart_cnt": 3, "partition": "main", "het_job_id": 0},
    {"job_id": 1, "array_job_id": 1, "array_task_id": null, "array_task_string": "1-5%2", "job_state": "PENDING",
     "state_reason": "JobHeldUser", "start_time": 1795400999, "time_limit": null},
    {"job_id": 7, "array_job_id": 1, "array_task_id": 3, "job_state": "RUNNING"},
    {"job_id": 10, "het_job_id": 9, "het_job_offset": 1, "job_state": "RUNNING"}]})json");
  ASSERT_EQ(jobs.size(), 4);
  EXPECT_EQ(jobs[0].id, "2");
  EXPECT_EQ(jobs[0].name, "we ird\"jo|b");
  EXPECT_EQ(jobs[0].state, "running");
  EXPECT_EQ(jobs[0].reason, "");
  EXPECT_EQ(jobs[0].time_limit, 600);
  EXPECT_EQ(jobs[0].restarts, 3);
  EXPECT_EQ(jobs[1].id, "1_[1-5%2]");
  EXPECT_EQ(jobs[1].start, 0);  // only planned
  EXPECT_EQ(jobs[1].time_limit, 0);
  EXPECT_EQ(jobs[2].id, "1_3");
  EXPECT_EQ(jobs[3].id, "9+1");
}

TEST(Jobs, OfLaterVersions) {
  const auto jobs = parse_jobs(R"json({"errors": [], "warnings": [], "jobs": [
    {"job_id": 2, "job_state": ["RUNNING"], "array_job_id": {"set": true, "infinite": false, "number": 4},
     "array_task_id": {"set": true, "infinite": false, "number": 3}, "time_limit": {"set": false, "infinite": true, "number": 0},
     "start_time": {"set": true, "infinite": false, "number": 1795400311}}]})json");
  EXPECT_EQ(jobs[0].id, "4_3");
  EXPECT_EQ(jobs[0].start, 1795400311);
  EXPECT_EQ(jobs[0].time_limit, 0);
}

TEST(Answers, ThatAreSomethingElseAreRefused) {
  const auto message = [](const std::string& text) { return refused([&] { return parse_jobs(text); }); };
  for (const char* text :
       {"", "[]", "{", "null", "slurm_load_jobs error", R"json({"nodes": []})json", R"json({"jobs": {}})json",
        R"json({"jobs": [1]})json", R"json({"jobs": [{"job_id": "2"}]})json", R"json({"jobs": [{"job_id": -2}]})json",
        R"json({"jobs": [{"job_id": 1.5}]})json", R"json({"jobs": [{"job_id": true}]})json",
        R"json({"jobs": [{"job_id": 18446744073709551615}]})json", R"json({"jobs": [{"job_state": 3}]})json",
        R"json({"jobs": [{"name": ["x"]}]})json"})
    EXPECT_NE(message(text).find("squeue"), std::string::npos) << text << ": " << message(text);
  EXPECT_NE(message(R"json({"jobs": [{}, {"node_count": "x"}]})json").find("squeue: jobs[1].node_count"),
            std::string::npos);
  EXPECT_NE(message(R"json({"errors": [{"error": "no controller"}], "jobs": []})json").find("no controller"),
            std::string::npos);
  EXPECT_NE(message("{\"jobs\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}"), "");
}

TEST(Partitions, AreReadOnceEach) {
  const auto partitions = parse_partitions(
      "main|main*|up|7-00:00:00|1-infinite\nmain|main*|up|7-00:00:00|1-infinite\n"
      "short|short|down|10:00|1-2\nfree|free|up|infinite|1\n");
  ASSERT_EQ(partitions.size(), 3);
  EXPECT_TRUE(partitions[0].is_default);
  EXPECT_EQ(partitions[0].longest, 7 * 86'400);
  EXPECT_EQ(partitions[0].most_nodes, 0);
  EXPECT_FALSE(partitions[1].is_up);
  EXPECT_EQ(partitions[1].longest, 600);
  EXPECT_EQ(partitions[1].most_nodes, 2);
  EXPECT_EQ(partitions[2].longest, 0);
  EXPECT_EQ(partitions[2].most_nodes, 1);
  EXPECT_NE(refused([] { return parse_partitions("main|up"); }), "");
}

TEST(Times, AreSlurms) {
  const std::pair<const char*, std::int64_t> kTimes[] = {{"90", 5400},      {"1:30", 90},           {"1:02:03", 3723},
                                                         {"2-0", 172'800},  {"1-2:3", 93'780},      {"1-2:3:4", 93'784},
                                                         {"00:10:00", 600}, {"7-00:00:00", 604'800}};
  for (const auto& [text, expected] : kTimes) {
    std::int64_t seconds = 0;
    EXPECT_TRUE(parse_time(text, seconds)) << text;
    EXPECT_EQ(seconds, expected) << text;
    std::int64_t again = 0;
    EXPECT_TRUE(parse_time(format_time(seconds), again));
    EXPECT_EQ(again, seconds) << format_time(seconds);
  }
  std::int64_t seconds = 0;
  for (const char* text :
       {"", "x", "-1", "1-", "1:2:3:4", "1:", ":1", "infinite", "1 0", "1-2-3", "4611686018427387904"})
    EXPECT_FALSE(parse_time(text, seconds)) << text;
}

TEST(Addresses, ComeFromSlurm) {
  const auto call = [](const std::vector<std::string>& words) {
    EXPECT_EQ(words.back(), "n1");
    return std::string(
        "NodeName=n1 Gres=gpu:1 NodeAddr=10.77.0.11 NodeHostName=n1 OS=Linux NodeAddr=6.6.6.6 Comment=x\n");
  };
  EXPECT_EQ(address_of("n1", call), "10.77.0.11");
  // Nothing that somebody wrote into a comment.
  EXPECT_NE(refused([] {
              return address_of("n1", [](const auto&) { return "NodeName=n1 OS=Linux Comment= NodeAddr=6.6.6.6\n"; });
            }),
            "");
}

}  // namespace
}  // namespace isobit::slurm
