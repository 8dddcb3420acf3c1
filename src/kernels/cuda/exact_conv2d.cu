// Convolutions of the exact tier on a device by chunks: images with channels innermost going forward and to the input,
// with the batch innermost for weights (exact_windows.h).
#include "kernels/cuda/exact_conv2d.h"

#include <algorithm>

#include "kernels/cuda/exact_plan.h"
#include "kernels/cuda/exact_windows.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

struct ExactWindowProduct : PatchOutput {
  using A = WeightChunks;
  using B = WindowChunks;
  using Column = float*;
  A a;
  B b;

  ISOBIT_DEVICE Column column(std::int64_t group, std::int64_t j) const { return position(b.grid, group, j); }
  ISOBIT_DEVICE void store(Column at, std::int64_t group, std::int64_t i, float product) const {
    at[i * out_channel] = with_bias(group, i, product);
  }
};

struct ExactWeightProduct : WeightOutput {
  using A = MatrixChunks;
  using B = WindowChunksByTap;
  using Column = float*;
  A a;
  B b;

  ISOBIT_DEVICE Column column(std::int64_t group, std::int64_t j) const { return place(group, 0, j); }
  ISOBIT_DEVICE void store(Column at, std::int64_t, std::int64_t i, float product) const { at[i * shape.n] = product; }
};

[[nodiscard]] std::int64_t depth_of(std::int64_t terms) { return ceil_div(terms, kChunkTerms); }
// Tables of taps count chunks in 32 bits. down, right: how far a tap looks at most.
[[nodiscard]] bool are_countable(std::int64_t down, std::int64_t right, std::int64_t width, std::int64_t pitch) {
  return (down * width + right + 1) < kInt32End / pitch;
}
[[nodiscard]] bool taps_are_countable(const Conv2dShape& s, std::int64_t width, std::int64_t pitch) {
  return are_countable(s.pad_h + s.kh * s.dilation_h + s.stride_h, s.pad_w + s.kw * s.dilation_w + s.stride_w, width,
                       pitch);
}
[[nodiscard]] bool chunks_pay(std::int64_t terms) { return terms > 0 && depth_of(terms) * kChunkTerms <= 2 * terms; }

// [image][pixel][group][channels of the group]
ChunkShape with_channels_inside(std::int64_t images, std::int64_t plane, std::int64_t groups, std::int64_t channels) {
  ChunkShape s;
  s.n0 = images, s.n1 = plane, s.n2 = groups, s.terms = channels;
  s.s0 = groups * channels * plane, s.s1 = 1, s.s2 = channels * plane, s.term = plane;
  s.l0 = groups, s.slab_rows = std::max<std::int64_t>(1, plane), s.l2 = 1;
  return s;
}
// [channel and pixel][image]
ChunkShape with_batch_inside(std::int64_t images, std::int64_t channels, std::int64_t plane) {
  ChunkShape s;
  s.n1 = channels * plane, s.terms = images;
  s.s1 = 1, s.term = channels * plane;
  s.slab_rows = std::max<std::int64_t>(1, plane);
  return s;
}
// [output channel][tap][input channels]
ChunkShape forward_weights(const Conv2dShape& s) {
  const std::int64_t ci = s.ci / s.groups, taps = s.kh * s.kw;
  ChunkShape c;
  c.n0 = s.co, c.n1 = taps, c.terms = ci;
  c.s0 = ci * taps, c.s1 = 1, c.term = taps;
  c.l0 = 1, c.slab_rows = taps;
  return c;
}
// [group][input channel and tap][output channels]
ChunkShape gradient_weights(const Conv2dShape& s) {
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, taps = s.kh * s.kw;
  ChunkShape c;
  c.n0 = s.groups, c.n1 = ci * taps, c.terms = co;
  c.s0 = co * ci * taps, c.s1 = 1, c.term = ci * taps;
  c.l0 = ci, c.slab_rows = taps;
  return c;
}

ChunkTapGeometry tap_chunks(const Conv2dShape& s, const Axis& h, const Axis& w, std::int64_t channels,
                            std::int64_t source_w) {
  ChunkTapGeometry g;
  g.h = h, g.w = w, g.depth = static_cast<int>(depth_of(channels));
  g.pitch = static_cast<int>(s.groups) * g.depth, g.row_stride = static_cast<int>(source_w) * g.pitch;
  g.weight_row = static_cast<int>(s.kw);
  return g;
}

// A grid whose strides count chunks.
PatchGrid in_chunks(PatchGrid grid, const ChunkTapGeometry& g) {
  grid.image_stride = std::int64_t{grid.source_h} * grid.source_w * g.pitch, grid.group_stride = g.depth;
  return grid;
}

