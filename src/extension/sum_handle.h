// The exact sums that grains.h hands out. Private to this folder.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "grains/gradient_accumulator.h"

namespace isobit::extension {

inline void require_float(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat && tensor.layout() == at::kStrided) return;
  throw std::invalid_argument(std::string("dense float32 tensors are summed, not ") +
                              at::toString(tensor.scalar_type()));
}

}  // namespace isobit::extension

struct isobit_sum {
  explicit isobit_sum(const at::Tensor& like)
      : sizes(like.sizes().vec()), device(like.device()), digits(like.numel(), device) {}
  void expect(const at::Tensor& tensor) const {
    isobit::extension::require_float(tensor);
    if (tensor.sizes() == sizes && tensor.device() == device) return;
    throw std::invalid_argument("exact sum of tensors of different shapes or devices");
  }

  std::vector<std::int64_t> sizes;
  c10::Device device;
  isobit::grains::GradientAccumulator digits;
};
