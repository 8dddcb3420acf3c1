// The rounding mode and subnormal handling the contract asks for (section 1), whatever other libraries set.
//
// Within the scope: round to nearest even, subnormals kept, exceptions masked. Restored on leaving. Every
// public kernel opens one; every pool thread runs under one. A few nanoseconds; per thread; no state.
#pragma once

#include <cstdint>

namespace isobit::kernels {

class FloatEnvironment {
 public:
  FloatEnvironment();
  ~FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  std::uint64_t before_;
  bool changed_;
};

// True when the calling thread's settings are those of the contract.
[[nodiscard]] bool float_environment_is_ieee();

}  // namespace isobit::kernels
