// A thousand random moments at which a writer is killed, finds the disk full, or gets an error of the disk: the record
// that is resumed after them is that of an undisturbed run, and no checkpoint that once stood is ever gone back behind.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>

#include "archive/log_lines.h"
#include "archive/run_folder.h"
#include "archive/run_state.h"
#include "processes.h"
#include "small_run.h"

namespace isobit::archive {
namespace {

constexpr std::int64_t kLast = 12;

// $ISOBIT_MOMENTS: so many for each kind of writer, in the place of 500.
int moments() {
  const char* given = std::getenv("ISOBIT_MOMENTS");
  return given == nullptr ? 500 : std::max(1, std::atoi(given));
}

// What a writer's process tells, whatever ends it.
struct Told {
  long actions = 0;        // on files
  std::int64_t stood = 0;  // the step of the newest checkpoint that was written
  std::int64_t resumed = -1;
};

// What happens to it.
struct Plan {
  long moment = 0;     // the number of the action, from 1; 0: nothing
  int code = 0;        // errno, or 0: kill -9
  bool reads = false;  // this kind of actions alone is counted, and fails
  bool stays = false;  // all that follow fail, too
};

Plan plan;
long counted = 0;
Told* told = nullptr;

int disturb(FileAction action) {
  ++told->actions;
  if (plan.moment == 0 || (plan.code != 0 && (action == FileAction::read) != plan.reads)) return 0;
  ++counted;
  if (counted < plan.moment || (counted > plan.moment && !plan.stays)) return 0;
  if (plan.code == 0) ::kill(::getpid(), SIGKILL);
  return plan.code;
}

// `isobit run` and isobit.record, as far as the archive sees them.
class Writing {
 public:
  explicit Writing(const fs::path& runs) : runs_(runs) {}
  virtual ~Writing() = default;
  virtual void write() = 0;  // begins, or resumes what is there, and ends
  [[nodiscard]] fs::path run() const {
    for (const auto& entry : fs::directory_iterator(runs_)) {
      if (!entry.path().filename().string().starts_with('.')) return entry.path();
    }
    return {};
  }

 protected:
  fs::path runs_;
};

class ExperimentWriting : public Writing {
 public:
  using Writing::Writing;
  void write() override {
    const fs::path there = fs::exists(runs_) ? run() : fs::path();
    RunWriter writer = there.empty() ? RunWriter::create(runs_, small_inputs()) : RunWriter::resume(there, "{}");
    std::int64_t done = writer.checkpoint() ? writer.checkpoint()->step() : 0;
    if (!there.empty()) told->resumed = done;
    try {
      for (; done < kLast; done = done / 3 * 3 + 3) {
        write_steps(writer, done + 1, done / 3 * 3 + 3);
        told->stood = done / 3 * 3 + 3;
      }
      writer.finish(kWeights);
    } catch (const UserError& error) {
      writer.fail(error.what());
      throw;
    }
  }
};

class ScriptWriting : public Writing {
 public:
  using Writing::Writing;
  void write() override {
    const fs::path there = fs::exists(runs_) ? run() : fs::path();
    RunFolder run = there.empty()
                        ? RunFolder::create(runs_, "train",
                                            {{"data.json", "{}\n"},
                                             {"environment.json", "{}\n"},
                                             {"experiment.toml", "[script]\nfile = \"train.py\"\n"},
                                             {"sources.json", "{\"format\": \"isobit-sources-1\", \"files\": {}}\n"}},
                                            kScriptRun)
                        : RunFolder::resume(there, "{}", kScriptRun);
    const std::int64_t done = run.checkpoint() ? run.checkpoint()->step : 0;
    if (!there.empty()) told->resumed = done;
    try {
      if (done > 0 && read_file(run.path() / run.checkpoint()->file).starts_with("first")) save_second(run, done);
      for (std::int64_t step = done + 1; step <= kLast; ++step) write_step(run, step);
      run.replace("sources.json", "{\"format\": \"isobit-sources-1\", \"files\": {\"late.py\": \"\"}}\n");
      run.finish(kWeights);
    } catch (const UserError& error) {
      run.fail(error.what());
      throw;
    }
  }

 private:
  static void write_step(RunFolder& run, std::int64_t step) {
    run.append_step(step, format_line(small_step(step)));
    if (step % 2 == 0) run.append(kEvaluationsLog, format_line(EvaluationLine{step, 1, 3, std::string(32, 'e')}));
    if (step % 4 != 0) return;
    save(run, "first after " + std::to_string(step));
    save_second(run, step);
  }
  static void save_second(RunFolder& run, std::int64_t step) {
    save(run, "second after " + std::to_string(step));  // takes the place of the first
    told->stood = step;
  }
  static void save(RunFolder& run, const std::string& content) {
    const auto piece = std::as_bytes(std::span(content.data(), content.size()));
    run.write_checkpoint(".pt", std::span(&piece, 1), 2);
  }
};

// All that a run's bits decide. Of the checkpoints the two newest: a kill may leave an older one that is sound, too.
std::string contents(const fs::path& run) {
  const RunRecord record = RunRecord::open(run);
  std::string text = record.weights();
  for (const char* log : {kStepsLog, kMetricsLog, kEvaluationsLog, kTimingsLog}) {
    if (fs::exists(run / log)) text += read_file(run / log);
  }
  std::map<std::int64_t, std::string> checkpoints;
  for (const CheckpointEntry& entry : record.checkpoints()) checkpoints[entry.step] = entry.file + entry.sha256;
  for (const auto& entry : fs::directory_iterator(run / kCheckpointFolder)) {
    const auto is_listed = [&](const auto& pair) {
      return pair.second.starts_with(entry.path().lexically_relative(run).string());
    };
    EXPECT_TRUE(std::any_of(checkpoints.begin(), checkpoints.end(), is_listed)) << entry.path();
  }
  while (checkpoints.size() > 2) checkpoints.erase(checkpoints.begin());
  for (const auto& [step, checkpoint] : checkpoints) text += checkpoint;
  return text;
}

template <class Kind>
class Moments : public testing::Test {
 protected:
  void SetUp() override {
    void* memory = ::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    told = new (memory) Told;
  }
  void TearDown() override { ::munmap(told, sizeof(Told)); }

