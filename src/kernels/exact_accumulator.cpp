#include "kernels/exact_accumulator.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/exact_sum.h"

namespace isobit::kernels {
namespace {
constexpr std::int64_t kMostGrains = std::int64_t{1} << 17;
}  // namespace

ExactAccumulator::ExactAccumulator(std::int64_t n)
    : hi_(static_cast<std::size_t>(n)), lo_(static_cast<std::size_t>(n)), t_(kNoLimb) {}

bool ExactAccumulator::add(const float* x) {
  const int top = top_limb(x, size());
  if (top == kNotFinite) return false;
  count_grains(1);
  raise(top);
  if (top >= t_ - 1) add_digits(x, t_, hi_.data(), lo_.data(), size());  // smaller ones have no digit here
  return true;
}

void ExactAccumulator::add(const ExactAccumulator& other) {
  if (other.size() != size()) throw std::invalid_argument("exact sum of tensors of different sizes");
  count_grains(other.grains_);
  raise(other.t_);
  for (std::size_t i = 0; i < hi_.size(); ++i) {
    if (other.t_ == t_) {
      hi_[i] += other.hi_[i];
      lo_[i] += other.lo_[i];
    } else if (other.t_ == t_ - 1) {
      lo_[i] += other.hi_[i];
    }
  }
}

void ExactAccumulator::result(float* out) const { round_digits(hi_.data(), lo_.data(), t_, out, size()); }

void ExactAccumulator::clear() {
  std::fill(hi_.begin(), hi_.end(), 0);
  std::fill(lo_.begin(), lo_.end(), 0);
  t_ = kNoLimb;
  grains_ = 0;
}

void ExactAccumulator::count_grains(std::int64_t more) {
  if (grains_ + more > kMostGrains) throw std::length_error("exact sum of more than 2^17 grains");
  grains_ += more;
}

void ExactAccumulator::raise(int t) {
  if (t <= t_) return;
  if (t == t_ + 1) {
    lo_.swap(hi_);
  } else {
    std::fill(lo_.begin(), lo_.end(), 0);
  }
  std::fill(hi_.begin(), hi_.end(), 0);
  t_ = t;
}

}  // namespace isobit::kernels
