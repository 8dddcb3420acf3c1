// Products of the exact tier on a device: words of digits (exact_words.h), then tiles on int8 tensor cores
// (exact_tile.h).
#include "kernels/exact_products.h"

#include <algorithm>

#include "kernels/cuda/exact_operands.h"
#include "kernels/cuda/exact_tile.h"
#include "kernels/cuda/matrix_product.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

// ---- matrix products

// MatrixOutput (matrix_product.h) has alpha, beta, addend and C.
struct ExactMatrixProduct : MatrixOutput {
  using A = MatrixWords;
  using B = MatrixWords;
  A a;
  B b;
};

// The rows of a factor; a broadcast batch once.
Slabs rows_of(const MatmulProblem& p, const float* data, std::int64_t batch_stride, std::int64_t rows,
              std::int64_t row_stride, std::int64_t term_stride) {
  Slabs s;
  s.outer = batch_stride == 0 || data == nullptr ? 1 : p.batch;
  s.inner = rows, s.outer_stride = batch_stride, s.inner_stride = row_stride;
  s.n1 = p.k, s.stride1 = term_stride;
  return s;
}

MatrixWords words_of(const ExactWords& words, const Slabs& s, std::int64_t pitch) {
  return {words.words(), words.largest(), s.outer == 1 ? 0 : s.inner, s.inner, pitch};
}

void matmul(const MatmulProblem& p) {
  if (p.batch * p.m * p.n == 0) return;
  const std::int64_t pitch = std::max<std::int64_t>(4, ceil_div(p.k, 4) * 4);
  const Slabs of_a = rows_of(p, p.a.data, p.a.batch_stride, p.m, p.a.row_stride, p.a.column_stride);
  const Slabs of_b = rows_of(p, p.b.data, p.b.batch_stride, p.n, p.b.column_stride, p.b.row_stride);
  const ExactWords a(of_a, p.a.data, pitch), b(of_b, p.b.data, pitch);
  const MatrixOutput output{{p.batch, p.m, p.n, p.k}, p.c,      p.c_batch_stride, p.c_row_stride,
                            p.c_column_stride,        p.addend, p.alpha,          p.beta};
  run_exact(ExactMatrixProduct{output, words_of(a, of_a, pitch), words_of(b, of_b, pitch)});
}

// ---- convolutions

// Patches as right factor.
struct ExactPatchProduct : PatchOutput {
  using A = TapWeightWords;
  using B = PatchWordsByPosition;
  A a;
  B b;

  ISOBIT_DEVICE void store(std::int64_t group, std::int64_t i, std::int64_t j, float product) const {
    *place(b.grid, group, i, j) = with_bias(group, i, product);
  }
};

struct ExactWeightGradient : WeightOutput {
  using A = ChannelWordsByPosition;
  using B = PatchWordsByTap;
  A a;
  B b;

  ISOBIT_DEVICE void store(std::int64_t group, std::int64_t i, std::int64_t j, float product) const {
    *place(group, i, j) = product;
  }
};

// [images][groups], each of `elements` side by side.
Slabs of_images(std::int64_t images, std::int64_t elements) {
  Slabs s;
  s.inner = images, s.inner_stride = elements, s.n1 = elements;
  return s;
}
// Each channel over the batch.
Slabs of_channels(std::int64_t n, std::int64_t channels, std::int64_t plane) {
  Slabs s;
  s.inner = channels, s.inner_stride = plane;
  s.n0 = n, s.stride0 = channels * plane, s.n1 = plane;
  return s;
}
// Each input channel of a group over its output channels and all taps.
Slabs of_input_channels(const Conv2dShape& s) {
  const std::int64_t co = s.co / s.groups, ci = s.ci / s.groups, taps = s.kh * s.kw;
  Slabs slabs;
  slabs.outer = s.groups, slabs.outer_stride = co * ci * taps;
  slabs.inner = ci, slabs.inner_stride = taps;
  slabs.n0 = co, slabs.stride0 = ci * taps, slabs.n1 = taps;
  return slabs;
}

void conv2d_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y) {
  const std::int64_t plane = s.out_h() * s.out_w(), co = s.co / s.groups, ci = s.ci / s.groups;
  if (s.n * s.co * plane == 0) return;
  require_indexable(s);
  const TapTable table(forward_taps(s), ci);
  const ExactWords weights(of_images(s.co, ci * s.kh * s.kw), weight);
  const ExactWords images(of_images(s.n * s.groups, ci * s.h * s.w), x);
  ExactPatchProduct p{forward_output(s, table.count(), bias, y), {}, {}};
  p.a = {weights.words(), weights.largest(), co * table.count(), table.count(), co, table.taps()};
  p.b = {output_grid(s), images.words(), images.largest(), s.groups, table.taps()};
  run_exact(p);
}

void input_gradient_of_phase(const Conv2dShape& s, const ExactWords& weights, const ExactWords& gradients,
                             std::int64_t phase_h, std::int64_t phase_w, float* dx) {
  const std::int64_t co = s.co / s.groups, ci = s.ci / s.groups;
  const TapTable table(phase_taps(s, phase_h, phase_w), co);
  ExactPatchProduct p{phase_output(s, phase_h, phase_w, table.count(), dx), {}, {}};
  p.a = {weights.words(), weights.largest(), co * ci * s.kh * s.kw, s.kh * s.kw, ci, table.taps()};
  p.b = {phase_grid(s, phase_h, phase_w), gradients.words(), gradients.largest(), s.groups, table.taps()};
  run_exact(p);
}

void conv2d_input_gradient(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  if (s.n * s.ci * s.h * s.w == 0) return;
  require_indexable(s);
  const ExactWords weights(of_input_channels(s), weight);
  const ExactWords gradients(of_images(s.n * s.groups, s.co / s.groups * s.out_h() * s.out_w()), dy);
  for (std::int64_t phase_h = 0; phase_h < std::min(s.stride_h, s.h); ++phase_h) {
    for (std::int64_t phase_w = 0; phase_w < std::min(s.stride_w, s.w); ++phase_w)
      input_gradient_of_phase(s, weights, gradients, phase_h, phase_w, dx);
  }
}

void conv2d_weight_gradient(const Conv2dShape& s, const float* x, const float* dy, float* dweight) {
  const std::int64_t plane = s.out_h() * s.out_w(), co = s.co / s.groups, ci = s.ci / s.groups;
  if (s.co * ci * s.kh * s.kw == 0) return;
  require_indexable(s);
  const TapTable table(forward_taps(s), ci);
  const ExactWords gradients(of_channels(s.n, s.co, plane), dy);
  const ExactWords inputs(of_channels(s.n, s.ci, s.h * s.w), x);
  ExactWeightGradient p{weight_output(s, table.count(), dweight), {}, {}};
  p.a = {gradients.words(), gradients.largest(), FastDivide(std::max<std::int64_t>(1, plane)),
         s.co * plane,      co * plane,          co};
  p.b = {output_grid(s), inputs.words(), inputs.largest(), table.count(), ci, s.kh * s.kw, table.taps()};
  run_exact(p);
}

}  // namespace

void fill_exact_products(KernelTable& t) {
  t.exact3_matmul = matmul;
  t.exact3_conv2d_forward = conv2d_forward;
  t.exact3_conv2d_input_gradient = conv2d_input_gradient;
  t.exact3_conv2d_weight_gradient = conv2d_weight_gradient;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
