// Exact sums of gradients, kept on the device of their tensors (kernels/exact_accumulator.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "kernels/exact_accumulator.h"

namespace isobit::grains {

// An accumulator's memory on a device.
class TensorDigits {
 public:
  TensorDigits(std::int64_t n, c10::Device device);
  [[nodiscard]] std::int64_t* data() { return sums_.mutable_data_ptr<std::int64_t>(); }
  [[nodiscard]] const std::int64_t* data() const { return sums_.const_data_ptr<std::int64_t>(); }
  [[nodiscard]] const at::Tensor& tensor() const { return sums_; }
  void clear();
  void add(const TensorDigits& other);  // of any device

 private:
  at::Tensor sums_;
};

using GradientAccumulator = kernels::ExactAccumulatorOf<TensorDigits>;

}  // namespace isobit::grains
