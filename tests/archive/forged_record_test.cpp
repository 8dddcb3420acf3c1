// Records that somebody altered and sealed anew, as anybody can: each is damaged, by what its parts say of each other.
// Forgeries that agree with themselves are found by executing the run again (tests/python/forged_test.py).
#include <fmt/format.h>

#include <functional>

#include "archive/log_lines.h"
#include "archive/record_rules.h"
#include "archive/run_folder.h"
#include "small_run.h"

namespace isobit::archive {
namespace {

const std::string kDigits(32, 'c');

// A program's record of 4 steps.
fs::path script_run(const fs::path& runs) {
  RunFolder run = RunFolder::create(
      runs, "train",
      {{kExperimentFile, "# A Python program under isobit.record.\n[script]\nfile = \"train.py\"\narguments = []\n"},
       {kEnvironmentFile, "{}\n"},
       {kDataFile, "{\"format\": \"isobit-data-1\", \"files\": []}\n"},
       {"sources.json", "{\"format\": \"isobit-sources-1\", \"files\": {\"train.py\": \"pass\"}}\n"}},
      kScriptRun);
  run.append(kMetricsLog, format_line(MetricsLine{0, 1, "test", {{"accuracy", 0.1}}}));
  for (std::int64_t step = 1; step <= 4; ++step) {
    run.append_step(step, format_line(StepLine{step, 1, 7, kDigits, "", ""}));
    run.append(kEvaluationsLog, format_line(EvaluationLine{step, 1, 1, kDigits}));
    if (step == 2) run.append(kOutsideLog, format_line(OutsideLine{1, 2, "__main__:7", "disabled"}));
    const auto piece = std::as_bytes(std::span("abc", 3));
    if (step >= 3) run.write_checkpoint(".pt", std::span(&piece, 1), 2);
  }
  run.append(kMetricsLog, format_line(MetricsLine{4, 1, "test", {{"accuracy", 0.9}}}));
  run.finish(kWeights, std::string(64, 'e'));
  return run.path();
}

struct Forgery {
  const char* name;
  const char* file;
  std::function<std::string(std::string)> alter;
  const char* because;  // part of the message
};

std::function<std::string(std::string)> with(const std::string& from, const std::string& to) {
  return [=](std::string text) {
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
}
std::function<std::string(std::string)> plus(const std::string& end) {
  return [=](const std::string& text) { return text + end; };
}
std::string metrics_of(std::int64_t step, const char* set = "test") {
  return format_line(MetricsLine{step, 1, set, {{"accuracy", 0.999}}});
}

void expect_damaged(const std::function<fs::path(const fs::path&)>& make, const std::vector<Forgery>& forgeries) {
  for (const Forgery& forgery : forgeries) {
    const Scratch scratch;
    const fs::path run = make(scratch.runs());
    const fs::path file = run / forgery.file;
    overwrite(file, forgery.alter(fs::exists(file) ? read_file(file) : ""));
    if (std::string(forgery.file) != kStateFile) {
      seal_anew(run);
    } else {  // state.json as it was altered
      Manifest manifest = parse_manifest(read_file(run / kManifest), kManifest);
      manifest.files[kStateFile] = digest_file(file);
      overwrite(run / kManifest, format_manifest(manifest));
    }
    const std::string error = error_of([&] { static_cast<void>(RunRecord::open(run)); });
    EXPECT_NE(error.find("damaged"), std::string::npos) << forgery.name << ": " << error;
    EXPECT_NE(error.find(forgery.because), std::string::npos) << forgery.name << ": " << error;
    // What cannot be trusted is not listed either.
    const RunSummary summary = summarize(run);
    EXPECT_EQ(summary.state, RunState::damaged) << forgery.name;
    EXPECT_TRUE(summary.metrics.empty() && summary.weights.empty()) << forgery.name;
  }
}

TEST(ForgedRecord, UntouchedAndSealedAnewIsSound) {
  const Scratch scratch;
  for (const fs::path& run : {finished_run(scratch.runs()), script_run(scratch.runs())}) {
    const std::string manifest = read_file(run / kManifest);
    seal_anew(run);
    EXPECT_EQ(read_file(run / kManifest), manifest);
    EXPECT_EQ(error_of([&] { static_cast<void>(RunRecord::open(run)); }), "");
  }
}

// A run of 4 steps by stock PyTorch, or by isobit, that keeps the predictions of evaluations after steps 2 and 4.
fs::path predicting_run(const fs::path& runs, bool stock) {
  RunInputs inputs = small_inputs();
  inputs.experiment += stock ? "\n[arithmetic]\nkind = \"stock\"\n" : "";
  inputs.experiment += "\n[evaluate]\npredictions = true\n";
  if (stock) inputs.contract = "stock-2.13.0";
  RunWriter writer = RunWriter::create(runs, inputs);
  for (std::int64_t step = 1; step <= 4; ++step) {
    writer.append_step(small_step(step));
    if (step % 2 != 0) continue;
    writer.append_metrics({step, 1, "test", {{"accuracy", 0.5}}});
    writer.append_predictions({step, 1, "test", {1, 7, step}, std::string(64, 'b')});
    writer.write_checkpoint(SmallTensors(step).views(), "{}", 2, std::string(64, 'a'));
  }
  writer.finish(inputs.contract + ":00112233445566778899aabbccddeeff");
  return writer.folder();
}

// A run of 8 steps, four an epoch, with a checkpoint at the end of each epoch and of each of three segments; the newest
// one is kept.
fs::path run_of_segments(const fs::path& runs, const std::string& settings) {
  RunInputs inputs = small_inputs();
  inputs.experiment += "\n[checkpoint]\n" + settings;
  RunWriter writer = RunWriter::create(runs, inputs);
  for (std::int64_t step = 1; step <= 8; ++step) {
    writer.append_step(small_step(step));
    const bool due = step == 2 || step == 4 || step == 5 || step == 8;
    if (due) writer.write_checkpoint(SmallTensors(step).views(), "{}", 1, std::string(64, 'a'));
  }
  writer.finish(kWeights);
  return writer.folder();
}

TEST(ForgedRecord, OfCheckpointsThatAreDue) {
  const auto without = [](const char* step) {
    return [=](std::string text) {
      const auto at = text.find(step);
      EXPECT_NE(at, std::string::npos);
      return text.erase(at, text.find('\n', at) + 1 - at);
    };
  };
  const char* log = "checkpoints.jsonl";
  expect_damaged([](const fs::path& runs) { return run_of_segments(runs, "every = 0\nsegments = 3\n"); },
                 {{"of a segment", log, without("{\"step\":2,"), "no line of the checkpoint after step 2"},
                  {"of an epoch", log, without("{\"step\":4,"), "no line of the checkpoint after step 4"},
                  {"the last", log, without("{\"step\":8,"), "no line of the checkpoint after step 8"}});
  expect_damaged([](const fs::path& runs) { return run_of_segments(runs, "every = 4\nsegments = 3\n"); },
                 {{"every fourth", log, without("{\"step\":4,"), "no line of the checkpoint after step 4"}});
  const Scratch scratch;
  for (const char* settings :
       {"every = 0\nsegments = 3\n", "every = 4\nsegments = 3\n", "every = 4\n", "segments = 3\n"})
    EXPECT_EQ(error_of([&] { (void)RunRecord::open(run_of_segments(scratch.runs(), settings)); }), "") << settings;
}

TEST(ForgedRecord, OfPredictions) {
  const std::string line = format_line(PredictionsLine{4, 1, "test", {1, 7, 4}, std::string(64, 'b')});
  const auto replaced = [&](const PredictionsLine& by) { return with(line, format_line(by)); };
  expect_damaged(
      [](const fs::path& runs) { return predicting_run(runs, false); },
      {
          {"one evaluation's less", "predictions.jsonl", with(line, ""), "missing"},
          {"one more", "predictions.jsonl", plus(line), "no such evaluation"},
          {"of another step", "predictions.jsonl", replaced({3, 1, "test", {1, 7, 4}, std::string(64, 'b')}),
           "not of the evaluation after step 4"},
          {"of another epoch", "predictions.jsonl", replaced({4, 2, "test", {1, 7, 4}, std::string(64, 'b')}),
           "not of the evaluation"},
          {"of another set", "predictions.jsonl", replaced({4, 1, "train", {1, 7, 4}, std::string(64, 'b')}),
           "not of the evaluation"},
          {"of more samples", "predictions.jsonl", replaced({4, 1, "test", {1, 7, 4, 4}, std::string(64, 'b')}),
           "other samples"},
          {"of other samples", "predictions.jsonl", replaced({4, 1, "test", {1, 7, 4}, std::string(64, 'c')}),
           "other samples"},
          {"no class", "predictions.jsonl", with("[1,7,4]", "[1,-7,4]"), "the line is damaged"},
          {"no whole number", "predictions.jsonl", with("[1,7,4]", "[1,7.0,4]"), "the line is damaged"},
          {"no list", "predictions.jsonl", with("[1,7,4]", "{\"a\":1}"), "the line is damaged"},
          {"no digest", "predictions.jsonl", with(std::string(64, 'b') + "\"}\n{", "b\"}\n{"), "the line is damaged"},
          {"not asked for", "experiment.toml", with("predictions = true\n", ""), "keeps no predictions"},
      });
  expect_damaged([](const fs::path& runs) { return finished_run(runs); },
                 {{"not asked for", "predictions.jsonl", plus(line), "keeps no predictions"},
                  {"asked for", "experiment.toml", plus("\n[evaluate]\npredictions = true\n"), "there are none"}});
}

TEST(ForgedRecord, OfStockPyTorch) {
  const Scratch scratch;
  const RunRecord record = RunRecord::open(predicting_run(scratch.runs(), true));
  EXPECT_TRUE(record.is_stock());
  EXPECT_EQ(record.weights(), "stock-2.13.0:00112233445566778899aabbccddeeff");
  EXPECT_EQ(record.predictions().value().back().predictions, (std::vector<std::int64_t>{1, 7, 4}));
  const auto as_isobit = [](std::string text) {
    for (auto at = text.find("stock-2.13.0"); at != std::string::npos; at = text.find("stock-2.13.0"))
      text.replace(at, 12, "isobit-0.1");
    return text;
  };
  const auto as_stock = [](std::string text) {
    for (auto at = text.find("isobit-0.1"); at != std::string::npos; at = text.find("isobit-0.1"))
      text.replace(at, 10, "stock-2.13.0");
    return text;
  };
  expect_damaged(
      [](const fs::path& runs) { return predicting_run(runs, true); },
      {{"certified in name", "state.json", as_isobit, "but the experiment asks for stock"},
       {"a program in certified words", "experiment.toml", with("kind = \"stock\"", "kind = \"isobit\""),
        "but the experiment asks for isobit"},
       {"without the section", "experiment.toml", with("[arithmetic]\nkind = \"stock\"\n", ""),
        "but the experiment asks for isobit"},
       {"weights of a contract", "state.json", with("stock-2.13.0:0", "isobit-0.1:0"), "fingerprint is none"},
       {"a name that a terminal obeys", "state.json",
        [](std::string text) {
          for (auto at = text.find("2.13.0"); at != std::string::npos; at = text.find("2.13.0"))
            text.replace(at, 6, "\\u001b[2K");
          return text;
        },
        "name is none"}});
  expect_damaged([](const fs::path& runs) { return predicting_run(runs, false); },
                 {{"stock in name", "state.json", as_stock, "but the experiment asks for isobit"},
                  {"stock in the experiment", "experiment.toml", plus("\n[arithmetic]\nkind = \"stock\"\n"),
                   "but the experiment asks for stock"}});
  expect_damaged(script_run, {{"stock in name", "state.json", as_stock, "but the experiment asks for isobit"},
                              {"a stock program", "experiment.toml", plus("arithmetic = \"stock\"\n"),
                               "but the experiment asks for stock"}});
}

// Resumed is what was begun, by what began it; what stock did twice need not come out the same.
TEST(StockRun, IsResumedByStockAlone) {
  const Scratch scratch;
  RunInputs inputs = small_inputs();
  inputs.experiment += "\n[arithmetic]\nkind = \"stock\"\n";
  inputs.contract = "stock-2.13.0";
  fs::path run, certified;
  {
    RunWriter writer = RunWriter::create(scratch.runs(), inputs);
    run = writer.folder();
    write_steps(writer, 1, 5);
    RunWriter other = RunWriter::create(scratch.runs(), small_inputs());
    certified = other.folder();
    write_steps(other, 1, 5);
  }
  const std::string before = read_file(run / kStepsLog);
  EXPECT_NE(error_of([&] { static_cast<void>(RunWriter::resume(run, "{}")); }).find("was begun by stock-2.13.0"),
            std::string::npos);
  EXPECT_NE(error_of([&] { static_cast<void>(RunWriter::resume(run, "{}", "stock-2.12.0")); }).find("stock-2.12.0"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              static_cast<void>(RunWriter::resume(certified, "{}", "stock-2.13.0"));
            }).find("was begun by isobit-0.1"),
            std::string::npos);
  EXPECT_EQ(read_file(run / kStepsLog), before);
  EXPECT_EQ(summarize(run).contract, "stock-2.13.0");
  RunWriter writer = RunWriter::resume(run, "{}", "stock-2.13.0");
  ASSERT_EQ(writer.checkpoint()->step(), 3);
  StepLine line = small_step(4);
  line.loss_bits ^= 1;
  EXPECT_EQ(error_of([&] { writer.append_step(line); }), "");
  writer.finish("stock-2.13.0:00112233445566778899aabbccddeeff");
  EXPECT_TRUE(RunRecord::open(run).is_stock());
  RunWriter other = RunWriter::resume(certified, "{}");
  EXPECT_NE(error_of([&] { other.append_step(line); }).find("came out differently"), std::string::npos);
}

// seal_anew lets every log be what the record's program would leave; these are what a forger leaves out.
TEST(ForgedRecord, OfAProgramWithoutItsLogs) {
  for (const char* log : {kOutsideLog, kEvaluationsLog}) {
    const Scratch scratch;
    const fs::path run = script_run(scratch.runs());
    fs::remove(run / log);
    std::string lines = read_file(run / kCheckpointsLog);
    for (auto at = lines.find(fmt::format("\"{}\":{{", log)); at != std::string::npos;
         at = lines.find(fmt::format("\"{}\":{{", log))) {
      const auto end = lines.find('}', at) + 1;
      lines.erase(lines[end] == ',' ? at : at - 1, end - at + 1);
    }
    overwrite(run / kCheckpointsLog, lines);
    seal_anew(run);
    const std::string error = error_of([&] { static_cast<void>(RunRecord::open(run)); });
    EXPECT_NE(error.find(fmt::format("{}: damaged: a program's record has this log", log)), std::string::npos) << error;
  }
}

TEST(ForgedRecord, OfAProgramsTables) {
  expect_damaged(script_run,
                 {{"a table twice", "experiment.toml", plus("[script]\n"), "not a line that"},
                  {"a table again", "experiment.toml", with("[script]\n", "[script]\n[script]\n"), "not a line that"},
                  {"words", "experiment.toml", plus("# verified\n"), "not a line that"}});
}

TEST(ForgedRecord, OfAnExperiment) {
  const std::string deep = "{\"a\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}\n";
  const std::string nested = [] {
    std::string text;
    for (int i = 0; i < 200'000; ++i) text += "{\"a\":";
    return text + "1" + std::string(200'000, '}') + "\n";
  }();
  expect_damaged(
      [](const fs::path& runs) { return finished_run(runs); },
      {
          {"accuracy after the last step", "metrics.jsonl", plus(metrics_of(9)), "step 9 is not one"},
          {"accuracy on step 0", "metrics.jsonl", [](const std::string& text) { return metrics_of(0) + text; },
           "step 0 is not one"},
          {"accuracy on a negative step", "metrics.jsonl",
           [](const std::string& text) { return metrics_of(-3) + text; }, "step -3 is not one"},
          {"accuracy twice", "metrics.jsonl", plus(metrics_of(8)), "doubled"},
          {"accuracy out of order", "metrics.jsonl", plus(metrics_of(3)), "out of order"},
          {"another set", "metrics.jsonl", plus(metrics_of(8, "validation")), "no run measures"},
          {"accuracy of another epoch", "metrics.jsonl", with("\"epoch\":2", "\"epoch\":90"), "another epoch"},
          {"words for a value", "metrics.jsonl", with("\"accuracy\"", "\"accuracy\u3164\""), "no run measures such"},
          {"words in the experiment", "experiment.toml", plus("# verified: accuracy 0.999\n"), "not a line that"},
          {"words behind a value", "experiment.toml", with("seed = 7", "seed = 7 # verified"), "not a line that"},
          {"a key twice", "experiment.toml", plus("seed = 7\n"), "not a line that"},
          {"no value", "experiment.toml", plus("verified\n"), "not a line that"},
          {"another name of the experiment", "experiment.toml", with("\"small\"", "\"large\""), "another name"},
          {"a checkpoint of no logs", "checkpoints.jsonl",
           [](std::string text) {
             const auto at = text.find("\"logs\":{"), end = text.find("}}", at);
             return text.replace(at + 7, end + 2 - (at + 7), "{}");
           },
           "does not say how steps.jsonl began"},
          {"a checkpoint of empty logs", "checkpoints.jsonl",
           [](std::string text) {
             const std::string none = "\"steps.jsonl\":{\"size\":0,\"sha256\":\"" + sha256("") + "\"}";
             const auto at = text.find("\"steps.jsonl\":{"), end = text.find('}', at);
             return text.replace(at, end + 1 - at, none);
           },
           "had other steps then"},
          {"control characters", "metrics.jsonl", plus(metrics_of(8, "\x1b[2K\ridentical: forged")), "no run measures"},
          {"a checkpoint that no line names", "checkpoints/step-7.safetensors", plus("x"),
           "no part of the record names"},
          {"a file that no part names", "notes.txt", plus("accuracy 0.999"), "no part of the record names"},
          {"a program's log", "evaluations.jsonl", plus(format_line(EvaluationLine{1, 1, 1, kDigits})),
           "only programs"},
          {"what ran outside, of no program", "outside.jsonl", plus(format_line(OutsideLine{1, 2, "a:1", "disable"})),
           "only programs"},
          {"sources of no program", "sources.json", plus("{}"), "no part of the record names"},
          {"a network of no TorchScript run", "network.pt", plus("x"), "no part of the record names"},
          {"a readme of no export", "README.txt", plus("identical, says everybody\n"), "only an exported record"},
          {"a checkpoint of step 0", "checkpoints.jsonl",
           [](const std::string& text) {
             return R"({"step":0,"file":"checkpoints/step-0.safetensors","size":1,"sha256":")" + std::string(64, 'a') +
                    "\",\"logs\":{}}\n" + text;
           },
           "step 0 is not one"},
          {"a checkpoint after the end", "checkpoints.jsonl",
           plus(R"({"step":9,"file":"checkpoints/step-9.safetensors","size":1,"sha256":")" + std::string(64, 'a') +
                "\",\"logs\":{}}\n"),
           "step 9 is not one"},
          {"a checkpoint under another name", "checkpoints.jsonl", with("checkpoints/step-6", "checkpoints/step-3"),
           "another name"},
          {"a checkpoint elsewhere", "checkpoints.jsonl", with("checkpoints/step-6.safetensors", "../other"),
           "another name"},
          {"a checkpoint's weights without a digest", "checkpoints.jsonl",
           with("\"weights_sha256\":\"a", "\"weights_sha256\":\"g"), "jsonl:1: the line is damaged"},
          {"a checkpoint twice", "checkpoints.jsonl",
           [](const std::string& text) { return text + text.substr(text.rfind('\n', text.size() - 2) + 1); },
           "doubled"},
          {"other bytes in a checkpoint", "checkpoints/step-6.safetensors", plus("x"), "not the checkpoint that"},
          {"a log that began otherwise", "timings.jsonl", with("0.001", "0.002"), "did not begin like this"},
          {"a timing after the end", "timings.jsonl", plus(format_line(TimingLine{9, "step", 1, 1})), "step 9 is not"},
          {"a negative time", "timings.jsonl", plus(format_line(TimingLine{8, "step", -1, 1})), "such a time"},
          {"a step more", "steps.jsonl", plus(format_line(small_step(9))), "disagree"},
          {"a step twice", "steps.jsonl", plus(format_line(small_step(8))), "out of order"},
          {"a batch that is no fingerprint", "steps.jsonl",
           with(kDigits.substr(0, 32), std::string(31, 'c') + "\\u001b"), "damaged"},
          {"deep lists", "environment.json", [=](const std::string&) { return deep; }, "nested more than 64"},
          {"deep objects", "environment.json", [=](const std::string&) { return nested; }, "nested more than 64"},
          {"a name twice", "environment.json", [](const std::string&) { return R"({"a": 1, "a": 2})"; },
           "has a name twice"},
          {"a list for an object", "data.json", [](const std::string&) { return "[]\n"; }, "no JSON object"},
          {"no JSON", "data.json", [](const std::string&) { return "{\n"; }, "not JSON"},
          {"a deep line", "metrics.jsonl", plus(deep), "damaged"},
          {"another spelling of the state", "state.json", with("\"steps\": 8", "\"steps\":  8"),
           "not as isobit writes it"},
          {"more in the state", "state.json", with("\"steps\": 8", "\"steps\": 8,\n  \"prize\": 1"),
           "not as isobit writes it"},
          {"a reason", "state.json", with("\"reason\": \"\"", "\"reason\": \"none\""), "no reason"},
          {"another name", "state.json", with("\"name\": \"small\"", "\"name\": \"large\""), "id and name"},
          {"weights that are none", "state.json", with("aabbccddeeff", "AABBCCDDEEFF"), "fingerprint is none"},
          {"weights of another contract", "state.json", with("isobit-0.1:", "isobit-9.9:"), "fingerprint is none"},
          {"no inputs", "state.json",
           [](const std::string& text) {
             StateFile state = parse_state(text, "");
             state.inputs.erase(kDataFile);
             return format_state(state);
           },
           "does not name data.json"},
          {"another input", "state.json",
           [](const std::string& text) {
             StateFile state = parse_state(text, "");
             state.inputs[kExperimentFile].size += 1;
             return format_state(state);
           },
           "not the file that state.json names"},
          {"an input that no run has", "state.json",
           [](const std::string& text) {
             StateFile state = parse_state(text, "");
             state.inputs["steps.jsonl"] = {0, sha256("")};
             return format_state(state);
           },
           "damaged"},
      });
}

TEST(ForgedRecord, OfAProgram) {
  expect_damaged(
      script_run,
      {
          {"accuracy after the last step", "metrics.jsonl", plus(metrics_of(5)), "step 5 is not one"},
          {"accuracy before the run", "metrics.jsonl", [](const std::string& text) { return metrics_of(-1) + text; },
           "step -1 is not one"},
          {"a checkpoint that no line names", "checkpoints/step-1.pt", plus("x"), "no part of the record"},
          {"other bytes in a checkpoint", "checkpoints/step-4.pt", plus("x"), "not the checkpoint that"},
          {"evaluations after the end", "evaluations.jsonl", plus(format_line(EvaluationLine{5, 1, 1, kDigits})),
           "step 5 is not one"},
          {"outside after the end", "outside.jsonl", plus(format_line(OutsideLine{3, 5, "a:1", "disable"})),
           "out of order"},
          {"outside backwards", "outside.jsonl", plus(format_line(OutsideLine{3, 2, "a:1", "disable"})),
           "out of order"},
          {"outside by another call", "outside.jsonl",
           plus("{\"after\":3,\"until\":4,\"place\":\"a:1\",\"call\":\"chance\"}\n"), "damaged"},
          {"words beside the experiment", "experiment.toml", plus("# accuracy 0.999\n"), "not a line"},
          {"a key twice", "experiment.toml", plus("file = \"other.py\"\n"), "not a line"},
          {"a key that is none", "experiment.toml", plus("accuracy = 0.999\n"), "not a line"},
          {"a value that is none", "experiment.toml", with("\"train.py\"", "train.py"), "not a line"},
          {"an arithmetic that is none", "experiment.toml", plus("arithmetic = \"float64\"\n"), "not a line"},
          {"stock in another spelling", "experiment.toml", plus("arithmetic = \"st\\u006fck\"\n"), "not a line"},
          {"words for a truth", "experiment.toml", plus("dirty = \"reviewed by everybody\"\n"), "not a line"},
          {"a list for a text", "experiment.toml", plus("commit = [\"main\"]\n"), "not a line"},
          {"sources that are no text", "sources.json", with("\"pass\"", "[\"pass\"]"), "no text"},
          {"sources under a name twice", "sources.json", with("\"train.py\": \"pass\"", "\"a\": \"\", \"a\": \"b\""),
           "has a name twice"},
          {"more than sources", "sources.json", with("\"files\"", "\"verdict\": \"identical\", \"files\""),
           "no program's sources"},
          {"a manifest in a file's name", "x\x1b[2K", plus("x"), "no part of the record names"},
      });
}

TEST(ForgedRecord, WhatAFileSaysIsEscapedInTheMessage) {
  const Scratch scratch;
  const fs::path run = script_run(scratch.runs());
  overwrite(run / "experiment.toml", "[script]\nfile = \"a\"\n\x1b[2Kidentical = 1\n");
  seal_anew(run);
  const std::string error = error_of([&] { static_cast<void>(RunRecord::open(run)); });
  EXPECT_NE(error.find("\\x1b[2Kidentical"), std::string::npos) << error;
}

}  // namespace
}  // namespace isobit::archive
