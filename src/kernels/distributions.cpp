#include "kernels/distributions.h"

#include <algorithm>
#include <vector>

#include "contract/distributions.h"
#include "kernels/device.h"
#include "kernels/float_environment.h"
#include "kernels/threads.h"

namespace isobit::kernels {
namespace {

constexpr std::int64_t kSmallest = 256;

// one(i) for every element.
template <class One>
void for_each(std::int64_t n, One&& one) {
  if (in_device_scope()) throw DeviceError("numbers of this distribution have no GPU kernel");
  const FloatEnvironment environment;
  parallel_for(0, n, kSmallest, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) one(i);
  });
}

// ln of a gamma number; NaN for a shape that is none.
double log_gamma_number(std::uint64_t key, std::uint64_t e, float shape) {
  if (!(shape > 0.0f) || shape == contract::kInfinity) return contract::kNanWide;
  const contract::GammaNumber g = contract::gamma_number(key, e, static_cast<double>(shape));
  return contract::log_of(g.scale) + g.logarithm;
}

}  // namespace

void draw_gamma(std::uint64_t key, const float* shape, float* out, std::int64_t n) {
  for_each(n, [=](std::int64_t i) { out[i] = contract::gamma_of(key, static_cast<std::uint64_t>(i), shape[i]); });
}

// Relative to the row's largest, so that numbers of tiny concentrations do not all underflow.
void draw_dirichlet(std::uint64_t key, const float* concentration, float* out, std::int64_t rows, std::int64_t width) {
  for_each(rows, [=](std::int64_t row) {
    std::vector<double> parts(static_cast<std::size_t>(width));
    double largest = -contract::kInfinityWide, sum = 0.0;
    bool all = true;
    for (std::int64_t i = 0; i < width; ++i) {
      const std::int64_t e = row * width + i;
      const double part = log_gamma_number(key, static_cast<std::uint64_t>(e), concentration[e]);
      parts[static_cast<std::size_t>(i)] = part;
      all = all && part == part;
      largest = part > largest ? part : largest;
    }
    for (double& part : parts) {
      part = contract::exp_of(part - largest);
      sum = sum + part;
    }
    for (std::int64_t i = 0; i < width; ++i) {
      const float x = contract::rounded(parts[static_cast<std::size_t>(i)] / sum);
      const float inside = x < 0x1p-126f ? 0x1p-126f : x > 0x1.fffffep-1f ? 0x1.fffffep-1f : x;
      out[row * width + i] = all ? inside : contract::kNan;
    }
  });
}

void draw_poisson(std::uint64_t key, const float* rate, float* out, std::int64_t n) {
  for_each(n, [=](std::int64_t i) {
    out[i] = contract::rounded(contract::poisson_of(key, static_cast<std::uint64_t>(i), static_cast<double>(rate[i])));
  });
}

void draw_binomial(std::uint64_t key, const float* count, const float* p, float* out, std::int64_t n) {
  for_each(n,
           [=](std::int64_t i) { out[i] = contract::binomial_of(key, static_cast<std::uint64_t>(i), count[i], p[i]); });
}

void dirichlet_slope(const float* x, const float* a, const float* total, float* out, std::int64_t n) {
  for_each(n, [=](std::int64_t i) { out[i] = contract::beta_slope(x[i], a[i], total[i]); });
}

}  // namespace isobit::kernels
