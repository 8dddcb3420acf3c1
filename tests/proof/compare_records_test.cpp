// What isobit verify says of a Python program's record that is not true: the record, forged and sealed anew, against
// the untouched one, which stands for what executing the program again gives.
#include "proof/compare_records.h"

#include <functional>

#include "archive/log_lines.h"
#include "archive/run_folder.h"
#include "archive/small_run.h"

namespace isobit::proof {
namespace {

using namespace archive;

// A stored (uncompressed) zip file of these members, as torch.save writes one.
std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members) {
  const auto number = [](std::uint64_t value, int width) {
    std::string bytes;
    for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> 8 * i & 0xff);
    return bytes;
  };
  std::string file, directory;
  for (const auto& [name, data] : members) {
    const std::string sizes = number(0, 4) + number(data.size(), 4) + number(data.size(), 4);  // CRC, packed, plain
    const std::string names = number(name.size(), 2) + number(0, 2);
    directory += "PK\1\2" + number(0, 2) + number(0, 2) + number(0, 2) + number(0, 2) + number(0, 4) + sizes + names +
                 number(0, 2) + number(0, 2) + number(0, 2) + number(0, 4) + number(file.size(), 4) + name;
    file += "PK\3\4" + number(0, 2) + number(0, 2) + number(0, 2) + number(0, 4) + sizes + names + name + data;
  }
  const std::string end = "PK\5\6" + number(0, 2) + number(0, 2) + number(members.size(), 2) +
                          number(members.size(), 2) + number(directory.size(), 4) + number(file.size(), 4) +
                          number(0, 2);
  return file + directory + end;
}

std::string checkpoint(const std::string& tensor = "tensor", const std::string& pickle = "pickle",
                       const std::string& version = "3") {
  return zip_of({{"archive/data.pkl", pickle},
                 {"archive/byteorder", "little"},
                 {"archive/data/0", tensor},
                 {"archive/version", version}});
}

struct Changes {
  std::string name = "train", batch = std::string(32, 'b'), weights = std::string(32, 'd'),
              optimizer = std::string(32, 'e');
  std::uint32_t loss = 7;
  std::int64_t steps = 4, epoch = 1, tensors = 2;
  double accuracy = 0.5;
  std::string evaluated = std::string(32, 'f'), saved = checkpoint(), final = kWeights, sha256 = std::string(64, 'e');
  std::string kept_sha256 = std::string(64, '8'), deleted_sha256 = std::string(64, '9');  // of checkpoints
  std::string replaced_sha256;                                                            // of one after the last step
  std::string settings;                                                                   // lines of [script]
  std::int64_t outside_after = 1, outside_until = 2, measurements = 1, evaluations = 1, saves = 3, stretches = 1;
};

fs::path program_run(const fs::path& runs, const Changes& c) {
  RunKind kind = kScriptRun;
  if (c.settings.starts_with("predictions")) kind.logs.push_back(kPredictionsLog);
  RunFolder run = RunFolder::create(
      runs, c.name,
      {{kExperimentFile,
        "# A Python program under isobit.record.\n[script]\nfile = \"train.py\"\narguments = []\n" + c.settings},
       {kEnvironmentFile, "{}\n"},
       {kDataFile, "{\"format\": \"isobit-data-1\", \"files\": []}\n"},
       {"sources.json", "{\"format\": \"isobit-sources-1\", \"files\": {\"train.py\": \"pass\"}}\n"}},
      kind);
  for (std::int64_t step = 1; step <= c.steps; ++step) {
    const bool last = step == 4;
    run.append_step(step, format_line(last ? StepLine{step, c.epoch, c.loss, c.batch, c.weights, c.optimizer}
                                           : StepLine{step, 1, 7, std::string(32, 'a'), "", ""}));
    const auto bytes = std::as_bytes(std::span(c.saved.data(), c.saved.size()));
    const bool kept = step > c.steps - 2;
    if (last && !c.replaced_sha256.empty()) run.write_checkpoint(".pt", std::span(&bytes, 1), 2, c.replaced_sha256);
    if (step > c.steps - c.saves)
      run.write_checkpoint(".pt", std::span(&bytes, 1), 2, kept ? c.kept_sha256 : c.deleted_sha256);
  }
  for (std::int64_t i = 0; i < c.evaluations; ++i)
    run.append(kEvaluationsLog, format_line(EvaluationLine{c.steps, 1, c.tensors, c.evaluated}));
  for (std::int64_t i = 0; i < c.measurements; ++i)
    run.append(kMetricsLog, format_line(MetricsLine{c.steps, 1, "test", {{"accuracy", c.accuracy}}}));
  for (std::int64_t i = 0; i < c.stretches; ++i)
    run.append(kOutsideLog, format_line(OutsideLine{c.outside_after, c.outside_until, "__main__:7", "disabled"}));
  run.finish(c.final, c.sha256);
  return run.path();
}

train::Verdict verdict_on(const std::function<void(Changes&)>& forge) {
  const Scratch scratch;
  Changes forged;
  forge(forged);
  return verdict_of(RunRecord::open(program_run(scratch.runs(), forged)),
                    RunRecord::open(program_run(scratch.runs(), Changes{})));
}