  // A process that writes under the plan; what ended it.
  static std::string process(const fs::path& runs, const Plan& planned) {
    *told = {0, told->stood, -1};
    Child child([&]() -> std::string {
      plan = planned;
      counted = 0;
      inject_fault(disturb);
      Kind(runs).write();
      return "finished";
    });
    return child.answer();
  }
};

using Kinds = testing::Types<ExperimentWriting, ScriptWriting>;
TYPED_TEST_SUITE(Moments, Kinds, );

TYPED_TEST(Moments, AThousandLoseNothing) {
  const Scratch scratch;
  std::mt19937 draw(14);
  ASSERT_EQ(this->process(scratch.path() / "straight", {}), "finished");
  const std::string straight = contents(TypeParam(scratch.path() / "straight").run());
  const long actions = told->actions;
  EXPECT_GT(actions, 80);
  int disturbed = 0, killed = 0, failed = 0, resumed = 0;
  for (int round = 0; disturbed < moments(); ++round) {
    const fs::path runs = scratch.path() / std::to_string(round);
    told->stood = 0;
    // Some runs are disturbed once, others again and again.
    for (unsigned again = draw() % 4 + 1; again > 0; --again) {
      Plan planned{1 + static_cast<long>(draw() % static_cast<unsigned long>(actions)), 0, false, draw() % 2 == 0};
      const int codes[] = {0, 0, ENOSPC, EIO, EIO, ESTALE, EACCES};
      planned.code = codes[draw() % 7];
      planned.reads = planned.code == ESTALE || planned.code == EACCES || (planned.code == EIO && draw() % 2 == 0);
      if (planned.reads) planned.moment = 1 + static_cast<long>(draw() % 60);
      const std::int64_t stood = told->stood;
      const std::string end = this->process(runs, planned);
      ++disturbed;
      killed += end.empty();
      failed += !end.empty() && end != "finished";
      EXPECT_EQ(end.find("damaged"), std::string::npos) << end;
      EXPECT_EQ(end.find("none is sound"), std::string::npos) << end;
      if (told->resumed >= 0) {
        ++resumed;
        EXPECT_GE(told->resumed, stood) << "round " << round;
      }
      if (end == "finished") break;
    }
    // Made whole after all that: where it was sealed, it is sealed.
    const fs::path run = fs::exists(runs) ? TypeParam(runs).run() : fs::path();
    if (run.empty() || !fs::exists(run / "manifest.json")) {
      const std::int64_t stood = told->stood;
      ASSERT_EQ(this->process(runs, {}), "finished") << "round " << round;
      if (told->resumed >= 0) {
        EXPECT_GE(told->resumed, stood) << "round " << round;
      }
    }
    ASSERT_EQ(contents(TypeParam(runs).run()), straight) << "round " << round;
    fs::remove_all(runs);
  }
  std::printf("%d moments: %d processes killed, %d failed, %d resumed\n", disturbed, killed, failed, resumed);
  if (disturbed < 500) return;
  EXPECT_GT(killed, disturbed / 10);
  EXPECT_GT(failed, disturbed / 5);
  EXPECT_GT(resumed, disturbed / 10);
}

// At each read of a resume in turn: the error is said as what it is, and what was there is there.
TYPED_TEST(Moments, AReadErrorIsNoDamage) {
  const Scratch scratch;
  ASSERT_EQ(this->process(scratch.path() / "straight", {}), "finished");
  const std::string straight = contents(TypeParam(scratch.path() / "straight").run());
  const fs::path runs = scratch.runs();
  told->stood = 0;
  ASSERT_EQ(this->process(runs, {told->actions * 9 / 10, 0, false, false}), "");
  const std::int64_t stood = told->stood;
  ASSERT_GT(stood, 3);
  fs::copy(runs, scratch.path() / "before", fs::copy_options::recursive);
  int failed = 0;
  for (long moment = 1;; ++moment) {
    const std::string end = this->process(runs, {moment, EIO, true, true});
    if (end == "finished") break;
    ++failed;
    EXPECT_NE(end.find("input/output error ("), std::string::npos) << end;
    if (told->resumed >= 0) break;  // the reads of the resume are over
    EXPECT_EQ(this->process(runs, {}), "finished");
    EXPECT_GE(told->resumed, stood) << "read " << moment;
    EXPECT_EQ(contents(TypeParam(runs).run()), straight);
    fs::remove_all(runs);
    fs::copy(scratch.path() / "before", runs, fs::copy_options::recursive);
  }
  EXPECT_GT(failed, 15);
}

}  // namespace
}  // namespace isobit::archive
