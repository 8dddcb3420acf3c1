#include "slurm/job_script.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "archive/files.h"
#include "slurm/job_folder.h"
#include "slurm/refused.h"

namespace isobit::slurm {
namespace {

namespace fs = std::filesystem;

// What a command prints.
std::string shell(const std::string& script) {
  FILE* pipe = ::popen(script.c_str(), "r");
  std::string text;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  ::pclose(pipe);
  return text;
}

struct Scratch {
  Scratch() { fs::create_directories(path); }
  ~Scratch() { fs::remove_all(path); }
  fs::path path = fs::temp_directory_path() / ("isobit-slurm-" + std::to_string(::getpid()));
};

JobScript small_job() {
  JobScript job;
  job.request.name = "small";
  job.request.partition = "main";
  job.program = "/opt/isobit";
  job.working_folder = "/home/a user/it's";
  job.runs = "/home/runs";
  job.folder = "/home/runs/.jobs/small-0123";
  job.token = "0123";
  job.arguments = {"--set", "name=$(id) `id` \"'"};
  return job;
}

TEST(JobScript, QuotesForAShell) {
  for (const std::string word :
       {"", "plain", "a b", "$(id)", "`id`", "it's", "\"", "\\", "a\nb", "*", "~", "#", "-n", ";id"})
    EXPECT_EQ(shell("printf %s " + quoted(word)), word);
}

TEST(JobScript, IsAScript) {
  Scratch scratch;
  JobScript job = small_job();
  const auto sound = [&] {
    archive::write_file(scratch.path / "job.sh", write_script(job));
    return shell("bash -n " + (scratch.path / "job.sh").string() + " 2>&1; echo $?") == "0\n";
  };
  EXPECT_TRUE(sound());
  job.request.array = parse_array({"seed=1..3", "name='a b',$(id)"});
  job.request.gpus = parse_gpu_request("gtx970:2");
  job.container = {"/images/it's.sif", std::string(64, 'a'), "apptainer"};
  EXPECT_TRUE(sound());
}

TEST(JobScript, AsksForWhatWasAskedFor) {
  JobScript job = small_job();
  EXPECT_EQ(write_script(job).find("--key-file"), std::string::npos);  // one worker has nobody to meet
  job.request.gpus = parse_gpu_request("gtx970:1,rtx2080:2");
  job.request.cpus = 3;
  job.request.memory = 1500;
  job.request.seconds = 5400;
  const std::string script = write_script(job);
  EXPECT_NE(script.find(
                "#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-task=3\n#SBATCH --mem=1500M\n"
                "#SBATCH --gpus-per-node=gtx970:1\n#SBATCH --partition=main\n#SBATCH --time=01:30:00\n#SBATCH hetjob\n"
                "#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=2\n#SBATCH --cpus-per-task=3\n#SBATCH --mem=1500M\n"
                "#SBATCH --gpus-per-node=rtx2080:2\n"),
            std::string::npos)
      << script;
  EXPECT_NE(script.find("srun --export=ALL --kill-on-bad-exit=0 --het-group=0-1 --cpus-per-task=3 "),
            std::string::npos);
  EXPECT_NE(script.find("--key-file \"$key\""), std::string::npos);
}

TEST(JobScript, RefusesPathsThatSlurmWouldChange) {
  for (const char* runs : {"/runs/%u", "/runs/a\"b", "/runs/a\\b", "/runs/a\n#SBATCH --uid=0", "/runs/#"}) {
    JobScript job = small_job();
    job.folder = runs;
    EXPECT_NE(refused([&] { return write_script(job); }).find("--runs"), std::string::npos) << runs;
  }
}

// Runs the script with stand-ins for Slurm's programs. What they were called with is in `calls`.
class FakeSlurm {
 public:
  explicit FakeSlurm(const std::string& srun) {
    fs::create_directories(scratch_.path / "bin");
    program("srun", srun);
    program("scontrol",
            "echo scontrol \"$@\" >> ../calls; [ $1 != requeue ] || kill $PPID; "
            "echo 'NodeName=n1 NodeAddr=10.0.0.9 OS=Linux'");
    program("scancel", "echo scancel \"$@\" >> ../calls; kill -TERM $(cat ../worker)");
  }
  std::string run(JobScript job) {
    fs::create_directories(scratch_.path / "work");
    job.working_folder = (scratch_.path / "work").string();
    archive::write_file(scratch_.path / "job.sh", write_script(job));
    archive::write_file(scratch_.path / "calls", "");
    return shell(
        "cd " + scratch_.path.string() +
        " && PATH=$PWD/bin:$PATH SLURM_JOB_ID=12 SLURM_CLUSTER_NAME=c "
        "SLURMD_NODENAME=n1 SLURM_ARRAY_JOB_ID=11 SLURM_ARRAY_TASK_ID=1 ISOBIT_JOB_KEY=secret bash job.sh 2>/dev/null; "
        "echo code $?");
  }
  void program(const std::string& name, const std::string& body) {
    const fs::path file = scratch_.path / "bin" / name;
    archive::write_file(file, "#!/bin/bash\n" + body + "\n");
    fs::permissions(file, fs::perms::owner_all);
  }
  std::string calls() { return archive::read_file(scratch_.path / "calls"); }
  fs::path folder() { return scratch_.path; }

