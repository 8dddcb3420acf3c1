#include "archive/run_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "archive/run_lock.h"
#include "processes.h"
#include "small_run.h"

namespace isobit::archive {
namespace {

constexpr const char* kSecondEnvironment = "{\"contract\": \"test\", \"again\": true}\n";

// All that a run's bits decide (not timings): logs and the checkpoints' contents.
std::string contents(const fs::path& run) {
  const RunRecord record = RunRecord::open(run);
  std::string text = read_file(run / "steps.jsonl") + read_file(run / "metrics.jsonl") + record.weights();
  for (const CheckpointEntry& entry : record.checkpoints()) text += entry.file + entry.sha256;
  return text;
}

// Goes on where the record says, as a trainer does.
void resume_to(const fs::path& run, std::int64_t last, bool finish) {
  RunWriter writer = RunWriter::resume(run, kSecondEnvironment);
  const std::int64_t done = writer.checkpoint() ? writer.checkpoint()->step() : 0;
  if (done > 0) {
    EXPECT_EQ(writer.checkpoint()->state(), "{\"step\": " + std::to_string(done) + "}");
    const SmallTensors expected(done);
    EXPECT_EQ(std::memcmp(writer.checkpoint()->contents().find("weight")->data.data(), expected.weight.data(), 24), 0);
  }
  EXPECT_EQ(writer.experiment(), small_inputs().experiment);
  EXPECT_EQ(writer.data(), small_inputs().data);
  write_steps(writer, done + 1, last);
  if (finish) writer.finish(kWeights);
}

TEST(RunWriter, InterruptedAnywhereAndResumedGivesTheSameRecord) {
  const Scratch scratch;
  const std::string straight = contents(finished_run(scratch.runs()));
  for (std::int64_t first = 0; first <= 8; ++first) {
    for (std::int64_t second = 0; second <= 8; second += 4) {
      fs::path run;
      {
        RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
        run = writer.folder();
        write_steps(writer, 1, first);
      }
      EXPECT_EQ(summarize(run).state, RunState::interrupted);
      EXPECT_EQ(summarize(run).steps, first);
      if (second >= first) resume_to(run, second, false);
      resume_to(run, 8, true);
      EXPECT_EQ(contents(run), straight) << first << ", " << second;
    }
  }
}

TEST(RunWriter, KilledAtAnyMomentCanBeResumed) {
  const Scratch scratch;
  const std::int64_t last = 400;
  const auto write = [&](RunWriter writer, std::int64_t first) {
    write_steps(writer, first, last);
    writer.finish(kWeights);
    return std::string();
  };
  RunWriter whole = RunWriter::create(scratch.path() / "straight", small_inputs());
  const fs::path straight = whole.folder();
  write(std::move(whole), 1);
  for (std::uintmax_t moment = 0; moment < 12; ++moment) {
    const fs::path runs = scratch.path() / std::to_string(moment);
    Child child([&] { return write(RunWriter::create(runs, small_inputs()), 1); });
    // Killed once the log has grown so far: a moment of its own in each round, anywhere in the writer's work.
    std::vector<RunSummary> list;
    fs::path run;
    do {
      list = list_runs(runs);
      if (!list.empty()) run = runs / list[0].id;
    } while (list.empty() ||
             (fs::file_size(run / "steps.jsonl") < moment * 3000 && !fs::exists(run / "manifest.json")));
    child.kill();
    if (!fs::exists(run / "manifest.json")) {
      EXPECT_EQ(summarize(run).state, RunState::interrupted);
      RunWriter writer = RunWriter::resume(run, kSecondEnvironment);
      const std::int64_t done = writer.checkpoint() ? writer.checkpoint()->step() : 0;
      write(std::move(writer), done + 1);
    }
    EXPECT_EQ(contents(run), contents(straight)) << "round " << moment;
  }
}

TEST(RunWriter, TornAndForeignTailsAreCutOff) {
  const Scratch scratch;
  const std::string straight = contents(finished_run(scratch.runs()));
  for (const std::string& tail :
       {std::string("{\"step\":9,\"epo"), std::string("\0\0\0\0", 4), std::string("\n\n"), std::string("garbage\n")}) {
    RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
    const fs::path run = writer.folder();
    write_steps(writer, 1, 5);
    { const RunWriter gone = std::move(writer); }
    for (const char* log : {"steps.jsonl", "metrics.jsonl", "timings.jsonl", "checkpoints.jsonl"})
      AppendFile(run / log).append(tail);
    overwrite(run / ".tmp-0123abcd", "half a file");
    overwrite(run / "checkpoints" / ".tmp-0123abcd", "half a checkpoint");
    overwrite(run / "checkpoints" / "step-5.safetensors", "a checkpoint without its line");
    resume_to(run, 8, true);
    EXPECT_EQ(contents(run), straight);
  }
}

TEST(RunWriter, ADamagedCheckpointGivesWayToTheOneBefore) {
  const Scratch scratch;
  const std::string straight = contents(finished_run(scratch.runs()));
  RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
  const fs::path run = writer.folder();
  write_steps(writer, 1, 7);
  { const RunWriter gone = std::move(writer); }
  const std::string sound = read_file(run / "checkpoints/step-6.safetensors");
  std::string bytes = sound;
  bytes[bytes.size() / 2] ^= 1;
  overwrite(run / "checkpoints/step-6.safetensors", bytes);
  fs::rename(run / "checkpoints/step-3.safetensors", scratch.path() / "step-3");

  // Never from step 1 in silence, and nothing was changed.
  const std::string error = error_of([&] { static_cast<void>(RunWriter::resume(run, kSecondEnvironment)); });
  EXPECT_NE(error.find(run.string() +
                       ": had 2 checkpoints, and none is sound: checkpoints/step-6.safetensors is damaged, "
                       "checkpoints/step-3.safetensors is missing (restore the run's folder from a copy; to begin "
                       "again at step 1, start a new run"),
            std::string::npos)
      << error;
  EXPECT_EQ(read_file(run / "checkpoints/step-6.safetensors"), bytes);

  fs::rename(scratch.path() / "step-3", run / "checkpoints/step-3.safetensors");
  EXPECT_EQ(RunWriter::resume(run, kSecondEnvironment).checkpoint()->step(), 3);
  // That one ended before a checkpoint of its own: all is as it was, and what somebody mends meanwhile counts.
  bool aside = false;
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    if (!entry.path().string().ends_with("checkpoints/step-6.safetensors")) continue;
    EXPECT_NE(entry.path().string().find("/.cut-"), std::string::npos);
    overwrite(entry.path(), sound);
    aside = true;
  }
  EXPECT_TRUE(aside);
  EXPECT_EQ(RunWriter::resume(run, kSecondEnvironment).checkpoint()->step(), 6);
  resume_to(run, 8, true);
  EXPECT_EQ(contents(run), straight);
}

TEST(RunWriter, WithoutACheckpointItBeginsAgain) {
  const Scratch scratch;
  const std::string straight = contents(finished_run(scratch.runs()));
  RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
  const fs::path run = writer.folder();
  write_steps(writer, 1, 2);
  { const RunWriter gone = std::move(writer); }
  AppendFile(run / "checkpoints.jsonl").append("{\"step\":3,");  // the first one, torn
  EXPECT_FALSE(RunWriter::resume(run, kSecondEnvironment).checkpoint().has_value());
  resume_to(run, 8, true);
  EXPECT_EQ(contents(run), straight);
}

TEST(RunWriter, ADamagedListOfCheckpointsIsNamed) {
  const Scratch scratch;
  RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
  const fs::path run = writer.folder();
  write_steps(writer, 1, 7);
  { const RunWriter gone = std::move(writer); }
  std::string lines = read_file(run / "checkpoints.jsonl");
  lines[2] ^= 1;
  overwrite(run / "checkpoints.jsonl", lines);
  const std::string error = error_of([&] { static_cast<void>(RunWriter::resume(run, kSecondEnvironment)); });
  EXPECT_NE(error.find("checkpoints.jsonl:1: damaged: the line of the first checkpoint cannot be read ("),
            std::string::npos)
      << error;
}

// A second crash before the first checkpoint of the one that resumed: what was cut is there again.
TEST(RunWriter, WhatWasCutIsBackAfterASecondCrash) {
  const Scratch scratch;
  const std::string straight = contents(finished_run(scratch.runs()));
  RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
  const fs::path run = writer.folder();
  write_steps(writer, 1, 5);
  { const RunWriter gone = std::move(writer); }
  const std::string before = read_file(run / "steps.jsonl");
  for (int crash = 0; crash < 3; ++crash) {
    RunWriter again = RunWriter::resume(run, kSecondEnvironment);
    again.append_step(small_step(4));
    again.flush();
    EXPECT_LT(read_file(run / "steps.jsonl").size(), before.size());
  }
  StepLine other = small_step(5);
  other.loss_bits ^= 1;
  {
    RunWriter again = RunWriter::resume(run, kSecondEnvironment);
    again.append_step(small_step(4));
    EXPECT_NE(error_of([&] { again.append_step(other); }).find("step 5 came out differently"), std::string::npos);
  }
  resume_to(run, 6, false);
  for (const auto& entry : fs::directory_iterator(run))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".cut-"));
  resume_to(run, 8, true);
  EXPECT_EQ(contents(run), straight);
}