void input_gradient_of_phase(const Conv2dShape& s, const ExactChunks& weights, const ExactChunks& gradients,
                             std::int64_t phase_h, std::int64_t phase_w, float* dx) {
  const std::int64_t co = s.co / s.groups, ci = s.ci / s.groups;
  const TapGeometry taps = phase_taps(s, phase_h, phase_w);
  const ChunkTapGeometry g = tap_chunks(s, taps.h, taps.w, co, s.out_w());
  const ChunkTaps table(g);
  ExactWindowProduct p{phase_output(s, phase_h, phase_w, table.terms(), dx), {}, {}};
  p.a = {weights.chunks(), weights.largest(), ci, s.kh * s.kw * g.depth, table.taps()};
  p.b = {in_chunks(phase_grid(s, phase_h, phase_w), g),
         gradients.chunks(),
         gradients.largest(),
         s.groups,
         g.pitch,
         table.taps()};
  run_exact_blocks(p);
}

void by_chunks_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y) {
  const std::int64_t co = s.co / s.groups, ci = s.ci / s.groups;
  const TapGeometry taps = forward_taps(s);
  const ChunkTapGeometry g = tap_chunks(s, taps.h, taps.w, ci, s.w);
  const ChunkTaps table(g);
  const ExactChunks weights(of_images(s.co, ci * s.kh * s.kw), forward_weights(s), weight);
  const ExactChunks images(of_images(s.n * s.groups, ci * s.h * s.w),
                           with_channels_inside(s.n, s.h * s.w, s.groups, ci), x);
  ExactWindowProduct p{forward_output(s, table.terms(), bias, y), {}, {}};
  p.a = {weights.chunks(), weights.largest(), co, s.kh * s.kw * g.depth, table.taps()};
  p.b = {in_chunks(output_grid(s), g), images.chunks(), images.largest(), s.groups, g.pitch, table.taps()};
  run_exact_blocks(p);
}

// Images with few channels are unfolded: a window's row is a run of chunks, or the whole window is.
Unfolding unfolded_images(const Conv2dShape& s, bool whole) {
  const auto along = [](std::int64_t taps, std::int64_t step, std::int64_t pad, std::int64_t dilation,
                        std::int64_t size) {
    return Unfolding::Along{static_cast<int>(taps), static_cast<int>(step), static_cast<int>(pad),
                            static_cast<int>(dilation), static_cast<int>(size)};
  };
  Unfolding u;
  u.n0 = s.n, u.n1 = whole ? s.out_h() : s.h, u.n2 = s.out_w();
  u.s0 = s.ci * s.h * s.w, u.s_channel = s.h * s.w, u.channels = static_cast<int>(s.ci);
  u.h = whole ? along(s.kh, s.stride_h, s.pad_h, s.dilation_h, s.h) : along(1, 1, 0, 1, s.h);
  u.w = along(s.kw, s.stride_w, s.pad_w, s.dilation_w, s.w);
  return u;
}
Unfolding unfolded_weights(const Conv2dShape& s, bool whole) {
  Unfolding u;
  u.n0 = s.co, u.n1 = whole ? 1 : s.kh;
  u.s0 = s.ci * s.kh * s.kw, u.s_channel = s.kh * s.kw, u.channels = static_cast<int>(s.ci);
  u.h.taps = whole ? static_cast<int>(s.kh) : 1, u.h.size = static_cast<int>(s.kh);
  u.w.taps = u.w.size = static_cast<int>(s.kw);
  return u;
}

void unfolded_forward(const Conv2dShape& s, bool whole, const float* x, const float* weight, const float* bias,
                      float* y) {
  const Unfolding unfolded = unfolded_images(s, whole);
  ChunkTapGeometry g;
  g.w.count = g.h.count = 1;
  if (!whole) g.h = forward_axis(s.kh, s.pad_h, s.dilation_h);
  g.depth = g.pitch = unfolded.depth(), g.row_stride = static_cast<int>(s.out_w()) * g.pitch, g.weight_row = 1;
  const ChunkTaps table(g);
  const ExactChunks weights(of_images(s.co, s.ci * s.kh * s.kw), unfolded_weights(s, whole), weight);
  const ExactChunks images(of_images(s.n, s.ci * s.h * s.w), unfolded, x);
  ExactWindowProduct p{forward_output(s, table.terms(), bias, y), {}, {}};
  p.a = {weights.chunks(), weights.largest(), s.co, g.h.count * g.depth, table.taps()};
  PatchGrid grid = output_grid(s);
  grid.step_w = 1, grid.source_w = static_cast<int>(s.out_w());
  if (whole) grid.step_h = 1, grid.source_h = static_cast<int>(s.out_h());
  p.b = {in_chunks(grid, g), images.chunks(), images.largest(), 1, g.pitch, table.taps()};
  run_exact_blocks(p);
}

