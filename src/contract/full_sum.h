// Sums of binary64 numbers, correctly rounded, whatever their order: what Python's math.fsum gives.
// Shewchuk, "Adaptive precision floating-point arithmetic", 1997: partial sums that do not overlap.
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace isobit::contract {

// Of finite numbers whose sum and partial sums stay below 2^1023. One thread.
class FullSum {
 public:
  void add(double x) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < partials_.size(); ++i) {
      double y = partials_[i];
      if (std::fabs(x) < std::fabs(y)) std::swap(x, y);
      const double high = x + y, low = y - (high - x);
      if (low != 0) partials_[kept++] = low;
      x = high;
    }
    partials_.resize(kept);
    partials_.push_back(x);
  }

  [[nodiscard]] double result() const {
    std::size_t n = partials_.size();
    if (n == 0) return 0;
    double high = partials_[--n], low = 0;
    while (n > 0) {
      const double x = high, y = partials_[--n];
      high = x + y;
      low = y - (high - x);
      if (low != 0) break;
    }
    // Half way between two numbers: what lies below decides.
    if (n > 0 && ((low < 0 && partials_[n - 1] < 0) || (low > 0 && partials_[n - 1] > 0))) {
      const double twice = 2 * low, next = high + twice;
      if (twice == next - high) high = next;
    }
    return high;
  }

 private:
  std::vector<double> partials_;  // ascending in size
};

}  // namespace isobit::contract
