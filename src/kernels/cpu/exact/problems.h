// Matrix products and convolutions as exact products of two sides, for any engine (driver.h).
//
// Convolutions are products over windows: the image's integers are laid out once with their padding, so that a window's
// element is a sum of two offsets. The lanes run over positions of all images.
#pragma once

#include "kernels/cpu/exact/driver.h"
#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA::exact {

template <class T>
T* scratch(Workspace& workspace, std::int64_t count) {
  return static_cast<T*>(workspace.bytes(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(T)));
}

// at[i] = i * step
inline std::int64_t* offsets(Workspace& workspace, std::int64_t count, std::int64_t step) {
  std::int64_t* at = scratch<std::int64_t>(workspace, count);
  for (std::int64_t i = 0; i < count; ++i) at[i] = i * step;
  return at;
}

// at[i, j, l] = i * step[0] + j * step[1] + l * step[2], the last index fastest.
struct Grid {
  std::int64_t size[3], step[3];
};
inline std::int64_t* offsets(Workspace& workspace, const Grid& g) {
  std::int64_t* at = scratch<std::int64_t>(workspace, g.size[0] * g.size[1] * g.size[2]);
  std::int64_t* next = at;
  for (std::int64_t i = 0; i < g.size[0]; ++i) {
    for (std::int64_t j = 0; j < g.size[1]; ++j)
      for (std::int64_t l = 0; l < g.size[2]; ++l) *next++ = i * g.step[0] + j * g.step[1] + l * g.step[2];
  }
  return at;
}

// ---- matrix products

// Of each row of a matrix of any strides.
inline const Scale* row_scales(Workspace& workspace, const float* x, std::int64_t rows, std::int64_t row_stride,
                               std::int64_t terms, std::int64_t term_stride) {
  Scale* scales = scratch<Scale>(workspace, rows);
  const std::int64_t smallest = std::max<std::int64_t>(16, 65536 / std::max<std::int64_t>(terms, 1));
  parallel_for(0, rows, smallest, [&](std::int64_t begin, std::int64_t end) {
    find_scales(x, begin, end, row_stride, terms, term_stride, scales);
  });
  return scales;
}

// One side of a matrix product, its scales too, or memory for them where they are found as rows are packed.
template <class Engine>
Side matrix_side(Workspace& workspace, const float* x, std::int64_t rows, std::int64_t row_stride, std::int64_t terms,
                 std::int64_t term_stride) {
  Side side;
  side.rows = rows, side.floats = x;
  side.row_offset = offsets(workspace, rows, row_stride), side.term_offset = offsets(workspace, terms, term_stride);
  if (finds_scales<Engine>(terms)) {
    side.scales = side.found = scratch<Scale>(workspace, rows);
    side.row_stride = row_stride, side.term_stride = term_stride;
  } else {
    side.scales = row_scales(workspace, x, rows, row_stride, terms, term_stride);
  }
  return side;
}

// Whether outputs go past the caches: what is larger than they keep, and sums over samples (terms lie far apart on both
// sides), which are gradients of weights and read again at the end of the step. Of whole lines of memory alone, which
// nothing is added to.
inline bool writes_past(const MatmulProblem& p) {
  constexpr std::int64_t kLarge = 8 << 20, kLargeOfSamples = 1 << 20;  // outputs
  constexpr std::int64_t kLine = 16;
  const std::int64_t outputs = p.m * p.n, step = p.c_column_stride == 1 ? p.c_row_stride : p.c_column_stride;
  if (p.addend.data != nullptr || p.alpha != 1.0f || (p.c_column_stride != 1 && p.c_row_stride != 1)) return false;
  if (step % kLine != 0 || reinterpret_cast<std::uintptr_t>(p.c) % (kLine * sizeof(float)) != 0) return false;
  return outputs >= kLarge || (outputs >= kLargeOfSamples && p.a.row_stride == 1 && p.b.column_stride == 1);
}

