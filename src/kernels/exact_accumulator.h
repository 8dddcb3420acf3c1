// Sums gradients grain by grain without keeping them (contract, section 7).
//
// Owns the two digit sums of a tensor and its top limb t. A later grain with a larger top limb raises t: the
// digits kept so far move down one limb or fall out, as they would have if t had been known from the start.
// So the result does not depend on the order of the grains.
// Where the digits lie is the Digits' matter: ExactAccumulator's lie on the host, src/train has some of a tensor's
// device; x and out of the calls lie there too, and the caller is in that device's DeviceScope. Not thread-safe (one
// accumulator, one caller); uses the pool.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/exact_sum.h"

namespace isobit::kernels {

// What an accumulator needs of the memory of one limb's sums: it starts as zeros.
class HostDigits {
 public:
  explicit HostDigits(std::int64_t n) : sums_(static_cast<std::size_t>(n)) {}
  [[nodiscard]] std::int64_t* data() { return sums_.data(); }
  [[nodiscard]] const std::int64_t* data() const { return sums_.data(); }
  void clear();
  void add(const HostDigits& other);

 private:
  std::vector<std::int64_t> sums_;
};

// All of it but the memory.
class ExactAccumulation {
 public:
  [[nodiscard]] std::int64_t size() const { return n_; }
  [[nodiscard]] std::int64_t grains() const { return grains_; }
  [[nodiscard]] int top() const { return t_; }  // limb t, or kNoLimb

 protected:
  // How far sums of digits move down when t rises.
  enum class Move { none, one, out };

  explicit ExactAccumulation(std::int64_t n) : n_(n) {}
  void count_grains(std::int64_t more);  // std::length_error beyond 2^17
  void expect_size(std::int64_t n) const;
  [[nodiscard]] Move raise(int t);

  std::int64_t n_, grains_ = 0;
  int t_ = kNoLimb;
};

template <class Digits>
class ExactAccumulatorOf : public ExactAccumulation {
 public:
  // `memory`: what Digits are made with.
  template <class... Memory>
  explicit ExactAccumulatorOf(std::int64_t n, const Memory&... memory)
      : ExactAccumulation(n), hi_(n, memory...), lo_(n, memory...) {}

  // Adds a grain of size() values. False, and nothing changed, if one of them is NaN or infinite.
  // std::length_error beyond 2^17 grains.
  [[nodiscard]] bool add(const float* x);
  // Adds what another worker accumulated; same size.
  void add(const ExactAccumulatorOf& other);
  // out[size()]: the sums rounded once to binary32; infinite where they exceed its range.
  void result(float* out) const;
  void clear();
  // Sums of digits t and t - 1.
  [[nodiscard]] const Digits& hi() const { return hi_; }
  [[nodiscard]] const Digits& lo() const { return lo_; }

 private:
  void make_room(int t);

  Digits hi_, lo_;  // sums of digits t and t - 1
};

using ExactAccumulator = ExactAccumulatorOf<HostDigits>;

}  // namespace isobit::kernels

#include "kernels/exact_accumulator_impl.h"
