#include "study/distributions.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace isobit::study {
namespace {

namespace bm = boost::math;
// Not by way of long double, which is another type on every architecture.
using Policy = bm::policies::policy<bm::policies::promote_double<false>>;
using Normal = bm::normal_distribution<double, Policy>;
using StudentT = bm::students_t_distribution<double, Policy>;

}  // namespace

double normal_cdf(double z) { return bm::cdf(Normal(), z); }
double normal_quantile(double p) { return bm::quantile(Normal(), p); }
double t_quantile(double p, double degrees) { return bm::quantile(StudentT(degrees), p); }

double chi_squared_quantile(double p, double degrees) {
  return bm::quantile(bm::chi_squared_distribution<double, Policy>(degrees), p);
}

double t_two_sided(double t, double degrees) { return 2 * bm::cdf(bm::complement(StudentT(degrees), std::abs(t))); }

double fair_coins_two_sided(std::int64_t least, std::int64_t n) {
  if (n == 0) return 1;
  const bm::binomial_distribution<double, Policy> coins(static_cast<double>(n), 0.5);
  return std::min(1.0, 2 * bm::cdf(coins, static_cast<double>(least)));
}

double t_test_power(double noncentrality, double degrees, double critical) {
  const double shift = std::abs(noncentrality);
  if (degrees > 1000 || shift > 30) return normal_cdf(shift - critical) + normal_cdf(-shift - critical);
  const bm::non_central_t_distribution<double, Policy> shifted(degrees, shift);
  return bm::cdf(bm::complement(shifted, critical)) + bm::cdf(shifted, -critical);
}

}  // namespace isobit::study
