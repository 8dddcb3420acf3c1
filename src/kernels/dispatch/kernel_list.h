// The kernels. This list alone makes the tables, the fills, the entry points and the checks, for hosts and devices.
//
// A family has a file of its name per implementation that defines fill_<family>(table):
//   everywhere(f)      cpu/reference, cpu/vector (once per instruction set), cuda
//   unvectorized(f)    cpu/reference, which every instruction set uses, and cuda
//   host_only(f)       cpu/reference and cpu/vector; devices compose its results from other kernels (src/aten)
//   binary64(f)        cpu/reference and, but for sort, cpu/vector/binary64*.cpp: the family's kernels on double, in
//                      the HostTable;
//                      a device's float64 tensors are computed on the host (src/aten)
//
// A slot is a member of KernelTable (HostTable for families of hosts only):
//   kernel(result, name, (parameters), (arguments))      the public function of that name opens the contract's
//                                                        floating-point environment and calls the active table's
//   unrounded(result, name, (parameters), (arguments))   the same without the environment: it moves values only
//   inner(result, name, (parameters))                    called by what stands on the public functions
#pragma once

// clang-format off
#define ISOBIT_KERNEL_FAMILIES(everywhere, unvectorized, host_only, binary64) \
  everywhere(matmul) everywhere(conv2d) everywhere(exact_products) everywhere(reduce) everywhere(batch_norm) everywhere(group_norm) \
  everywhere(softmax) everywhere(loss) everywhere(pool2d) everywhere(pool3d) everywhere(grid_sample) everywhere(pointwise) \
  everywhere(activation) everywhere(wide_functions) everywhere(random) everywhere(optimizer) \
  everywhere(exact_sum) everywhere(fingerprint) \
  unvectorized(elementwise) everywhere(indexed) everywhere(scan) unvectorized(sort) unvectorized(place_rows) \
  host_only(recurrent) host_only(resample) host_only(exact_terms) host_only(flat_elements) \
  host_only(linear_solvers) host_only(householder) \
  binary64(matmul) binary64(reduce) binary64(batch_norm) binary64(group_norm) binary64(softmax) binary64(loss) \
  binary64(pointwise) binary64(activation) binary64(random) binary64(indexed) binary64(scan) binary64(sort)