template <class Engine>
void multiply_matrices(const MatmulProblem& p, std::int64_t batch) {
  Workspace workspace;
  // The right side's rows become lanes: along the side in which C's elements lie next to each other.
  const bool turned = p.c_column_stride != 1 && p.c_row_stride == 1;
  const Side a =
      matrix_side<Engine>(workspace, p.a.data + batch * p.a.batch_stride, p.m, p.a.row_stride, p.k, p.a.column_stride);
  const Side b =
      matrix_side<Engine>(workspace, p.b.data + batch * p.b.batch_stride, p.n, p.b.column_stride, p.k, p.b.row_stride);
  Output out;
  out.c = p.c + batch * p.c_batch_stride;
  out.left_offset = offsets(workspace, p.m, p.c_row_stride);
  out.right_offset = offsets(workspace, p.n, p.c_column_stride);
  out.alpha = p.alpha, out.beta = p.beta, out.past = writes_past(p);
  if (p.addend.data != nullptr) out.addend = p.addend.data + batch * p.addend.batch_stride;
  out.addend_left_stride = p.addend.row_stride, out.addend_right_stride = p.addend.column_stride;
  if (turned) {
    std::swap(out.left_offset, out.right_offset);
    std::swap(out.addend_left_stride, out.addend_right_stride);
  }
  product<Engine>(turned ? b : a, turned ? a : b, p.k, out);
}

template <class Engine>
void matmul(const MatmulProblem& p) {
  if (p.batch == 1) return multiply_matrices<Engine>(p, 0);
  parallel_for(0, p.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t batch = begin; batch < end; ++batch) multiply_matrices<Engine>(p, batch);
  });
}

// ---- convolutions

// Planes [n, channels, h, w] with what surrounds each.
struct Planes {
  std::int64_t n, channels, h, w;
  std::int64_t top = 0, left = 0, bottom = 0, right = 0;

  [[nodiscard]] std::int64_t padded_h() const { return h + top + bottom; }
  [[nodiscard]] std::int64_t padded_w() const { return w + left + right; }
};

// Of slabs: those of (image, group), group-major, or those of a channel.
enum class Slabs { of_images, of_channels };
inline const Scale* slab_scales(Workspace& workspace, const float* x, const Planes& p, Slabs slabs,
                                std::int64_t groups) {
  std::uint32_t* of_plane = scratch<std::uint32_t>(workspace, p.n * p.channels);
  const std::int64_t size = p.h * p.w;
  parallel_for(0, p.n * p.channels, std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(size, 1)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) of_plane[i] = largest_of(x + i * size, size);
               });
  const std::int64_t count = slabs == Slabs::of_images ? p.n * groups : p.channels;
  std::uint32_t* largest = scratch<std::uint32_t>(workspace, count);
  std::fill(largest, largest + count, 0);
  const std::int64_t in_group = p.channels / groups;
  for (std::int64_t n = 0; n < p.n; ++n) {
    for (std::int64_t c = 0; c < p.channels; ++c) {
      std::uint32_t& most = largest[slabs == Slabs::of_images ? c / in_group * p.n + n : c];
      most = std::max(most, of_plane[n * p.channels + c]);
    }
  }
  Scale* scales = scratch<Scale>(workspace, count);
  for (std::int64_t i = 0; i < count; ++i) scales[i] = scale_of(largest[i]);
  return scales;
}

// [n, channels, padded_h, padded_w]
inline const std::int32_t* padded_integers(Workspace& workspace, const float* x, const Planes& p, const Scale* scales,
                                           Slabs slabs, std::int64_t groups) {
  const std::int64_t h = p.padded_h(), w = p.padded_w(), in_group = p.channels / groups;
  std::int32_t* integers = scratch<std::int32_t>(workspace, p.n * p.channels * h * w);
  parallel_for(0, p.n * p.channels, std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(h * w, 1)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t n = i / p.channels, c = i % p.channels;
                   const Scale& scale = scales[slabs == Slabs::of_images ? c / in_group * p.n + n : c];
                   std::int32_t* to = integers + i * h * w;
                   if (h != p.h || w != p.w) std::fill(to, to + h * w, 0);
                   for (std::int64_t row = 0; row < p.h; ++row)
                     integers_of(x + (i * p.h + row) * p.w, p.w, scale, to + (row + p.top) * w + p.left);
                 }
               });
  return integers;
}

