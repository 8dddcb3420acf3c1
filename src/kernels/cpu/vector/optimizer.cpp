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

void sgd_plain(const contract::SgdCoefficients& c, const SgdArrays& t, std::int64_t b, std::int64_t e) {
  float* const parameter = t.parameter;
  const float* const gradient = t.gradient;
  for_each_block(
      b, e, [&](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
        FloatLanes p = load_count(parameter + i, count), unused(0.0f);
        contract::sgd_element(c, p, load_count(gradient + i, count), unused);
        store_count(parameter + i, p, count);
      });
}

void sgd_momentum(const contract::SgdCoefficients& c, const SgdArrays& t, std::int64_t b, std::int64_t e) {
  float *const parameter = t.parameter, *const buffer = t.buffer;
  const float* const gradient = t.gradient;
  for_each_block(
      b, e, [&](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
        FloatLanes p = load_count(parameter + i, count), m = load_count(buffer + i, count);
        contract::sgd_element(c, p, load_count(gradient + i, count), m);
        store_count(parameter + i, p, count);
        store_count(buffer + i, m, count);
      });
}

void sgd_steps(const SgdOptions& options, bool first_step, const SgdArrays* tensors, std::int64_t count) {
  const contract::SgdCoefficients c = coefficients(options, first_step);
  for (const SgdArrays* t = tensors; t != tensors + count; ++t) {
    parallel_for(0, t->n, kSmallest, [&](std::int64_t b, std::int64_t e) {
      if (c.with_momentum) {
        sgd_momentum(c, *t, b, e);
      } else {
        sgd_plain(c, *t, b, e);
      }
    });
  }
}

void adam_range(const contract::AdamCoefficients& c, const AdamArrays& t, std::int64_t b, std::int64_t e) {
  float *const parameter = t.parameter, *const exp_avg = t.exp_avg, *const exp_avg_sq = t.exp_avg_sq;
  const float* const gradient = t.gradient;
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

void adam_steps(const AdamOptions& options, std::int64_t step, const AdamArrays* tensors, std::int64_t count) {
  const contract::AdamCoefficients c = coefficients(options, step);
  for (const AdamArrays* t = tensors; t != tensors + count; ++t)
    parallel_for(0, t->n, kSmallest, [&](std::int64_t b, std::int64_t e) { adam_range(c, *t, b, e); });
}

}  // namespace

void fill_optimizer(KernelTable& t) {
  t.sgd_steps = sgd_steps;
  t.adam_steps = adam_steps;
}

}  // namespace isobit::kernels::ISOBIT_ISA
