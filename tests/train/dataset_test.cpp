#include "train/dataset.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "archive/run_export.h"
#include "archive/user_error.h"
#include "train/schedule.h"
#include "train/synthetic_data.h"

namespace isobit::train {
namespace {

TEST(BatchMaker, DividesBy255AndNormalises) {
  const auto data = samples_of({1, 1, 3, {0, 51, 255}, {0}});
  Experiment e;
  const auto value = [&](int i) { return made_by(BatchMaker(e, *data), 0, 0).const_data_ptr<float>()[i]; };
  EXPECT_EQ(value(0), 0.0f);
  EXPECT_EQ(value(1), 51.0f / 255.0f);
  EXPECT_EQ(value(2), 1.0f);
  e.data.mean = 0.5;
  e.data.deviation = 0.25;
  EXPECT_EQ(value(0), -2.0f);
  EXPECT_EQ(value(2), 2.0f);
  e.data.channel_mean = {0.25};
  EXPECT_EQ(value(2), 3.0f);
  e.data.channel_mean = {0.25, 0.5};
  EXPECT_THROW((void)value(0), archive::UserError);
}

// Three channels of bytes, a vector and tokens: each by its own rule.
TEST(BatchMaker, FieldsOfEveryKind) {
  using samples::Element, samples::Field, samples::Role;
  const std::vector<std::uint8_t> bytes = {0, 255, 51, 102, 153, 204};
  const std::vector<float> numbers = {1.5f, -2.0f};
  const std::vector<std::int64_t> tokens = {7, 300};
  const auto raw = [](const auto& values) {
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    return std::vector<std::byte>(begin, begin + values.size() * sizeof values[0]);
  };
  const samples::MemorySamples data({{"image", Element::uint8, {3, 1, 2}, Role::input},
                                     {"numbers", Element::float32, {2}, Role::input},
                                     {"tokens", Element::int64, {2}, Role::input},
                                     {"y", Element::float32, {2}, Role::target}},
                                    {raw(bytes), raw(numbers), raw(tokens), raw(numbers)}, 1, "made");
  Experiment e;
  BatchMaker plain(e, data);
  EXPECT_EQ(made_by(plain, 0, 0).sizes(), (std::vector<std::int64_t>{1, 3, 1, 2}));
  EXPECT_EQ(made_by(plain, 0, 0).const_data_ptr<float>()[5], 204.0f / 255.0f);
  EXPECT_EQ(made_by(plain, 1, 0).const_data_ptr<float>()[0], 1.5f);
  EXPECT_EQ(made_by(plain, 2, 0).const_data_ptr<std::int64_t>()[1], 300);
  EXPECT_EQ(made_by(plain, 3, 0).const_data_ptr<float>()[1], -2.0f);
  e.data.mean = 0.5, e.data.deviation = 2;
  BatchMaker normal(e, data);
  EXPECT_EQ(made_by(normal, 1, 0).const_data_ptr<float>()[1], -1.25f);
  EXPECT_EQ(made_by(normal, 3, 0).const_data_ptr<float>()[1], -2.0f);  // a target is as it is
  e.augment.fields = {"numbers"}, e.augment.flip = true;
  EXPECT_THROW(BatchMaker(e, data), archive::UserError);
  e.augment.fields = {"nothing"};
  EXPECT_THROW(BatchMaker(e, data), archive::UserError);
}

// All windows of a 3x3 image padded by 1, mirrored and not, by the header's words.
TEST(BatchMaker, CropsAndMirrors) {
  Images numbered{4000, 3, 3, Bytes(36000), Bytes(4000)};
  for (std::size_t i = 0; i < numbered.pixels.size(); ++i) numbered.pixels[i] = static_cast<std::uint8_t>(1 + i % 9);
  const auto data = samples_of(numbered);
  Experiment e;
  e.augment.crop = 1;
  e.augment.flip = true;
  const BatchMaker maker(e, *data);
  std::set<std::vector<float>> allowed, seen;
  for (int top = 0; top < 3; ++top) {
    for (int left = 0; left < 3; ++left) {
      for (const bool mirror : {false, true}) {
        std::vector<float> image;
        for (int y = 0; y < 3; ++y) {
          for (int x = 0; x < 3; ++x) {
            const int py = y + top - 1, px = (mirror ? 2 - x : x) + left - 1;  // in the image itself
            const bool inside = py >= 0 && py < 3 && px >= 0 && px < 3;
            image.push_back(inside ? static_cast<float>(1 + py * 3 + px) / 255.0f : 0.0f);
          }
        }
        allowed.insert(image);
      }
    }
  }
  for (std::int64_t sample = 0; sample < 4000; ++sample) {
    const at::Tensor made = made_by(maker, 0, sample, 1);
    const std::vector<float> image(made.const_data_ptr<float>(), made.const_data_ptr<float>() + 9);
    ASSERT_TRUE(allowed.count(image)) << "sample " << sample;
    seen.insert(image);
  }
  EXPECT_EQ(seen, allowed);  // every window occurs
}

TEST(BatchMaker, AugmentationDependsOnSeedEpochAndSample) {
  Images images{2, 8, 8, Bytes(128), Bytes(2)};
  for (int i = 0; i < 128; ++i) images.pixels[i] = static_cast<std::uint8_t>(i % 64 + 1);
  const auto data = samples_of(images);
  Experiment e;
  e.augment.crop = 4;
  const auto image = [&](std::int64_t seed, std::int64_t epoch, std::int64_t sample) {
    e.seed = seed;
    const at::Tensor made = made_by(BatchMaker(e, *data), 0, sample, epoch);
    return std::vector<float>(made.const_data_ptr<float>(), made.const_data_ptr<float>() + 64);
  };
  EXPECT_EQ(image(1, 1, 0), image(1, 1, 0));
  int different = 0;
  for (int k = 1; k <= 20; ++k) {
    different += image(1, k, 0) != image(1, k + 1, 0);
    different += image(k, 1, 0) != image(k + 1, 1, 0);
    different += image(k, 1, 0) != image(k, 1, 1);
  }
  EXPECT_GT(different, 50);
}

// With every pixel's class its own value, the targets are where the pixels are.
TEST(BatchMaker, MasksMoveWithThePixels) {
  Images images{50, 5, 7, Bytes(50 * 35), Bytes(50 * 35), true};
  for (std::size_t i = 0; i < images.pixels.size(); ++i)
    images.labels[i] = images.pixels[i] = static_cast<std::uint8_t>(1 + i % 35);
  const auto data = samples_of(images);
  Experiment e;
  e.augment.crop = 2;
  e.augment.flip = true;
  const BatchMaker maker(e, *data);
  int outside = 0;
  for (std::int64_t sample = 0; sample < 50; ++sample) {
    const at::Tensor image = made_by(maker, 0, sample, 3), targets = made_by(maker, 1, sample, 3);
    for (int i = 0; i < 35; ++i) {
      const std::int64_t target = targets.const_data_ptr<std::int64_t>()[i];
      EXPECT_EQ(static_cast<float>(target) / 255.0f, image.const_data_ptr<float>()[i]);
      outside += target == 0;
    }
    const at::Tensor plain = made_by(maker, 1, sample);
    for (int i = 0; i < 35; ++i) EXPECT_EQ(plain.const_data_ptr<std::int64_t>()[i], 1 + i);
  }
  EXPECT_GT(outside, 100);
}

class TargetFiles : public testing::Test {
 protected:
  TargetFiles() {
    experiment.data.path = folder.path();
    experiment.data.train_images = experiment.data.test_images = "images";
    experiment.data.train_labels = experiment.data.test_labels = "labels";
    experiment.model.classes = 4;
    write("images", {2, 1, 3}, {0, 9, 0, 7, 0, 1});
  }
  void write(const char* name, const std::vector<std::uint32_t>& dims, const Bytes& elements) {
    const Bytes bytes = idx_bytes(dims, elements);
    std::ofstream(folder.path() / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::string error() {
    try {
      (void)load_data(experiment);
    } catch (const archive::UserError& failure) {
      return failure.what();
    }
    return "";
  }
  ScratchFolder folder;
  Experiment experiment;
};

std::vector<std::int64_t> targets_of(const samples::Samples& data) {
  std::vector<std::int64_t> ids, values(static_cast<std::size_t>(data.count() * data.fields()[1].elements()));
  for (std::int64_t i = 0; i < data.count(); ++i) ids.push_back(i);
  data.read(1, ids, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

TEST_F(TargetFiles, Masks) {
  experiment.data.target = "mask";
  write("labels", {2, 1, 3}, {0, 1, 2, 3, 3, 0});
  EXPECT_EQ(targets_of(*load_data(experiment).train), (std::vector<std::int64_t>{0, 1, 2, 3, 3, 0}));
  experiment.data.train_limit = 1;
  EXPECT_EQ(targets_of(*load_data(experiment).train), (std::vector<std::int64_t>{0, 1, 2}));
  write("labels", {2, 1, 3}, {0, 1, 2, 3, 4, 0});
  EXPECT_NE(error().find("labels, sample 1: label 4 is out of range 0..3"), std::string::npos) << error();
  write("labels", {2, 3, 1}, {0, 1, 2, 3, 3, 0});
  EXPECT_NE(error().find("masks of 3x1 pixels for images of 1x3"), std::string::npos) << error();
  write("labels", {1, 1, 3}, {0, 1, 2});
  EXPECT_NE(error().find("1 labels for the 2 images"), std::string::npos) << error();
}

TEST_F(TargetFiles, Silhouettes) {
  experiment.data.target = "silhouette";
  write("labels", {2}, {2, 0});
  EXPECT_EQ(targets_of(*load_data(experiment).test), (std::vector<std::int64_t>{0, 3, 0, 1, 0, 1}));
  write("labels", {2}, {3, 0});
  EXPECT_NE(error().find("labels, sample 0: label 3 is out of range 0..2"), std::string::npos) << error();
}

// An export writes ~ for a home; the data may lie in another one.
TEST(RecordedData, LiesInThisUsersHomeWhereItWasInTheRecorders) {
  const archive::TemporaryFolder home;
  std::filesystem::create_directory(home.path() / "data");
  const std::string before = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  setenv("HOME", home.path().c_str(), 1);
  EXPECT_EQ(recorded_data_path("~/data", ""), (home.path() / "data").string());
  EXPECT_EQ(recorded_data_path("~/data", "elsewhere"), "elsewhere");
  EXPECT_EQ(recorded_data_path("/absent", ""), "/absent");
  EXPECT_EQ(recorded_data_path("~data", ""), "~data");
  try {
    (void)recorded_data_path("~/other\x1b[2K", "");
    FAIL() << "no error";
  } catch (const archive::UserError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("in the home of who recorded the run"), what.npos) << what;
    EXPECT_NE(what.find("--data DIR"), what.npos) << what;
    EXPECT_EQ(what.find('\x1b'), what.npos) << what;
  }
  setenv("HOME", before.c_str(), 1);
}

TEST(Timetable, CutsEpochsIntoSteps) {
  Experiment e;
  e.batch = 4;
  e.epochs = 2;
  const Timetable t(e, 10);
  EXPECT_EQ(t.steps_per_epoch(), 3);
  EXPECT_EQ(t.steps(), 6);
  const StepPlace third = t.place(3), fourth = t.place(4);
  EXPECT_EQ(third.epoch, 1);
  EXPECT_EQ(third.first, 8);
  EXPECT_EQ(third.count, 2);
  EXPECT_TRUE(third.last_of_epoch);
  EXPECT_EQ(fourth.epoch, 2);
  EXPECT_EQ(fourth.first, 0);
  EXPECT_EQ(fourth.count, 4);
  e.steps = 7;  // steps beyond the epochs named: further epochs
  EXPECT_EQ(Timetable(e, 10).steps(), 7);
  EXPECT_EQ(Timetable(e, 10).place(7).epoch, 3);
}

TEST(Timetable, LearningRates) {
  Experiment e;
  e.batch = 1;
  e.steps = 10;
  e.optimizer.lr = 0.5;
  EXPECT_EQ(Timetable(e, 2).learning_rate(9), 0.5);
  e.schedule.warmup = 4;
  EXPECT_EQ(Timetable(e, 2).learning_rate(1), 0.125);
  EXPECT_EQ(Timetable(e, 2).learning_rate(4), 0.5);
  e.schedule.name = "step";
  e.schedule.gamma = 0.5;
  e.schedule.step_epochs = 2;
  EXPECT_EQ(Timetable(e, 2).learning_rate(5), 0.25);    // epoch 3
  EXPECT_EQ(Timetable(e, 2).learning_rate(10), 0.125);  // epoch 5
  e.schedule = {};
  e.schedule.name = "cosine";
  e.schedule.floor = 0.1;
  const Timetable t(e, 2);
  EXPECT_EQ(t.learning_rate(1), 0.5);
  EXPECT_NEAR(t.learning_rate(6), 0.3, 1e-15);  // half way
  EXPECT_GT(t.learning_rate(10), 0.1);
}

TEST(Timetable, WhatHappensAfterSteps) {
  Experiment e;
  e.batch = 1;
  e.epochs = 3;
  e.evaluate.every = 2;
  e.fingerprint.every = 4;
  const Timetable t(e, 5);  // 15 steps
  EXPECT_FALSE(t.evaluate_after(5));
  EXPECT_TRUE(t.evaluate_after(10));
  EXPECT_TRUE(t.evaluate_after(15));
  EXPECT_TRUE(t.checkpoint_after(5));
  EXPECT_FALSE(t.checkpoint_after(6));
  EXPECT_TRUE(t.fingerprint_after(4));
  EXPECT_FALSE(t.fingerprint_after(5));
  EXPECT_TRUE(t.fingerprint_after(15));
}

}  // namespace
}  // namespace isobit::train
