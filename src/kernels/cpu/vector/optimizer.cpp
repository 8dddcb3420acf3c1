// Optimizer steps over lanes: the contract's element templates instantiated with FloatLanes.
#include "contract/optimizer.h"

#include "kernels/dispatch/kernel_table.h"
#include "kernels/formulas/optimizer_coefficients.h"
#include "kernels/cpu/vector/lanes.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kSmallest = 1 << 13;  // elements a thread should at least have

// Whole registers and a tail in one form: the count is a constant in the loop.
ISOBIT_INLINE FloatLanes load_count(const float* p, std::int64_t count) {
  return count == kLanes ? load(p) : load_first(p, count);
}
ISOBIT_INLINE void store_count(float* p, FloatLanes x, std::int64_t count) {
  if (count == kLanes)
    store(p, x);
  else
    store_first(p, x, count);
}

template <class Block>
ISOBIT_INLINE void for_each_block(std::int64_t b, std::int64_t e, Block&& block) {
  std::int64_t i = b;
  for (; i + kLanes <= e; i += kLanes) block(i, static_cast<std::int64_t>(kLanes));
  if (i < e) block(i, e - i);
}

void sgd_plain(const contract::SgdCoefficients& c, float* parameter, const float* gradient, std::int64_t b,
               std::int64_t e) {
  for_each_block(
      b, e, [&](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
        FloatLanes p = load_count(parameter + i, count), unused(0.0f);
        contract::sgd_element(c, p, load_count(gradient + i, count), unused);
        store_count(parameter + i, p, count);
      });
}

void sgd_momentum(const contract::SgdCoefficients& c, float* parameter, const float* gradient, float* buffer,
                  std::int64_t b, std::int64_t e) {
  for_each_block(
      b, e, [&](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
        FloatLanes p = load_count(parameter + i, count), m = load_count(buffer + i, count);
        contract::sgd_element(c, p, load_count(gradient + i, count), m);
        store_count(parameter + i, p, count);
        store_count(buffer + i, m, count);
      });
}

void sgd_step(const SgdOptions& options, bool first_step, float* parameter, const float* gradient, float* buffer,
              std::int64_t n) {
  const contract::SgdCoefficients c = coefficients(options, first_step);
  parallel_for(0, n, kSmallest, [&](std::int64_t b, std::int64_t e) {
    if (c.with_momentum)
      sgd_momentum(c, parameter, gradient, buffer, b, e);
    else
      sgd_plain(c, parameter, gradient, b, e);
  });
}

void adam_range(const contract::AdamCoefficients& c, float* parameter, const float* gradient, float* exp_avg,
                float* exp_avg_sq, std::int64_t b, std::int64_t e) {
  for_each_block(
      b, e, [&](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
        FloatLanes p = load_count(parameter + i, count);
        FloatLanes m = load_count(exp_avg + i, count), v = load_count(exp_avg_sq + i, count);
        contract::adam_element(c, p, load_count(gradient + i, count), m, v);
        store_count(parameter + i, p, count);
        store_count(exp_avg + i, m, count);
        store_count(exp_avg_sq + i, v, count);
      });
}

void adam_step(const AdamOptions& options, std::int64_t step, float* parameter, const float* gradient, float* exp_avg,
               float* exp_avg_sq, std::int64_t n) {
  const contract::AdamCoefficients c = coefficients(options, step);
  parallel_for(0, n, kSmallest,
               [&](std::int64_t b, std::int64_t e) { adam_range(c, parameter, gradient, exp_avg, exp_avg_sq, b, e); });
}

}  // namespace

void fill_optimizer(KernelTable& t) {
  t.sgd_step = sgd_step;
  t.adam_step = adam_step;
}

}  // namespace isobit::kernels::ISOBIT_ISA
