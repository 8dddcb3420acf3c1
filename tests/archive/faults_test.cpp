// What disks do: full, read-only, failing in the middle of a write. The small and the read-only file system
// are real ones (tmpfs in a mount namespace of a child) where the system lets us mount; injected faults run
// everywhere.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "archive/run_writer.h"
#include "processes.h"
#include "small_run.h"

namespace isobit::archive {
namespace {

// Ends the fault with the scope.
class Fault {
 public:
  Fault(int code, std::uint64_t bytes) { inject_write_fault(code, bytes); }
  ~Fault() { inject_write_fault(0, 0); }
};

std::string straight_steps() {
  std::string text;
  const Scratch scratch;
  return read_file(finished_run(scratch.runs()) / "steps.jsonl");
}

// The disk is full after n bytes, for n over the whole of a run's writes: the error is said, nothing
// half-written has a final name, and with space again the run ends as if nothing had happened.
TEST(Faults, NoSpaceAtAnyByteLeavesASoundArchive) {
  const Scratch scratch;
  const std::string straight = straight_steps();
  int failed = 0, created = 0;
  std::uint64_t budget = 0;
  for (bool whole = false; !whole; budget += 97) {
    const fs::path runs = scratch.path() / std::to_string(budget);
    std::string error;
    {
      const Fault fault(ENOSPC, budget);
      error = error_of([&] {
        RunWriter writer = RunWriter::create(runs, small_inputs());
        error = error_of([&] {
          write_steps(writer, 1, 8);
          writer.finish(kWeights);
        });
        if (!error.empty()) writer.fail(error);
        if (!error.empty()) throw UserError("", error, "");
      });
    }
    whole = error.empty();
    if (!whole) {
      ++failed;
      EXPECT_NE(error.find("no space left on device"), std::string::npos) << error;
    }
    const auto list = list_runs(runs);
    ASSERT_LE(list.size(), 1u);
    if (list.empty()) continue;
    ++created;
    const fs::path run = runs / list[0].id;
    if (list[0].state != RunState::finished) {
      EXPECT_TRUE(list[0].state == RunState::interrupted || list[0].state == RunState::failed) << list[0].note;
      RunWriter writer = RunWriter::resume(run, "{}");
      write_steps(writer, (writer.checkpoint() ? writer.checkpoint()->step() : 0) + 1, 8);
      writer.finish(kWeights);
    }
    EXPECT_EQ(error_of([&] { static_cast<void>(RunRecord::open(run)); }), "");
    EXPECT_EQ(read_file(run / "steps.jsonl"), straight);
  }
  EXPECT_GT(failed, 30);
  EXPECT_GT(created, 20);
}

TEST(Faults, FailuresAreSaidWithFileAndRemedy) {
  const Scratch scratch;
  RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
  const std::string log = (writer.folder() / "steps.jsonl").string();
  for (const auto& [code, words] :
       {std::pair{ENOSPC, "no space left on device (free space there"}, std::pair{EROFS, "read-only file system ("},
        std::pair{EIO, "input/output error ("}, std::pair{EDQUOT, "disk quota exceeded ("}}) {
    const Fault fault(code, 0);
    EXPECT_NE(error_of([&] { writer.append_step(small_step(1)); }).find(log + ": cannot be written: " + words),
              std::string::npos)
        << words;
  }
  writer.append_step(small_step(1));  // the failed ones left nothing
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 0);
  const std::string text = read_file(log);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(Faults, AFullFileSystem) {
  const Scratch scratch;
  const fs::path runs = scratch.path() / "mounted";
  fs::create_directories(runs);
  const auto answer = with_tmpfs(runs.string(), "size=192k", [&]() -> std::string {
    RunWriter writer = RunWriter::create(runs, small_inputs());
    const std::string error = error_of([&] { write_steps(writer, 1, 100'000, 50, 0); });
    writer.fail(error);
    const fs::path run = writer.folder();
    { const RunWriter gone = std::move(writer); }
    const RunSummary summary = summarize(run);
    if (summary.state != RunState::failed && summary.state != RunState::interrupted) return "state: " + summary.note;
    fs::remove(run / "checkpoints" / "step-50.safetensors");  // someone makes room
    fs::remove(run / "checkpoints" / "step-100.safetensors");
    RunWriter again = RunWriter::resume(run, "{}");
    const std::int64_t done = again.checkpoint() ? again.checkpoint()->step() : 0;
    write_steps(again, done + 1, done + 1, 1000, 1);
    again.finish(kWeights);
    static_cast<void>(RunRecord::open(run));
    return error;
  });
  if (!answer) GTEST_SKIP() << "no right to mount; injected faults cover the same writes";
  EXPECT_NE(answer->find("no space left on device (free space there"), std::string::npos) << *answer;
}

TEST(Faults, AReadOnlyArchive) {
  const Scratch scratch;
  const fs::path runs = scratch.path() / "mounted";
  fs::create_directories(runs);
  const auto answer = with_tmpfs(runs.string(), "size=4m", [&]() -> std::string {
    const fs::path finished = finished_run(runs);
    RunWriter writer = RunWriter::create(runs, small_inputs());
    write_steps(writer, 1, 5);
    const fs::path interrupted = writer.folder();
    { const RunWriter gone = std::move(writer); }
    if (::mount("none", runs.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) return "cannot mount";
    if (list_runs(runs).size() != 2) return "not listed";
    static_cast<void>(RunRecord::open(finished));
    return error_of([&] { static_cast<void>(RunWriter::create(runs, small_inputs())); }) + "\n" +
           error_of([&] { static_cast<void>(RunWriter::resume(interrupted, "{}")); });
  });
  if (!answer) GTEST_SKIP() << "no right to mount; injected faults cover the same writes";
  const auto half = answer->find('\n');
  ASSERT_NE(half, std::string::npos) << *answer;
  for (const std::string& error : {answer->substr(0, half), answer->substr(half + 1)}) {
    EXPECT_NE(error.find("read-only file system ("), std::string::npos) << error;
    EXPECT_NE(error.find("--runs"), std::string::npos) << error;
  }
}

TEST(Faults, AFileInTheWay) {
  const Scratch scratch;
  overwrite(scratch.runs(), "a file where the archive should be");
  const std::string error = error_of([&] { static_cast<void>(RunWriter::create(scratch.runs(), small_inputs())); });
  EXPECT_NE(error.find(scratch.runs().string()), std::string::npos) << error;
}

TEST(Faults, AtomicFilesAreOldOrNew) {
  const Scratch scratch;
  const fs::path file = scratch.path() / "file";
  write_file(file, "old");
  const std::string fresh(10'000, 'n');
  for (std::uint64_t bytes = 0; bytes < 10'000; bytes += 500) {
    const Fault fault(ENOSPC, bytes);
    EXPECT_NE(error_of([&] { write_file(file, fresh); }), "");
    EXPECT_EQ(read_file(file), "old");
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), fs::directory_iterator()),
            1);  // no temporary left
  write_file(file, fresh);
  EXPECT_EQ(read_file(file), fresh);
}

}  // namespace
}  // namespace isobit::archive
