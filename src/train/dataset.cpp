#include "train/dataset.h"

#include <fmt/format.h>

#include <filesystem>

#include "archive/user_error.h"
#include "contract/philox.h"
#include "samples/idx_reader.h"
#include "train/purposes.h"

namespace isobit::train {
namespace {

using archive::UserError;
using samples::IdxImages;
using samples::read_idx_images;
using samples::read_idx_labels;
using samples::read_idx_masks;

void expect_count(const std::string& path, std::int64_t found, std::int64_t images, const std::string& images_path) {
  if (found == images) return;
  throw UserError(path, fmt::format("has {} labels for the {} images of {}", found, images, images_path),
                  "use files of the same dataset");
}

std::vector<std::uint8_t> load_masks(const std::string& path, const Dataset& images, const std::string& images_path,
                                     std::int64_t classes) {
  IdxImages masks = read_idx_masks(path, classes);
  expect_count(path, masks.count, images.count, images_path);
  if (masks.height != images.height || masks.width != images.width) {
    throw UserError(path,
                    fmt::format("has masks of {}x{} pixels for images of {}x{}", masks.height, masks.width,
                                images.height, images.width),
                    "use files of the same dataset");
  }
  return std::move(masks.pixels);
}

// label + 1 where a pixel is above 0, else 0.
std::vector<std::uint8_t> silhouettes(const Dataset& images, const std::vector<std::uint8_t>& labels) {
  std::vector<std::uint8_t> masks(images.pixels.size());
  const auto size = static_cast<std::size_t>(images.height * images.width);
  for (std::size_t i = 0; i < masks.size(); ++i)
    masks[i] = images.pixels[i] > 0 ? static_cast<std::uint8_t>(labels[i / size] + 1) : 0;
  return masks;
}

Dataset load_pair(const std::string& images_path, const std::string& labels_path, std::int64_t limit,
                  const Experiment& experiment) {
  const std::string& target = experiment.data.target;
  const std::int64_t classes = std::min<std::int64_t>(256, experiment.model.classes);
  IdxImages images = read_idx_images(images_path);
  Dataset data{images.count, images.height, images.width, std::move(images.pixels), {}, experiment.data.per_pixel()};
  if (target == "mask") {
    data.labels = load_masks(labels_path, data, images_path, classes);
  } else {
    data.labels = read_idx_labels(labels_path, target == "silhouette" ? classes - 1 : classes);
    expect_count(labels_path, static_cast<std::int64_t>(data.labels.size()), data.count, images_path);
    if (target == "silhouette") data.labels = silhouettes(data, data.labels);
  }
  if (limit > 0 && limit < data.count) {
    data.count = limit;
    data.pixels.resize(static_cast<std::size_t>(limit * data.height * data.width));
    data.labels.resize(static_cast<std::size_t>(limit * data.targets()));
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
  DataSets sets{load_pair(files[0], files[1], settings.train_limit, experiment),
                load_pair(files[2], files[3], settings.test_limit, experiment)};
  if (sets.train.height != sets.test.height || sets.train.width != sets.test.width) {
    throw UserError(files[2],
                    fmt::format("has images of {}x{} pixels, the training images have {}x{}", sets.test.height,
                                sets.test.width, sets.train.height, sets.train.width),
                    "use files of the same dataset");
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

BatchMaker::Window BatchMaker::window(std::int64_t sample, std::int64_t epoch) const {
  const std::uint64_t key = contract::derive_key(seed_, static_cast<std::uint32_t>(Purpose::augmentation),
                                                 static_cast<std::uint64_t>(epoch), static_cast<std::uint32_t>(sample));
  const contract::PhiloxBlock random = contract::random_block(key, 0);
  const auto offsets = static_cast<std::uint64_t>(2 * crop_ + 1);
  return {static_cast<std::int64_t>(random.word[0] * offsets >> 32) - crop_,
          static_cast<std::int64_t>(random.word[1] * offsets >> 32) - crop_, flip_ && random.word[2] >> 31 != 0};
}

template <class Visit>
void BatchMaker::through(const Window& window, Visit visit) const {
  const std::int64_t height = data_.height, width = data_.width;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t from_y = y + window.top, from_x = (window.mirror ? width - 1 - x : x) + window.left;
      const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
      visit(y * width + x, inside ? from_y * width + from_x : -1);
    }
  }
}

void BatchMaker::augmented(std::int64_t sample, std::int64_t epoch, float* out) const {
  if (crop_ == 0 && !flip_) return plain(sample, out);
  const std::uint8_t* pixels = data_.pixels.data() + sample * data_.height * data_.width;
  through(window(sample, epoch),
          [&](std::int64_t to, std::int64_t from) { out[to] = value_[from < 0 ? 0 : pixels[from]]; });
}

void BatchMaker::plain_targets(std::int64_t sample, std::int64_t* out) const {
  const std::int64_t size = data_.targets();
  for (std::int64_t i = 0; i < size; ++i) out[i] = data_.labels[static_cast<std::size_t>(sample * size + i)];
}

void BatchMaker::augmented_targets(std::int64_t sample, std::int64_t epoch, std::int64_t* out) const {
  if (!data_.per_pixel || (crop_ == 0 && !flip_)) return plain_targets(sample, out);
  const std::uint8_t* classes = data_.labels.data() + sample * data_.targets();
  through(window(sample, epoch), [&](std::int64_t to, std::int64_t from) { out[to] = from < 0 ? 0 : classes[from]; });
}

}  // namespace isobit::train
