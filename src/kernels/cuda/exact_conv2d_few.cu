// Convolutions of the exact tier on a device where chunks would be mostly empty: groups of few channels, small batches.
// Words of digits (exact_words.h), gathered term by term (exact_tile.h).
#include "kernels/cuda/exact_conv2d.h"

#include <algorithm>

#include "kernels/cuda/exact_operands.h"
#include "kernels/cuda/exact_tile.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

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

void input_gradient_of_phase(const Conv2dShape& s, const ExactWords& weights, const ExactWords& gradients,
                             std::int64_t phase_h, std::int64_t phase_w, float* dx) {
  const std::int64_t co = s.co / s.groups, ci = s.ci / s.groups;
  const TapTable table(phase_taps(s, phase_h, phase_w), co);
  ExactPatchProduct p{phase_output(s, phase_h, phase_w, table.count(), dx), {}, {}};
  p.a = {weights.words(), weights.largest(), co * ci * s.kh * s.kw, s.kh * s.kw, ci, table.taps()};
  p.b = {phase_grid(s, phase_h, phase_w), gradients.words(), gradients.largest(), s.groups, table.taps()};
  run_exact(p);
}

}  // namespace

void few_conv2d_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y) {
  const std::int64_t co = s.co / s.groups, ci = s.ci / s.groups;
  const TapTable table(forward_taps(s), ci);
  const ExactWords weights(of_images(s.co, ci * s.kh * s.kw), weight);
  const ExactWords images(of_images(s.n * s.groups, ci * s.h * s.w), x);
  ExactPatchProduct p{forward_output(s, table.count(), bias, y), {}, {}};
  p.a = {weights.words(), weights.largest(), co * table.count(), table.count(), co, table.taps()};
  p.b = {output_grid(s), images.words(), images.largest(), s.groups, table.taps()};
  run_exact(p);
}

void few_conv2d_input_gradient(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  const ExactWords weights(of_input_channels(s), weight);
  const ExactWords gradients(of_images(s.n * s.groups, s.co / s.groups * s.out_h() * s.out_w()), dy);
  each_phase(s, [&](std::int64_t h, std::int64_t w) { input_gradient_of_phase(s, weights, gradients, h, w, dx); });
}

void few_conv2d_weight_gradient(const Conv2dShape& s, const float* x, const float* dy, float* dweight) {
  const std::int64_t plane = s.out_h() * s.out_w(), co = s.co / s.groups, ci = s.ci / s.groups;
  const TapTable table(forward_taps(s), ci);
  const ExactWords gradients(of_channels(s.n, s.co, plane), dy);
  const ExactWords inputs(of_channels(s.n, s.ci, s.h * s.w), x);
  ExactWeightGradient p{weight_output(s, table.count(), dweight), {}, {}};
  p.a = {gradients.words(), gradients.largest(), FastDivide(std::max<std::int64_t>(1, plane)),
         s.co * plane,      co * plane,          co};
  p.b = {output_grid(s), inputs.words(), inputs.largest(), table.count(), ci, s.kh * s.kw, table.taps()};
  run_exact(p);
}

}  // namespace isobit::kernels::ISOBIT_CUDA
