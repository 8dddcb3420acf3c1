// Records of Python programs, by the calls that the package makes; tests/archive/run_writer_test.cpp has those of
// `isobit run`.
#include "archive/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "archive/log_lines.h"
#include "archive/run_lock.h"
#include "archive/run_state.h"
#include "small_run.h"

namespace isobit::archive {
namespace {

const std::map<std::string, std::string> kInputs{
    {"data.json", "{\"files\": []}\n"},
    {"environment.json", "{}\n"},
    {"experiment.toml", "[script]\nfile = \"train.py\"\n"},
    {"sources.json", "{\"format\": \"isobit-sources-1\", \"files\": {}}\n"}};

RunFolder script_run(const Scratch& scratch) { return RunFolder::create(scratch.runs(), "train", kInputs, kScriptRun); }

void write_script_steps(RunFolder& run, std::int64_t first, std::int64_t last) {
  for (std::int64_t step = first; step <= last; ++step) {
    run.append_step(step, format_line(small_step(step)));
    if (step % 2 == 0) run.append(kEvaluationsLog, format_line(EvaluationLine{step, 1, 3, std::string(32, 'e')}));
    if (step % 3 == 0)
      run.append(kMetricsLog, format_line(MetricsLine{step, 1, "test", {{"accuracy", 0.25 * double(step)}}}));
  }
}

void save(RunFolder& run, const std::string& content) {
  const auto piece = std::as_bytes(std::span(content.data(), content.size()));
  run.write_checkpoint(".pt", std::span(&piece, 1), 1);
}

std::string logs_of(const fs::path& run) {
  std::string text;
  for (const char* log : {kStepsLog, kMetricsLog, kEvaluationsLog}) text += read_file(run / log);
  return text;
}

TEST(RunFolder, IsOpenedAsItWasWritten) {
  const Scratch scratch;
  RunFolder run = script_run(scratch);
  EXPECT_FALSE(run.checkpoint().has_value());
  EXPECT_FALSE(fs::exists(run.path() / kCheckpointFolder));
  EXPECT_EQ(summarize(run.path()).state, RunState::running);
  write_script_steps(run, 1, 5);
  EXPECT_EQ(run.steps(), 5);
  EXPECT_EQ(run.size(kEvaluationsLog), fs::file_size(run.path() / kEvaluationsLog));
  EXPECT_GT(run.size(kStepsLog), 0u);
  save(run, "the first");
  save(run, "the second");  // after the same step: it takes the first one's name
  run.replace("sources.json", "{\"format\": \"isobit-sources-1\", \"files\": {\"late.py\": \"\"}}\n");
  run.finish(kWeights);
  const RunRecord record = RunRecord::open(run.path());
  EXPECT_EQ(record.weights(), kWeights);
  EXPECT_EQ(record.steps().size(), 5u);
  ASSERT_TRUE(record.evaluations().has_value());
  EXPECT_EQ(*record.evaluations(),
            (std::vector<EvaluationLine>{{2, 1, 3, std::string(32, 'e')}, {4, 1, 3, std::string(32, 'e')}}));
  EXPECT_EQ(read_file(run.path() / "checkpoints/step-5.pt"), "the second");
  EXPECT_EQ(read_file(run.path() / "sources.json"),
            "{\"format\": \"isobit-sources-1\", \"files\": {\"late.py\": \"\"}}\n");
  EXPECT_EQ(run.input("sources.json"), "{\"format\": \"isobit-sources-1\", \"files\": {\"late.py\": \"\"}}\n");
}

// Also where the run was resumed on the way: what stays is a function of the steps.
TEST(RunFolder, KeepsTheNewestCheckpointsAndThoseAskedFor) {
  const auto one = [](RunFolder& run, std::int64_t step) {
    write_script_steps(run, step, step);
    const std::string content = std::to_string(step);
    const auto piece = std::as_bytes(std::span(content.data(), content.size()));
    run.write_checkpoint(".pt", std::span(&piece, 1), {2, [](std::int64_t kept) { return kept % 4 == 0; }});
  };
  for (const std::int64_t killed : {0, 1, 4, 5, 9, 11}) {
    const Scratch scratch;
    fs::path folder;
    {
      RunFolder run = script_run(scratch);
      folder = run.path();
      for (std::int64_t step = 1; step <= killed; ++step) one(run, step);
    }
    {
      RunFolder run = RunFolder::resume(folder, "{}\n", kScriptRun);
      for (std::int64_t step = killed + 1; step <= 11; ++step) one(run, step);
      run.finish(kWeights);
    }
    const RunRecord record = RunRecord::open(folder);
    std::vector<std::int64_t> kept;
    for (const CheckpointEntry& entry : record.checkpoints()) kept.push_back(entry.step);
    EXPECT_EQ(kept, (std::vector<std::int64_t>{4, 8, 10, 11})) << "killed after " << killed;
  }
}

TEST(RunFolder, GoesOnAfterItsNewestCheckpoint) {
  const Scratch scratch;
  std::string straight;
  {
    RunFolder run = script_run(scratch);
    write_script_steps(run, 1, 8);
    run.finish(kWeights);
    straight = logs_of(run.path());
  }
  for (std::int64_t killed = 1; killed <= 8; ++killed) {
    fs::path folder;
    {
      RunFolder run = script_run(scratch);
      folder = run.path();
      write_script_steps(run, 1, std::min<std::int64_t>(4, killed));
      if (killed >= 4) save(run, "after step 4");
      write_script_steps(run, 5, killed);
    }
    RunFolder run = RunFolder::resume(folder, "{\"second\": true}\n", kScriptRun);
    const std::int64_t done = killed >= 4 ? 4 : 0;
    EXPECT_EQ(run.steps(), done);
    ASSERT_EQ(run.checkpoint().has_value(), done == 4);
    if (done == 4) {
      EXPECT_EQ(read_file(folder / run.checkpoint()->file), "after step 4");
    }
    // sources.json is an input, too: the environments alone are counted.
    EXPECT_EQ(read_file(folder / "environment-2.json"), "{\"second\": true}\n");
    write_script_steps(run, done + 1, 8);
    save(run, "after step 8");
    EXPECT_FALSE(fs::exists(folder / "checkpoints/step-4.pt"));
    run.finish(kWeights);
    EXPECT_EQ(logs_of(folder), straight) << killed;
    EXPECT_EQ(error_of([&] { static_cast<void>(RunRecord::open(folder)); }), "");
  }
}

TEST(RunFolder, AnotherStepAfterResumingIsAnError) {
  const Scratch scratch;
  fs::path folder;
  {
    RunFolder run = script_run(scratch);
    folder = run.path();
    write_script_steps(run, 1, 5);
  }
  RunFolder run = RunFolder::resume(folder, "{}", kScriptRun);
  write_script_steps(run, 1, 4);
  StepLine other = small_step(5);
  other.batch[0] = 'x';
  const std::string error = error_of([&] { run.append_step(5, format_line(other)); });
  EXPECT_NE(error.find("step 5 came out differently"), std::string::npos) << error;
  EXPECT_NE(error.find("check that the script restores all of its state"), std::string::npos) << error;
  EXPECT_EQ(run.steps(), 4);
}

// Whoever sends an unfinished record would have its receiver move, delete and replace files of his own.
TEST(RunFolder, ResumesNothingThatALinkLeadsElsewhere) {
  for (const std::string link :
       {"checkpoints", ".cut-2", ".cut-2/checkpoints", "steps.jsonl", "state.json", ".tmp-x"}) {
    const Scratch scratch;
    const fs::path victim = scratch.path() / "victim";
    fs::create_directories(victim / "inside");
    write_file(victim / "thesis.txt", "three years");
    write_file(victim / ".tmp-mine", "mine");
    fs::path folder;
    {
      RunFolder run = script_run(scratch);
      folder = run.path();
      write_script_steps(run, 1, 2);
    }
    const fs::path place = folder / link;
    fs::create_directories(place.parent_path());
    if (fs::exists(place)) {
      fs::rename(place, scratch.path() / "original");
      fs::create_symlink(scratch.path() / "original", place);
    } else {
      fs::create_directory_symlink(victim, place);
    }
    const std::string error = error_of([&] { static_cast<void>(RunFolder::resume(folder, "{}", kScriptRun)); });
    EXPECT_NE(error.find(place.string() + ": is a link"), std::string::npos) << error;
    EXPECT_TRUE(fs::is_symlink(place)) << "nothing was touched";
    EXPECT_EQ(read_file(victim / "thesis.txt"), "three years");
    EXPECT_EQ(read_file(victim / ".tmp-mine"), "mine");
    EXPECT_TRUE(fs::is_directory(victim / "inside"));
  }
}

TEST(RunFolder, WhatTheFileSystemRefusesHasItsErrno) {
  const Scratch scratch;
  RunFolder run = script_run(scratch);
  write_script_steps(run, 1, 2);
  const std::uint64_t before = run.size(kStepsLog);
  inject_write_fault(ENOSPC, 10);
  int code = 0;
  try {
    run.append_step(3, format_line(small_step(3)));
  } catch (const FileError& error) {
    code = error.code();
    EXPECT_EQ(error.place(), (run.path() / kStepsLog).string());
  }
  run.fail("no space");  // says nothing where it cannot
  inject_write_fault(0, 0);
  EXPECT_EQ(code, ENOSPC);
  EXPECT_EQ(fs::file_size(run.path() / kStepsLog), before);
  EXPECT_EQ(run.steps(), 2);
  run.fail("no space");
  EXPECT_EQ(parse_state(read_file(run.path() / kStateFile), "").reason, "no space");
}

TEST(RunFolder, UnknownNamesAreDefectsOfTheCaller) {
  const Scratch scratch;
  RunFolder run = script_run(scratch);
  EXPECT_THROW(run.append("other.jsonl", "{}\n"), std::invalid_argument);
  EXPECT_THROW(run.replace("other.json", "{}\n"), std::invalid_argument);
  EXPECT_THROW(run.append_step(2, format_line(small_step(2))), std::invalid_argument);
}

TEST(RunFolder, TheLockGoesWithTheObject) {
  const Scratch scratch;
  std::string id;
  {
    const RunFolder run = script_run(scratch);
    id = run.id();
    EXPECT_TRUE(lock_holder(scratch.runs(), id).has_value());
  }
  EXPECT_FALSE(lock_holder(scratch.runs(), id).has_value());
  EXPECT_EQ(summarize(scratch.runs() / id).state, RunState::interrupted);
}

}  // namespace
}  // namespace isobit::archive