struct ConvSizes {
  std::int64_t out_h, out_w, plane, ci, co, taps;

  explicit ConvSizes(const Conv2dShape& s)
      : out_h(s.out_h()),
        out_w(s.out_w()),
        plane(out_h * out_w),
        ci(s.ci / s.groups),
        co(s.co / s.groups),
        taps(s.kh * s.kw) {}
};

template <class Function>
void each_group(std::int64_t groups, const Function& function) {
  if (groups == 1) return function(std::int64_t{0});
  parallel_for(0, groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) function(g);
  });
}

inline const std::int32_t* image_of_position(Workspace& workspace, std::int64_t n, std::int64_t positions) {
  std::int32_t* image = scratch<std::int32_t>(workspace, n * positions);
  for (std::int64_t i = 0; i < n * positions; ++i) image[i] = static_cast<std::int32_t>(i / positions);
  return image;
}

template <class Engine>
void conv2d_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y) {
  Workspace workspace;
  const ConvSizes sizes(s);
  const Planes planes{s.n, s.ci, s.h, s.w, s.pad_h, s.pad_w, s.pad_h, s.pad_w};
  const std::int64_t h = planes.padded_h(), w = planes.padded_w(), terms = sizes.ci * sizes.taps;
  const Scale* slabs = slab_scales(workspace, x, planes, Slabs::of_images, s.groups);
  const std::int32_t* integers = padded_integers(workspace, x, planes, slabs, Slabs::of_images, s.groups);
  const Scale* of_weight = row_scales(workspace, weight, s.co, terms, terms, 1);
  Side left, right;
  left.rows = sizes.co;
  left.row_offset = offsets(workspace, sizes.co, terms), left.term_offset = offsets(workspace, terms, 1);
  right.rows = s.n * sizes.plane;
  right.row_offset = offsets(workspace, {{s.n, sizes.out_h, sizes.out_w}, {s.ci * h * w, s.stride_h * w, s.stride_w}});
  right.term_offset = offsets(workspace, {{sizes.ci, s.kh, s.kw}, {h * w, s.dilation_h * w, s.dilation_w}});
  right.slab = image_of_position(workspace, s.n, sizes.plane);
  Output out;
  out.left_offset = offsets(workspace, sizes.co, sizes.plane);
  out.right_offset = offsets(workspace, {{1, s.n, sizes.plane}, {0, s.co * sizes.plane, 1}});
  each_group(s.groups, [&](std::int64_t g) {
    Side l = left, r = right;
    Output o = out;
    l.floats = weight + g * sizes.co * terms, l.scales = of_weight + g * sizes.co;
    r.integers = integers + g * sizes.ci * h * w, r.scales = slabs + g * s.n;
    o.c = y + g * sizes.co * sizes.plane;
    if (bias != nullptr) o.bias = bias + g * sizes.co;
    product<Engine>(l, r, terms, o);
  });
}

// The taps of one axis that meet the elements of a phase: element phase + i * stride meets output i + down. Their
// number.
inline std::int64_t meeting_taps(std::int64_t phase, std::int64_t taps, std::int64_t stride, std::int64_t pad,
                                 std::int64_t dilation, std::int64_t* tap, std::int64_t* down) {
  std::int64_t count = 0;
  for (std::int64_t k = 0; k < taps; ++k) {
    if ((phase + pad - k * dilation) % stride != 0) continue;
    tap[count] = k, down[count++] = (phase + pad - k * dilation) / stride;
  }
  return count;
}

// How far the outputs that elements meet reach beyond [0, out): before, and after.
struct Reach {
  std::int64_t before = 0, after = 0;

  Reach(std::int64_t size, std::int64_t out, std::int64_t taps, std::int64_t stride, std::int64_t pad,
        std::int64_t dilation) {
    for (std::int64_t phase = 0; phase < std::min(stride, size); ++phase) {
      const std::int64_t last = (size - 1 - phase) / stride;
      for (std::int64_t k = 0; k < taps; ++k) {
        if ((phase + pad - k * dilation) % stride != 0) continue;
        const std::int64_t down = (phase + pad - k * dilation) / stride;
        before = std::max(before, -down), after = std::max(after, last + down - (out - 1));
      }
    }
  }
};