TEST(CompareRecords, TheSameIsIdenticalAndSaysWhatRanOutside) {
  const train::Verdict verdict = verdict_on([](Changes&) {});
  EXPECT_FALSE(verdict.difference);
  EXPECT_EQ(verdict.checkpoints, 2);
  ASSERT_EQ(verdict.outside.size(), 1u);
  EXPECT_EQ(describe(verdict.outside[0]), "steps 2..2 ran outside isobit (__main__:7)");
  EXPECT_EQ(verdict.weights, kWeights);
  EXPECT_EQ(verdict.weights_sha256, std::string(64, 'e'));
  EXPECT_TRUE(verdict.not_recomputed.empty());
}

TEST(CompareRecords, WhateverIsForgedIsADifference) {
  const std::pair<const char*, std::function<void(Changes&)>> forgeries[] = {
      {"name of the run", [](Changes& c) { c.name = "other"; }},
      {"batch", [](Changes& c) { c.batch = std::string(32, '0'); }},
      {"loss", [](Changes& c) { c.loss ^= 1; }},
      {"epoch", [](Changes& c) { c.epoch = 2; }},
      {"weights", [](Changes& c) { c.weights = std::string(32, '0'); }},
      {"weights", [](Changes& c) { c.weights = ""; }},
      {"optimizer", [](Changes& c) { c.optimizer = std::string(32, '0'); }},
      {"steps", [](Changes& c) { c.steps = 5; }},
      {"steps", [](Changes& c) { c.steps = 3; }},
      {"metrics", [](Changes& c) { c.accuracy = 0.999; }},
      {"metrics", [](Changes& c) { c.accuracy = 0x1.0000000000001p-1; }},
      {"metrics", [](Changes& c) { c.measurements = 2; }},
      {"metrics", [](Changes& c) { c.measurements = 0; }},
      {"evaluated batches", [](Changes& c) { c.evaluated = std::string(32, '0'); }},
      {"evaluated batches", [](Changes& c) { c.tensors = 3; }},
      {"evaluations", [](Changes& c) { c.evaluations = 0; }},
      {"evaluations", [](Changes& c) { c.evaluations = 2; }},
      {"interval of the gradients' fingerprints", [](Changes& c) { c.settings = "fingerprint_gradients = 1\n"; }},
      {"whether predictions are kept", [](Changes& c) { c.settings = "predictions = true\n"; }},
      {"what ran outside isobit", [](Changes& c) { c.outside_until = 3; }},
      {"stretches outside isobit", [](Changes& c) { c.stretches = 0; }},
      {"SHA-256 of the weights at the checkpoint", [](Changes& c) { c.kept_sha256[0] = '0'; }},
      {"SHA-256 of the weights at the checkpoint", [](Changes& c) { c.deleted_sha256[0] = '0'; }},
      {"SHA-256 of the weights at the checkpoint", [](Changes& c) { c.saves = 4; }},
      {"SHA-256 of the weights at a checkpoint that was replaced",
       [](Changes& c) { c.replaced_sha256 = std::string(64, '7'); }},
      {"checkpoint (archive/data/0)", [](Changes& c) { c.saved = checkpoint("tensoR"); }},
      {"checkpoint (archive/data.pkl)", [](Changes& c) { c.saved = checkpoint("tensor", "other"); }},
      {"checkpoint (its bytes)", [](Changes& c) { c.saved = "anything"; }},
      {"checkpoint (its bytes)", [](Changes& c) { c.saved = checkpoint().substr(0, 80); }},
      {"checkpoint (archive/extra)",
       [](Changes& c) {
         c.saved = zip_of({{"archive/data.pkl", "pickle"}, {"archive/data/0", "tensor"}, {"archive/extra", "x"}});
       }},
      {"weights", [](Changes& c) { c.final = "isobit-0.1:ffffffffffffffffffffffffffffffff"; }},
      {"SHA-256 of the final weights", [](Changes& c) { c.sha256 = std::string(64, 'f'); }},
  };
  for (const auto& [what, forge] : forgeries) {
    const train::Verdict verdict = verdict_on(forge);
    ASSERT_TRUE(verdict.difference) << what;
    EXPECT_EQ(verdict.difference->what, what);
    EXPECT_EQ(verdict.weights, "") << what;
  }
}

// As where a program saves first thing when it is resumed.
TEST(CompareRecords, ACheckpointThatWasSavedTwiceIsNoDifference) {
  EXPECT_FALSE(verdict_on([](Changes& c) { c.replaced_sha256 = c.kept_sha256; }).difference);
}

TEST(CompareRecords, AnotherVersionOfPyTorchIsNoDifference) {
  EXPECT_FALSE(verdict_on([](Changes& c) { c.saved = checkpoint("tensor", "pickle", "4"); }).difference);
}

TEST(CompareRecords, WhatARecordLacksIsMarked) {
  const train::Verdict none = verdict_on([](Changes& c) { c.sha256 = c.kept_sha256 = c.deleted_sha256 = ""; });
  EXPECT_FALSE(none.difference);
  EXPECT_EQ(none.not_recomputed,
            (std::vector<std::string>{"the SHA-256 of the weights (there is none)",
                                      "the SHA-256 of the weights at a checkpoint (there is none)"}));
}

}  // namespace
}  // namespace isobit::proof
