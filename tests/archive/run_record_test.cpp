#include "archive/run_record.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "archive/manifest.h"
#include "small_run.h"

namespace isobit::archive {
namespace {

TEST(RunRecord, GivesBackWhatWasWritten) {
  const Scratch scratch;
  const RunRecord record = RunRecord::open(finished_run(scratch.runs()));
  ASSERT_EQ(record.steps().size(), 8u);
  for (std::int64_t step = 1; step <= 8; ++step)
    EXPECT_EQ(record.steps()[static_cast<std::size_t>(step - 1)], small_step(step));
  ASSERT_EQ(record.metrics().size(), 2u);
  EXPECT_EQ(record.metrics()[1].values.at("loss"), 1.0 / 8);
  EXPECT_EQ(record.experiment(), small_inputs().experiment);
  EXPECT_EQ(record.environment(), small_inputs().environment);
  EXPECT_EQ(record.data(), small_inputs().data);
  EXPECT_EQ(record.weights(), kWeights);
  EXPECT_EQ(record.summary().state, RunState::finished);
  EXPECT_EQ(record.timings().size(), 8u);

  ASSERT_EQ(record.checkpoints().size(), 2u);
  const Checkpoint checkpoint = record.checkpoint(record.checkpoints()[1]);
  EXPECT_EQ(checkpoint.step(), 6);
  EXPECT_EQ(checkpoint.state(), "{\"step\": 6}");
  const TensorView* weight = checkpoint.contents().find("weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->shape, (std::vector<std::int64_t>{2, 3}));
  const SmallTensors tensors(6);
  const auto expected = tensors.views()[0].data;
  EXPECT_TRUE(std::equal(weight->data.begin(), weight->data.end(), expected.begin(), expected.end()));
}

TEST(RunRecord, MetricsKeepEveryBinary64) {
  const Scratch scratch;
  const double infinity = std::numeric_limits<double>::infinity();
  const std::map<std::string, double> values = {
      {"a", -0.0}, {"b", 0x1.fffffffffffffp-1},  {"c", 5e-324}, {"d", infinity}, {"e", -infinity}, {"f", 1.0},
      {"g", 0.1},  {"h", 1.7976931348623157e308}};
  RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
  writer.append_step(small_step(1));
  writer.append_metrics({1, 1, "train", values});
  writer.append_metrics({1, 1, "test", {{"x", std::nan("")}}});
  writer.finish(kWeights);
  const RunRecord record = RunRecord::open(writer.folder());
  for (const auto& [name, value] : values) {
    EXPECT_EQ(record.metrics()[0].values.at(name), value) << name;
    EXPECT_EQ(std::signbit(record.metrics()[0].values.at(name)), std::signbit(value)) << name;
  }
  EXPECT_TRUE(std::isnan(record.metrics()[1].values.at("x")));
}

// The promise on which verification stands: whichever bit of whichever file flips, open() refuses.
TEST(RunRecord, EveryFlippedBitOfEveryFileIsFound) {
  const Scratch scratch;
  RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
  write_steps(writer, 1, 3);
  writer.append_metrics({3, 1, "test", {{"loss", 0.25}}});
  writer.finish(kWeights);
  const fs::path run = writer.folder();
  std::vector<std::string> files = list_files(run);
  files.emplace_back(kManifest);
  ASSERT_EQ(files.size(), 10u);
  std::size_t flips = 0;
  for (const std::string& file : files) {
    const std::string sound = read_file(run / file);
    for (std::size_t byte = 0; byte < sound.size(); ++byte) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string flipped = sound;
        flipped[byte] = static_cast<char>(flipped[byte] ^ 1 << bit);
        overwrite_in_place(run / file, flipped);
        const std::string error = error_of([&] { static_cast<void>(RunRecord::open(run)); });
        ASSERT_NE(error, "") << file << " byte " << byte << " bit " << bit;
        if (file != kManifest) {
          ASSERT_NE(error.find((run / file).string()), std::string::npos) << error;
        }
        ++flips;
      }
    }
    overwrite_in_place(run / file, sound);
  }
  EXPECT_GT(flips, 20000u);
  EXPECT_EQ(error_of([&] { static_cast<void>(RunRecord::open(run)); }), "");  // or the loop proved nothing
}

TEST(RunRecord, MissingAddedShortenedAndLengthenedFilesAreNamed) {
  const Scratch scratch;
  const fs::path run = finished_run(scratch.runs());
  std::vector<std::string> files = list_files(run);
  files.emplace_back(kManifest);
  for (const std::string& file : files) {
    const std::string sound = read_file(run / file);
    fs::remove(run / file);
    const std::string missing = error_of([&] { static_cast<void>(RunRecord::open(run)); });
    EXPECT_NE(missing.find(file == kManifest ? "not finished" : file), std::string::npos) << file << ": " << missing;
    for (const std::string& other :
         {sound + "x", sound.substr(0, sound.size() - (sound.empty() ? 0 : 1)), std::string()}) {
      if (other == sound) continue;
      overwrite(run / file, other);
      EXPECT_NE(error_of([&] { static_cast<void>(RunRecord::open(run)); }), "") << file;
    }
    overwrite(run / file, sound);
  }
  for (const char* added : {"notes.txt", "checkpoints/step-7.safetensors", ".hidden"}) {
    overwrite(run / added, "");
    EXPECT_NE(error_of([&] { static_cast<void>(RunRecord::open(run)); }).find("added after"), std::string::npos)
        << added;
    fs::remove(run / added);
  }
  fs::create_directory(run / "folder");
  EXPECT_NE(error_of([&] { static_cast<void>(RunRecord::open(run)); }).find("added after"), std::string::npos);
  fs::remove(run / "folder");
  fs::rename(run / "steps.jsonl", scratch.path() / "steps.jsonl");
  fs::create_symlink(scratch.path() / "steps.jsonl", run / "steps.jsonl");
  EXPECT_NE(error_of([&] { static_cast<void>(RunRecord::open(run)); }).find("not a regular file"), std::string::npos);
}

// Somebody who mends the manifest's digests after an alteration still has to keep the logs well formed.
TEST(RunRecord, TornLogInASealedRecordIsDamage) {
  const Scratch scratch;
  const fs::path run = finished_run(scratch.runs());
  const std::string sound = read_file(run / "steps.jsonl");
  for (const std::string& log :
       {sound.substr(0, sound.size() - 5), "{}\n" + sound, sound.substr(sound.find('\n') + 1), sound + "\n"}) {
    overwrite(run / "steps.jsonl", log);
    Manifest manifest = parse_manifest(read_file(run / kManifest), kManifest);
    manifest.files["steps.jsonl"] = {log.size(), sha256(log)};
    overwrite(run / kManifest, format_manifest(manifest));
    EXPECT_NE(error_of([&] { static_cast<void>(RunRecord::open(run)); }).find("steps.jsonl:"), std::string::npos);
  }
}

TEST(RunRecord, UnfinishedRunsAreRefusedWithTheirState) {
  const Scratch scratch;
  fs::path run;
  {
    RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
    run = writer.folder();
    write_steps(writer, 1, 5);
    EXPECT_NE(error_of([&] { static_cast<void>(RunRecord::open(run)); }).find("not finished (running after 5 steps"),
              std::string::npos);
  }
  EXPECT_NE(error_of([&] { static_cast<void>(RunRecord::open(run)); }).find("not finished (interrupted after 5 steps"),
            std::string::npos);
  EXPECT_NE(
      error_of([&] { static_cast<void>(RunRecord::open(scratch.path() / "nothing")); }).find("not a run's folder"),
      std::string::npos);
}

}  // namespace
}  // namespace isobit::archive
