// Locks that cannot be judged, restarts of a scheduler's job, and writers that were stopped and taken over.
#include "archive/run_lock.h"

#include <sys/stat.h>

#include <optional>

#include "archive/lock_owner.h"
#include "archive/log_lines.h"
#include "archive/run_folder.h"
#include "processes.h"
#include "small_run.h"

namespace isobit::archive {
namespace {

std::string try_lock(const fs::path& runs) {
  return error_of([&] { static_cast<void>(RunLock::acquire(runs, "run")); });
}

// As a scheduler starts a job for the n-th time.
void be_restart(const char* count, const char* job = "4711") {
  ::setenv("SLURM_CLUSTER_NAME", "cluster", 1);
  ::setenv("SLURM_JOB_ID", job, 1);
  if (*count == '\0') {
    ::unsetenv("SLURM_RESTART_COUNT");
  } else {
    ::setenv("SLURM_RESTART_COUNT", count, 1);
  }
}
void be_no_job() {
  for (const char* name :
       {"SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"})
    ::unsetenv(name);
}

class NoJob : public testing::Test {
 protected:
  void SetUp() override { be_no_job(); }
  void TearDown() override {
    be_no_job();
    inject_fault(nullptr);
  }
};
using LockOwners = NoJob;
using Restarts = NoJob;
using TakenOver = NoJob;

TEST_F(LockOwners, OnlyWhatIsCertainIsGone) {
  const LockOwner self = this_process();
  ASSERT_FALSE(self.boot.empty());
  ASSERT_FALSE(self.started.empty());
  const Scratch scratch;  // in memory: no file system that outlives a boot
  const auto life = [&](const auto& change, const fs::path& folder = "/dev/shm") {
    LockOwner owner = self;
    change(owner);
    const Judgement judged = judge(owner, self, folder);
    EXPECT_EQ(judged.why.empty(), judged.life != Life::unknown);
    return judged.life;
  };
  EXPECT_EQ(life([](LockOwner&) {}), Life::alive);
  EXPECT_EQ(life([](LockOwner& owner) { owner.started = "1"; }), Life::gone);  // its number was given again
  EXPECT_EQ(life([](LockOwner& owner) { owner.started.clear(); }), Life::unknown);
  EXPECT_EQ(life([](LockOwner& owner) { owner.time = "time:[1]"; }), Life::unknown);
  EXPECT_EQ(life([](LockOwner& owner) { owner.pid = 0; }), Life::unknown);
  EXPECT_EQ(life([](LockOwner& owner) { owner.processes = "pid:[1]"; }), Life::unknown);
  EXPECT_EQ(life([](LockOwner& owner) { owner.processes.clear(); }), Life::unknown);
  EXPECT_EQ(life([](LockOwner& owner) { owner.boot.clear(); }), Life::unknown);
  EXPECT_EQ(life([](LockOwner& owner) { owner.boot = "2"; }), Life::unknown);  // another machine of this id?
  EXPECT_EQ(life([](LockOwner& owner) { owner.boot = "2", owner.host = "other"; }, "/"), Life::unknown);
  EXPECT_EQ(life([](LockOwner& owner) { owner.boot = "2", owner.machine.clear(); }, "/"), Life::unknown);
  LockOwner dead = self;
  {
    Child child([] { return std::string(); });
    dead.pid = child.pid();
    static_cast<void>(child.answer());
  }
  EXPECT_EQ(judge(dead, self, "/dev/shm").life, Life::gone);
  // A zombie writes nothing any more.
  Child zombie([] { return std::string(); });
  ::siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(zombie.pid()), &info, WEXITED | WNOWAIT), 0);
  dead.pid = zombie.pid();
  EXPECT_EQ(judge(dead, self, "/dev/shm").life, Life::gone);
}

TEST_F(LockOwners, AnEarlierBootOfThisMachine) {
  LockOwner owner = this_process();
  owner.boot = "2";
  const LockOwner self = this_process();
  if (judge(owner, self, "/var/tmp").life == Life::unknown) GTEST_SKIP() << "/var/tmp is no local disk";
  EXPECT_EQ(judge(owner, self, "/var/tmp").life, Life::gone);
  EXPECT_EQ(judge(owner, self, "/proc").life, Life::unknown);
}

