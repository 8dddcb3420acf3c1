#include "archive/runs.h"

#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "archive/environment.h"
#include "archive/run_index.h"
#include "archive/suggest.h"
#include "small_run.h"

namespace isobit::archive {
namespace {

std::vector<std::string> ids(const fs::path& runs) {
  std::vector<std::string> result;
  for (const RunSummary& summary : list_runs(runs))
    result.push_back(summary.id + " " + to_string(summary.state) + " " + summary.weights);
  return result;
}

TEST(Runs, AMissingArchiveIsEmpty) {
  const Scratch scratch;
  EXPECT_TRUE(list_runs(scratch.runs()).empty());
}

TEST(Runs, FoundByIdPrefixPathAndLast) {
  const Scratch scratch;
  const fs::path first = finished_run(scratch.runs(), "alpha"), second = finished_run(scratch.runs(), "beta");
  const std::string id = first.filename().string();
  EXPECT_EQ(find_run(scratch.runs(), id), first);
  EXPECT_EQ(find_run(scratch.runs(), id.substr(0, id.size() - 2)), first);
  EXPECT_EQ(find_run(scratch.path(), first.string()), first);
  EXPECT_EQ(find_run(scratch.runs(), "last"), second);
  EXPECT_NE(error_of([&] { static_cast<void>(find_run(scratch.runs(), "2")); }).find("2 runs in"), std::string::npos);
  EXPECT_NE(error_of([&] { static_cast<void>(find_run(scratch.runs(), "zzz")); }).find("no such run"),
            std::string::npos);
  EXPECT_NE(error_of([&] { static_cast<void>(find_run(scratch.runs(), "")); }).find("no such run"), std::string::npos);
  EXPECT_NE(error_of([&] { static_cast<void>(find_run(scratch.runs(), "./nothing")); }).find("not a run's folder"),
            std::string::npos);
  std::string misspelt = id;
  misspelt.back() = 'z';
  EXPECT_NE(error_of([&] { static_cast<void>(find_run(scratch.runs(), misspelt)); }).find("did you mean '" + id),
            std::string::npos);
}

TEST(Runs, FoundByTheEndingOfTheirName) {
  const Scratch scratch;
  EXPECT_EQ(ending_of("cluster/12"), "f9dcd238");
  EXPECT_EQ(find_ending(scratch.runs(), "f9dcd238"), std::nullopt);
  RunInputs inputs = small_inputs();
  inputs.ending = "f9dcd238";
  const fs::path run = RunWriter::create(scratch.runs(), inputs).folder();
  EXPECT_TRUE(run.string().ends_with("-small-f9dcd238"));
  finished_run(scratch.runs(), "other");
  EXPECT_EQ(find_ending(scratch.runs(), "f9dcd238"), run);
  EXPECT_EQ(find_ending(scratch.runs(), "cd238"), std::nullopt);
  // What a kill left before the run was whole is none.
  fs::create_directory(scratch.runs() / ".tmp-20260101-000000-small-00c0ffee");
  EXPECT_EQ(find_ending(scratch.runs(), "00c0ffee"), std::nullopt);
  fs::create_directory(scratch.runs() / "20260101-000000-small-f9dcd238");
  EXPECT_NE(error_of([&] { static_cast<void>(find_ending(scratch.runs(), "f9dcd238")); }).find("two runs end in"),
            std::string::npos);
  inputs.ending = "../evil0";
  EXPECT_THROW(static_cast<void>(RunWriter::create(scratch.runs(), inputs)), std::invalid_argument);
}

TEST(Runs, EveryStateIsListed) {
  const Scratch scratch;
  RunWriter running = RunWriter::create(scratch.runs(), small_inputs("running"));
  write_steps(running, 1, 5);
  {
    RunWriter failed = RunWriter::create(scratch.runs(), small_inputs("failed"));
    failed.fail("loss is not finite");
    const RunWriter interrupted = RunWriter::create(scratch.runs(), small_inputs("interrupted"));
  }
  finished_run(scratch.runs(), "finished");
  fs::resize_file(finished_run(scratch.runs(), "damaged") / "steps.jsonl", 100);
  overwrite(finished_run(scratch.runs(), "broken") / "state.json", "{}");
  for (int round = 0; round < 2; ++round) {  // read, then from the index
    std::map<std::string, RunSummary> found;
    for (const RunSummary& summary : list_runs(scratch.runs())) found[summary.name] = summary;
    EXPECT_EQ(found.size(), 6u);
    EXPECT_EQ(found["running"].state, RunState::running);
    EXPECT_EQ(found["running"].steps, 5);
    EXPECT_EQ(found["running"].metrics.at(0).values.at("loss"), 0.25);
    EXPECT_EQ(found["failed"].state, RunState::failed);
    EXPECT_EQ(found["failed"].note, "loss is not finite");
    EXPECT_EQ(found["interrupted"].state, RunState::interrupted);
    EXPECT_EQ(found["finished"].state, RunState::finished);
    EXPECT_EQ(found["finished"].weights, kWeights);
    EXPECT_EQ(found["damaged"].state, RunState::damaged);
    EXPECT_EQ(found["damaged"].weights, "");
    EXPECT_NE(found["damaged"].note.find("steps.jsonl: it has 100 bytes"), std::string::npos);
  }
}

TEST(RunIndex, AnswersFromItsRowsAndOnlyWhileTheyFit) {
  const Scratch scratch;
  const RunSummary summary{
      "id",
      "name",
      RunState::finished,
      "isobit-0.1",
      "2026",
      8,
      kWeights,
      std::string(64, 'e'),
      {{8, 1, "test", {{"loss", 0.1}, {"7:x", -0.0}}}, {-8, 1, "", {{"", std::numeric_limits<double>::infinity()}}}},
      std::string("note: \0 12:\n\xff", 13)};
  {
    RunIndex index(index_path(), scratch.runs());
    ASSERT_TRUE(index.usable());
    index.put("id", "stamp", summary);
  }
  RunIndex index(index_path(), scratch.runs());
  const auto found = index.find("id", "stamp");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->weights, kWeights);
  EXPECT_EQ(found->metrics.at(0).values.at("loss"), 0.1);
  EXPECT_TRUE(std::signbit(found->metrics.at(0).values.at("7:x")));
  EXPECT_EQ(found->metrics.at(1).values, summary.metrics[1].values);
  EXPECT_EQ(found->metrics.at(1).step, -8);
  EXPECT_EQ(
      std::tie(found->id, found->name, found->contract, found->created, found->weights_sha256, found->note),
      std::tie(summary.id, summary.name, summary.contract, summary.created, summary.weights_sha256, summary.note));
  EXPECT_FALSE(index.find("id", "another stamp").has_value());
  EXPECT_FALSE(index.find("another id", "stamp").has_value());
  EXPECT_FALSE(RunIndex(index_path(), scratch.path() / "another archive").find("id", "stamp").has_value());
}

// The list is the folders', whatever happened to the index.
TEST(RunIndex, AnyDamageToTheIndexIsHealed) {
  const Scratch scratch;
  finished_run(scratch.runs(), "alpha");
  const fs::path beta = finished_run(scratch.runs(), "beta");
  const auto expected = ids(scratch.runs());
  ASSERT_EQ(expected.size(), 2u);
  const std::string sound = read_file(index_path());
  const auto expect_list = [&](const char* what) {
    EXPECT_EQ(ids(scratch.runs()), expected) << what;
    EXPECT_EQ(ids(scratch.runs()), expected) << what << ", again";
  };
  overwrite(index_path(), "no database at all, but long enough to look like one: " + std::string(8192, 'x'));
  expect_list("foreign bytes");
  EXPECT_TRUE(RunIndex(index_path(), scratch.runs()).usable());
  overwrite(index_path(), "");
  expect_list("empty");
  overwrite(index_path(), sound.substr(0, sound.size() / 2));
  expect_list("cut in half");
  for (std::size_t at = 0; at < sound.size(); at += 61) {
    std::string bytes = sound;
    bytes[at] ^= 0x55;
    overwrite(index_path(), bytes);
    EXPECT_EQ(ids(scratch.runs()), expected) << "byte " << at;
  }
  fs::remove(index_path());
  expect_list("absent");
  fs::remove(index_path());
  fs::create_directories(index_path() / "a folder in its place");
  expect_list("not a file");
  fs::remove_all(index_path().parent_path());
  overwrite(index_path().parent_path(), "a file where its folder should be");
  expect_list("no folder");
  ::unsetenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string old_home = home == nullptr ? "" : home;
  ::unsetenv("HOME");
  EXPECT_TRUE(index_path().empty());
  expect_list("nowhere to put it");
  ::setenv("HOME", old_home.c_str(), 1);

  // Stale: a run goes, another comes, one changes.
  const Scratch other;
  ids(scratch.runs());
  fs::remove_all(beta);
  EXPECT_EQ(ids(scratch.runs()).size(), 1u);
  finished_run(scratch.runs(), "gamma");
  EXPECT_EQ(ids(scratch.runs()).size(), 2u);
}

TEST(RunsFolder, OptionThenVariableThenDefault) {
  ::unsetenv("ISOBIT_RUNS");
  EXPECT_EQ(runs_folder(), "runs");
  ::setenv("ISOBIT_RUNS", "/elsewhere", 1);
  EXPECT_EQ(runs_folder(), "/elsewhere");
  EXPECT_EQ(runs_folder("here"), "here");
  ::unsetenv("ISOBIT_RUNS");
}

TEST(Environment, NamesNoSecretsAndNoHome) {
  ::setenv("AWS_SECRET_ACCESS_KEY", "the-secret", 1);
  ::setenv("OMP_PLACES", "/home/somebody/places", 1);
  ::setenv("OMP_NUM_THREADS", "3", 1);
  const std::string text = environment_json({{"threads", "3"}});
  for (const char* absent : {"the-secret", "AWS", "/home", "somebody", "HOME", "USER", "PATH\""}) {
    EXPECT_EQ(text.find(absent), std::string::npos) << absent;
  }
  for (const char* present : {"\"OMP_NUM_THREADS\": \"3\"", "\"OMP_PLACES\": \"(a path)\"", "\"contract\": \"isobit-",
                              "\"threads\": \"3\"", "\"compiler\""}) {
    EXPECT_NE(text.find(present), std::string::npos) << present;
  }
  ::unsetenv("OMP_PLACES");
  ::unsetenv("OMP_NUM_THREADS");
}

TEST(Suggest, NearestName) {
  const std::vector<std::string> names = {"optimizer", "seed", "steps", "epochs", "log", "show"};
  EXPECT_EQ(nearest("optimiser", names), "optimizer");
  EXPECT_EQ(nearest("lgo", names), "log");
  EXPECT_EQ(nearest("stpes", names), "steps");
  EXPECT_EQ(nearest("opt", names), "optimizer");
  EXPECT_EQ(nearest("quux", names), "");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
}

}  // namespace
}  // namespace isobit::archive
