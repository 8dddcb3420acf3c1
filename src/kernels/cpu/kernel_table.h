// One table of entry points per implementation, filled by one function per family and implementation.
//
// A slot that an implementation leaves alone keeps the reference's function. A public kernel looks up the
// active table, opens a FloatEnvironment and calls. Entry points promise what the public header says and may
// use the pool; the reference ones run on the calling thread unless their work is split over independent
// outputs.
#pragma once

#include "kernels/activation.h"
#include "kernels/batch_norm.h"
#include "kernels/conv2d.h"
#include "kernels/elementwise.h"
#include "kernels/exact_sum.h"
#include "kernels/fingerprint.h"
#include "kernels/grid_sample.h"
#include "kernels/group_norm.h"
#include "kernels/indexed.h"
#include "kernels/isa.h"
#include "kernels/loss.h"
#include "kernels/matmul.h"
#include "kernels/optimizer.h"
#include "kernels/place_rows.h"
#include "kernels/pointwise.h"
#include "kernels/pool2d.h"
#include "kernels/pool3d.h"
#include "kernels/random.h"
#include "kernels/reduce.h"
#include "kernels/scan.h"
#include "kernels/softmax.h"
#include "kernels/sort.h"
#include "kernels/wide_functions.h"

namespace isobit::kernels {

struct KernelTable {
  decltype(&kernels::matmul) matmul = nullptr;

  decltype(&kernels::conv2d_forward) conv2d_forward = nullptr;
  decltype(&kernels::conv2d_input_gradient) conv2d_input_gradient = nullptr;
  decltype(&kernels::conv2d_weight_gradient) conv2d_weight_gradient = nullptr;

  decltype(&kernels::sum) sum = nullptr;
  decltype(&kernels::mean) mean = nullptr;
  decltype(&kernels::norm2) norm2 = nullptr;
  decltype(&kernels::maximum) maximum = nullptr;
  decltype(&kernels::minimum) minimum = nullptr;
  decltype(&kernels::argmax) argmax = nullptr;

  decltype(&kernels::batch_moments) batch_moments = nullptr;
  decltype(&kernels::batch_norm_training) batch_norm_training = nullptr;
  decltype(&kernels::batch_norm_inference) batch_norm_inference = nullptr;
  decltype(&kernels::batch_norm_backward) batch_norm_backward = nullptr;
  decltype(&kernels::invstd_of) invstd_of = nullptr;

  decltype(&kernels::group_norm) group_norm = nullptr;
  decltype(&kernels::group_norm_backward) group_norm_backward = nullptr;

  decltype(&kernels::softmax) softmax = nullptr;
  decltype(&kernels::log_softmax) log_softmax = nullptr;
  decltype(&kernels::softmax_backward) softmax_backward = nullptr;
  decltype(&kernels::log_softmax_backward) log_softmax_backward = nullptr;

  decltype(&kernels::nll_forward) nll_forward = nullptr;
  decltype(&kernels::nll_backward) nll_backward = nullptr;

  decltype(&kernels::max_pool2d) max_pool2d = nullptr;
  decltype(&kernels::max_pool2d_backward) max_pool2d_backward = nullptr;
  decltype(&kernels::average_pool2d) average_pool2d = nullptr;
  decltype(&kernels::average_pool2d_backward) average_pool2d_backward = nullptr;
  decltype(&kernels::adaptive_average_pool2d) adaptive_average_pool2d = nullptr;
  decltype(&kernels::adaptive_average_pool2d_backward) adaptive_average_pool2d_backward = nullptr;

  decltype(&kernels::max_pool3d) max_pool3d = nullptr;
  decltype(&kernels::fractional_max_pool) fractional_max_pool = nullptr;
  decltype(&kernels::max_pool_gradient) max_pool_gradient = nullptr;
  decltype(&kernels::average_pool3d) average_pool3d = nullptr;
  decltype(&kernels::average_pool3d_backward) average_pool3d_backward = nullptr;
  decltype(&kernels::unpool) unpool = nullptr;

  decltype(&kernels::grid_sample) grid_sample = nullptr;
  decltype(&kernels::grid_sample_input_gradient) grid_sample_input_gradient = nullptr;
  decltype(&kernels::grid_sample_grid_gradient) grid_sample_grid_gradient = nullptr;