TEST(RunWriter, DamageBeforeTheCheckpointIsNamed) {
  const Scratch scratch;
  RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
  const fs::path run = writer.folder();
  write_steps(writer, 1, 7);
  { const RunWriter gone = std::move(writer); }
  for (const char* file :
       {"steps.jsonl", "metrics.jsonl", "experiment.toml", "environment.json", "data.json", "state.json"}) {
    const std::string sound = read_file(run / file);
    std::string bytes = sound;
    bytes[3] ^= 1;
    overwrite(run / file, bytes);
    const std::string error = error_of([&] { static_cast<void>(RunWriter::resume(run, kSecondEnvironment)); });
    EXPECT_NE(error.find(std::string(file) + ": damaged"), std::string::npos) << file << ": " << error;
    overwrite(run / file, sound);
  }
  EXPECT_EQ(error_of([&] { resume_to(run, 8, true); }), "");
}

TEST(RunWriter, AStepThatComesOutDifferentlyAfterResumingIsAnError) {
  const Scratch scratch;
  RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
  const fs::path run = writer.folder();
  write_steps(writer, 1, 5);
  { const RunWriter gone = std::move(writer); }
  RunWriter again = RunWriter::resume(run, kSecondEnvironment);
  again.append_step(small_step(4));
  StepLine other = small_step(5);
  other.loss_bits ^= 1;
  EXPECT_NE(error_of([&] { again.append_step(other); }).find("step 5 came out differently"), std::string::npos);
}

