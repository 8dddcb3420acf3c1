// Division by a number that is known when a kernel is launched: a multiplication and a shift. Private to this
// folder.
//
// Granlund and Montgomery ("Division by invariant integers using multiplication", 1994): for 0 <= i < 2^31
// and s = ceil(log2 d), floor(i / d) = (high word of i * m + i) >> s with m = floor(2^32 (2^s - d) / d) + 1.
#pragma once

#include <cstdint>

#include "contract/platform.h"
#include "kernels/cuda/runtime.h"

namespace isobit::kernels::ISOBIT_CUDA {

inline constexpr std::int64_t kInt32End = std::int64_t{1} << 31;

class Divider {
 public:
  Divider() = default;
  // For dividends 0 <= i < end. Precondition: divisor > 0, or nothing is ever divided.
  Divider(std::int64_t divisor, std::int64_t end) : divisor_(divisor), narrow_(end <= kInt32End) {
    if (divisor <= 0 || divisor >= kInt32End) narrow_ = false;
    if (!narrow_) return;
    while ((std::int64_t{1} << shift_) < divisor) ++shift_;
    const auto d = static_cast<std::uint64_t>(divisor);
    magic_ = static_cast<std::uint32_t>((((std::uint64_t{1} << shift_) - d) << 32) / d + 1);
  }

  [[nodiscard]] ISOBIT_HOST_DEVICE std::int64_t quotient(std::int64_t i) const {
    if (!narrow_) return i / divisor_;
    const auto n = static_cast<std::uint32_t>(i);
    const auto high = static_cast<std::uint32_t>(static_cast<std::uint64_t>(n) * magic_ >> 32);
    return static_cast<std::int64_t>((high + n) >> shift_);
  }
  [[nodiscard]] ISOBIT_HOST_DEVICE std::int64_t divisor() const { return divisor_; }

 private:
  std::int64_t divisor_ = 1;
  std::uint32_t magic_ = 1;
  int shift_ = 0;
  bool narrow_ = true;
};

}  // namespace isobit::kernels::ISOBIT_CUDA