TEST_F(LockOwners, AreReadAsTheyWereWritten) {
  be_restart("3");
  LockOwner owner = this_process();
  owner.generation = 7;
  owner.token = "token";
  const std::string text = format_owner(owner);
  const auto again = parse_owner(text);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(format_owner(*again), text);
  EXPECT_EQ(again->restart, 3);
  const auto old =
      parse_owner(R"({"host":"h","machine":"m","boot":"b","processes":"p","pid":4711,"started":"5","token":"6"})");
  ASSERT_TRUE(old.has_value());
  EXPECT_EQ(old->generation, 0u);
  EXPECT_EQ(old->time, owner.time);
  for (const char* none : {"", "{}", "[]", "nonsense", R"({"host":1})"}) EXPECT_FALSE(parse_owner(none)) << none;
}

TEST_F(LockOwners, ALockThatCannotBeReadIsNotFree) {
  const Scratch scratch;
  fs::create_directories(scratch.runs() / ".locks");
  overwrite(scratch.runs() / ".locks/run", "");
  EXPECT_NE(try_lock(scratch.runs()).find("its lock cannot be read (if it surely ended, delete "), std::string::npos);
  fs::remove(scratch.runs() / ".locks/run");
  const RunLock lock = RunLock::acquire(scratch.runs(), "run");
  inject_fault([](FileAction action) { return action == FileAction::read ? EIO : 0; });
  const std::string error = try_lock(scratch.runs());
  const auto holder = lock_holder(scratch.runs(), "run");
  const std::string held = error_of([&] { lock.require_held(); });
  inject_fault(nullptr);
  for (const std::string& text : {error, holder.value_or(""), held})
    EXPECT_NE(text.find("cannot be read: input/output error"), std::string::npos) << text;
  EXPECT_EQ(held.find("lost its lock"), std::string::npos);
  lock.require_held();
}

// Runs `action` in the first process of a new process namespace; nothing where this system lets us not.
template <class Action>
std::optional<std::string> in_namespace(const Action& action) {
  Child child([&]() -> std::string {
    if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return "no namespace";
    Child first([&] { return action(); });
    return first.answer();
  });
  std::string answer = child.answer();
  if (answer == "no namespace") return std::nullopt;
  return answer;
}

TEST_F(LockOwners, OfAnotherProcessNamespace) {
  const Scratch scratch;
  const RunLock outside = RunLock::acquire(scratch.runs(), "run");
  const auto inside = in_namespace([&] { return try_lock(scratch.runs()); });
  if (!inside) GTEST_SKIP() << "no right to make a process namespace";
  EXPECT_NE(inside->find("may still be written by process " + std::to_string(::getpid()) + " on this machine"),
            std::string::npos)
      << *inside;
  EXPECT_NE(inside->find("a container (if it surely ended, delete " + (scratch.runs() / ".locks/run").string()),
            std::string::npos)
      << *inside;
}

// The namespace is new, /proc is still the old one's: numbers of processes there mean others.
TEST_F(LockOwners, InANamespaceWithoutItsProc) {
  const Scratch scratch;
  const auto answer = in_namespace([&]() -> std::string {
    Child holder([&]() -> std::string {
      const RunLock lock = RunLock::acquire(scratch.runs(), "run");
      overwrite(scratch.path() / "held", "");
      ::pause();
      return "";
    });
    while (!fs::exists(scratch.path() / "held")) ::usleep(100);
    const std::string living = try_lock(scratch.runs());
    holder.kill();
    return living + "|" + try_lock(scratch.runs());
  });
  if (!answer) GTEST_SKIP() << "no right to make a process namespace";
  EXPECT_NE(answer->find("/proc does not show since when"), std::string::npos) << *answer;
  EXPECT_EQ(answer->back(), '|') << *answer;
}

