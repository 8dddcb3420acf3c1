#include "slurm/job_request.h"

#include <gtest/gtest.h>

#include "slurm/refused.h"

namespace isobit::slurm {
namespace {

using Runs = std::vector<std::vector<std::string>>;

// Four nodes as scripts/slurm-local has them, and one that only the partition "fat" has.
Cluster farm() {
  Cluster cluster;
  cluster.partitions = {
      {"main", true, true, 7 * 86'400, 0}, {"short", false, true, 600, 2}, {"fat", false, true, 0, 0}};
  const std::pair<const char*, std::int64_t> kGpus[] = {{"gtx970", 1}, {"gtx970", 2}, {"rtx2080", 2}, {"rtx2080", 4}};
  int number = 0;
  for (const auto& [type, count] : kGpus) {
    Node node{"n" + std::to_string(++number), "idle", true, {"main", "short"}, {8, 8}, {2000, 2000}, {}};
    node.gpus[type] = {count, count};
    cluster.nodes.push_back(node);
  }
  cluster.nodes.push_back({"f1", "idle", true, {"fat"}, {64, 0}, {512'000, 0}, {}});
  return cluster;
}

std::string refusal(JobRequest request) {
  return refused([&] {
    check(request, farm());
    return 0;
  });
}

TEST(JobRequest, TakesTheDefaultPartition) {
  JobRequest request;
  check(request, farm());
  EXPECT_EQ(request.partition, "main");
  EXPECT_EQ(request.all_workers(), 1);
  Cluster none = farm();
  none.partitions[0].is_default = false;
  JobRequest other;
  EXPECT_NE(refused([&] { return check(other, none), 0; }).find("main, short, fat"), std::string::npos);
}

TEST(JobRequest, HasAWorkerForEachGpu) {
  JobRequest request;
  request.gpus = parse_gpu_request("gtx970:1,rtx2080:2");
  EXPECT_EQ(request.groups().size(), 2);
  EXPECT_EQ(request.all_workers(), 3);
  request.nodes = 2;
  EXPECT_EQ(request.all_workers(), 6);
  request.workers = 1;
  EXPECT_EQ(request.all_workers(), 4);
  check(request, farm());
}

TEST(JobRequest, NamesThePartitionThatWasMeant) {
  JobRequest request;
  request.partition = "shrot";
  EXPECT_EQ(refusal(request),
            "--partition: the cluster has no partition 'shrot' (did you mean 'short'? It has: main, short, fat)");
}

TEST(JobRequest, NamesTheGpusThatThereAre) {
  JobRequest request;
  request.gpus = parse_gpu_request("h100:1");
  EXPECT_EQ(refusal(request), "--gpus: partition main has no GPU of type 'h100' (it has: 3 gtx970, 6 rtx2080)");
  request.gpus = parse_gpu_request("gtx970:3");
  EXPECT_NE(refusal(request).find("no node that is asked for has 3 gtx970; the most is 2"), std::string::npos);
  request.gpus = parse_gpu_request("rtx2080:2");
  request.nodes = 3;
  EXPECT_NE(refusal(request).find("3 nodes with 2 rtx2080 are asked for, there are 2"), std::string::npos);
  request.partition = "fat";
  request.nodes = 1;
  EXPECT_NE(refusal(request).find("it has: no GPUs"), std::string::npos);
}

TEST(JobRequest, KnowsTheLimitsOfAPartition) {
  JobRequest request;
  request.nodes = 5;
  EXPECT_NE(refusal(request).find("5 nodes are asked for, a job in partition main has at most 4"), std::string::npos);
  request.partition = "short";
  request.nodes = 3;
  EXPECT_NE(refusal(request).find("partition short has at most 2"), std::string::npos);
  request.nodes = 1;
  request.seconds = 601;
  EXPECT_NE(refusal(request).find("--time: 00:10:01 is longer than jobs in partition short may take: 00:10:00"),
            std::string::npos);
  request = {};
  request.memory = 2001;
  EXPECT_NE(refusal(request).find("--mem: no node that is asked for has 2001 MiB of memory; the most is 2000"),
            std::string::npos);
  request = {};
  request.cpus = 3;
  request.workers = 3;
  EXPECT_NE(refusal(request).find("--cpus: no node that is asked for has 9 CPUs; the most is 8"), std::string::npos);
  // What is busy now is no reason: the job waits.
  request.partition = "fat";
  EXPECT_EQ(refusal(request), "");
}

TEST(JobRequest, HasNoArraysOverSeveralTypes) {
  JobRequest request;
  request.gpus = parse_gpu_request("gtx970:1,rtx2080:2");
  request.array = parse_array({"seed=1,2"});
  EXPECT_NE(refusal(request).find("--array"), std::string::npos);
}

TEST(JobRequest, ReadsItsWords) {
  EXPECT_EQ(parse_memory("1500"), 1500);
  EXPECT_EQ(parse_memory("1500M"), 1500);
  EXPECT_EQ(parse_memory("4G"), 4096);
  EXPECT_EQ(parse_memory("1T"), 1 << 20);
  for (const char* text : {"", "G", "0", "-1", "4K", "4.5G", "4 G", "99999999999999999999", "1099511627777"})
    EXPECT_NE(refused([&] { return parse_memory(text); }).find("--mem"), std::string::npos) << text;
  EXPECT_EQ(parse_gpu_request("2").front().type, "");
  for (const char* text : {"", "0", "gtx970:", "gtx970:0", ":2", "a:1,a:2", "1,a:2", "a b:1", "a:1,,b:1", "-x:1",
                           "a:1:2", "a\n#SBATCH --uid=0:1", "$(id):1"})
    EXPECT_NE(refused([&] { return parse_gpu_request(text); }).find("--gpus"), std::string::npos) << text;
  EXPECT_EQ(parse_partition(""), "");
  EXPECT_EQ(parse_partition("gpu-1.a_B"), "gpu-1.a_B");
  for (const char* text : {"-x", "a b", "a,b", "a\n#SBATCH --uid=0", "$(id)"})
    EXPECT_NE(refused([&] { return parse_partition(text); }).find("--partition"), std::string::npos) << text;
  EXPECT_EQ(parse_time_limit("90"), 5400);
  for (const char* text : {"0", "0:59", "soon", "-5"})
    EXPECT_NE(refused([&] { return parse_time_limit(text); }).find("--time"), std::string::npos) << text;
}

TEST(JobRequest, MakesARunOfEachCombination) {
  EXPECT_EQ(parse_array({}), Runs());
  EXPECT_EQ(parse_array({"seed=1..3"}), Runs({{"seed=1"}, {"seed=2"}, {"seed=3"}}));
  EXPECT_EQ(parse_array({"seed=-1..0,7", "optimizer.lr=0.1,1e-3"}), Runs({{"seed=-1", "optimizer.lr=0.1"},
                                                                          {"seed=-1", "optimizer.lr=1e-3"},
                                                                          {"seed=0", "optimizer.lr=0.1"},
                                                                          {"seed=0", "optimizer.lr=1e-3"},
                                                                          {"seed=7", "optimizer.lr=0.1"},
                                                                          {"seed=7", "optimizer.lr=1e-3"}}));
  // A list is one value.
  EXPECT_EQ(parse_array({"model.hidden=[8,4],[16]"}), Runs({{"model.hidden=[8,4]"}, {"model.hidden=[16]"}}));
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"seed"},
                                             {"=1"},
                                             {"seed="},
                                             {"seed=1,"},
                                             {"seed=3..1"},
                                             {"seed=1..1001"},
                                             {"a=1", "a=2"},
                                             {"a=1..100", "b=1..100"},
                                             {"seed=-4611686018427387904..4611686018427387904"}})
    EXPECT_NE(refused([&] { return parse_array(words); }).find("--array"), std::string::npos) << words.front();
}

TEST(JobRequest, LeavesRoomForAStepBeforeTheLimit) {
  EXPECT_EQ(notice_before_limit(0, std::nullopt), 120);
  EXPECT_EQ(notice_before_limit(3600, std::nullopt), 120);
  EXPECT_EQ(notice_before_limit(60, std::nullopt), 20);
  EXPECT_EQ(notice_before_limit(3600, StepTime{75.5, "run"}), 151);
  EXPECT_EQ(notice_before_limit(240, StepTime{75.5, "run"}), 151);
  EXPECT_EQ(refused([] {
              return notice_before_limit(180, StepTime{75.5, "r1"});
            }),
            "--time: 00:03:00 is too short: a step took 75.5 s in run r1, and a job stops between steps (give at least "
            "00:04:00)");
}

}  // namespace
}  // namespace isobit::slurm
