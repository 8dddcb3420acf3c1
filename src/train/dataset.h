// Images and labels in memory, and the batches made from them.
//
// A pixel p becomes RN(RN(p / 255) - mean) / deviation in binary32, each operation rounded; mean and deviation
// are rounded to binary32 first; with mean 0 and deviation 1 that is p / 255.
// Augmentation (training only; contract, section 5): with w = random_block(derive_key(seed, augmentation,
// epoch, sample), 0), c the crop in pixels: the window of the old size in the image padded by c pixels of value
// 0 starts at row floor(w0 * (2c + 1) / 2^32) and column floor(w1 * (2c + 1) / 2^32) of the padded image; it
// is mirrored where w2 >= 2^31.
// Immutable after loading; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "train/experiment.h"

namespace isobit::train {

struct Dataset {
  std::int64_t count = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // [count, height, width]
  std::vector<std::uint8_t> labels;  // [count], or with masks [count, height, width]
  bool per_pixel = false;

  // Targets of one sample.
  [[nodiscard]] std::int64_t targets() const { return per_pixel ? height * width : 1; }
};

struct DataSets {
  Dataset train, test;
};

// The paths of the four files: training images and labels, test images and labels.
[[nodiscard]] std::array<std::string, 4> data_files(const DataSettings& settings);

// Throws archive::UserError naming the file.
[[nodiscard]] DataSets load_data(const Experiment& experiment);

class BatchMaker {
 public:
  // `data` must outlive the object.
  BatchMaker(const Experiment& experiment, const Dataset& data);

  // The sample as it is: out[height * width].
  void plain(std::int64_t sample, float* out) const;
  // As training sees it in an epoch (epochs count from 1).
  void augmented(std::int64_t sample, std::int64_t epoch, float* out) const;
  // Its targets: out[data.targets()]. Masks move with the pixels; class 0 comes in from outside.
  void plain_targets(std::int64_t sample, std::int64_t* out) const;
  void augmented_targets(std::int64_t sample, std::int64_t epoch, std::int64_t* out) const;

 private:
  // Where the pixels of a sample come from in an epoch.
  struct Window {
    std::int64_t top = 0, left = 0;
    bool mirror = false;
  };
  [[nodiscard]] Window window(std::int64_t sample, std::int64_t epoch) const;
  // visit(place, place in the sample; -1 outside of it).
  template <class Visit>
  void through(const Window& window, Visit visit) const;

  const Dataset& data_;
  std::uint64_t seed_;
  std::int64_t crop_;
  bool flip_;
  std::array<float, 256> value_;  // of each pixel
};

}  // namespace isobit::train
