// Powers with any exponent: one scalar formula for every instruction set, so only threads differ.
#include "contract/functions_power.h"
#include "kernels/float_environment.h"
#include "kernels/pointwise.h"
#include "kernels/threads.h"

namespace isobit::kernels {
namespace {

constexpr std::int64_t kSmallest = 1024;  // a power takes tens of ns

}  // namespace

void general_power(const float* x, const float* p, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  parallel_for(0, n, kSmallest, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = contract::power(x[i], p[i]);
  });
}

void general_power(const float* x, float p, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  parallel_for(0, n, kSmallest, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = contract::power(x[i], p);
  });
}

}  // namespace isobit::kernels