TEST(RunWriter, OnlyOneWriter) {
  const Scratch scratch;
  RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
  write_steps(writer, 1, 5);
  const auto resume = [&] {
    return error_of([&] { static_cast<void>(RunWriter::resume(writer.folder(), kSecondEnvironment)); });
  };
  EXPECT_NE(resume().find("is being written by process " + std::to_string(::getpid()) + " on this machine"),
            std::string::npos);
  EXPECT_NE(Child(resume).answer().find("is being written by process"), std::string::npos);
  EXPECT_EQ(summarize(writer.folder()).state, RunState::running);

  // Whoever lost the lock stops at the next checkpoint and does not seal.
  fs::remove(scratch.runs() / ".locks" / writer.id());
  EXPECT_NE(error_of([&] { writer.write_checkpoint(SmallTensors(5).views(), "{}"); }).find("lost its lock"),
            std::string::npos);
  EXPECT_NE(error_of([&] { writer.finish(kWeights); }).find("lost its lock"), std::string::npos);
}

// A second line of one checkpoint would be sealed, and the record then refused by all who read it.
TEST(RunWriter, OneCheckpointAStepAlsoAfterResuming) {
  const Scratch scratch;
  const auto doubled = [](RunWriter& writer) {
    EXPECT_THROW(writer.write_checkpoint(SmallTensors(5).views(), "{}"), std::logic_error);
  };
  fs::path folder;
  {
    RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
    folder = writer.folder();
    write_steps(writer, 1, 5);
    writer.write_checkpoint(SmallTensors(5).views(), "{}");
    doubled(writer);
  }
  RunWriter again = RunWriter::resume(folder, kSecondEnvironment);
  ASSERT_EQ(again.checkpoint()->step(), 5);
  doubled(again);
}

TEST(RunWriter, FinishedRunsAreNotResumed) {
  const Scratch scratch;
  const fs::path run = finished_run(scratch.runs());
  EXPECT_NE(error_of([&] { static_cast<void>(RunWriter::resume(run, "{}")); }).find("is finished"), std::string::npos);
  EXPECT_EQ(error_of([&] { static_cast<void>(RunRecord::open(run)); }), "");
  EXPECT_NE(error_of([&] { static_cast<void>(RunWriter::resume(scratch.path(), "{}")); }).find("not a run's folder"),
            std::string::npos);
}