// Everything of a convolution's input gradient that its phases share.
struct InputGradient {
  const Conv2dShape& s;
  ConvSizes sizes;
  Planes planes;
  const Scale *slabs, *of_weight;  // group-major: [groups][n], [ci]
  const std::int32_t* integers;
  const float* weight;
  float* dx;
};

template <class Engine>
void gradient_of_phase(const InputGradient& p, std::int64_t phase_h, std::int64_t phase_w) {
  const Conv2dShape& s = p.s;
  Workspace workspace;
  const std::int64_t h = p.planes.padded_h(), w = p.planes.padded_w(), taps = p.sizes.taps;
  std::int64_t* tap_h = scratch<std::int64_t>(workspace, s.kh);
  std::int64_t* down = scratch<std::int64_t>(workspace, s.kh);
  std::int64_t* tap_w = scratch<std::int64_t>(workspace, s.kw);
  std::int64_t* across = scratch<std::int64_t>(workspace, s.kw);
  const std::int64_t count_h = meeting_taps(phase_h, s.kh, s.stride_h, s.pad_h, s.dilation_h, tap_h, down);
  const std::int64_t count_w = meeting_taps(phase_w, s.kw, s.stride_w, s.pad_w, s.dilation_w, tap_w, across);
  const std::int64_t high = (s.h - phase_h + s.stride_h - 1) / s.stride_h;
  const std::int64_t wide = (s.w - phase_w + s.stride_w - 1) / s.stride_w;
  const std::int64_t terms = p.sizes.co * count_h * count_w;
  std::int64_t* of_weight = scratch<std::int64_t>(workspace, terms);
  std::int64_t* of_planes = scratch<std::int64_t>(workspace, terms);
  std::int64_t term = 0;
  for (std::int64_t co = 0; co < p.sizes.co; ++co) {
    for (std::int64_t i = 0; i < count_h; ++i) {
      for (std::int64_t j = 0; j < count_w; ++j, ++term) {
        of_weight[term] = co * p.sizes.ci * taps + tap_h[i] * s.kw + tap_w[j];
        of_planes[term] = (co * h + down[i] + p.planes.top) * w + across[j] + p.planes.left;
      }
    }
  }
  Side left, right;
  left.rows = p.sizes.ci, left.row_offset = offsets(workspace, p.sizes.ci, taps), left.term_offset = of_weight;
  right.rows = s.n * high * wide, right.term_offset = of_planes;
  right.row_offset = offsets(workspace, {{s.n, high, wide}, {s.co * h * w, w, 1}});
  right.slab = image_of_position(workspace, s.n, high * wide);
  Output out;
  out.left_offset = offsets(workspace, p.sizes.ci, s.h * s.w);
  out.right_offset = offsets(workspace, {{s.n, high, wide}, {s.ci * s.h * s.w, s.stride_h * s.w, s.stride_w}});
  each_group(s.groups, [&](std::int64_t g) {
    Side l = left, r = right;
    Output o = out;
    l.floats = p.weight + g * p.sizes.co * p.sizes.ci * taps, l.scales = p.of_weight + g * p.sizes.ci;
    r.integers = p.integers + g * p.sizes.co * h * w, r.scales = p.slabs + g * s.n;
    o.c = p.dx + g * p.sizes.ci * s.h * s.w + phase_h * s.w + phase_w;
    product<Engine>(l, r, terms, o);
  });
}

// Of each input channel: over all taps of its group's output channels.
inline const Scale* input_channel_scales(Workspace& workspace, const Conv2dShape& s, const float* weight) {
  const ConvSizes sizes(s);
  std::uint32_t* largest = scratch<std::uint32_t>(workspace, s.ci);
  std::fill(largest, largest + s.ci, 0);
  for (std::int64_t co = 0; co < s.co; ++co) {
    std::uint32_t* of_group = largest + co / sizes.co * sizes.ci;
    for (std::int64_t ci = 0; ci < sizes.ci; ++ci)
      of_group[ci] = std::max(of_group[ci], largest_of(weight + (co * sizes.ci + ci) * sizes.taps, sizes.taps));
  }
  Scale* scales = scratch<Scale>(workspace, s.ci);
  for (std::int64_t ci = 0; ci < s.ci; ++ci) scales[ci] = scale_of(largest[ci]);
  return scales;
}

