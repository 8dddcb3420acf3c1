#include "kernels/cpu/vector/channel_lanes_product.h"
#include "kernels/cpu/vector/conv2d_kernels.h"
#include "kernels/cpu/vector/conv_image_lanes.h"
#include "kernels/cpu/vector/conv_pixels.h"
#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kPackChannels = 16;
// As many positions as pay for packing a forward convolution's weights are worth: those of an input gradient's terms
// lie further apart.
constexpr std::int64_t kPositionsForward = 2;
// Weights of fewer taps lie a cache line apart from term to term, often in the same set of the cache, for each tile of
// rows anew (1 x 1 of 1024 channels, read where they lie: 1.3 to 2.3 times as long with AVX2).
constexpr std::int64_t kTapsInPlace = 8;

// One axis of one phase: elements phase, phase + stride, ...; tap i of the `count` that meet them reads
// output position + shift[i].
struct PhaseAxis {
  std::int64_t elements, count;
  const std::int32_t *tap, *shift;
};

PhaseAxis phase_axis(Workspace& workspace, std::int64_t phase, std::int64_t size, std::int64_t taps,
                     std::int64_t stride, std::int64_t pad, std::int64_t dilation) {
  std::int32_t* tap = workspace.ints(taps);
  std::int32_t* shift = workspace.ints(taps);
  std::int64_t count = 0;
  for (std::int64_t k = 0; k < taps; ++k) {
    const std::int64_t distance = phase + pad - k * dilation;
    if (distance % stride != 0) continue;
    tap[count] = static_cast<std::int32_t>(k);
    shift[count++] = static_cast<std::int32_t>(distance / stride);
  }
  return {(size - phase + stride - 1) / stride, count, tap, shift};
}

// Zeros needed before and after the outputs of one axis.
struct Margin {
  std::int64_t before = 0, after = 0;
};

Margin margin_of(const PhaseAxis* axes, std::int64_t phases, std::int64_t outputs) {
  Margin m;
  for (std::int64_t a = 0; a < phases; ++a)
    for (std::int64_t i = 0; i < axes[a].count; ++i) {
      m.before = at_least(m.before, -std::int64_t{axes[a].shift[i]});
      m.after = at_least(m.after, axes[a].shift[i] + axes[a].elements - outputs);
    }
  return m;
}

struct Phase {
  const float* weights;         // packed [group][row tile][terms][kTileRows], or nullptr: of term k and channel c at
  const std::int32_t* taps;     // group's weights + c * kernel + taps[k]
  const std::int32_t* offsets;  // [terms], (co, kh, kw)
  std::int64_t terms;
};

// Where the weight of each term lies, from the group's first on.
const std::int32_t* weight_places(Workspace& workspace, const Conv2dShape& s, const std::int32_t* tap,
                                  std::int64_t taps) {
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, kernel = s.kh * s.kw;
  std::int32_t* places = workspace.ints(co * taps);
  for (std::int64_t o = 0; o < co; ++o)
    for (std::int64_t i = 0; i < taps; ++i) places[o * taps + i] = static_cast<std::int32_t>(o * ci * kernel + tap[i]);
  return places;
}

Phase make_phase(Workspace& workspace, const Conv2dShape& s, const Slab& slab, const PhaseAxis& rows,
                 const PhaseAxis& columns, Margin top, Margin left, const float* weight) {
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, kernel = s.kh * s.kw;
  const std::int64_t taps = rows.count * columns.count, terms = co * taps, tiles = row_tiles(ci);
  const std::int64_t height = tile_height(ci);
  std::int32_t* offsets = workspace.ints(terms);
  std::int32_t* tap = workspace.ints(taps);
  for (std::int64_t i = 0; i < taps; ++i) {
    const std::int64_t r = i / columns.count, c = i % columns.count;
    tap[i] = static_cast<std::int32_t>(rows.tap[r] * s.kw + columns.tap[c]);
    for (std::int64_t o = 0; o < co; ++o)
      offsets[o * taps + i] =
          static_cast<std::int32_t>(slab.offset(o, top.before + rows.shift[r], left.before + columns.shift[c]));
  }
  if (taps >= kTapsInPlace && !packing_pays(kPositionsForward * s.n * rows.elements * columns.elements, ci) &&
      co * ci * kernel <= kOffsetLimit)
    return {nullptr, weight_places(workspace, s, tap, taps), offsets, terms};
  float* packed = workspace.floats(s.groups * tiles * terms * kTileRows);
  // A few output channels at a time: their weights stay in cache while every tile takes its rows from them.
  const std::int64_t blocks = (co + kPackChannels - 1) / kPackChannels;
  const auto pack_block = [&](std::int64_t g, std::int64_t first, std::int64_t t) {
    const std::int64_t lanes = at_most(height, ci - t * height);
    for (std::int64_t o = first; o < at_most(co, first + kPackChannels); ++o) {
      const float* from = weight + ((g * co + o) * ci + t * height) * kernel;
      float* to = packed + ((g * tiles + t) * terms + o * taps) * kTileRows;
      if (taps == kernel) {
        pack_panel<kTileRows>(from, 1, kernel, taps, lanes, to);
        continue;
      }
      for (std::int64_t k = 0; k < taps; ++k)
        for (int l = 0; l < kTileRows; ++l) to[k * kTileRows + l] = from[at_most(l, lanes - 1) * kernel + tap[k]];
    }
  };
  const std::int64_t piece = 1 + 100000 / at_least(1, kPackChannels * ci * taps);
  parallel_for(0, s.groups * blocks, piece, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t t = 0; t < tiles; ++t) pack_block(i / blocks, i % blocks * kPackChannels, t);
  });
  return {packed, nullptr, offsets, terms};
}

