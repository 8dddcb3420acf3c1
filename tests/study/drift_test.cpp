// Distances of tensors against their definition, and how records part.
#include "study/drift.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "archive/run_writer.h"
#include "archive/small_run.h"
#include "study/predictions.h"
#include "study/random_stream.h"
#include "study/tensor_distances.h"
#include "study/test_set.h"

namespace isobit::study {
namespace {

using archive::error_of;
using archive::RunRecord;
using archive::RunWriter;
using archive::Scratch;
using archive::TensorView;

template <class T>
TensorView view(const char* name, const char* dtype, const std::vector<T>& values) {
  return {name, dtype, {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values))};
}

template <class T>
Distances distances(const char* dtype, const std::vector<T>& a, const std::vector<T>& b) {
  Distances d;
  d.add(view("t", dtype, a), view("t", dtype, b));
  return d;
}

TEST(Ulp, CountsStepsOfNextafter) {
  RandomStream random(1, Purpose::bootstrap);
  for (int i = 0; i < 200; ++i) {
    const auto start = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
    if (!std::isfinite(start)) continue;
    float value = start;
    const int steps = static_cast<int>(random.below(50));
    for (int s = 0; s < steps; ++s) value = std::nextafterf(value, std::numeric_limits<float>::infinity());
    if (!std::isfinite(value) || (start > 0) != (value > 0)) continue;
    EXPECT_EQ(distances<float>("F32", {start}, {value}).max_ulp(), static_cast<std::uint64_t>(steps)) << start;
  }
}

TEST(Ulp, AtTheEdges) {
  constexpr float kTiny = std::numeric_limits<float>::denorm_min(), kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(distances<float>("F32", {0.0F}, {-0.0F}).max_ulp(), 0u);
  EXPECT_EQ(distances<float>("F32", {kTiny}, {-kTiny}).max_ulp(), 2u);
  EXPECT_EQ(distances<float>("F32", {std::numeric_limits<float>::max()}, {kInf}).max_ulp(), 1u);
  EXPECT_EQ(distances<float>("F32", {kNan}, {-kNan}).max_ulp(), 0u);
  EXPECT_EQ(distances<float>("F32", {kNan}, {1.0F}).max_ulp(), kNotComparable);
  EXPECT_EQ(distances<double>("F64", {-1e308}, {1e308}).max_ulp(), kNotComparable);  // as far as is told
  EXPECT_EQ(distances<std::int64_t>("I64", {INT64_MIN}, {INT64_MAX}).max_ulp(), kNotComparable);
  EXPECT_EQ(distances<std::int32_t>("I32", {-3}, {4}).max_ulp(), 7u);
  EXPECT_EQ(distances<std::uint16_t>("BF16", {0x3f80}, {0x3f82}).max_ulp(), 2u);
  EXPECT_EQ(distances<std::uint16_t>("F16", {0x3c00}, {0x4000}).relative_norm(), 1);  // 1 and 2
  EXPECT_THROW(static_cast<void>(distances<std::uint8_t>("F8_E5M2", {1}, {1})), std::invalid_argument);
}

TEST(Ulp, MedianNormAndSigns) {
  Distances d = distances<float>("F32", {1, -1, 2, 3}, {1, 1, 2, 3});
  EXPECT_EQ(d.median_ulp(), 0u);
  EXPECT_EQ(d.flipped_share(), 0.25);
  EXPECT_EQ(d.relative_norm(), 2 / std::sqrt(15.0));
  EXPECT_EQ(distances<float>("F32", {0, 0}, {0, 0}).relative_norm(), 0);
  EXPECT_TRUE(std::isinf(distances<float>("F32", {0}, {1}).relative_norm()));
  EXPECT_EQ(Distances{}.max_ulp(), 0u);
}

// Four steps with a checkpoint after each; from step 3 on the run differs by `shift`.
RunRecord make_record(const Scratch& scratch, float shift, std::int64_t keep = 0, bool narrow = false) {
  RunWriter writer = RunWriter::create(scratch.runs(), archive::small_inputs());
  for (std::int64_t step = 1; step <= 4; ++step) {
    archive::StepLine line = archive::small_step(step);
    const float more = step >= 3 ? shift : 0;
    line.loss_bits = std::bit_cast<std::uint32_t>(1.0F / static_cast<float>(step) + more);
    if (step != 1) line.gradients = std::string(31, '0') + (step >= 2 && shift != 0 ? "1" : "0");
    writer.append_step(line);
    const std::vector<float> weight{1 + more, 2, 3}, bias{0.5F}, momentum{9 + 100 * shift};
    std::vector<TensorView> tensors{view("weights.b.conv.weight", "F32", weight),
                                    view("weights.b.conv.bias", "F32", bias),
                                    view("optimizer.momentum", "F32", momentum)};
    if (!narrow) tensors.push_back(view("weights.a", "F32", bias));
    writer.write_checkpoint(tensors, "{}", keep, std::string(64, 'a'));
  }
  writer.append_metrics({4, 1, "test", {{"accuracy", 0.5 + shift}, {"loss", 1.0}}});
  writer.finish(archive::kWeights);
  return RunRecord::open(writer.folder());
}

TEST(Drift, FindsStepLayerAndSize) {
  const Scratch scratch;
  std::vector<RunRecord> runs;
  runs.push_back(make_record(scratch, 0));
  runs.push_back(make_record(scratch, 0));
  runs.push_back(make_record(scratch, 0x1p-20F));
  const Drift drift = measure_drift(runs);
  EXPECT_EQ(drift.steps, (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(drift.layers, (std::vector<std::string>{"b.conv", "a"}));  // as the file has them, not by name
  ASSERT_EQ(drift.cells.size(), 2u * 4 * 2);
  for (const DriftCell& cell : drift.cells) {
    const bool moved = cell.run == 2 && cell.step >= 3 && cell.layer == "b.conv";
    EXPECT_EQ(cell.max_ulp, moved ? 8u : 0u);  // 2^-20 over 2^-23
    EXPECT_EQ(cell.median_ulp, 0u);
    EXPECT_EQ(cell.relative_norm > 0, moved);
  }
  for (const DriftStep& step : drift.per_step) {
    EXPECT_EQ(step.loss_difference != 0, step.run == 2 && step.step >= 3) << step.run << " " << step.step;
    EXPECT_EQ(step.accuracy.has_value(), step.step == 4);
    EXPECT_EQ(step.same_gradients.has_value(), step.step != 1);  // none was taken at the first
    if (step.same_gradients) {
      EXPECT_EQ(*step.same_gradients, step.run != 2);
    }
  }
  const auto json = nlohmann::json::parse(drift_json(drift, runs));
  EXPECT_EQ(json["cells"].size(), drift.cells.size());
  EXPECT_TRUE(json["per_step"][0]["same_gradients"].is_null());
  EXPECT_EQ(json["per_step"][11]["same_gradients"], false);
  const std::string text = drift_text(drift, runs);
  EXPECT_NE(text.find("loss: parts at step 3 of 4"), std::string::npos) << text;
  EXPECT_NE(text.find("gradients: equal at all 3 fingerprints"), std::string::npos) << text;
  EXPECT_NE(text.find("gradients: part at step 2, the first fingerprint"), std::string::npos) << text;
  EXPECT_EQ(text.find("weights: "), std::string::npos) << text;  // the layers were compared
}

TEST(Drift, SaysWhatItCannotCompare) {
  const Scratch scratch;
  std::vector<RunRecord> runs;
  runs.push_back(make_record(scratch, 0, 1));
  runs.push_back(make_record(scratch, 0, 2));
  EXPECT_EQ(measure_drift(runs).steps, (std::vector<std::int64_t>{4}));
  const std::string text = drift_text(measure_drift(runs), runs);
  EXPECT_NE(text.find("checkpoint.keep=0"), std::string::npos) << text;
  EXPECT_NE(text.find("evaluate.predictions=true"), std::string::npos) << text;
  runs.push_back(make_record(scratch, 0, 1, true));
  EXPECT_NE(error_of([&] { static_cast<void>(measure_drift(runs)); }).find("the networks differ"), std::string::npos);
  std::swap(runs[0], runs[2]);  // more weights are other weights, too
  EXPECT_NE(error_of([&] { static_cast<void>(measure_drift(runs)); }).find("the networks differ"), std::string::npos);
}

TEST(Predictions, AreReadAndCompared) {
  const Scratch scratch;
  const std::string digest(64, 'a');
  const auto write = [&](const std::string& text) { archive::write_file(scratch.path() / kPredictionsFile, text); };
  EXPECT_TRUE(read_predictions(scratch.path()).empty());
  write("{\"step\":4,\"epoch\":1,\"set\":\"test\",\"predictions\":[1,2,0,2],\"targets\":\"" + digest + "\"}\n");
  const auto lines = read_predictions(scratch.path());
  ASSERT_EQ(lines.size(), 1u);
  PredictionLine other = lines[0];
  other.predictions[3] = 1;
  EXPECT_EQ(churn(lines[0], other), 0.25);
  other.targets[0] = 'b';
  EXPECT_EQ(churn(lines[0], other), std::nullopt);
  for (const std::string& text :
       {std::string("{}\n"), std::string("{"), std::string("\n"),
        "{\"step\":1,\"epoch\":1,\"set\":\"test\",\"predictions\":[1.5],\"targets\":\"" + digest + "\"}\n",
        std::string("{\"step\":1,\"epoch\":1,\"set\":\"test\",\"predictions\":[1],\"targets\":\"x\"}\n"),
        "{\"step\":-1,\"epoch\":1,\"set\":\"test\",\"predictions\":[1],\"targets\":\"" + digest + "\"}\n",
        "{\"step\":1,\"epoch\":1,\"set\":\"test\",\"predictions\":[1],\"targets\":\"" + digest + "\",\"more\":1}\n"}) {
    write(text);
    EXPECT_NE(error_of([&] { static_cast<void>(read_predictions(scratch.path())); }).find("predictions.jsonl:1"),
              std::string::npos)
        << text;
  }
}

// An IDX file of labels and one of images 1 x 1, big-endian headers.
void write_idx(const archive::fs::path& folder, const std::string& part, const std::vector<std::uint8_t>& labels) {
  const auto count = static_cast<char>(labels.size());
  std::string body(labels.begin(), labels.end());
  archive::write_file(folder / (part + "-labels"), std::string("\0\0\x08\x01\0\0\0", 7) + count + body);
  archive::write_file(folder / (part + "-images"),
                      std::string("\0\0\x08\x03\0\0\0", 7) + count + std::string("\0\0\0\x01\0\0\0\x01", 8) + body);
}

TEST(Predictions, TargetsComeFromTheDataIfTheDigestSaysSo) {
  const Scratch scratch;
  write_idx(scratch.path(), "test", {3, 1, 2, 1});
  const auto experiment = [&](const std::string& more) {
    return "seed = 7\n[data]\nformat = \"idx\"\npath = \"" + scratch.path().string() +
           "\"\ntest_images = \"test-images\"\ntest_labels = \"test-labels\"\ntarget = \"class\"\n" + more;
  };
  const auto digest_of = [](const std::vector<std::int64_t>& targets) {
    return archive::sha256({reinterpret_cast<const char*>(targets.data()), 8 * targets.size()});
  };
  const std::vector<std::int64_t> all{3, 1, 2, 1}, first{3, 1};
  EXPECT_EQ(targets_of(experiment(""), digest_of(all)), all);
  EXPECT_EQ(targets_of(experiment("test_limit = 2\n"), digest_of(first)), first);
  EXPECT_EQ(targets_of(experiment(""), digest_of(first)), std::nullopt);
  EXPECT_EQ(targets_of("[data]\nformat = \"idx\"\npath = \"/nowhere\"\ntarget = \"class\"\n", digest_of(all)),
            std::nullopt);
  EXPECT_EQ(targets_of("no TOML", digest_of(all)), std::nullopt);
}

}  // namespace
}  // namespace isobit::study