// 8 processes go for the lock that a killed one left; the holder keeps it until all have answered.
TEST(RunLock, AStaleLockIsTakenByExactlyOne) {
  const Scratch scratch;
  for (int round = 0; round < 10; ++round) {
    int hold[2];
    ASSERT_EQ(::pipe(hold), 0);
    {
      Child victim([&] {
        const RunLock lock = RunLock::acquire(scratch.runs(), "run");
        overwrite(scratch.path() / "held", "");
        ::pause();
        return std::string();
      });
      while (!fs::exists(scratch.path() / "held")) ::usleep(100);
      fs::remove(scratch.path() / "held");
      EXPECT_TRUE(lock_holder(scratch.runs(), "run").has_value());
    }
    EXPECT_FALSE(lock_holder(scratch.runs(), "run").has_value());
    std::vector<std::unique_ptr<Child>> racers;
    std::vector<int> answers;
    for (int i = 0; i < 8; ++i) {
      int ends[2];
      ASSERT_EQ(::pipe(ends), 0);
      racers.push_back(std::make_unique<Child>([&] {
        ::close(hold[1]);
        std::optional<RunLock> lock;
        const std::string error = error_of([&] { lock = RunLock::acquire(scratch.runs(), "run"); });
        [[maybe_unused]] const auto sent = ::write(ends[1], lock ? "y" : "n", 1);
        char end = 0;
        [[maybe_unused]] const auto woken = ::read(hold[0], &end, 1);
        return error;
      }));
      ::close(ends[1]);
      answers.push_back(ends[0]);
    }
    int winners = 0;
    for (const int answer : answers) {
      char letter = 0;
      ASSERT_EQ(::read(answer, &letter, 1), 1);
      winners += letter == 'y';
      ::close(answer);
    }
    EXPECT_EQ(winners, 1);
    ::close(hold[1]);
    for (auto& racer : racers) static_cast<void>(racer->answer());
    ::close(hold[0]);
    EXPECT_FALSE(lock_holder(scratch.runs(), "run").has_value());
  }
}

TEST(RunLock, OfAnotherMachineIsAlive) {
  const Scratch scratch;
  fs::create_directories(scratch.runs() / ".locks");
  const std::string lock =
      R"({"host": "node12", "machine": "1", "boot": "2", "processes": "3", "pid": 4711, "started": "5", "token": "6"})";
  overwrite(scratch.runs() / ".locks/run", lock);
  const std::string error = error_of([&] { static_cast<void>(RunLock::acquire(scratch.runs(), "run")); });
  EXPECT_NE(error.find("may still be written by process 4711 on node12: "), std::string::npos) << error;
  EXPECT_NE(error.find("another machine"), std::string::npos) << error;
  EXPECT_NE(error.find("delete " + (scratch.runs() / ".locks/run").string()), std::string::npos) << error;
  overwrite(scratch.runs() / ".locks/run", "not to be understood");
  EXPECT_NE(error_of([&] { static_cast<void>(RunLock::acquire(scratch.runs(), "run")); }), "");
}

TEST(RunWriter, ManyAtOnceInOneArchive) {
  const Scratch scratch;
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(std::make_unique<Child>([&] {
      for (int n = 0; n < 5; ++n) {
        finished_run(scratch.runs(), "run" + std::to_string(i));
        if (list_runs(scratch.runs()).empty()) return std::string("nothing listed");
      }
      return std::string();
    }));
  }
  for (auto& child : children) EXPECT_EQ(child->answer(), "");
  const auto list = list_runs(scratch.runs());
  EXPECT_EQ(list.size(), 30u);
  for (const RunSummary& summary : list) {
    EXPECT_EQ(error_of([&] { static_cast<void>(RunRecord::open(scratch.runs() / summary.id)); }), "");
  }
  for (std::size_t i = 1; i < list.size(); ++i) EXPECT_GE(list[i - 1].created, list[i].created);
}

TEST(RunWriter, NamesThatAreNoneAreRefused) {
  const Scratch scratch;
  for (const char* name : {"", ".hidden", "a/b", "a b", "..", "\xc3\xa4"}) {
    EXPECT_NE(error_of([&] { static_cast<void>(RunWriter::create(scratch.runs(), small_inputs(name))); }), "") << name;
  }
  EXPECT_FALSE(fs::exists(scratch.runs()));
}

}  // namespace
}  // namespace isobit::archive
