// Convolutions on a device: implicit products over patches.h, nothing is unfolded in memory.
#include "kernels/conv2d.h"

#include <algorithm>

#include "kernels/cuda/conv_taps.h"
#include "kernels/cuda/product_plan.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

// Patches as right factor.
struct PatchProduct : PatchOutput {
  using A = TapWeights;
  using B = PatchesByPosition;
  A a;
  B b;
  bool wide = false;  // four neighbouring positions are neighbours in memory, 16 bytes aligned

  ISOBIT_DEVICE void store(std::int64_t group, std::int64_t i, std::int64_t j, float product) const {
    *place(b.grid, group, i, j) = with_bias(group, i, product);
  }
  ISOBIT_DEVICE void store4(std::int64_t group, std::int64_t i, std::int64_t j, Float4 product) const {
    ISOBIT_CUDA::store4(place(b.grid, group, i, j), {with_bias(group, i, product.x), with_bias(group, i, product.y),
                                                     with_bias(group, i, product.z), with_bias(group, i, product.w)});
  }
};

struct WeightGradient : WeightOutput {
  using A = ChannelsByPosition;
  using B = PatchesByTap;
  A a;
  B b;
  bool wide = false;

  ISOBIT_DEVICE void store(std::int64_t group, std::int64_t i, std::int64_t j, float product) const {
    *place(group, i, j) = product;
  }
  ISOBIT_DEVICE void store4(std::int64_t group, std::int64_t i, std::int64_t j, Float4 product) const {
    ISOBIT_CUDA::store4(place(group, i, j), product);
  }
};

template <class Problem>
void run(const Problem& p) {
  const int processors = multiprocessors();
  const ProductPlan plan = plan_product(p.shape, processors, true);
  if (plan.config == kLarge) return run_tiles<LargeTile>(p, plan.chunk_leaves, processors);
  if (plan.config == kMedium) return run_tiles<MediumTile>(p, plan.chunk_leaves, processors);
  run_tiles<SmallTile>(p, plan.chunk_leaves, processors);
}

bool aligned16(const float* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

void conv2d_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y) {
  const std::int64_t plane = s.out_h() * s.out_w(), co = s.co / s.groups, ci = s.ci / s.groups;
  if (s.n * s.co * plane == 0) return;
  require_indexable(s);
  const TapTable table(forward_taps(s), ci);
  PatchProduct p{forward_output(s, table.count(), bias, y), {}, {}};
  p.a = {weight, co * table.count(), table.count(), static_cast<int>(co), table.taps()};
  p.b = {output_grid(s), x, table.taps()};
  p.wide = plane % 4 == 0 && aligned16(y);
  run(p);
}

void input_gradient_of_phase(const Conv2dShape& s, const float* dy, const float* weight, std::int64_t phase_h,
                             std::int64_t phase_w, float* dx) {
  const std::int64_t co = s.co / s.groups, ci = s.ci / s.groups;
  const TapTable table(phase_taps(s, phase_h, phase_w), co);
  PatchProduct p{phase_output(s, phase_h, phase_w, table.count(), dx), {}, {}};
  p.a = {weight, co * ci * s.kh * s.kw, s.kh * s.kw, static_cast<int>(ci), table.taps()};
  p.b.grid = phase_grid(s, phase_h, phase_w);
  p.b.source = dy, p.b.taps = table.taps();
  p.wide = s.stride_h == 1 && s.stride_w == 1 && s.h * s.w % 4 == 0 && aligned16(dx);
  run(p);
}

void conv2d_input_gradient(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  if (s.n * s.ci * s.h * s.w == 0) return;
  require_indexable(s);
  each_phase(s, [&](std::int64_t h, std::int64_t w) { input_gradient_of_phase(s, dy, weight, h, w, dx); });
}

void conv2d_weight_gradient(const Conv2dShape& s, const float* x, const float* dy, float* dweight) {
  const std::int64_t plane = s.out_h() * s.out_w(), co = s.co / s.groups, ci = s.ci / s.groups;
  if (s.co * ci * s.kh * s.kw == 0) return;
  require_indexable(s);
  const TapTable table(forward_taps(s), ci);
  WeightGradient p{weight_output(s, table.count(), dweight), {}, {}};
  p.a = {dy, FastDivide(std::max<std::int64_t>(1, plane)), s.co * plane, co * plane, static_cast<int>(co)};
  p.b = {output_grid(s), x, table.taps()};
  p.wide = table.count() % 4 == 0 && aligned16(dweight);
  run(p);
}

}  // namespace

void fill_conv2d(KernelTable& t) {
  t.conv2d_forward = conv2d_forward;
  t.conv2d_input_gradient = conv2d_input_gradient;
  t.conv2d_weight_gradient = conv2d_weight_gradient;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