#define ISOBIT_KERNEL_SLOTS(kernel, unrounded, inner) \
  kernel(void, matmul, (const MatmulProblem& problem), (problem)) \
  /**/ \
  kernel(void, conv2d_forward, (const Conv2dShape& shape, const float* x, const float* weight, const float* bias, \
      float* y), (shape, x, weight, bias, y)) \
  kernel(void, conv2d_input_gradient, (const Conv2dShape& shape, const float* dy, const float* weight, float* dx), \
      (shape, dy, weight, dx)) \
  kernel(void, conv2d_weight_gradient, (const Conv2dShape& shape, const float* x, const float* dy, float* dweight), \
      (shape, x, dy, dweight)) \
  /**/ \
  kernel(void, exact3_matmul, (const MatmulProblem& problem), (problem)) \
  kernel(void, exact3_conv2d_forward, (const Conv2dShape& shape, const float* x, const float* weight, const float* bias, \
      float* y), (shape, x, weight, bias, y)) \
  kernel(void, exact3_conv2d_input_gradient, (const Conv2dShape& shape, const float* dy, const float* weight, \
      float* dx), (shape, dy, weight, dx)) \
  kernel(void, exact3_conv2d_weight_gradient, (const Conv2dShape& shape, const float* x, const float* dy, \
      float* dweight), (shape, x, dy, dweight)) \
  /**/ \
  kernel(void, sum, (const ReduceShape& shape, const float* x, float* out), (shape, x, out)) \
  kernel(void, mean, (const ReduceShape& shape, const float* x, float* out), (shape, x, out)) \
  kernel(void, norm2, (const ReduceShape& shape, const float* x, float* out), (shape, x, out)) \
  kernel(void, maximum, (const ReduceShape& shape, const float* x, float* out), (shape, x, out)) \
  kernel(void, minimum, (const ReduceShape& shape, const float* x, float* out), (shape, x, out)) \
  kernel(void, argmax, (const ReduceShape& shape, const float* x, std::int64_t* out), (shape, x, out)) \
  /**/ \
  kernel(void, batch_moments, (const ChannelShape& shape, const float* x, float* mean, float* m2), (shape, x, mean, \
      m2)) \
  kernel(void, batch_norm_training, (const BatchNormForward& problem), (problem)) \
  kernel(void, batch_norm_inference, (const BatchNormForward& problem), (problem)) \
  kernel(void, batch_norm_backward, (const BatchNormBackward& problem), (problem)) \
  kernel(void, invstd_of, (const float* variance, double eps, float* invstd, std::int64_t n), (variance, eps, \
      invstd, n)) \
  /**/ \
  kernel(void, group_norm, (const GroupNormForward& problem), (problem)) \
  kernel(void, group_norm_backward, (const GroupNormBackward& problem), (problem)) \
  /**/ \
  kernel(void, softmax, (const SoftmaxShape& shape, const float* x, float* y), (shape, x, y)) \
  kernel(void, log_softmax, (const SoftmaxShape& shape, const float* x, float* y), (shape, x, y)) \
  kernel(void, softmax_backward, (const SoftmaxShape& shape, const float* dy, const float* y, float* dx), (shape, \
      dy, y, dx)) \
  kernel(void, log_softmax_backward, (const SoftmaxShape& shape, const float* dy, const float* y, float* dx), \
      (shape, dy, y, dx)) \
  /**/ \
  kernel(std::int64_t, nll_forward, (const NllShape& shape, const float* x, const std::int64_t* target, \
      const float* weight, float* loss, float* total_weight), (shape, x, target, weight, loss, total_weight)) \
  kernel(std::int64_t, nll_backward, (const NllShape& shape, const float* dy, const std::int64_t* target, \
      const float* weight, const float* total_weight, float* dx), (shape, dy, target, weight, total_weight, dx)) \
  /**/ \
  kernel(void, max_pool2d, (const Pool2dShape& shape, const float* x, float* y, std::int64_t* index), (shape, x, y, \
      index)) \
  kernel(void, max_pool2d_backward, (const Pool2dShape& shape, const float* dy, const std::int64_t* index, \
      float* dx), (shape, dy, index, dx)) \
  kernel(void, average_pool2d, (const Pool2dShape& shape, bool count_include_pad, std::int64_t divisor_override, \
      const float* x, float* y), (shape, count_include_pad, divisor_override, x, y)) \
  kernel(void, average_pool2d_backward, (const Pool2dShape& shape, bool count_include_pad, \
      std::int64_t divisor_override, const float* dy, float* dx), (shape, count_include_pad, divisor_override, dy, \
      dx)) \
  kernel(void, adaptive_average_pool2d, (const Pool2dShape& shape, const float* x, float* y), (shape, x, y)) \
  kernel(void, adaptive_average_pool2d_backward, (const Pool2dShape& shape, const float* dy, float* dx), (shape, dy, \
      dx)) \
  /**/ \
  kernel(void, max_pool3d, (const PoolWindows& windows, const float* x, float* y, std::int64_t* index), (windows, x, \
      y, index)) \
  kernel(void, fractional_max_pool, (const FractionalPool& pool, const float* samples, const float* x, float* y, \
      std::int64_t* index), (pool, samples, x, y, index)) \
  kernel(void, max_pool_gradient, (std::int64_t planes, std::int64_t in, std::int64_t out, const float* dy, \
      const std::int64_t* index, float* dx), (planes, in, out, dy, index, dx)) \
  kernel(void, average_pool3d, (const PoolWindows& windows, Divisor divisor, std::int64_t fixed, const float* x, \
      float* y), (windows, divisor, fixed, x, y)) \
  kernel(void, average_pool3d_backward, (const PoolWindows& windows, Divisor divisor, std::int64_t fixed, \
      const float* dy, float* dx), (windows, divisor, fixed, dy, dx)) \
  unrounded(std::int64_t, unpool, (std::int64_t planes, std::int64_t in, std::int64_t out, const float* x, \
      const std::int64_t* index, float* y), (planes, in, out, x, index, y)) \
  /**/ \
  kernel(void, grid_sample, (const GridShape& shape, const float* x, const float* grid, float* y), (shape, x, grid, \
      y)) \
  kernel(void, grid_sample_input_gradient, (const GridShape& shape, const float* grid, const float* dy, float* dx), \
      (shape, grid, dy, dx)) \
  kernel(void, grid_sample_grid_gradient, (const GridShape& shape, const float* x, const float* grid, \
      const float* dy, float* dgrid), (shape, x, grid, dy, dgrid)) \
  /**/ \
  kernel(void, unary, (Unary op, const float* x, float* y, std::int64_t n), (op, x, y, n)) \
  kernel(void, binary, (Binary op, const float* a, const float* b, float* y, std::int64_t n), (op, a, b, y, n)) \
  kernel(void, add_scaled, (const float* a, const float* b, float alpha, float* y, std::int64_t n), (a, b, alpha, y, \
      n)) \
  kernel(void, addcmul, (const float* a, const float* b, const float* c, float value, float* y, std::int64_t n), (a, \
      b, c, value, y, n)) \
  kernel(void, addcdiv, (const float* a, const float* b, const float* c, float value, float* y, std::int64_t n), (a, \
      b, c, value, y, n)) \
  kernel(void, lerp, (const float* a, const float* b, float weight, float* y, std::int64_t n), (a, b, weight, y, n)) \
  kernel(bool, power, (const float* x, double p, float* y, std::int64_t n), (x, p, y, n)) \
  inner(void, general_power_each, (const float* x, const float* p, float* y, std::int64_t n)) \
  inner(void, general_power_all, (const float* x, float p, float* y, std::int64_t n)) \
  kernel(void, clamp, (const float* x, float low, float high, float* y, std::int64_t n), (x, low, high, y, n)) \
  kernel(void, hardtanh_backward, (const float* dy, const float* x, float low, float high, float* dx, \
      std::int64_t n), (dy, x, low, high, dx, n)) \
  kernel(void, leaky_relu, (const float* x, float slope, float* y, std::int64_t n), (x, slope, y, n)) \
  kernel(void, leaky_relu_backward, (const float* dy, const float* x, float slope, float* dx, std::int64_t n), (dy, \
      x, slope, dx, n)) \
  /**/ \
  kernel(void, unary_with, (UnaryWith op, const Parameters& parameters, const float* x, float* y, std::int64_t n), \
      (op, parameters, x, y, n)) \
  kernel(void, binary_with, (BinaryWith op, const Parameters& parameters, const float* u, const float* v, float* y, \
      std::int64_t n), (op, parameters, u, v, y, n)) \
  kernel(void, ternary_with, (TernaryWith op, const Parameters& parameters, const float* u, const float* v, \
      const float* w, float* y, std::int64_t n), (op, parameters, u, v, w, y, n)) \
  /**/ \
  kernel(void, wide_unary, (WideUnary op, const float* x, float* y, std::int64_t n), (op, x, y, n)) \
  kernel(void, wide_binary, (WideBinary op, const float* a, const float* b, float* y, std::int64_t n), (op, a, b, y, \
      n)) \
  /**/ \
  kernel(void, indexed_add, (const Occurrences& occurrences, std::int64_t outer, std::int64_t source_rows, \
      std::int64_t inner, float alpha, const float* source, float* destination), (occurrences, outer, source_rows, \
      inner, alpha, source, destination)) \
  kernel(void, indexed_reduce, (IndexReduction op, const Occurrences& occurrences, std::int64_t inner, \
      bool include_self, const float* source, float* destination), (op, occurrences, inner, include_self, source, \
      destination)) \
  kernel(void, cumulative, (Cumulative op, std::int64_t outer, std::int64_t size, std::int64_t inner, \
      const float* x, float* y), (op, outer, size, inner, x, y)) \
  unrounded(void, place_rows, (const RowPlacing& placing, const void* source, void* destination), (placing, source, \
      destination)) \
  /**/ \
  kernel(void, product, (std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y), \
      (outer, size, inner, x, y)) \
  kernel(void, running_log_sum, (std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, \
      float* y), (outer, size, inner, x, y)) \
  kernel(void, running_extremum, (bool largest, std::int64_t outer, std::int64_t size, std::int64_t inner, \
      const float* x, float* values, std::int64_t* places), (largest, outer, size, inner, x, values, places)) \
  /**/ \
  kernel(void, sort_rows, (bool descending, std::int64_t rows, std::int64_t n, const float* x, float* values, \
      std::int64_t* places), (descending, rows, n, x, values, places)) \
  /**/ \
  kernel(void, exact_binary, (ExactBinary op, const ElementShape& shape, const Operand& a, const Operand& b, \
      float* y), (op, shape, a, b, y)) \
  kernel(void, exact_unary, (ExactUnary op, const ElementShape& shape, const Operand& x, float* y), (op, shape, x, y)) \
  kernel(void, threshold, (const ElementShape& shape, const Operand& x, float limit, float value, float* y), (shape, \
      x, limit, value, y)) \
  kernel(void, fill, (float value, float* y, std::int64_t n), (value, y, n)) \
  /**/ \
  kernel(void, fill_uniform, (std::uint64_t key, std::int64_t first, float low, float high, float* out, \
      std::int64_t n), (key, first, low, high, out, n)) \
  kernel(void, fill_normal, (std::uint64_t key, std::int64_t first, float mean, float deviation, float* out, \
      std::int64_t n), (key, first, mean, deviation, out, n)) \
  kernel(void, fill_bernoulli, (std::uint64_t key, std::int64_t first, double p, float* out, std::int64_t n), (key, \
      first, p, out, n)) \
  kernel(void, fill_bernoulli_each, (std::uint64_t key, std::int64_t first, const float* p, float* out, \
      std::int64_t n), (key, first, p, out, n)) \
  kernel(void, dropout, (std::uint64_t key, std::int64_t first, double keep, const float* x, float* y, \
      std::int64_t n), (key, first, keep, x, y, n)) \
  /**/ \
  kernel(void, sgd_steps, (const SgdOptions& options, bool first_step, const SgdArrays* tensors, std::int64_t count), \
      (options, first_step, tensors, count)) \
  kernel(void, adam_steps, (const AdamOptions& options, std::int64_t step, const AdamArrays* tensors, \
      std::int64_t count), (options, step, tensors, count)) \
  /**/ \
  kernel(int, top_limb, (const float* x, std::int64_t n), (x, n)) \
  kernel(void, add_digits, (const float* x, int t, std::int64_t* hi, std::int64_t* lo, std::int64_t n), (x, t, hi, \
      lo, n)) \
  kernel(void, round_digits, (const std::int64_t* hi, const std::int64_t* lo, int t, float* out, std::int64_t n), \
      (hi, lo, t, out, n)) \
  /**/ \
  inner(Fingerprint, element_sums_float, (const float* x, std::int64_t first, std::int64_t n)) \
  inner(Fingerprint, element_sums_int64, (const std::int64_t* x, std::int64_t first, std::int64_t n)) \
  inner(Fingerprint, element_sums_uint8, (const std::uint8_t* x, std::int64_t first, std::int64_t n))