// Weights [co][ci][tap] as rows of input channels: packed[group][row tile][co][tap][kTileRows]. A few output channels
// at a time: their weights stay in cache while every tile takes its rows from them. False where one is not finite.
bool pack_for_input(const Conv2dShape& s, const float* weight, float* packed) {
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, kernel = s.kh * s.kw, tiles = row_tiles(ci);
  const std::int64_t height = tile_height(ci);
  const std::int64_t blocks = (co + kPackChannels - 1) / kPackChannels;
  return pack_finite(s.groups * blocks, kPackChannels * ci * kernel, [&](std::int64_t i) {
    const std::int64_t g = i / blocks, first = i % blocks * kPackChannels, last = at_most(co, first + kPackChannels);
    for (std::int64_t t = 0; t < tiles; ++t)
      for (std::int64_t o = first; o < last; ++o)
        pack_panel<kTileRows>(weight + ((g * co + o) * ci + t * height) * kernel, 1, kernel, kernel,
                              at_most(height, ci - t * height),
                              packed + ((g * tiles + t) * co + o) * kernel * kTileRows);
    return all_finite(weight + (g * co + first) * ci * kernel, (last - first) * ci * kernel);
  });
}

bool input_gradient_by_image_lanes(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, out_h = s.out_h(), out_w = s.out_w();
  const bool few_meet = 2 * out_h * s.stride_h * out_w * s.stride_w < s.h * s.w;  // about the part of terms inside
  if (!fills_lanes(s.n) && !few_meet) return false;
  Workspace workspace;
  ImageLanesCall call{.shape = {.channels = co,
                                .rows = ci,
                                .h = out_h,
                                .w = out_w,
                                .height = s.h,
                                .width = s.w,
                                .kernel_w = s.kw,
                                .kernel = s.kh * s.kw},
                      .x = dy,
                      .bias = nullptr,
                      .y = dx,
                      .x_image = s.co * out_h * out_w,
                      .y_image = s.ci * s.h * s.w};
  const auto place = [](std::int64_t distance, std::int64_t stride) {
    return distance % stride != 0 ? kNoTerm : distance / stride;
  };
  AxisTaps* rows = axis_taps(workspace, s.h, s.kh, out_h, [&](std::int64_t i, std::int64_t k) {
    return place(i + s.pad_h - k * s.dilation_h, s.stride_h);
  });
  AxisTaps* columns = axis_taps(workspace, s.w, s.kw, out_w, [&](std::int64_t j, std::int64_t k) {
    return place(j + s.pad_w - k * s.dilation_w, s.stride_w);
  });
  call.shape.rows_taps = rows, call.shape.columns_taps = columns;
  if (!image_lanes_pay(s.n, inside_part(rows, s.h) * inside_part(columns, s.w))) return false;
  if (co * s.kh * s.kw * kTileRows > kOffsetLimit || co * out_h * out_w * kTileColumns > kOffsetLimit) return false;
  float* packed = workspace.floats(s.groups * row_tiles(ci) * co * s.kh * s.kw * kTileRows);
  if (!pack_for_input(s, weight, packed)) return false;
  call.shape.weights = packed;
  run_image_lanes(s, call);
  return true;
}

}  // namespace

