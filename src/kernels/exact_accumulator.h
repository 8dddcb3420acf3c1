// Sums gradients grain by grain without keeping them (contract, section 7).
//
// Owns the two digit sums of a tensor and its top limb t. A later grain with a larger top limb raises t: the
// digits kept so far move down one limb or fall out, as they would have if t had been known from the start.
// So the result does not depend on the order of the grains.
// Not thread-safe (one accumulator, one caller); uses the pool.
#pragma once

#include <cstdint>
#include <vector>

namespace isobit::kernels {

class ExactAccumulator {
 public:
  explicit ExactAccumulator(std::int64_t n);

  // Adds a grain of size() values. False, and nothing changed, if one of them is NaN or infinite.
  // std::length_error beyond 2^17 grains.
  [[nodiscard]] bool add(const float* x);
  // Adds what another worker accumulated; same size.
  void add(const ExactAccumulator& other);
  // out[size()]: the sums rounded once to binary32; infinite where they exceed its range.
  void result(float* out) const;
  void clear();

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(hi_.size()); }
  [[nodiscard]] std::int64_t grains() const { return grains_; }

 private:
  void count_grains(std::int64_t more);
  void raise(int t);

  std::vector<std::int64_t> hi_, lo_;  // sums of digits t and t - 1
  int t_;
  std::int64_t grains_ = 0;
};

}  // namespace isobit::kernels
