#include "slurm/allocation.h"

#include <gtest/gtest.h>

#include <map>

#include "slurm/refused.h"

namespace isobit::slurm {
namespace {

using Values = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

std::optional<Allocation> read(const Values& values) {
  return allocation([&](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  });
}

// Task 3 of `srun` in a job of two nodes with two tasks each, as Slurm 22.05 has it.
const Values kTask = {
    {"SLURM_JOB_ID", "2"},           {"SLURM_CLUSTER_NAME", "local"}, {"SLURM_STEP_ID", "0"},
    {"SLURM_PROCID", "3"},           {"SLURM_LOCALID", "1"},          {"SLURM_NODEID", "1"},
    {"SLURM_GTIDS", "2,3"},          {"SLURM_NTASKS", "4"},           {"SLURM_STEP_NUM_TASKS", "4"},
    {"SLURMD_NODENAME", "n2"},       {"SLURM_NODELIST", "n[1-2]"},    {"SLURM_STEP_NODELIST", "n[1-2]"},
    {"SLURM_CPUS_ON_NODE", "5"},     {"SLURM_MEM_PER_NODE", "400"},   {"CUDA_VISIBLE_DEVICES", "0,1,2"},
    {"SLURM_JOB_NODELIST", "n[1-2]"}};

Values with(Values values, const std::string& name, const std::string& value) {
  values[name] = value;
  return values;
}

TEST(Allocation, IsNothingOutsideOfAJob) {
  EXPECT_FALSE(read({}));
  EXPECT_FALSE(read({{"SLURM_CONF", "/etc/slurm.conf"}, {"SLURM_JOB_ID", ""}}));
}

TEST(Allocation, ReadsATask) {
  const auto task = read(kTask);
  ASSERT_TRUE(task);
  EXPECT_EQ(task->job, "2");
  EXPECT_EQ(task->restarts, 0);
  EXPECT_TRUE(task->in_step);
  EXPECT_EQ(task->task, 3);
  EXPECT_EQ(task->tasks, 4);
  EXPECT_EQ(task->local_task, 1);
  EXPECT_EQ(task->local_tasks, 2);
  EXPECT_EQ(task->nodes, Words({"n1", "n2"}));
  EXPECT_EQ(task->node, "n2");
  EXPECT_EQ(task->first_node, "n1");
  EXPECT_EQ(task->host, "n1");
  EXPECT_EQ(run_name_of(*task), "local/2");
}

TEST(Allocation, SharesANodeAmongItsTasks) {
  const auto task = read(kTask), first = read(with(with(kTask, "SLURM_PROCID", "2"), "SLURM_LOCALID", "0"));
  EXPECT_EQ(first->cpus, 3);  // of five
  EXPECT_EQ(task->cpus, 2);
  EXPECT_EQ(task->memory, std::int64_t{200} << 20);
  EXPECT_EQ(first->gpus, Words({"0", "2"}));
  EXPECT_EQ(task->gpus, Words({"1"}));
  // Fewer GPUs than tasks: shared.
  EXPECT_EQ(read(with(kTask, "CUDA_VISIBLE_DEVICES", "GPU-4f2a"))->gpus, Words({"GPU-4f2a"}));
  EXPECT_EQ(read(with(kTask, "CUDA_VISIBLE_DEVICES", "NoDevFiles"))->gpus, Words());
  // Never less than one CPU.
  EXPECT_EQ(read(with(kTask, "SLURM_CPUS_ON_NODE", "1"))->cpus, 1);
}

TEST(Allocation, TakesWhatSlurmGivesEachTask) {
  EXPECT_EQ(read(with(kTask, "SLURM_CPUS_PER_TASK", "7"))->cpus, 7);
  EXPECT_EQ(read(with(with(kTask, "SLURM_CPUS_PER_TASK", "2"), "SLURM_MEM_PER_CPU", "100"))->memory,
            std::int64_t{200} << 20);
  EXPECT_EQ(read(with(kTask, "SLURM_GPUS_PER_TASK", "3"))->gpus, Words({"0", "1", "2"}));
  EXPECT_EQ(read(with(kTask, "ISOBIT_JOB_HOST", "10.0.0.7"))->host, "10.0.0.7");
}

TEST(Allocation, KnowsArraysAndRestarts) {
  Values values = with(with(kTask, "SLURM_ARRAY_JOB_ID", "40"), "SLURM_ARRAY_TASK_ID", "6");
  values["SLURM_RESTART_COUNT"] = "2";
  EXPECT_EQ(read(values)->job, "40_6");
  EXPECT_EQ(read(values)->restarts, 2);
}

TEST(Allocation, PutsAHeterogeneousJobInTheOrderOfItsTasks) {
  // Slurm sorts SLURM_STEP_NODELIST, though the first group runs on n3.
  Values values = with(kTask, "SLURM_HET_SIZE", "2");
  values["SLURM_STEP_NODELIST"] = values["SLURM_NODELIST"] = "n[1-3]";
  values["SLURM_JOB_NODELIST_HET_GROUP_0"] = "n3";
  values["SLURM_JOB_NODELIST_HET_GROUP_1"] = "n[1-2]";
  values["SLURM_PROCID"] = "3";
  values["SLURM_GTIDS"] = "3";
  values["SLURM_LOCALID"] = "0";
  values["SLURM_NODEID"] = "2";
  const auto task = read(values);
  EXPECT_EQ(task->nodes, Words({"n3", "n1", "n2"}));
  EXPECT_EQ(task->first_node, "n3");
  // A step of the second group alone.
  values["SLURM_STEP_NODELIST"] = "n[1-2]";
  values["SLURM_NODEID"] = "1";
  EXPECT_EQ(read(values)->nodes, Words({"n1", "n2"}));
  values["SLURM_STEP_NODELIST"] = "n[1-2,9]";
  EXPECT_NE(refused([&] { return read(values); }).find("SLURM_STEP_NODELIST"), std::string::npos);
}

TEST(Allocation, IsAloneOutsideOfAStep) {
  const auto shell = read({{"SLURM_JOB_ID", "2"},
                           {"SLURM_JOB_NODELIST", "n[1-3]"},
                           {"SLURMD_NODENAME", "n2"},
                           {"SLURM_PROCID", "0"},
                           {"SLURM_NTASKS", "6"},
                           {"SLURM_CPUS_ON_NODE", "8"},
                           {"SLURM_CPUS_PER_TASK", "2"},
                           {"CUDA_VISIBLE_DEVICES", "0,1"}});
  EXPECT_FALSE(shell->in_step);
  EXPECT_EQ(shell->tasks, 1);
  EXPECT_EQ(shell->cpus, 8);
  EXPECT_EQ(shell->gpus, Words({"0", "1"}));
  EXPECT_EQ(shell->nodes, Words({"n2", "n1", "n3"}));
  // salloc's shell stands on the login node.
  const auto login = read({{"SLURM_JOB_ID", "2"}, {"SLURM_JOB_NODELIST", "n[1-2]"}});
  EXPECT_EQ(login->node, "n1");
  EXPECT_EQ(login->cpus, 1);
}

TEST(Allocation, RefusesContradictions) {
  const auto message = [](const Values& values) { return refused([&] { return read(values); }); };
  for (const char* name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURMD_NODENAME"}) {
    Values values = kTask;
    values.erase(name);
    EXPECT_NE(message(values).find(std::string(name) + ": is not set"), std::string::npos) << message(values);
    values[name] = "-1";
    EXPECT_NE(message(values), "") << name;
  }
  EXPECT_NE(message(with(kTask, "SLURM_STEP_NUM_TASKS", "3")).find("is 3 of 3 tasks"), std::string::npos);
  EXPECT_NE(message(with(kTask, "SLURM_GTIDS", "2,4")).find("no task 3"), std::string::npos);
  EXPECT_NE(message(with(kTask, "SLURM_NODEID", "0")).find("SLURM_NODEID"), std::string::npos);
  EXPECT_NE(message(with(kTask, "SLURM_NODEID", "7")).find("SLURM_NODEID"), std::string::npos);
  EXPECT_NE(message(with(kTask, "SLURM_STEP_NODELIST", "n[2-1]")).find("SLURM_STEP_NODELIST"), std::string::npos);
  EXPECT_NE(message(with(kTask, "SLURM_RESTART_COUNT", "x")).find("SLURM_RESTART_COUNT"), std::string::npos);
  EXPECT_NE(message(with(kTask, "SLURM_CPUS_ON_NODE", "many")).find("SLURM_CPUS_ON_NODE"), std::string::npos);
}

}  // namespace
}  // namespace isobit::slurm
