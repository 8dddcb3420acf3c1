// Small data sets for tests: bright blocks on dim noise, so that a network learns them within a few steps.
#pragma once

#include <cstdint>

#include "contract/philox.h"
#include "samples/data_files.h"
#include "train/dataset.h"

namespace isobit::train {

inline Dataset synthetic_images(std::int64_t count, std::uint64_t key, std::int64_t size = 28) {
  Dataset data{count, size, size, {}, {}};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t label = contract::random_word(key, static_cast<std::uint64_t>(i)) % 10;
    data.labels.push_back(static_cast<std::uint8_t>(label));
    const std::int64_t row = label / 5 * (size / 2), column = label % 5 * (size / 5);
    for (std::int64_t y = 0; y < size; ++y) {
      for (std::int64_t x = 0; x < size; ++x) {
        const bool block = y >= row && y < row + size / 2 && x >= column && x < column + size / 5;
        const auto place = static_cast<std::uint64_t>((i * size + y) * size + x);
        const std::uint32_t noise = contract::random_word(key + 1, place) % 64;
        data.pixels.push_back(static_cast<std::uint8_t>(noise + (block ? 150 : 0)));
      }
    }
  }
  return data;
}

inline DataSets synthetic_data(std::int64_t train, std::int64_t test, std::int64_t size = 28) {
  return {synthetic_images(train, 11, size), synthetic_images(test, 22, size)};
}

// The same with a class per pixel: label + 1 on the block, 0 elsewhere.
inline DataSets synthetic_masks(std::int64_t train, std::int64_t test, std::int64_t size) {
  DataSets sets = synthetic_data(train, test, size);
  for (Dataset* data : {&sets.train, &sets.test}) {
    std::vector<std::uint8_t> masks;
    for (std::size_t i = 0; i < data->pixels.size(); ++i) {
      const std::uint8_t label = data->labels[i / static_cast<std::size_t>(size * size)];
      masks.push_back(data->pixels[i] >= 150 ? static_cast<std::uint8_t>(label + 1) : 0);
    }
    data->labels = std::move(masks);
    data->per_pixel = true;
  }
  return sets;
}

using samples::Bytes;
using samples::idx_bytes;
using samples::ScratchFolder;
using samples::write_gzip;
using samples::write_plain;

}  // namespace isobit::train
