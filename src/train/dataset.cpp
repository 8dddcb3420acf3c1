#include "train/dataset.h"

#include <fmt/format.h>

#include <filesystem>

#include "archive/user_error.h"
#include "contract/philox.h"
#include "train/idx_reader.h"
#include "train/purposes.h"

namespace isobit::train {
namespace {

using archive::UserError;

Dataset load_pair(const std::string& images_path, const std::string& labels_path, std::int64_t limit, std::int64_t classes) {
  IdxImages images = read_idx_images(images_path);
  Dataset data{images.count, images.height, images.width, std::move(images.pixels), read_idx_labels(labels_path, classes)};
  const auto labels = static_cast<std::int64_t>(data.labels.size());
  if (labels != data.count) {
    throw UserError(labels_path, fmt::format("{} labels for the {} images of {}", labels, data.count, images_path),
                    "use files that belong together");
  }
  if (limit > 0 && limit < data.count) {
    data.count = limit;
    data.pixels.resize(static_cast<std::size_t>(limit * data.height * data.width));
    data.labels.resize(static_cast<std::size_t>(limit));
  }
  return data;
}

}  // namespace

std::array<std::string, 4> data_files(const DataSettings& settings) {
  const std::filesystem::path folder(settings.path);
  return {(folder / settings.train_images).string(), (folder / settings.train_labels).string(),
          (folder / settings.test_images).string(), (folder / settings.test_labels).string()};
}

DataSets load_data(const Experiment& experiment) {
  const DataSettings& settings = experiment.data;
  const auto files = data_files(settings);
  DataSets sets{load_pair(files[0], files[1], settings.train_limit, experiment.model.classes),
                load_pair(files[2], files[3], settings.test_limit, experiment.model.classes)};
  if (sets.train.height != sets.test.height || sets.train.width != sets.test.width) {
    throw UserError(files[2], fmt::format("images of {}x{} pixels, training images have {}x{}", sets.test.height,
                                          sets.test.width, sets.train.height, sets.train.width),
                    "use files that belong together");
  }
  return sets;
}

BatchMaker::BatchMaker(const Experiment& experiment, const Dataset& data)
    : data_(data),
      seed_(static_cast<std::uint64_t>(experiment.seed)),
      crop_(experiment.augment.crop),
      flip_(experiment.augment.flip) {
  const auto mean = static_cast<float>(experiment.data.mean);
  const auto deviation = static_cast<float>(experiment.data.deviation);
  for (int p = 0; p < 256; ++p) value_[p] = (static_cast<float>(p) / 255.0f - mean) / deviation;
}

void BatchMaker::plain(std::int64_t sample, float* out) const {
  const std::int64_t size = data_.height * data_.width;
  const std::uint8_t* pixels = data_.pixels.data() + sample * size;
  for (std::int64_t i = 0; i < size; ++i) out[i] = value_[pixels[i]];
}

void BatchMaker::augmented(std::int64_t sample, std::int64_t epoch, float* out) const {
  if (crop_ == 0 && !flip_) return plain(sample, out);
  const std::uint64_t key = contract::derive_key(seed_, static_cast<std::uint32_t>(Purpose::augmentation),
                                                 static_cast<std::uint64_t>(epoch), static_cast<std::uint32_t>(sample));
  const contract::PhiloxBlock random = contract::random_block(key, 0);
  const auto offsets = static_cast<std::uint64_t>(2 * crop_ + 1);
  const std::int64_t top = static_cast<std::int64_t>(random.word[0] * offsets >> 32) - crop_;
  const std::int64_t left = static_cast<std::int64_t>(random.word[1] * offsets >> 32) - crop_;
  const bool mirror = flip_ && random.word[2] >> 31 != 0;
  const std::int64_t height = data_.height, width = data_.width;
  const std::uint8_t* pixels = data_.pixels.data() + sample * height * width;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t from_y = y + top, from_x = (mirror ? width - 1 - x : x) + left;
      const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
      out[y * width + x] = value_[inside ? pixels[from_y * width + from_x] : 0];
    }
  }
}

}  // namespace isobit::train
