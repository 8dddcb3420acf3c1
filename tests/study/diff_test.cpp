#include "study/diff.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "archive/log_lines.h"
#include "archive/run_folder.h"
#include "archive/small_run.h"
#include "study/compared_run.h"
#include "trace/small_trace.h"

namespace isobit::study {
namespace {

namespace fs = std::filesystem;
using archive::RunWriter;
using archive::Scratch;
using trace::OperatorLine;
using trace::small_tensor;

struct Changes {
  std::function<void(archive::StepLine&)> step;
  std::function<void(archive::SmallTensors&, std::int64_t)> tensors;
  archive::RunInputs inputs = archive::small_inputs();
  std::int64_t steps = 8;
  bool finish = true;
  std::string weights = archive::kWeights;
};

ComparedRun run_with(const fs::path& runs, const Changes& changes = {}) {
  RunWriter writer = RunWriter::create(runs, changes.inputs);
  for (std::int64_t step = 1; step <= changes.steps; ++step) {
    archive::StepLine line = archive::small_step(step);
    if (changes.step) changes.step(line);
    writer.append_step(line);
    if (step % 4 == 0) writer.append_metrics({step, step / 4, "test", {{"accuracy", 0.5}}});
    if (step % 3 != 0) continue;
    archive::SmallTensors tensors(step);
    if (changes.tensors) changes.tensors(tensors, step);
    writer.write_checkpoint(tensors.views(), "{}", 2, "");
  }
  if (changes.finish) {
    writer.finish(changes.weights);
  } else {
    writer.fail("stopped for the test");
  }
  return read_run(writer.folder(), "runs/" + writer.id());
}

nlohmann::json json(const Diff& diff) { return nlohmann::json::parse(to_json(diff)); }

TEST(DiffOfRuns, EqualOnesSayWhatWasCompared) {
  const Scratch scratch;
  Changes other;
  other.inputs.environment = "{\"contract\": \"test\", \"hardware\": {\"cpu\": \"another\"}}\n";
  const Diff diff = compare_runs(run_with(scratch.runs()), run_with(scratch.runs(), other));
  EXPECT_EQ(diff.results, Results::equal);
  EXPECT_EQ(diff.compared.steps, 8);
  EXPECT_EQ(diff.compared.metrics, 2);
  EXPECT_EQ(diff.compared.checkpoints, 2);
  ASSERT_EQ(diff.differences.size(), 1u);
  EXPECT_EQ(diff.differences[0].part, "hardware");
  EXPECT_FALSE(diff.differences[0].counts);
  const auto object = json(diff);
  EXPECT_EQ(object["format"], "isobit-diff-1");
  EXPECT_EQ(object["results"], "equal");
  EXPECT_TRUE(object["first_step"].is_null() && object["operator"].is_null());
  for (const char* key : {"id", "name", "path", "contract"}) EXPECT_TRUE(object["a"][key].is_string()) << key;
}

TEST(DiffOfRuns, NamesTheFirstStepAndItsField) {
  const Scratch scratch;
  const ComparedRun run = run_with(scratch.runs());
  const auto first = [&](const std::function<void(archive::StepLine&)>& change) {
    Changes changes;
    changes.step = change;
    const Diff diff = compare_runs(run, run_with(scratch.runs(), changes));
    EXPECT_EQ(diff.results, Results::differ);
    return diff.first_step.value_or(FirstStep{});
  };
  const auto loss = first([](archive::StepLine& line) { line.loss_bits ^= line.step >= 5 ? 1 : 0; });
  EXPECT_EQ(loss.step, 5);
  EXPECT_EQ(loss.epoch, 2);
  EXPECT_EQ(loss.field, "loss");
  EXPECT_EQ(loss.a, "3f001315");
  EXPECT_EQ(loss.b, "3f001314");
  const std::string other(32, '7');
  EXPECT_EQ(first([&](archive::StepLine& line) {
              if (line.step == 4) line.weights = other;
            }).field,
            "weights");
  EXPECT_EQ(first([&](archive::StepLine& line) {
              if (line.step == 4) line.optimizer = other;
            }).field,
            "optimizer");
  // The batch is told before the loss that follows from it.
  const auto batch = first([&](archive::StepLine& line) {
    if (line.step == 3) line.batch = other, line.loss_bits ^= 1;
  });
  EXPECT_EQ(batch.field, "batch");
  EXPECT_EQ(batch.step, 3);
}

// Weights of steps 2, 4, 6 and 8 are recorded, gradients of every third.
TEST(DiffOfRuns, GradientsTellWhetherTheyPartedBeforeTheWeights) {
  const Scratch scratch;
  const std::string same(32, '5'), other(32, '7');
  const auto run_where = [&](std::int64_t gradients_from, std::int64_t weights_from) {
    Changes changes;
    changes.step = [=](archive::StepLine& line) {
      if (line.step % 3 == 0) line.gradients = line.step >= gradients_from ? other : same;
      if (!line.weights.empty() && line.step >= weights_from) line.weights = other;
    };
    return run_with(scratch.runs(), changes);
  };
  const ComparedRun run = run_where(100, 100);
  const Diff before = compare_runs(run, run_where(3, 6));
  ASSERT_TRUE(before.first_step.has_value());
  EXPECT_EQ(before.first_step->step, 3);
  EXPECT_EQ(before.first_step->field, "gradients");
  EXPECT_EQ(before.first_step->b, other);
  ASSERT_FALSE(before.notes.empty());
  EXPECT_EQ(before.notes[0],
            "the gradients parted first: the first recorded weights that differ are those after step 6");
  EXPECT_EQ(before.equal_weights_after, 2);
  const Diff after = compare_runs(run, run_where(100, 6));
  ASSERT_TRUE(after.first_step.has_value());
  EXPECT_EQ(after.first_step->field, "weights");
  ASSERT_FALSE(after.notes.empty());
  EXPECT_NE(after.notes[0].find("the gradients of step 6 are equal"), std::string::npos) << after.notes[0];
  // Taken by one run alone, they are a setting.
  EXPECT_EQ(compare_runs(run, run_with(scratch.runs())).results, Results::equal);
}

TEST(DiffOfRuns, WeightsKnownToBeEqualBoundTheSearch) {
  const Scratch scratch;
  Changes changes;
  changes.step = [](archive::StepLine& line) { line.loss_bits ^= line.step >= 7 ? 1 : 0; };
  const Diff diff = compare_runs(run_with(scratch.runs()), run_with(scratch.runs(), changes));
  EXPECT_EQ(diff.equal_weights_after, 6);
}

TEST(DiffOfRuns, OneFlippedBitOfACheckpointIsNamed) {
  const Scratch scratch;
  Changes changes;
  changes.tensors = [](archive::SmallTensors& tensors, std::int64_t step) {
    if (step == 6) tensors.weight[4] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(tensors.weight[4]) ^ 1);
  };
  const Diff diff = compare_runs(run_with(scratch.runs()), run_with(scratch.runs(), changes));
  EXPECT_EQ(diff.results, Results::differ);
  ASSERT_EQ(diff.notes.size(), 1u);
  EXPECT_EQ(diff.notes[0], "checkpoint of step 6: weight: 1 of 6 elements differ, at most 1 ULP at index 4");
}

TEST(DiffOfRuns, UnfinishedOnesCannotBeTold) {
  const Scratch scratch;
  Changes unfinished;
  unfinished.finish = false;
  unfinished.steps = 5;
  const ComparedRun whole = run_with(scratch.runs()), part = run_with(scratch.runs(), unfinished);
  EXPECT_FALSE(part.finished);
  const Diff diff = compare_runs(whole, part);
  EXPECT_EQ(diff.results, Results::unknown);
  EXPECT_EQ(diff.compared.steps, 5);
  ASSERT_FALSE(diff.notes.empty());
  EXPECT_NE(diff.notes[0].find("b is not finished"), std::string::npos);
  // But a difference is one.
  unfinished.step = [](archive::StepLine& line) { line.loss_bits ^= 1; };
  EXPECT_EQ(compare_runs(whole, run_with(scratch.runs(), unfinished)).results, Results::differ);
  unfinished.step = {};
  unfinished.steps = 0;
  EXPECT_EQ(compare_runs(whole, run_with(scratch.runs(), unfinished)).results, Results::unknown);
}

TEST(DiffOfRuns, OtherLengthAndOtherEndDiffer) {
  const Scratch scratch;
  Changes shorter, end;
  shorter.steps = 6;
  const ComparedRun run = run_with(scratch.runs());
  const Diff length = compare_runs(run, run_with(scratch.runs(), shorter));
  EXPECT_EQ(length.results, Results::differ);
  EXPECT_EQ(length.first_step->step, 7);
  EXPECT_EQ(length.first_step->b, "");
  end.weights.back() = '0';
  EXPECT_EQ(compare_runs(run, run_with(scratch.runs(), end)).results, Results::differ);
}

TEST(DiffOfRuns, ExperimentAndDataKeyByKey) {
  const Scratch scratch;
  Changes changes;
  changes.inputs.experiment = "name = \"small\"\nseed = 8\n\n[optimizer]\nlr = 0.5\n\n[checkpoint]\nkeep = 1\n";
  changes.inputs.data = "{\"files\": [{\"name\": \"x\", \"sha256\": \"aa\"}]}\n";
  const Diff diff = compare_runs(run_with(scratch.runs()), run_with(scratch.runs(), changes));
  std::map<std::string, InputDifferenceOfRuns> found;
  for (const auto& one : diff.differences) found[one.part + " " + one.key] = one;
  EXPECT_EQ(found.at("experiment seed").a, "7");
  EXPECT_EQ(found.at("experiment seed").b, "8");
  EXPECT_TRUE(found.at("experiment seed").counts);
  EXPECT_EQ(found.at("experiment optimizer.lr").a, "");
  EXPECT_FALSE(found.at("experiment checkpoint.keep").counts);
  EXPECT_EQ(found.at("data files.x.sha256").b, "aa");
  EXPECT_EQ(diff.results, Results::equal) << "the steps are what decides";
}

TEST(DiffOfRuns, CodeAsADiff) {
  const Scratch scratch;
  const auto script = [&](const std::string& line) {
    const std::string sources =
        nlohmann::json{{"format", "isobit-sources-1"}, {"files", {{"train.py", "a\n" + line + "\nc\n"}}}}.dump();
    auto run = archive::RunFolder::create(scratch.runs(), "train",
                                          {{archive::kExperimentFile, "[script]\nfile = \"train.py\"\n"},
                                           {archive::kEnvironmentFile, "{}\n"},
                                           {archive::kDataFile, "{\"files\": []}\n"},
                                           {"sources.json", sources}},
                                          archive::kScriptRun);
    for (std::int64_t step = 1; step <= 3; ++step) run.append_step(step, format_line(archive::small_step(step)));
    run.finish(archive::kWeights, std::string(64, 'e'));
    return read_run(run.path(), "x");
  };
  const Diff diff = compare_runs(script("b"), script("B"));
  EXPECT_EQ(diff.results, Results::equal);
  EXPECT_EQ(diff.code_diff, "--- a/train.py\n+++ b/train.py\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
  ASSERT_EQ(diff.differences.size(), 1u);
  EXPECT_EQ(diff.differences[0].part, "code");
  EXPECT_FALSE(diff.differences[0].counts);
}

// ---- traces

class DiffOfTraces : public ::testing::Test {
 protected:
  Diff against(const std::function<void(OperatorLine&)>& alter,
               const trace::TraceHeader& header = trace::small_header()) {
    const std::string name = std::to_string(++files_);
    const auto a = trace::write_small(scratch_.path() / ("a" + name));
    const auto b = trace::write_small(scratch_.path() / ("b" + name), alter, header);
    return compare_traces(trace::read_trace(a), trace::read_trace(b));
  }
  std::filesystem::path folder() const { return scratch_.path(); }

 private:
  Scratch scratch_;
  int files_ = 0;
};

TEST_F(DiffOfTraces, EqualOnes) {
  trace::TraceHeader header = trace::small_header();
  header.environment = R"({"format":"isobit-environment-1","hardware":{"cpu":"b"},"run":{"threads":"2"}})";
  const Diff diff = against({}, header);
  EXPECT_EQ(diff.results, Results::equal);
  EXPECT_EQ(diff.compared.operators, 6);
  EXPECT_EQ(diff.differences.size(), 2u);
}

TEST_F(DiffOfTraces, NamesTheFirstOperatorWithEqualInputs) {
  // The second linear of step 3 begins it; what gets its output differs, too, and is not named.
  const Diff diff = against([](OperatorLine& line) {
    if (line.key.step == 3 && line.key.occurrence == 2) line.outputs[0] = small_tensor("other");
    if (line.key.step == 4) line.inputs[0] = small_tensor("follows"), line.outputs[0] = small_tensor("follows");
  });
  EXPECT_EQ(diff.results, Results::differ);
  ASSERT_TRUE(diff.first_operator);
  EXPECT_EQ(to_string(diff.first_operator->key), "3/forward/model.fc/aten::linear/2");
  EXPECT_FALSE(diff.first_operator->values);
  const auto object = json(diff);
  EXPECT_EQ(object["operator"]["name"], "aten::linear");
  EXPECT_EQ(object["operator"]["shape"], (std::vector<int>{2, 3}));
  EXPECT_TRUE(object["operator"]["max_ulp"].is_null());
}

TEST_F(DiffOfTraces, WhatCameInFromOutsideIsSaid) {
  const Diff diff = against([](OperatorLine& line) { line.arguments = "t,0.25"; });
  EXPECT_EQ(diff.results, Results::differ);
  EXPECT_FALSE(diff.first_operator);
  EXPECT_NE(diff.not_looked_into.find("came in from outside"), std::string::npos);
  EXPECT_NE(diff.notes.front().find("the arguments (t,0.5 | t,0.25)"), std::string::npos);
}

// An outer operator with equal outputs hides what parts within it, until backward uses what it kept.
TEST_F(DiffOfTraces, WhatAnOperatorKeptForBackwardIsSaid) {
  const auto kept = [](OperatorLine& line) {
    if (line.key.step != 3 || line.key.occurrence != 2) return;
    line.key.phase = trace::Phase::backward, line.key.occurrence = 1;
  };
  const auto path = [&](const char* name, bool parts) {
    return trace::write_small(folder() / name, [&](OperatorLine& line) {
      kept(line);
      if (!parts || line.key.phase != trace::Phase::backward) return;
      line.inputs[0] = small_tensor("saved"), line.outputs[0] = small_tensor("follows");
    });
  };
  const auto a = trace::read_trace(path("plain", false)), b = trace::read_trace(path("parts", true));
  const Diff diff = compare_traces(a, b);
  EXPECT_EQ(diff.results, Results::differ);
  EXPECT_FALSE(diff.first_operator);
  ASSERT_EQ(diff.notes.size(), 2u);
  EXPECT_EQ(diff.notes[0], "input 0 of 3/backward/model.fc/aten::linear/1 differs first");
  EXPECT_NE(diff.notes[1].find("forward pass saved that tensor"), std::string::npos);
  EXPECT_EQ(diff.not_looked_into.find("outside"), std::string::npos);
}

TEST_F(DiffOfTraces, WithoutFingerprintNothingIsClaimed) {
  const auto without = [](trace::TensorTrace& tensor, const char* why) {
    tensor.fingerprint.clear(), tensor.without = why;
  };
  // Uninitialised memory and overwritten inputs say nothing.
  EXPECT_EQ(against([&](OperatorLine& line) {
              if (line.key.name == "aten::relu") without(line.outputs[0], "never written");
            }).results,
            Results::differ);  // only one of the two says so: another program
  const Diff sparse = against([&](OperatorLine& line) {
    if (line.key.occurrence == 2) without(line.inputs[0], "sparse");
  });
  EXPECT_FALSE(sparse.first_operator);
}

TEST_F(DiffOfTraces, StepsThatOneLacks) {
  trace::TraceHeader later = trace::small_header();
  later.window = {4, 3};
  const Diff some = against({}, later);
  EXPECT_EQ(some.results, Results::equal);
  EXPECT_EQ(some.compared.steps, 1);
  EXPECT_EQ(some.notes, (std::vector<std::string>{"only a has step 3", "only b has steps 5..6"}));
  later.window = {9, 1};
  EXPECT_EQ(against({}, later).results, Results::unknown);
}

TEST_F(DiffOfTraces, OtherArithmeticIsListed) {
  trace::TraceHeader stock = trace::small_header();
  stock.arithmetic = "stock-2.13.0";
  const Diff diff = against({}, stock);
  ASSERT_EQ(diff.differences.size(), 1u);
  EXPECT_EQ(diff.differences[0].key, "arithmetic");
  EXPECT_EQ(diff.b.contract, "stock-2.13.0");
}

TEST(KeptValues, GiveTheDistanceInUlp) {
  const Scratch scratch;
  const auto write = [&](const char* name, float value) {
    const auto path = scratch.path() / name;
    trace::TraceWriter writer(path, trace::small_header("all"));
    OperatorLine line = trace::small_line(3, "aten::relu", 1);
    line.outputs[0] = small_tensor(std::to_string(value));
    writer.add(line);
    const float values[] = {1, 2, 3, 4, value, 6};
    trace::KeptValues kept{values_name(line.key, 0), "F32", {2, 3}, std::vector<std::byte>(sizeof values)};
    std::memcpy(kept.bytes.data(), values, sizeof values);
    writer.keep(kept);
    writer.end_step({3, 1, ""});
    writer.finish();
    return trace::read_trace(path);
  };
  const Diff diff = compare_traces(write("a", 5), write("b", 5.0000014F));
  ASSERT_TRUE(diff.first_operator && diff.first_operator->values);
  const auto found = json(diff)["operator"];
  EXPECT_EQ(found["max_ulp"], 3);
  EXPECT_EQ(found["at"], (std::vector<int>{1, 1}));
  EXPECT_EQ(found["differing"], 1);
  EXPECT_EQ(found["elements"], 6);
}

}  // namespace
}  // namespace isobit::study
