#include "grains/gradient_accumulator.h"

#include <ATen/ops/zeros.h>

namespace isobit::grains {

TensorDigits::TensorDigits(std::int64_t n, c10::Device device)
    : sums_(at::zeros({n}, at::TensorOptions(device).dtype(at::kLong))) {}

void TensorDigits::clear() { sums_.zero_(); }

void TensorDigits::add(const TensorDigits& other) { sums_.add_(other.sums_.to(sums_.device())); }

}  // namespace isobit::grains