void conv2d_input_gradient(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, out_h = s.out_h(), out_w = s.out_w();
  const std::int64_t phases_h = at_most(s.stride_h, s.h), phases_w = at_most(s.stride_w, s.w), tiles = row_tiles(ci);
  if (s.n <= 0 || ci <= 0 || s.h <= 0 || s.w <= 0) return;
  if (!is_ordinary(s)) return table_of(Isa::reference).conv2d_input_gradient(s, dy, weight, dx);
  const bool some = co > 0 && out_h > 0 && out_w > 0;
  if (some && input_gradient_by_channel_lanes(s, dy, weight, dx)) return;
  if (some && s.planes == nullptr && input_gradient_by_image_lanes(s, dy, weight, dx)) return;
  Workspace workspace;
  auto* axes_h = static_cast<PhaseAxis*>(workspace.bytes(sizeof(PhaseAxis) * static_cast<std::size_t>(phases_h)));
  auto* axes_w = static_cast<PhaseAxis*>(workspace.bytes(sizeof(PhaseAxis) * static_cast<std::size_t>(phases_w)));
  for (std::int64_t a = 0; a < phases_h; ++a)
    axes_h[a] = phase_axis(workspace, a, s.h, s.kh, s.stride_h, s.pad_h, s.dilation_h);
  for (std::int64_t b = 0; b < phases_w; ++b)
    axes_w[b] = phase_axis(workspace, b, s.w, s.kw, s.stride_w, s.pad_w, s.dilation_w);
  const Margin top = margin_of(axes_h, phases_h, out_h), left = margin_of(axes_w, phases_w, out_w);
  const Slab slab = make_slab(co, top.before + out_h + top.after, left.before + out_w + left.after, 1);
  if (slab.image > kOffsetLimit) return table_of(Isa::reference).conv2d_input_gradient(s, dy, weight, dx);
  auto* phases = static_cast<Phase*>(workspace.bytes(sizeof(Phase) * static_cast<std::size_t>(phases_h * phases_w)));
  for (std::int64_t f = 0; f < phases_h * phases_w; ++f)
    phases[f] = make_phase(workspace, s, slab, axes_h[f / phases_w], axes_w[f % phases_w], top, left, weight);
  bool unmet = false;  // some elements meet no tap
  for (std::int64_t f = 0; f < phases_h * phases_w; ++f) unmet = unmet || phases[f].terms == 0;
  split_images(
      s, s.n, tiles,
      [&](std::int64_t group, std::int64_t first, std::int64_t images, std::int64_t tile0, std::int64_t tile1) {
        Workspace own;
        const std::int64_t step = images_per_slab(slab, images, at_least(1, s.h * s.w / (phases_h * phases_w)));
        float* pixels = own.floats(step * slab.image);
        for (std::int64_t n = first; n < first + images; n += step) {
          const std::int64_t count = at_most(step, first + images - n);
          fill_slab(slab, count, out_h, out_w, top.before, left.before, pixels, [&](std::int64_t i, std::int64_t c) {
            const std::int64_t plane = (n + i) * s.co + group * co + c;
            return s.planes != nullptr ? s.planes[plane] : dy + plane * out_h * out_w;
          });
          const std::int64_t channel0 = tile0 * tile_height(ci), channel1 = at_most(ci, tile1 * tile_height(ci));
          for (std::int64_t i = n; i < n + count && unmet; ++i)
            zero_floats(dx + (i * s.ci + group * ci + channel0) * s.h * s.w, (channel1 - channel0) * s.h * s.w);
          for (std::int64_t f = 0; f < phases_h * phases_w; ++f) {
            const Phase& phase = phases[f];
            if (phase.terms == 0) continue;
            GatheredProduct p;
            p.rows = ci, p.terms = phase.terms, p.offsets = phase.offsets;
            p.weights = phase.weights == nullptr ? nullptr : phase.weights + group * tiles * phase.terms * kTileRows;
            p.plain_weights = weight + group * co * ci * s.kh * s.kw, p.weight_row = s.kh * s.kw;
            p.weight_offsets = phase.taps, p.distant = true;
            p.height = axes_h[f / phases_w].elements, p.width = axes_w[f % phases_w].elements;
            p.image = slab.image, p.row_step = slab.row;
            p.y = dx + (n * s.ci + group * ci) * s.h * s.w + f / phases_w * s.w + f % phases_w;
            p.y_image = s.ci * s.h * s.w, p.y_plane = s.h * s.w, p.y_row = s.stride_h * s.w, p.y_column = s.stride_w;
            multiply(p, pixels, count, tile0, tile1);
          }
        }
      });
}

}  // namespace isobit::kernels::ISOBIT_ISA
