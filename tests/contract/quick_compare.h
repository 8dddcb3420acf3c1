// What the tests of the first phase (src/contract/quick_*.h) share: its stated errors against MPFR, its results against
// the integers that decide otherwise, for both ways of exact products, and how seldom it does not decide.
#pragma once

#include <gtest/gtest.h>
#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <random>
#include <tuple>

#include "contract/quick_pairs.h"

namespace isobit::contract::host::quick {

// Counts of what a task decided, over one set of arguments.
struct Count {
  int all = 0, left = 0;
  [[nodiscard]] double share() const { return static_cast<double>(left) / all; }
};

// Both ways of products decide alike; where they decide, it is the integers' result.
template <class Task, class Integers, class... Arguments>
void compare(Count& count, const Integers& integers, Arguments... x) {
  double fused = 0, split = 0;
  const bool decided = Task::template run<FusedProducts>(fused, x...);
  ASSERT_EQ(decided, (Task::template run<SplitProducts>(split, x...)));
  ++count.all;
  count.left += decided ? 0 : 1;
  if (!decided) return;
  ASSERT_EQ(bits_of_double(fused), bits_of_double(split));
  const double exact = integers(x...);
  ASSERT_EQ(bits_of_double(fused), bits_of_double(exact))
      << std::hexfloat << fused << " " << exact << ::testing::PrintToString(std::make_tuple(x...));
}
// The function in a rounding mode in which the first phase is not tried.
template <auto kFunction>
double by_integers(auto... x) {
  auto* volatile function = kFunction;  // so that nothing of it is moved out of the mode
  std::fesetround(FE_UPWARD);
  const double result = function(x...);
  std::fesetround(FE_TONEAREST);
  return result;
}

inline double any_positive(std::mt19937_64& engine) {  // normal, every exponent alike
  return std::bit_cast<double>((engine() >> 12) | (engine() % 2046 + 1) << 52);
}

inline double neighbour(double x, int by) { return std::bit_cast<double>(std::bit_cast<std::int64_t>(x) + by); }

inline double relative_error(const Pair& x, mpfr_t exact) {
  mpfr_t y;
  mpfr_init2(y, 400);
  mpfr_set_d(y, x.high, MPFR_RNDN);
  mpfr_add_d(y, y, x.low, MPFR_RNDN);
  mpfr_sub(y, y, exact, MPFR_RNDN);
  mpfr_div(y, y, exact, MPFR_RNDN);
  const double error = std::fabs(mpfr_get_d(y, MPFR_RNDN));
  mpfr_clear(y);
  return error;
}

class StatedErrors : public ::testing::Test {
 protected:
  StatedErrors() { mpfr_init2(exact_, 400); }
  ~StatedErrors() override { mpfr_clear(exact_); }
  void take(const Pair& x) {
    mpfr_set_d(exact_, x.high, MPFR_RNDN);
    mpfr_add_d(exact_, exact_, x.low, MPFR_RNDN);
  }
  std::mt19937_64 engine_{1};
  mpfr_t exact_;
};

}  // namespace isobit::contract::host::quick
