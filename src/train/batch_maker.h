// What a network sees of samples: their fields as tensors' memory, normalised and augmented.
//
// Bytes p of an input become RN(RN(RN(p / 255) - mean) / deviation) in binary32, other numbers x RN(RN(x - mean) /
// deviation), or x itself with mean 0 and deviation 1; mean and deviation are rounded to binary32 first. Where they are
// given per channel, that is the first dimension of [channels, height, width], the only one of [columns]. Integers are
// as they are; bytes of a target become integers.
// Augmentation (training only; contract, section 5): with w = random_block(derive_key(seed, augmentation, epoch,
// sample), 0), c the crop in pixels: the window of the old size in the image padded by c pixels (of value 0 before
// normalising; class 0 in a mask) starts at row floor(w0 * (2c + 1) / 2^32) and column floor(w1 * (2c + 1) / 2^32) of
// the padded image; it is mirrored where w2 >= 2^31. All augmented fields of a sample share the window. Immutable;
// thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/fingerprint.h"
#include "samples/samples.h"
#include "train/experiment.h"

namespace isobit::train {

class BatchMaker {
 public:
  // `data` must outlive the object. Throws archive::UserError where data.channel_mean or augment.fields do not fit it.
  BatchMaker(const Experiment& experiment, const samples::Samples& data);

  [[nodiscard]] std::size_t fields() const { return plans_.size(); }
  [[nodiscard]] const samples::Field& field(std::size_t i) const { return plans_[i].field; }
  [[nodiscard]] bool is_input(std::size_t i) const { return plans_[i].field.role == samples::Role::input; }

  // [count, shape...], float32 or int64.
  [[nodiscard]] at::Tensor memory_for(std::size_t field, std::int64_t count) const;
  // The field's values of the samples, as training sees them in an epoch (from 1); 0: as they are.
  void fill(std::size_t field, std::span<const std::int64_t> ids, std::int64_t epoch, const at::Tensor& out) const;
  // Weights of the samples, or nothing where all are 1.
  [[nodiscard]] at::Tensor weights(std::span<const std::int64_t> ids) const;

  // A batch's digest, of the list of its fields, "samples", and "weights" where there are any (contract, section 9).
  // Sums of a part whose first sample is `first` of the batch; merge those of all parts, and close them.
  [[nodiscard]] std::vector<kernels::Fingerprint> sums(const std::vector<at::Tensor>& values, const at::Tensor& weights,
                                                       std::span<const std::int64_t> ids, std::int64_t first) const;
  [[nodiscard]] kernels::Fingerprint close(const std::vector<kernels::Fingerprint>& sums, std::int64_t count) const;

 private:
  struct Plan {
    samples::Field field;
    bool augmented = false;
    std::vector<float> mean, deviation;           // one, or one per channel
    std::vector<std::array<float, 256>> of_byte;  // normalised, the same
  };
  // Where the pixels of a sample come from in an epoch.
  struct Window {
    std::int64_t top = 0, left = 0;
    bool mirror = false;
  };
  [[nodiscard]] Plan plan_of(const Experiment& experiment, const samples::Field& field) const;
  [[nodiscard]] Window window(std::int64_t sample, std::int64_t epoch) const;
  [[nodiscard]] std::vector<std::int64_t> sources(const Window& window, const samples::Field& field) const;
  template <class In, class Out, class Value>
  void convert(const Plan& plan, std::span<const std::int64_t> ids, std::int64_t epoch, Out* out, Value value) const;

  const samples::Samples& data_;
  std::uint64_t seed_;
  std::int64_t crop_;
  bool flip_, weighted_;
  std::vector<Plan> plans_;
};

}  // namespace isobit::train