#define ISOBIT_HOST_SLOTS(kernel, inner) \
  kernel(void, sum_terms, (const float* const* terms, std::int64_t count, int t, float* out, std::int64_t n), \
         (terms, count, t, out, n)) \
  kernel(void, flat_binary, (ExactBinary op, const float* a, const float* b, float* y, std::int64_t n), (op, a, b, y, n)) \
  kernel(void, flat_with_number, (ExactBinary op, const float* a, float number, bool number_first, float* y, \
         std::int64_t n), (op, a, number, number_first, y, n)) \
  kernel(bool, join_digits, (const std::int64_t* hi, const std::int64_t* lo, double* out, std::int64_t n), (hi, lo, out, n)) \
  kernel(bool, add_joined, (const double* term, double* sum, std::int64_t n), (term, sum, n)) \
  kernel(bool, add_widened, (const float* x, int t, double* sum, std::int64_t n), (x, t, sum, n)) \
  kernel(void, round_joined, (const double* sum, int t, float* out, std::int64_t n), (sum, t, out, n)) \
  kernel(bool, split_joined, (const double* sum, std::int64_t* hi, std::int64_t* lo, std::int64_t n), (sum, hi, lo, n)) \
  kernel(std::int32_t, factor_cholesky, (double* a, std::int64_t n), (a, n)) \
  kernel(std::int32_t, factor_lu, (double* a, std::int64_t m, std::int64_t n, std::int32_t* pivots), (a, m, n, pivots)) \
  kernel(void, solve_triangle, (const Triangle& t, double* x, std::int64_t columns), (t, x, columns)) \
  kernel(void, householder_qr, (const QrProblem& problem), (problem)) \
  kernel(void, resample_axis, (const AxisTable& table, std::int64_t outer, std::int64_t inner, const float* x, float* y), \
         (table, outer, inner, x, y)) \
  kernel(void, step_products, \
         (const RecurrentShape& shape, std::int64_t m, std::int64_t n, const float* a, const float* b, float* c), \
         (shape, m, n, a, b, c)) \
  /* The steps alone; what comes before and after them is recurrent.cpp's. */ \
  inner(void, recurrent_steps, (const RecurrentForward& problem)) \
  /* Without dh0, dbias and dweight. carried [batch, hidden]: LSTM: dc0 on return; GRU: what of dh0 the gates stopped. */ \
  inner(void, recurrent_steps_backward, (const RecurrentBackward& problem, float* carried)) \
  /* binary64 */ \
  kernel(void, matmul, (const WideMatmulProblem& problem), (problem)) \
  kernel(void, sum, (const ReduceShape& shape, const double* x, double* out), (shape, x, out)) \
  kernel(void, mean, (const ReduceShape& shape, const double* x, double* out), (shape, x, out)) \
  kernel(void, norm2, (const ReduceShape& shape, const double* x, double* out), (shape, x, out)) \
  kernel(void, maximum, (const ReduceShape& shape, const double* x, double* out), (shape, x, out)) \
  kernel(void, minimum, (const ReduceShape& shape, const double* x, double* out), (shape, x, out)) \
  kernel(void, argmax, (const ReduceShape& shape, const double* x, std::int64_t* out), (shape, x, out)) \
  kernel(void, batch_moments, (const ChannelShape& shape, const double* x, double* mean, double* m2), (shape, x, \
      mean, m2)) \
  kernel(void, batch_norm_training, (const BatchNormForwardOf<double>& problem), (problem)) \
  kernel(void, batch_norm_inference, (const BatchNormForwardOf<double>& problem), (problem)) \
  kernel(void, batch_norm_backward, (const BatchNormBackwardOf<double>& problem), (problem)) \
  kernel(void, invstd_of, (const double* variance, double eps, double* invstd, std::int64_t n), (variance, eps, \
      invstd, n)) \
  kernel(void, group_norm, (const GroupNormForwardOf<double>& problem), (problem)) \
  kernel(void, group_norm_backward, (const GroupNormBackwardOf<double>& problem), (problem)) \
  kernel(void, softmax, (const SoftmaxShape& shape, const double* x, double* y), (shape, x, y)) \
  kernel(void, log_softmax, (const SoftmaxShape& shape, const double* x, double* y), (shape, x, y)) \
  kernel(void, softmax_backward, (const SoftmaxShape& shape, const double* dy, const double* y, double* dx), \
      (shape, dy, y, dx)) \
  kernel(void, log_softmax_backward, (const SoftmaxShape& shape, const double* dy, const double* y, double* dx), \
      (shape, dy, y, dx)) \
  kernel(std::int64_t, nll_forward, (const NllShape& shape, const double* x, const std::int64_t* target, const \
      double* weight, double* loss, double* total_weight), (shape, x, target, weight, loss, total_weight)) \
  kernel(std::int64_t, nll_backward, (const NllShape& shape, const double* dy, const std::int64_t* target, const \
      double* weight, const double* total_weight, double* dx), (shape, dy, target, weight, total_weight, dx)) \
  kernel(void, unary, (Unary op, const double* x, double* y, std::int64_t n), (op, x, y, n)) \
  kernel(void, binary, (Binary op, const double* a, const double* b, double* y, std::int64_t n), (op, a, b, y, n)) \
  kernel(void, add_scaled, (const double* a, const double* b, double alpha, double* y, std::int64_t n), (a, b, \
      alpha, y, n)) \
  kernel(void, addcmul, (const double* a, const double* b, const double* c, double value, double* y, std::int64_t \
      n), (a, b, c, value, y, n)) \
  kernel(void, addcdiv, (const double* a, const double* b, const double* c, double value, double* y, std::int64_t \
      n), (a, b, c, value, y, n)) \
  kernel(void, lerp, (const double* a, const double* b, double weight, double* y, std::int64_t n), (a, b, weight, \
      y, n)) \
  kernel(bool, power, (const double* x, double p, double* y, std::int64_t n), (x, p, y, n)) \
  inner(void, general_power_each, (const double* x, const double* p, double* y, std::int64_t n)) \
  inner(void, general_power_all, (const double* x, double p, double* y, std::int64_t n)) \
  kernel(void, clamp, (const double* x, double low, double high, double* y, std::int64_t n), (x, low, high, y, n)) \
  kernel(void, hardtanh_backward, (const double* dy, const double* x, double low, double high, double* dx, \
      std::int64_t n), (dy, x, low, high, dx, n)) \
  kernel(void, leaky_relu, (const double* x, double slope, double* y, std::int64_t n), (x, slope, y, n)) \
  kernel(void, leaky_relu_backward, (const double* dy, const double* x, double slope, double* dx, std::int64_t n), \
      (dy, x, slope, dx, n)) \
  kernel(void, unary_with, (UnaryWith op, const ParametersOf<double>& parameters, const double* x, double* y, \
      std::int64_t n), (op, parameters, x, y, n)) \
  kernel(void, binary_with, (BinaryWith op, const ParametersOf<double>& parameters, const double* u, const double* \
      v, double* y, std::int64_t n), (op, parameters, u, v, y, n)) \
  kernel(void, ternary_with, (TernaryWith op, const ParametersOf<double>& parameters, const double* u, const \
      double* v, const double* w, double* y, std::int64_t n), (op, parameters, u, v, w, y, n)) \
  kernel(void, indexed_add, (const Occurrences& occurrences, std::int64_t outer, std::int64_t source_rows, \
      std::int64_t inner, double alpha, const double* source, double* destination), (occurrences, outer, source_rows, \
      inner, alpha, source, destination)) \
  kernel(void, indexed_reduce, (IndexReduction op, const Occurrences& occurrences, std::int64_t inner, bool \
      include_self, const double* source, double* destination), (op, occurrences, inner, include_self, source, \
      destination)) \
  kernel(void, cumulative, (Cumulative op, std::int64_t outer, std::int64_t size, std::int64_t inner, const \
      double* x, double* y), (op, outer, size, inner, x, y)) \
  kernel(void, product, (std::int64_t outer, std::int64_t size, std::int64_t inner, const double* x, double* y), \
      (outer, size, inner, x, y)) \
  kernel(void, running_extremum, (bool largest, std::int64_t outer, std::int64_t size, std::int64_t inner, const \
      double* x, double* values, std::int64_t* places), (largest, outer, size, inner, x, values, places)) \
  kernel(void, sort_rows, (bool descending, std::int64_t rows, std::int64_t n, const double* x, double* values, \
      std::int64_t* places), (descending, rows, n, x, values, places)) \
  kernel(void, fill_uniform, (std::uint64_t key, std::int64_t first, double low, double high, double* out, \
      std::int64_t n), (key, first, low, high, out, n)) \
  kernel(void, fill_normal, (std::uint64_t key, std::int64_t first, double mean, double deviation, double* out, \
      std::int64_t n), (key, first, mean, deviation, out, n))
// clang-format on
