// Optimizer steps: one pass over the parameter and its states, one thread per element.
#include "contract/optimizer.h"

#include "kernels/formulas/optimizer_coefficients.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256;

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void sgd_kernel(contract::SgdCoefficients c, float* parameter,
                                                                const float* gradient, float* buffer, std::int64_t n) {
  const std::int64_t i = block_index() * kThreads + thread_index();
  if (i >= n) return;
  float p = parameter[i];
  float b = c.with_momentum && !c.first_step ? buffer[i] : 0.0f;
  contract::sgd_element(c, p, gradient[i], b);
  parameter[i] = p;
  if (c.with_momentum) buffer[i] = b;
}

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void adam_kernel(contract::AdamCoefficients c, float* parameter,
                                                                 const float* gradient, float* exp_avg,
                                                                 float* exp_avg_sq, std::int64_t n) {
  const std::int64_t i = block_index() * kThreads + thread_index();
  if (i >= n) return;
  float p = parameter[i], average = exp_avg[i], square = exp_avg_sq[i];
  contract::adam_element(c, p, gradient[i], average, square);
  parameter[i] = p;
  exp_avg[i] = average;
  exp_avg_sq[i] = square;
}

void sgd_step(const SgdOptions& options, bool first_step, float* parameter, const float* gradient, float* buffer,
              std::int64_t n) {
  launch(sgd_kernel, {ceil_div(n, kThreads), kThreads}, coefficients(options, first_step), parameter, gradient, buffer,
         n);
}

void adam_step(const AdamOptions& options, std::int64_t step, float* parameter, const float* gradient, float* exp_avg,
               float* exp_avg_sq, std::int64_t n) {
  launch(adam_kernel, {ceil_div(n, kThreads), kThreads}, coefficients(options, step), parameter, gradient, exp_avg,
         exp_avg_sq, n);
}

}  // namespace

void fill_optimizer(KernelTable& t) {
  t.sgd_step = sgd_step;
  t.adam_step = adam_step;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
