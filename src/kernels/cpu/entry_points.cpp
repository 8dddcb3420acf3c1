// The public kernels: each opens the contract's floating-point environment and calls the active table.
#include "kernels/cpu/kernel_table.h"
#include "kernels/float_environment.h"

namespace isobit::kernels {

void matmul(const MatmulProblem& problem) {
  const FloatEnvironment environment;
  active_table().matmul(problem);
}

void conv2d_forward(const Conv2dShape& shape, const float* x, const float* weight, const float* bias,
                    float* y) {
  const FloatEnvironment environment;
  active_table().conv2d_forward(shape, x, weight, bias, y);
}
void conv2d_input_gradient(const Conv2dShape& shape, const float* dy, const float* weight, float* dx) {
  const FloatEnvironment environment;
  active_table().conv2d_input_gradient(shape, dy, weight, dx);
}
void conv2d_weight_gradient(const Conv2dShape& shape, const float* x, const float* dy, float* dweight) {
  const FloatEnvironment environment;
  active_table().conv2d_weight_gradient(shape, x, dy, dweight);
}

void sum(const ReduceShape& shape, const float* x, float* out) {
  const FloatEnvironment environment;
  active_table().sum(shape, x, out);
}
void mean(const ReduceShape& shape, const float* x, float* out) {
  const FloatEnvironment environment;
  active_table().mean(shape, x, out);
}
void norm2(const ReduceShape& shape, const float* x, float* out) {
  const FloatEnvironment environment;
  active_table().norm2(shape, x, out);
}
void maximum(const ReduceShape& shape, const float* x, float* out) {
  const FloatEnvironment environment;
  active_table().maximum(shape, x, out);
}
void minimum(const ReduceShape& shape, const float* x, float* out) {
  const FloatEnvironment environment;
  active_table().minimum(shape, x, out);
}
void argmax(const ReduceShape& shape, const float* x, std::int64_t* out) {
  const FloatEnvironment environment;
  active_table().argmax(shape, x, out);
}

void batch_moments(const ChannelShape& shape, const float* x, float* mean, float* m2) {
  const FloatEnvironment environment;
  active_table().batch_moments(shape, x, mean, m2);
}
void batch_norm_training(const BatchNormForward& problem) {
  const FloatEnvironment environment;
  active_table().batch_norm_training(problem);
}
void batch_norm_inference(const BatchNormForward& problem) {
  const FloatEnvironment environment;
  active_table().batch_norm_inference(problem);
}
void batch_norm_backward(const BatchNormBackward& problem) {
  const FloatEnvironment environment;
  active_table().batch_norm_backward(problem);
}
void invstd_of(const float* variance, double eps, float* invstd, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().invstd_of(variance, eps, invstd, n);
}

void group_norm(const GroupNormForward& problem) {
  const FloatEnvironment environment;
  active_table().group_norm(problem);
}
void group_norm_backward(const GroupNormBackward& problem) {
  const FloatEnvironment environment;
  active_table().group_norm_backward(problem);
}

void unary_with(UnaryWith op, const Parameters& parameters, const float* x, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().unary_with(op, parameters, x, y, n);
}
void binary_with(BinaryWith op, const Parameters& parameters, const float* u, const float* v, float* y,
                 std::int64_t n) {
  const FloatEnvironment environment;
  active_table().binary_with(op, parameters, u, v, y, n);
}
void ternary_with(TernaryWith op, const Parameters& parameters, const float* u, const float* v, const float* w,
                  float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().ternary_with(op, parameters, u, v, w, y, n);
}

void indexed_add(const Occurrences& occurrences, std::int64_t outer, std::int64_t source_rows, std::int64_t inner,
                 float alpha, const float* source, float* destination) {
  const FloatEnvironment environment;
  active_table().indexed_add(occurrences, outer, source_rows, inner, alpha, source, destination);
}
void indexed_reduce(IndexReduction op, const Occurrences& occurrences, bool include_self, const float* source,
                    float* destination) {
  const FloatEnvironment environment;
  active_table().indexed_reduce(op, occurrences, include_self, source, destination);
}
void cumulative(Cumulative op, std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  const FloatEnvironment environment;
  active_table().cumulative(op, outer, size, inner, x, y);
}

void product(std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  const FloatEnvironment environment;
  active_table().product(outer, size, inner, x, y);
}
void running_log_sum(std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  const FloatEnvironment environment;
  active_table().running_log_sum(outer, size, inner, x, y);
}
void running_extremum(bool largest, std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x,
                      float* values, std::int64_t* places) {
  const FloatEnvironment environment;
  active_table().running_extremum(largest, outer, size, inner, x, values, places);
}

void sort_rows(bool descending, std::int64_t rows, std::int64_t n, const float* x, float* values, std::int64_t* places) {
  const FloatEnvironment environment;
  active_table().sort_rows(descending, rows, n, x, values, places);
}

void softmax(const SoftmaxShape& shape, const float* x, float* y) {
  const FloatEnvironment environment;
  active_table().softmax(shape, x, y);
}
void log_softmax(const SoftmaxShape& shape, const float* x, float* y) {
  const FloatEnvironment environment;
  active_table().log_softmax(shape, x, y);
}
void softmax_backward(const SoftmaxShape& shape, const float* dy, const float* y, float* dx) {
  const FloatEnvironment environment;
  active_table().softmax_backward(shape, dy, y, dx);
}
void log_softmax_backward(const SoftmaxShape& shape, const float* dy, const float* y, float* dx) {
  const FloatEnvironment environment;
  active_table().log_softmax_backward(shape, dy, y, dx);
}

std::int64_t nll_forward(const NllShape& shape, const float* x, const std::int64_t* target,
                         const float* weight, float* loss, float* total_weight) {
  const FloatEnvironment environment;
  return active_table().nll_forward(shape, x, target, weight, loss, total_weight);
}
std::int64_t nll_backward(const NllShape& shape, const float* dy, const std::int64_t* target,
                          const float* weight, const float* total_weight, float* dx) {
  const FloatEnvironment environment;
  return active_table().nll_backward(shape, dy, target, weight, total_weight, dx);
}

void max_pool2d(const Pool2dShape& shape, const float* x, float* y, std::int64_t* index) {
  const FloatEnvironment environment;
  active_table().max_pool2d(shape, x, y, index);
}
void max_pool2d_backward(const Pool2dShape& shape, const float* dy, const std::int64_t* index, float* dx) {
  const FloatEnvironment environment;
  active_table().max_pool2d_backward(shape, dy, index, dx);
}
void average_pool2d(const Pool2dShape& shape, bool count_include_pad, std::int64_t divisor_override,
                    const float* x, float* y) {
  const FloatEnvironment environment;
  active_table().average_pool2d(shape, count_include_pad, divisor_override, x, y);
}
void average_pool2d_backward(const Pool2dShape& shape, bool count_include_pad, std::int64_t divisor_override,
                             const float* dy, float* dx) {
  const FloatEnvironment environment;
  active_table().average_pool2d_backward(shape, count_include_pad, divisor_override, dy, dx);
}
void adaptive_average_pool2d(const Pool2dShape& shape, const float* x, float* y) {
  const FloatEnvironment environment;
  active_table().adaptive_average_pool2d(shape, x, y);
}
void adaptive_average_pool2d_backward(const Pool2dShape& shape, const float* dy, float* dx) {
  const FloatEnvironment environment;
  active_table().adaptive_average_pool2d_backward(shape, dy, dx);
}

void unary(Unary op, const float* x, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().unary(op, x, y, n);
}
void binary(Binary op, const float* a, const float* b, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().binary(op, a, b, y, n);
}
void add_scaled(const float* a, const float* b, float alpha, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().add_scaled(a, b, alpha, y, n);
}
void addcmul(const float* a, const float* b, const float* c, float value, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().addcmul(a, b, c, value, y, n);
}
void addcdiv(const float* a, const float* b, const float* c, float value, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().addcdiv(a, b, c, value, y, n);
}
void lerp(const float* a, const float* b, float weight, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().lerp(a, b, weight, y, n);
}
bool power(const float* x, double p, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  return active_table().power(x, p, y, n);
}
void general_power(const float* x, const float* p, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().general_power_each(x, p, y, n);
}
void general_power(const float* x, float p, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().general_power_all(x, p, y, n);
}
void clamp(const float* x, float low, float high, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().clamp(x, low, high, y, n);
}
void hardtanh_backward(const float* dy, const float* x, float low, float high, float* dx, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().hardtanh_backward(dy, x, low, high, dx, n);
}
void leaky_relu(const float* x, float slope, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().leaky_relu(x, slope, y, n);
}
void leaky_relu_backward(const float* dy, const float* x, float slope, float* dx, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().leaky_relu_backward(dy, x, slope, dx, n);
}

void wide_unary(WideUnary op, const float* x, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().wide_unary(op, x, y, n);
}
void wide_binary(WideBinary op, const float* a, const float* b, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().wide_binary(op, a, b, y, n);
}

void max_pool3d(const PoolWindows& windows, const float* x, float* y, std::int64_t* index) {
  const FloatEnvironment environment;
  active_table().max_pool3d(windows, x, y, index);
}
void fractional_max_pool(const FractionalPool& pool, const float* samples, const float* x, float* y, std::int64_t* index) {
  const FloatEnvironment environment;
  active_table().fractional_max_pool(pool, samples, x, y, index);
}
void max_pool_gradient(std::int64_t planes, std::int64_t in, std::int64_t out, const float* dy, const std::int64_t* index,
                       float* dx) {
  const FloatEnvironment environment;
  active_table().max_pool_gradient(planes, in, out, dy, index, dx);
}
void average_pool3d(const PoolWindows& windows, Divisor divisor, std::int64_t fixed, const float* x, float* y) {
  const FloatEnvironment environment;
  active_table().average_pool3d(windows, divisor, fixed, x, y);
}
void average_pool3d_backward(const PoolWindows& windows, Divisor divisor, std::int64_t fixed, const float* dy, float* dx) {
  const FloatEnvironment environment;
  active_table().average_pool3d_backward(windows, divisor, fixed, dy, dx);
}
std::int64_t unpool(std::int64_t planes, std::int64_t in, std::int64_t out, const float* x, const std::int64_t* index, float* y) {
  return active_table().unpool(planes, in, out, x, index, y);
}

void grid_sample(const GridShape& shape, const float* x, const float* grid, float* y) {
  const FloatEnvironment environment;
  active_table().grid_sample(shape, x, grid, y);
}
void grid_sample_input_gradient(const GridShape& shape, const float* grid, const float* dy, float* dx) {
  const FloatEnvironment environment;
  active_table().grid_sample_input_gradient(shape, grid, dy, dx);
}
void grid_sample_grid_gradient(const GridShape& shape, const float* x, const float* grid, const float* dy, float* dgrid) {
  const FloatEnvironment environment;
  active_table().grid_sample_grid_gradient(shape, x, grid, dy, dgrid);
}

void place_rows(const RowPlacing& placing, const void* source, void* destination) {
  active_table().place_rows(placing, source, destination);
}

void exact_binary(ExactBinary op, const ElementShape& shape, const Operand& a, const Operand& b, float* y) {
  const FloatEnvironment environment;
  active_table().exact_binary(op, shape, a, b, y);
}
void exact_unary(ExactUnary op, const ElementShape& shape, const Operand& x, float* y) {
  const FloatEnvironment environment;
  active_table().exact_unary(op, shape, x, y);
}
void threshold(const ElementShape& shape, const Operand& x, float limit, float value, float* y) {
  const FloatEnvironment environment;
  active_table().threshold(shape, x, limit, value, y);
}
void fill(float value, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().fill(value, y, n);
}

void fill_uniform(std::uint64_t key, std::int64_t first, float low, float high, float* out, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().fill_uniform(key, first, low, high, out, n);
}
void fill_normal(std::uint64_t key, std::int64_t first, float mean, float deviation, float* out,
                 std::int64_t n) {
  const FloatEnvironment environment;
  active_table().fill_normal(key, first, mean, deviation, out, n);
}
void fill_bernoulli(std::uint64_t key, std::int64_t first, double p, float* out, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().fill_bernoulli(key, first, p, out, n);
}
void fill_bernoulli_each(std::uint64_t key, std::int64_t first, const float* p, float* out, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().fill_bernoulli_each(key, first, p, out, n);
}
void dropout(std::uint64_t key, std::int64_t first, double keep, const float* x, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().dropout(key, first, keep, x, y, n);
}

void sgd_step(const SgdOptions& options, bool first_step, float* parameter, const float* gradient,
              float* buffer, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().sgd_step(options, first_step, parameter, gradient, buffer, n);
}
void adam_step(const AdamOptions& options, std::int64_t step, float* parameter, const float* gradient,
               float* exp_avg, float* exp_avg_sq, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().adam_step(options, step, parameter, gradient, exp_avg, exp_avg_sq, n);
}

int top_limb(const float* x, std::int64_t n) {
  const FloatEnvironment environment;
  return active_table().top_limb(x, n);
}
void add_digits(const float* x, int t, std::int64_t* hi, std::int64_t* lo, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().add_digits(x, t, hi, lo, n);
}
void round_digits(const std::int64_t* hi, const std::int64_t* lo, int t, float* out, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().round_digits(hi, lo, t, out, n);
}

Fingerprint element_sums(const float* x, std::int64_t first, std::int64_t n) {
  return active_table().element_sums_float(x, first, n);
}
Fingerprint element_sums(const std::int64_t* x, std::int64_t first, std::int64_t n) {
  return active_table().element_sums_int64(x, first, n);
}
Fingerprint element_sums(const std::uint8_t* x, std::int64_t first, std::int64_t n) {
  return active_table().element_sums_uint8(x, first, n);
}

}  // namespace isobit::kernels