TEST_F(LockOwners, OfAUserWhomProcHides) {
  const Scratch scratch;
  ::chmod(scratch.path().c_str(), 0777);
  fs::create_directories(scratch.runs() / ".locks");
  for (const fs::path& folder : {scratch.runs(), scratch.runs() / ".locks"}) ::chmod(folder.c_str(), 0777);
  const auto answer = in_namespace([&]() -> std::string {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("proc", "/proc", "proc", 0, "hidepid=2") != 0)
      return "no mount";
    std::optional<RunLock> lock = RunLock::acquire(scratch.runs(), "run");
    Child other([&]() -> std::string {
      if (::setgid(65534) != 0 || ::setuid(65534) != 0) return "no user";
      return fs::exists("/proc/1/stat") ? "not hidden" : try_lock(scratch.runs());
    });
    return other.answer();
  });
  if (!answer || *answer == "no mount" || *answer == "no user") GTEST_SKIP() << "no right to hide processes";
  EXPECT_NE(answer->find("/proc does not show since when (if it surely ended, delete "), std::string::npos) << *answer;
}

TEST_F(Restarts, ALaterOneTakesOver) {
  const Scratch scratch;
  be_restart("");
  const RunLock first = RunLock::acquire(scratch.runs(), "run");
  EXPECT_NE(try_lock(scratch.runs()), "");  // another step of the same start
  be_restart("1", "4712");
  EXPECT_NE(try_lock(scratch.runs()), "");  // another job
  be_restart("1");
  ::setenv("SLURM_CLUSTER_NAME", "other", 1);
  EXPECT_NE(try_lock(scratch.runs()), "");
  ::unsetenv("SLURM_CLUSTER_NAME");
  EXPECT_NE(try_lock(scratch.runs()), "");
  be_restart("x1");
  EXPECT_NE(try_lock(scratch.runs()), "");
  be_restart("2");
  const RunLock third = RunLock::acquire(scratch.runs(), "run");
  EXPECT_EQ(third.generation(), first.generation() + 1);
  third.require_held();
  const std::string lost = error_of([&] { first.require_held(); });
  EXPECT_NE(lost.find("lost its lock on the run to process " + std::to_string(::getpid())), std::string::npos) << lost;
  be_restart("1");
  EXPECT_NE(try_lock(scratch.runs()), "");  // an earlier one does not
}

TEST_F(Restarts, TasksOfAnArrayAreJobsOfTheirOwn) {
  const Scratch scratch;
  be_restart("");
  ::setenv("SLURM_ARRAY_JOB_ID", "4711", 1);
  ::setenv("SLURM_ARRAY_TASK_ID", "1", 1);
  const RunLock lock = RunLock::acquire(scratch.runs(), "run");
  be_restart("1");
  ::setenv("SLURM_ARRAY_TASK_ID", "2", 1);
  EXPECT_NE(try_lock(scratch.runs()), "");
  ::setenv("SLURM_ARRAY_TASK_ID", "1", 1);
  ::setenv("SLURM_JOB_ID", "4799", 1);
  EXPECT_EQ(try_lock(scratch.runs()), "");
}

long stop_at = 0;

int stop(FileAction) {
  if (--stop_at == 0) ::raise(SIGSTOP);
  return 0;
}

std::string contents(const fs::path& run) {
  const RunRecord record = RunRecord::open(run);
  std::string text = read_file(run / kStepsLog) + read_file(run / kMetricsLog) + record.weights();
  for (const CheckpointEntry& entry : record.checkpoints()) text += entry.file + entry.sha256;
  return text;
}