  decltype(&kernels::unary) unary = nullptr;
  decltype(&kernels::binary) binary = nullptr;
  decltype(&kernels::add_scaled) add_scaled = nullptr;
  decltype(&kernels::addcmul) addcmul = nullptr;
  decltype(&kernels::addcdiv) addcdiv = nullptr;
  decltype(&kernels::lerp) lerp = nullptr;
  decltype(&kernels::power) power = nullptr;
  void (*general_power_each)(const float* x, const float* p, float* y, std::int64_t n) = nullptr;
  void (*general_power_all)(const float* x, float p, float* y, std::int64_t n) = nullptr;
  decltype(&kernels::clamp) clamp = nullptr;
  decltype(&kernels::hardtanh_backward) hardtanh_backward = nullptr;
  decltype(&kernels::leaky_relu) leaky_relu = nullptr;
  decltype(&kernels::leaky_relu_backward) leaky_relu_backward = nullptr;

  decltype(&kernels::unary_with) unary_with = nullptr;
  decltype(&kernels::binary_with) binary_with = nullptr;
  decltype(&kernels::ternary_with) ternary_with = nullptr;

  decltype(&kernels::wide_unary) wide_unary = nullptr;
  decltype(&kernels::wide_binary) wide_binary = nullptr;

  decltype(&kernels::indexed_add) indexed_add = nullptr;
  decltype(&kernels::indexed_reduce) indexed_reduce = nullptr;
  decltype(&kernels::cumulative) cumulative = nullptr;
  decltype(&kernels::place_rows) place_rows = nullptr;

  decltype(&kernels::product) product = nullptr;
  decltype(&kernels::running_log_sum) running_log_sum = nullptr;
  decltype(&kernels::running_extremum) running_extremum = nullptr;

  decltype(&kernels::sort_rows) sort_rows = nullptr;

  decltype(&kernels::exact_binary) exact_binary = nullptr;
  decltype(&kernels::exact_unary) exact_unary = nullptr;
  decltype(&kernels::threshold) threshold = nullptr;
  decltype(&kernels::fill) fill = nullptr;

  decltype(&kernels::fill_uniform) fill_uniform = nullptr;
  decltype(&kernels::fill_normal) fill_normal = nullptr;
  decltype(&kernels::fill_bernoulli) fill_bernoulli = nullptr;
  decltype(&kernels::fill_bernoulli_each) fill_bernoulli_each = nullptr;
  decltype(&kernels::dropout) dropout = nullptr;

  decltype(&kernels::sgd_step) sgd_step = nullptr;
  decltype(&kernels::adam_step) adam_step = nullptr;

  decltype(&kernels::top_limb) top_limb = nullptr;
  decltype(&kernels::add_digits) add_digits = nullptr;
  decltype(&kernels::round_digits) round_digits = nullptr;

  Fingerprint (*element_sums_float)(const float* x, std::int64_t first, std::int64_t n) = nullptr;
  Fingerprint (*element_sums_int64)(const std::int64_t* x, std::int64_t first, std::int64_t n) = nullptr;
  Fingerprint (*element_sums_uint8)(const std::uint8_t* x, std::int64_t first, std::int64_t n) = nullptr;
};

[[nodiscard]] const KernelTable& table_of(Isa isa);
// The device's within a DeviceScope (kernels/device.h), else the active instruction set's.
[[nodiscard]] const KernelTable& active_table();

// One per family; the families' files define them in namespace reference and in each ISA's namespace.
#define ISOBIT_DECLARE_FILLS            \
  void fill_matmul(KernelTable& t);     \
  void fill_conv2d(KernelTable& t);     \
  void fill_reduce(KernelTable& t);     \
  void fill_batch_norm(KernelTable& t); \
  void fill_group_norm(KernelTable& t); \
  void fill_softmax(KernelTable& t);    \
  void fill_loss(KernelTable& t);       \
  void fill_pool2d(KernelTable& t);     \
  void fill_grid_sample(KernelTable& t); \
  void fill_pointwise(KernelTable& t);  \
  void fill_activation(KernelTable& t); \
  void fill_wide_functions(KernelTable& t); \
  void fill_random(KernelTable& t);     \
  void fill_optimizer(KernelTable& t);  \
  void fill_exact_sum(KernelTable& t);  \
  void fill_fingerprint(KernelTable& t);
namespace reference {
ISOBIT_DECLARE_FILLS
void fill_elementwise(KernelTable& t);  // no vector build: the CPU's own come from stock
// Nor of these: every host uses the reference's.
void fill_indexed(KernelTable& t);
void fill_scan(KernelTable& t);
void fill_sort(KernelTable& t);
void fill_place_rows(KernelTable& t);
void fill_pool3d(KernelTable& t);
}
namespace avx2 { ISOBIT_DECLARE_FILLS }
namespace avx512 { ISOBIT_DECLARE_FILLS }
namespace lanes16 { ISOBIT_DECLARE_FILLS }
#undef ISOBIT_DECLARE_FILLS

}  // namespace isobit::kernels
