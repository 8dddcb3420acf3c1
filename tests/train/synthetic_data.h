// Small data sets for tests: bright blocks on dim noise, so that a network learns them within a few steps.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "contract/philox.h"
#include "samples/data_files.h"
#include "samples/memory_samples.h"
#include "train/batch_maker.h"
#include "train/dataset.h"

namespace isobit::train {

// As an IDX pair has them.
struct Images {
  std::int64_t count = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // [count, height, width]
  std::vector<std::uint8_t> labels;  // [count], or with masks [count, height, width]
  bool per_pixel = false;
};

inline std::shared_ptr<const samples::Samples> samples_of(const Images& data) {
  std::vector<std::byte> pixels(data.pixels.size()), labels(data.labels.size() * 8);
  if (!pixels.empty()) std::memcpy(pixels.data(), data.pixels.data(), pixels.size());
  for (std::size_t i = 0; i < data.labels.size(); ++i) {
    const std::int64_t label = data.labels[i];
    std::memcpy(labels.data() + 8 * i, &label, 8);
  }
  std::vector<std::int64_t> targets;
  if (data.per_pixel) targets = {data.height, data.width};
  std::vector<samples::Field> fields = {
      {"images", samples::Element::uint8, {1, data.height, data.width}, samples::Role::input},
      {"labels", samples::Element::int64, targets, samples::Role::target}};
  return std::make_shared<samples::MemorySamples>(
      std::move(fields), std::vector<std::vector<std::byte>>{std::move(pixels), std::move(labels)}, data.count, "made");
}

// One sample's pixels or targets; in an epoch, or (0) as they are.
inline at::Tensor made_by(const BatchMaker& maker, std::size_t field, std::int64_t sample, std::int64_t epoch = 0) {
  const at::Tensor out = maker.memory_for(field, 1);
  maker.fill(field, {&sample, 1}, epoch, out);
  return out;
}

inline Images synthetic_images(std::int64_t count, std::uint64_t key, std::int64_t size = 28) {
  Images data{count, size, size, {}, {}};
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
  return {samples_of(synthetic_images(train, 11, size)), samples_of(synthetic_images(test, 22, size)), ""};
}

// The same with a class per pixel: label + 1 on the block, 0 elsewhere.
inline DataSets synthetic_masks(std::int64_t train, std::int64_t test, std::int64_t size) {
  std::vector<std::shared_ptr<const samples::Samples>> parts;
  for (Images data : {synthetic_images(train, 11, size), synthetic_images(test, 22, size)}) {
    std::vector<std::uint8_t> masks;
    for (std::size_t i = 0; i < data.pixels.size(); ++i) {
      const std::uint8_t label = data.labels[i / static_cast<std::size_t>(size * size)];
      masks.push_back(data.pixels[i] >= 150 ? static_cast<std::uint8_t>(label + 1) : 0);
    }
    data.labels = std::move(masks);
    data.per_pixel = true;
    parts.push_back(samples_of(data));
  }
  return {parts[0], parts[1], ""};
}

using samples::Bytes;
using samples::idx_bytes;
using samples::ScratchFolder;
using samples::write_gzip;
using samples::write_plain;

}  // namespace isobit::train