void by_chunks_input_gradient(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  const std::int64_t co = s.co / s.groups, plane = s.out_h() * s.out_w();
  const ExactChunks weights(of_input_channels(s), gradient_weights(s), weight);
  const ExactChunks gradients(of_images(s.n * s.groups, co * plane), with_channels_inside(s.n, plane, s.groups, co),
                              dy);
  each_phase(s, [&](std::int64_t h, std::int64_t w) { input_gradient_of_phase(s, weights, gradients, h, w, dx); });
}

// k: positions, each with its batch.
void by_chunks_weight_gradient(const Conv2dShape& s, const float* x, const float* dy, float* dweight) {
  const std::int64_t plane = s.out_h() * s.out_w(), co = s.co / s.groups, ci = s.ci / s.groups;
  ChunkTapGeometry g;
  g.h = {0, 1, static_cast<int>(s.out_h()), 0, static_cast<int>(s.stride_h), 1};
  g.w = {0, 1, static_cast<int>(s.out_w()), 0, static_cast<int>(s.stride_w), 1};
  g.depth = g.pitch = static_cast<int>(depth_of(s.n)), g.row_stride = static_cast<int>(s.w) * g.pitch;
  const ChunkTaps table(g);
  const ExactChunks gradients(of_channels(s.n, s.co, plane), with_batch_inside(s.n, s.co, plane), dy);
  const ExactChunks inputs(of_channels(s.n, s.ci, s.h * s.w), with_batch_inside(s.n, s.ci, s.h * s.w), x);
  ExactWeightProduct p{weight_output(s, ci * s.kh * s.kw, dweight), {}, {}};
  p.shape.k = table.terms();
  p.a = {gradients.chunks(), gradients.largest(), co, co, plane * g.depth};
  p.b.grid.source_h = static_cast<int>(s.h), p.b.grid.source_w = static_cast<int>(s.w);
  p.b.chunks = inputs.chunks(), p.b.of_channels = inputs.largest();
  p.b.rows = p.shape.n, p.b.channels = ci;
  p.b.taps_of_channel = FastDivide(s.kh * s.kw), p.b.taps_of_row = FastDivide(s.kw);
  p.b.pad_h = static_cast<int>(s.pad_h), p.b.pad_w = static_cast<int>(s.pad_w);
  p.b.dilation_h = static_cast<int>(s.dilation_h), p.b.dilation_w = static_cast<int>(s.dilation_w);
  p.b.pitch = g.pitch, p.b.taps = table.taps();
  run_exact_blocks(p);
}

}  // namespace

void exact_conv2d_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y) {
  if (s.n * s.co * s.out_h() * s.out_w() == 0) return;
  require_indexable(s);
  const std::int64_t pitch = s.groups * depth_of(s.ci / s.groups);
  if (chunks_pay(s.ci / s.groups) && taps_are_countable(s, s.w, pitch)) return by_chunks_forward(s, x, weight, bias, y);
  const std::int64_t of_row = s.ci * s.kw, rows_depth = s.kh * depth_of(of_row), whole_depth = depth_of(s.kh * of_row);
  if (s.groups > 1 || !chunks_pay(s.kh * of_row) || !taps_are_countable(s, s.out_w(), whole_depth) ||
      s.n * s.h * s.out_w() * whole_depth >= kInt32End / 64) {
    return few_conv2d_forward(s, x, weight, bias, y);
  }
  // A row unfolded is read by several windows; a whole window is read once, and has fewer terms that are padding.
  const bool whole = !chunks_pay(of_row) || 3 * rows_depth > 4 * whole_depth * s.stride_h * s.stride_h;
  unfolded_forward(s, whole, x, weight, bias, y);
}

void exact_conv2d_input_gradient(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  if (s.n * s.ci * s.h * s.w == 0) return;
  require_indexable(s);
  const std::int64_t pitch = s.groups * depth_of(s.co / s.groups);
  const bool by_chunks = chunks_pay(s.co / s.groups) && taps_are_countable(s, s.out_w(), pitch);
  (by_chunks ? by_chunks_input_gradient : few_conv2d_input_gradient)(s, dy, weight, dx);
}

void exact_conv2d_weight_gradient(const Conv2dShape& s, const float* x, const float* dy, float* dweight) {
  if (s.co * (s.ci / s.groups) * s.kh * s.kw == 0) return;
  require_indexable(s);
  const bool by_chunks =
      chunks_pay(s.n) && are_countable(s.out_h() * s.stride_h, s.out_w() * s.stride_w, s.w, depth_of(s.n));
  (by_chunks ? by_chunks_weight_gradient : few_conv2d_weight_gradient)(s, x, dy, dweight);
}

}  // namespace isobit::kernels::ISOBIT_CUDA
