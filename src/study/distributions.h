// Probabilities and quantiles, by Boost.Math in binary64.
//
// They rest on the C library's exp, log and pow, whose last digits differ between machines: what is computed with them
// is an estimate's error bar, not a result that isobit promises to the bit. Arguments outside a function's domain:
// std::domain_error. No state; thread-safe.
#pragma once

#include <cstdint>

namespace isobit::study {

[[nodiscard]] double normal_cdf(double z);
[[nodiscard]] double normal_quantile(double p);  // 0 < p < 1
[[nodiscard]] double t_quantile(double p, double degrees);
[[nodiscard]] double chi_squared_quantile(double p, double degrees);

// P(|T| >= |t|) for Student's t.
[[nodiscard]] double t_two_sided(double t, double degrees);
// P(X <= least or X >= n - least) for n fair coins, at most 1: the exact test of McNemar for min(b, c) of n = b + c.
[[nodiscard]] double fair_coins_two_sided(std::int64_t least, std::int64_t n);
// P(|T'| > critical) for the noncentral t distribution: the power of a t test. Above 1,000 degrees the normal
// distribution stands for it.
[[nodiscard]] double t_test_power(double noncentrality, double degrees, double critical);

}  // namespace isobit::study