 private:
  Scratch scratch_;
};

TEST(JobScript, PassesTheRunsWordsAndNoKey) {
  FakeSlurm slurm("printf '<%s>' \"$@\"; echo; echo key=${ISOBIT_JOB_KEY-none}");
  JobScript job = small_job();
  job.request.array = parse_array({"seed=7,8"});
  job.request.workers = 2;
  const std::string printed = slurm.run(job);
  EXPECT_NE(printed.find("</opt/isobit><run></home/runs/.jobs/small-0123/experiment.toml><--runs></home/runs><--set>"
                         "<name=$(id) `id` \"'><--once><c/11_1/0123><--key-file></home/runs/.jobs/small-0123/key-1>"
                         "<--set><seed=8>"),
            std::string::npos)
      << printed;
  EXPECT_NE(printed.find("key=none\n"), std::string::npos) << printed;
  EXPECT_NE(printed.find("code 0"), std::string::npos);
}

// The worker that stops when it is told to, with the exit code of an interrupted run.
constexpr const char* kStops =
    "echo $BASHPID > ../worker; trap 'exit 130' TERM; [ -z \"$SIGNAL\" ] || kill -$SIGNAL $PPID; "
    "for i in {1..100}; do sleep 0.1; done; exit 0";

TEST(JobScript, RequeuesAtTheTimeLimit) {
  ::setenv("SIGNAL", "USR1", 1);
  FakeSlurm slurm(kStops);
  const std::string printed = slurm.run(small_job());
  ::unsetenv("SIGNAL");
  EXPECT_EQ(slurm.calls(), "scancel --signal=TERM 12\nscontrol requeue 12\n") << printed;
}

TEST(JobScript, RequeuesNothingElse) {
  // Ended from outside (scancel), by bad input, and well: no requeue, and the code stays.
  for (const char* code : {"130", "143", "2", "1", "0"}) {
    FakeSlurm slurm(std::string("exit ") + code);
    EXPECT_EQ(slurm.run(small_job()), std::string("code ") + code + "\n");
    EXPECT_EQ(slurm.calls(), "");
  }
}

// srun tells of a worker that died; what counts is the run.
TEST(JobScript, EndsWellWhereOthersHaveFinishedTheRun) {
  for (const bool finished : {true, false}) {
    FakeSlurm slurm("exit 137");
    slurm.program("isobit", std::string("echo \"${@: -3}\" >> ../calls; exit ") + (finished ? "0" : "1"));
    JobScript job = small_job();
    job.request.workers = 2;
    job.program = (slurm.folder() / "bin" / "isobit").string();
    EXPECT_EQ(slurm.run(job), finished ? "code 0\n" : "code 137\n");
    EXPECT_EQ(slurm.calls(), "--once c/12/0123 --finished\n");
  }
}

TEST(JobScript, RefusesAnotherImage) {
  FakeSlurm slurm("printf '<%s>' \"$@\"; echo; echo \"$ISOBIT_CONTAINER\"");
  JobScript job = small_job();
  const fs::path image = slurm.folder() / "tools.sif";
  archive::write_file(image, "image\n");
  job.container = {image.string(), "6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d", "apptainer"};
  job.program = "isobit";
  const std::string other = slurm.run(job);
  EXPECT_EQ(other, "code 2\n");
  job.container.sha256 = shell("sha256sum " + image.string()).substr(0, 64);
  const std::string printed = slurm.run(job);
  EXPECT_NE(printed.find("<apptainer><exec><--bind></home/runs>"), std::string::npos) << printed;
  EXPECT_NE(printed.find("tools.sif sha256:" + job.container.sha256), std::string::npos) << printed;
}

TEST(JobFolder, IsTheUsersAlone) {
  Scratch scratch;
  ::umask(0);
  JobFolder folder(scratch.path / ".jobs" / "job");
  folder.write_keys(2);
  ::umask(022);
  struct stat status {};
  ASSERT_EQ(::stat(folder.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700);
  for (const char* file : {"key-0", "key-1"}) {
    ASSERT_EQ(::stat((folder.path() / file).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600);
    EXPECT_EQ(archive::read_file(folder.path() / file).size(), 65);
  }
  EXPECT_NE(archive::read_file(folder.path() / "key-0"), archive::read_file(folder.path() / "key-1"));
}

TEST(JobFolder, LeavesNothingWhereSomethingFails) {
  Scratch scratch;
  for (const bool kept : {false, true}) {
    {
      JobFolder folder(scratch.path / "job");
      folder.write("job.sh", "script");
      if (kept) folder.keep();
    }
    EXPECT_EQ(fs::exists(scratch.path / "job"), kept);
  }
  // Another job's folder is never taken over, nor removed.
  EXPECT_NE(refused([&] { return JobFolder(scratch.path / "job"), 0; }), "");
  EXPECT_TRUE(fs::exists(scratch.path / "job" / "job.sh"));
  // A full disk.
  archive::inject_write_fault(ENOSPC, 10);
  EXPECT_NE(refused([&] {
              JobFolder folder(scratch.path / "full");
              folder.write_keys(0);
              return 0;
            }).find("no space left"),
            std::string::npos);
  archive::inject_write_fault(0, 0);
  EXPECT_FALSE(fs::exists(scratch.path / "full"));
}

}  // namespace
}  // namespace isobit::slurm
