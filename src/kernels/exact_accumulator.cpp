#include "kernels/exact_accumulator.h"

#include <algorithm>
#include <stdexcept>

namespace isobit::kernels {
namespace {
constexpr std::int64_t kMostGrains = std::int64_t{1} << 17;
}  // namespace

void HostDigits::clear() { std::fill(sums_.begin(), sums_.end(), 0); }

void HostDigits::add(const HostDigits& other) {
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += other.sums_[i];
}

void ExactAccumulation::count_grains(std::int64_t more) {
  if (grains_ + more > kMostGrains) throw std::length_error("exact sum of more than 2^17 grains");
  grains_ += more;
}

void ExactAccumulation::expect_size(std::int64_t n) const {
  if (n != n_) throw std::invalid_argument("exact sum of tensors of different sizes");
}

ExactAccumulation::Move ExactAccumulation::raise(int t) {
  if (t <= t_) return Move::none;
  const Move move = t == t_ + 1 ? Move::one : Move::out;
  t_ = t;
  return move;
}

}  // namespace isobit::kernels