// A writer is stopped at each of its actions in turn, and goes on when another one has taken over: nothing that it does
// then reaches the run. Where it resumes a run itself, it may be stopped in the middle of that.
void stop_everywhere(bool resumes, bool deleted) {
  const Scratch scratch;
  const std::string straight = contents(finished_run(scratch.path() / "straight"));
  int taken = 0;
  for (long action = 1;; ++action) {
    const fs::path runs = scratch.path() / std::to_string(action);
    be_restart("");
    fs::path run;
    if (resumes) {
      RunWriter writer = RunWriter::create(runs, small_inputs());
      run = writer.folder();
      write_steps(writer, 1, 5);
    }
    Child first([&]() -> std::string {
      stop_at = action;
      inject_fault(stop);
      RunWriter writer = resumes ? RunWriter::resume(run, "{}") : RunWriter::create(runs, small_inputs());
      const std::int64_t done = writer.checkpoint() ? writer.checkpoint()->step() : 0;
      try {
        write_steps(writer, done + 1, 8);
        writer.finish(kWeights);
      } catch (const UserError& error) {
        writer.fail(error.what());
        throw;
      }
      return "finished";
    });
    if (!first.stopped()) {
      EXPECT_EQ(first.answer(), "finished");
      break;
    }
    if (run.empty() && fs::exists(runs)) {
      for (const auto& entry : fs::directory_iterator(runs)) {
        if (!entry.path().filename().string().starts_with('.')) run = entry.path();
      }
    }
    const bool held = !run.empty() && fs::exists(runs / ".locks" / run.filename());
    if (run.empty() || !held || fs::exists(run / "manifest.json")) {  // nothing to take over, yet or any more
      ::kill(first.pid(), SIGCONT);
      EXPECT_EQ(first.answer(), "finished");
      continue;
    }
    EXPECT_NE(error_of([&] { static_cast<void>(RunWriter::resume(run, "{}")); }), "");
    if (deleted) {
      fs::remove(runs / ".locks" / run.filename());
    } else {
      be_restart("1");
    }
    RunWriter second = RunWriter::resume(run, "{}");
    const std::int64_t done = second.checkpoint() ? second.checkpoint()->step() : 0;
    const std::int64_t half = std::max<std::int64_t>(done, 5);
    write_steps(second, done + 1, half);
    ::kill(first.pid(), SIGCONT);
    const std::string end = first.answer();
    EXPECT_NE(end.find("lost its lock on the run"), std::string::npos) << "action " << action << ": " << end;
    second.flush();
    EXPECT_FALSE(fs::exists(run / "manifest.json"));
    write_steps(second, half + 1, 8);
    second.finish(kWeights);
    ASSERT_EQ(contents(run), straight) << "action " << action;
    ++taken;
    fs::remove_all(runs);
  }
  EXPECT_GT(taken, 30);
}

TEST_F(TakenOver, ByALaterRestart) { stop_everywhere(false, false); }
TEST_F(TakenOver, ByALaterRestartWhileResuming) { stop_everywhere(true, false); }
TEST_F(TakenOver, WhenAPersonDeletedTheLock) { stop_everywhere(false, true); }
TEST_F(TakenOver, WhenAPersonDeletedTheLockWhileResuming) { stop_everywhere(true, true); }

// Of Python programs each line is written at once: the lock is looked at some times a second all the same.
TEST_F(TakenOver, LinesWrittenAtOnce) {
  const Scratch scratch;
  RunFolder first = RunFolder::create(scratch.runs(), "train",
                                      {{"data.json", "{}\n"},
                                       {"environment.json", "{}\n"},
                                       {"experiment.toml", "[script]\nfile = \"train.py\"\n"},
                                       {"sources.json", "{\"format\": \"isobit-sources-1\", \"files\": {}}\n"}},
                                      kScriptRun);
  const fs::path run = first.path();
  for (int step = 1; step <= 3; ++step) first.append_step(step, format_line(small_step(step)));
  fs::remove(scratch.runs() / ".locks" / first.id());
  RunFolder second = RunFolder::resume(run, "{}", kScriptRun);
  std::string lost;
  int step = 4;
  for (; lost.empty() && step < 1000; ++step) {
    lost = error_of([&] { first.append_step(step, format_line(small_step(step))); });
    ::usleep(10'000);
  }
  EXPECT_NE(lost.find("lost its lock"), std::string::npos);
  EXPECT_LT(step, 40);
  EXPECT_EQ(read_file(run / kStepsLog), "");
  for (int again = 1; again <= 4; ++again) second.append_step(again, format_line(small_step(again)));
  second.finish(kWeights);
  EXPECT_EQ(RunRecord::open(run).steps().size(), 4u);
}

}  // namespace
}  // namespace isobit::archive