template <class Engine>
void conv2d_input_gradient(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  Workspace workspace;
  const ConvSizes sizes(s);
  const Reach rows(s.h, sizes.out_h, s.kh, s.stride_h, s.pad_h, s.dilation_h);
  const Reach columns(s.w, sizes.out_w, s.kw, s.stride_w, s.pad_w, s.dilation_w);
  const Planes planes{s.n, s.co, sizes.out_h, sizes.out_w, rows.before, columns.before, rows.after, columns.after};
  const Scale* slabs = slab_scales(workspace, dy, planes, Slabs::of_images, s.groups);
  const std::int32_t* integers = padded_integers(workspace, dy, planes, slabs, Slabs::of_images, s.groups);
  const InputGradient problem{s,        sizes,  planes, slabs, input_channel_scales(workspace, s, weight),
                              integers, weight, dx};
  for (std::int64_t phase_h = 0; phase_h < std::min(s.stride_h, s.h); ++phase_h) {
    for (std::int64_t phase_w = 0; phase_w < std::min(s.stride_w, s.w); ++phase_w)
      gradient_of_phase<Engine>(problem, phase_h, phase_w);
  }
}

template <class Engine>
void conv2d_weight_gradient(const Conv2dShape& s, const float* x, const float* dy, float* dweight) {
  Workspace workspace;
  const ConvSizes sizes(s);
  const Planes planes{s.n, s.ci, s.h, s.w, s.pad_h, s.pad_w, s.pad_h, s.pad_w};
  const std::int64_t h = planes.padded_h(), w = planes.padded_w(), rows = sizes.ci * sizes.taps;
  const Scale* of_input = slab_scales(workspace, x, planes, Slabs::of_channels, s.groups);
  const std::int32_t* integers = padded_integers(workspace, x, planes, of_input, Slabs::of_channels, s.groups);
  const Planes gradients{s.n, s.co, sizes.out_h, sizes.out_w};
  const Scale* of_output = slab_scales(workspace, dy, gradients, Slabs::of_channels, s.groups);
  std::int32_t* channel = scratch<std::int32_t>(workspace, rows);
  for (std::int64_t i = 0; i < rows; ++i) channel[i] = static_cast<std::int32_t>(i / sizes.taps);
  Side left, right;
  left.rows = sizes.co, left.row_offset = offsets(workspace, sizes.co, sizes.plane);
  left.term_offset = offsets(workspace, {{1, s.n, sizes.plane}, {0, s.co * sizes.plane, 1}});
  right.rows = rows, right.slab = channel;
  right.row_offset = offsets(workspace, {{sizes.ci, s.kh, s.kw}, {h * w, s.dilation_h * w, s.dilation_w}});
  right.term_offset = offsets(workspace, {{s.n, sizes.out_h, sizes.out_w}, {s.ci * h * w, s.stride_h * w, s.stride_w}});
  Output out;
  out.left_offset = offsets(workspace, sizes.co, rows), out.right_offset = offsets(workspace, rows, 1);
  each_group(s.groups, [&](std::int64_t g) {
    Side l = left, r = right;
    Output o = out;
    l.floats = dy + g * sizes.co * sizes.plane, l.scales = of_output + g * sizes.co;
    r.integers = integers + g * sizes.ci * h * w, r.scales = of_input + g * sizes.ci;
    o.c = dweight + g * sizes.co * rows;
    product<Engine>(l, r, s.n * sizes.plane, o);
  });
}

template <class Engine>
void fill(KernelTable& t) {
  t.exact3_matmul = matmul<Engine>;
  t.exact3_conv2d_forward = conv2d_forward<Engine>;
  t.exact3_conv2d_input_gradient = conv2d_input_gradient<Engine>;
  t.exact3_conv2d_weight_gradient = conv2d_weight_gradient<Engine>;
}

}  // namespace isobit::kernels::ISOBIT_ISA::exact
