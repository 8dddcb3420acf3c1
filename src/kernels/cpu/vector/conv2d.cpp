#include "kernels/conv2d.h"

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/vector/direct_pixels.h"
#include "kernels/cpu/vector/gathered_product.h"
#include "kernels/cpu/vector/image_lanes.h"
#include "kernels/cpu/vector/weight_gradient.h"
#include "kernels/threads.h"
#include "kernels/tuning.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kPackChannels = 16;
constexpr std::int64_t kOffsetLimit = std::int64_t{1} << 29;  // offsets inside a slab are 32 bits wide

ISOBIT_INLINE std::int64_t at_least(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
ISOBIT_INLINE std::int64_t at_most(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// As many as stay in the cache; more where that leaves fewer lanes empty (positions: of an image, or of a phase of it),
// for then a few large panels cost more than pixels from further away.
std::int64_t images_per_slab(const Slab& slab, std::int64_t images, std::int64_t positions) {
  const auto panels = [&](std::int64_t n) { return column_panels(n * positions); };
  const Tuning sizes = tuning();
  const std::int64_t near = at_least(1, at_most(images, sizes.slab_floats / at_least(1, slab.image)));
  const std::int64_t most = at_least(near, at_most(images, sizes.large_slab_floats / at_least(1, slab.image)));
  std::int64_t best = near, fewest = images / near * panels(near) + panels(images % near);
  for (std::int64_t n = near + 1; n <= most; ++n) {
    const std::int64_t all = images / n * panels(n) + panels(images % n);
    if (all < fewest) best = n, fewest = all;
  }
  return best;
}

void multiply(const GatheredProduct& p, const float* slab, std::int64_t images, std::int64_t tile0,
              std::int64_t tile1) {
  if (direct_is_faster(p)) {
    multiply_pixels_directly(p, slab, images, tile0, tile1);
  } else {
    multiply_pixels(p, slab, images, tile0, tile1);
  }
}

double multiplications(const Conv2dShape& s) {
  return static_cast<double>(s.n * s.out_h() * s.out_w()) * static_cast<double>(s.co * (s.ci / s.groups)) *
         static_cast<double>(s.kh * s.kw + 1);
}

// Threads worth waking: one per 200000 multiply-adds.
std::int64_t useful_threads(const Conv2dShape& s) {
  return at_most(thread_count(), static_cast<std::int64_t>(multiplications(s) / 2e5) + 1);
}

// Calls work(group, first unit, units, first row tile, end row tile) over disjoint parts of a convolution: units (images,
// or sets of images) first, rows of the product too where units are too few.
template <class Work>
void split_images(const Conv2dShape& s, std::int64_t units, std::int64_t tiles, Work work) {
  const std::int64_t threads = useful_threads(s);
  const std::int64_t image_pieces = at_least(1, at_most(units, threads));
  const std::int64_t tile_pieces =
      at_most(tiles, (threads + image_pieces * s.groups - 1) / (image_pieces * s.groups));
  const std::int64_t total = s.groups * image_pieces * tile_pieces;
  parallel_for(0, total, at_least(1, total / threads), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t tile = t % tile_pieces, piece = t / tile_pieces % image_pieces;
      const std::int64_t n0 = units * piece / image_pieces,
                         n1 = units * (piece + 1) / image_pieces;
      work(t / tile_pieces / image_pieces, n0, n1 - n0, tiles * tile / tile_pieces,
           tiles * (tile + 1) / tile_pieces);
    }
  });
}

// Packed weights are read faster; packing many of them for few positions takes longer still.
ISOBIT_INLINE bool packing_pays(std::int64_t positions, std::int64_t rows) {
  return positions > tuning().pack_positions || rows <= 4 * kTileRows;
}

// The slab of x that the outputs read, and the outputs' stride in its rows.
Slab input_slab(const Conv2dShape& s) {
  const std::int64_t out_h = s.out_h(), out_w = s.out_w();
  const std::int64_t step_h = s.kh == 1 ? s.stride_h : 1, step_w = s.kw == 1 ? s.stride_w : 1;
  const std::int64_t height = step_h > 1 ? out_h : (out_h - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1;
  const std::int64_t width = step_w > 1 ? out_w : (out_w - 1) * s.stride_w + (s.kw - 1) * s.dilation_w + 1;
  return make_slab(s.ci / s.groups, height, width, step_w > 1 ? 1 : s.stride_w, step_h, step_w);
}
std::int64_t output_row_step(const Conv2dShape& s, const Slab& slab) {
  return slab.row * (slab.step_h > 1 ? 1 : s.stride_h);
}

// ---- images as lanes ----

// For each of `outputs` coordinates the kernel's taps along one axis: place(o, k) is where tap k reads, or where it is
// no term kNoTerm.
constexpr std::int64_t kNoTerm = std::int64_t{1} << 40;

template <class Place>
AxisTaps* axis_taps(Workspace& workspace, std::int64_t outputs, std::int64_t taps, std::int64_t inputs, Place place) {
  auto* axis = static_cast<AxisTaps*>(workspace.bytes(sizeof(AxisTaps) * static_cast<std::size_t>(outputs)));
  for (std::int64_t o = 0; o < outputs; ++o) {
    AxisTaps a;
    a.term_index = workspace.ints(taps), a.tap = workspace.ints(taps), a.source = workspace.ints(taps);
    for (std::int64_t k = 0; k < taps; ++k) {
      const std::int64_t source = place(o, k);
      if (source == kNoTerm) continue;
      const std::int64_t index = a.terms++;
      if (source < 0 || source >= inputs) continue;
      a.term_index[a.count] = static_cast<std::int32_t>(index);
      a.tap[a.count] = static_cast<std::int32_t>(k);
      a.source[a.count++] = static_cast<std::int32_t>(source);
    }
    axis[o] = a;
  }
  return axis;
}

// The part of an axis' terms that falls inside.
ISOBIT_INLINE double inside_part(const AxisTaps* axis, std::int64_t outputs) {
  std::int64_t terms = 0, inside = 0;
  for (std::int64_t o = 0; o < outputs; ++o) terms += axis[o].terms, inside += axis[o].count;
  return terms == 0 ? 1.0 : static_cast<double>(inside) / static_cast<double>(terms);
}

// Batches that fill the lanes, maps where skipping saves more than transposing costs.
ISOBIT_INLINE bool image_lanes_pay(std::int64_t images, double inside) {
  const std::int64_t last = images % kTileColumns;
  return inside < 0.97 && images >= kTileColumns && (last == 0 || last > kTileColumns / 2 || images > 8 * kTileColumns);
}

// pack(i) for i < pieces of `floats` values each, on all threads; whether all of them returned true.
template <class Pack>
bool pack_finite(std::int64_t pieces, std::int64_t floats, Pack pack) {
  int infinite = 0;
  parallel_for(0, pieces, 1 + 100000 / at_least(1, floats), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      if (!pack(i)) __atomic_store_n(&infinite, 1, __ATOMIC_RELAXED);
  });
  return __atomic_load_n(&infinite, __ATOMIC_RELAXED) == 0;
}

// What the forward convolution and the input gradient give to image_lanes.h, for all groups.
struct ImageLanesCall {
  ImageLanes shape;  // of one group; weights of the first
  const float *x = nullptr, *bias = nullptr;
  float* y = nullptr;
  std::int64_t x_image = 0, y_image = 0;
};

void run_image_lanes(const Conv2dShape& s, const ImageLanesCall& call) {
  const ImageLanes& shape = call.shape;
  const std::int64_t tiles = row_tiles(shape.rows), sets = (s.n + kTileColumns - 1) / kTileColumns;
  split_images(s, sets, tiles,
               [&](std::int64_t group, std::int64_t first, std::int64_t count, std::int64_t tile0, std::int64_t tile1) {
                 ImageLanes p = shape;
                 p.weights += group * tiles * p.channels * p.kernel * kTileRows;
                 p.bias = call.bias == nullptr ? nullptr : call.bias + group * p.rows;
                 for (std::int64_t n = first * kTileColumns; n < at_most(s.n, (first + count) * kTileColumns); n += kTileColumns)
                   multiply_image_lanes(p, call.x + n * call.x_image + group * p.channels * p.h * p.w, call.x_image,
                                        call.y + n * call.y_image + group * p.rows * p.height * p.width, call.y_image,
                                        at_most(kTileColumns, s.n - n), tile0, tile1);
               });
}

// ---- forward ----

bool forward_by_image_lanes(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y) {
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, terms = ci * s.kh * s.kw, tiles = row_tiles(co);
  Workspace workspace;
  ImageLanesCall call{.shape = {.channels = ci, .rows = co, .h = s.h, .w = s.w, .height = s.out_h(), .width = s.out_w(),
                                .kernel_w = s.kw, .kernel = s.kh * s.kw},
                      .x = x, .bias = bias, .y = y, .x_image = s.ci * s.h * s.w, .y_image = s.co * s.out_h() * s.out_w()};
  AxisTaps* rows = axis_taps(workspace, s.out_h(), s.kh, s.h,
                             [&](std::int64_t i, std::int64_t k) { return i * s.stride_h - s.pad_h + k * s.dilation_h; });
  AxisTaps* columns = axis_taps(workspace, s.out_w(), s.kw, s.w,
                                [&](std::int64_t j, std::int64_t k) { return j * s.stride_w - s.pad_w + k * s.dilation_w; });
  call.shape.rows_taps = rows, call.shape.columns_taps = columns;
  if (!image_lanes_pay(s.n, inside_part(rows, s.out_h()) * inside_part(columns, s.out_w()))) return false;
  if (terms * kTileRows > kOffsetLimit || ci * s.h * s.w * kTileColumns > kOffsetLimit) return false;
  float* packed = workspace.floats(s.groups * tiles * terms * kTileRows);
  const bool finite = pack_finite(s.groups * tiles, terms * kTileRows, [&](std::int64_t i) {
    const std::int64_t g = i / tiles, t = i % tiles;
    float* to = packed + i * terms * kTileRows;
    pack_panel<kTileRows>(weight + (g * co + t * kTileRows) * terms, 1, terms, terms, at_most(kTileRows, co - t * kTileRows), to);
    return all_finite(to, terms * kTileRows);
  });
  if (!finite) return false;
  call.shape.weights = packed;
  run_image_lanes(s, call);
  return true;
}

void conv2d_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y) {
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, out_h = s.out_h(), out_w = s.out_w();
  const std::int64_t terms = ci * s.kh * s.kw, tiles = row_tiles(co);
  if (s.n <= 0 || co <= 0 || out_h <= 0 || out_w <= 0) return;
  if (forward_by_image_lanes(s, x, weight, bias, y)) return;
  const Slab slab = input_slab(s);
  if (slab.image > kOffsetLimit || terms > kOffsetLimit)
    return table_of(Isa::reference).conv2d_forward(s, x, weight, bias, y);
  Workspace workspace;
  const bool pack = packing_pays(s.n * out_h * out_w, co);
  float* packed = pack ? workspace.floats(s.groups * tiles * terms * kTileRows) : nullptr;
  const std::int64_t panels = pack ? s.groups * tiles : 0;
  parallel_for(0, panels, 1 + 100000 / at_least(1, terms * kTileRows), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t g = i / tiles, t = i % tiles;
      pack_panel<kTileRows>(weight + (g * co + t * kTileRows) * terms, 1, terms, terms, at_most(kTileRows, co - t * kTileRows),
                            packed + i * terms * kTileRows);
    }
  });
  std::int32_t* weight_offsets = workspace.ints(terms);
  for (std::int64_t k = 0; k < terms; ++k) weight_offsets[k] = static_cast<std::int32_t>(k);
  std::int32_t* offsets = workspace.ints(terms);
  for (std::int64_t k = 0; k < terms; ++k)
    offsets[k] = static_cast<std::int32_t>(
        slab.offset(k / (s.kh * s.kw), k / s.kw % s.kh * s.dilation_h, k % s.kw * s.dilation_w));
  split_images(s, s.n, tiles,
               [&](std::int64_t group, std::int64_t first, std::int64_t images, std::int64_t tile0,
                   std::int64_t tile1) {
                 Workspace own;
                 const std::int64_t step = images_per_slab(slab, images, out_h * out_w);
                 float* pixels = own.floats(step * slab.image);
                 GatheredProduct p;
                 p.rows = co, p.terms = terms, p.offsets = offsets;
                 p.weights = pack ? packed + group * tiles * terms * kTileRows : nullptr;
                 p.plain_weights = weight + group * co * terms, p.weight_row = terms,
                 p.weight_offsets = weight_offsets;
                 p.bias = bias == nullptr ? nullptr : bias + group * co;
                 p.height = out_h, p.width = out_w, p.image = slab.image,
                 p.row_step = output_row_step(s, slab);
                 p.y_image = s.co * out_h * out_w, p.y_plane = out_h * out_w, p.y_row = out_w;
                 for (std::int64_t n = first; n < first + images; n += step) {
                   const std::int64_t count = at_most(step, first + images - n);
                   fill_slab(slab, x + (n * s.ci + group * ci) * s.h * s.w, count, s.ci * s.h * s.w, s.h, s.w,
                             s.pad_h, s.pad_w, pixels);
                   p.y = y + (n * s.co + group * co) * out_h * out_w;
                   multiply(p, pixels, count, tile0, tile1);
                 }
               });
}

// ---- input gradient ----

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
  const float* weights;         // packed [group][row tile][terms][kTileRows]
  const std::int32_t* offsets;  // [terms], (co, kh, kw)
  std::int64_t terms;
};

Phase make_phase(Workspace& workspace, const Conv2dShape& s, const Slab& slab, const PhaseAxis& rows,
                 const PhaseAxis& columns, Margin top, Margin left, const float* weight) {
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, kernel = s.kh * s.kw;
  const std::int64_t taps = rows.count * columns.count, terms = co * taps, tiles = row_tiles(ci);
  std::int32_t* offsets = workspace.ints(terms);
  std::int32_t* tap = workspace.ints(taps);
  for (std::int64_t i = 0; i < taps; ++i) {
    const std::int64_t r = i / columns.count, c = i % columns.count;
    tap[i] = static_cast<std::int32_t>(rows.tap[r] * s.kw + columns.tap[c]);
    for (std::int64_t o = 0; o < co; ++o)
      offsets[o * taps + i] = static_cast<std::int32_t>(
          slab.offset(o, top.before + rows.shift[r], left.before + columns.shift[c]));
  }
  float* packed = workspace.floats(s.groups * tiles * terms * kTileRows);
  // A few output channels at a time: their weights stay in cache while every tile takes its rows from them.
  const std::int64_t blocks = (co + kPackChannels - 1) / kPackChannels;
  const auto pack_block = [&](std::int64_t g, std::int64_t first, std::int64_t t) {
    const std::int64_t lanes = at_most(kTileRows, ci - t * kTileRows);
    for (std::int64_t o = first; o < at_most(co, first + kPackChannels); ++o) {
      const float* from = weight + ((g * co + o) * ci + t * kTileRows) * kernel;
      float* to = packed + ((g * tiles + t) * terms + o * taps) * kTileRows;
      if (taps == kernel) {
        pack_panel<kTileRows>(from, 1, kernel, taps, lanes, to);
        continue;
      }
      for (std::int64_t k = 0; k < taps; ++k)
        for (int l = 0; l < kTileRows; ++l)
          to[k * kTileRows + l] = from[at_most(l, lanes - 1) * kernel + tap[k]];
    }
  };
  const std::int64_t piece = 1 + 100000 / at_least(1, kPackChannels * ci * taps);
  parallel_for(0, s.groups * blocks, piece, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t t = 0; t < tiles; ++t) pack_block(i / blocks, i % blocks * kPackChannels, t);
  });
  return {packed, offsets, terms};
}

// Weights [co][ci][tap] as rows of input channels: packed[group][row tile][co][tap][kTileRows]. A few output channels at a
// time: their weights stay in cache while every tile takes its rows from them. False where one is not finite.
bool pack_for_input(const Conv2dShape& s, const float* weight, float* packed) {
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, kernel = s.kh * s.kw, tiles = row_tiles(ci);
  const std::int64_t blocks = (co + kPackChannels - 1) / kPackChannels;
  return pack_finite(s.groups * blocks, kPackChannels * ci * kernel, [&](std::int64_t i) {
    const std::int64_t g = i / blocks, first = i % blocks * kPackChannels, last = at_most(co, first + kPackChannels);
    for (std::int64_t t = 0; t < tiles; ++t)
      for (std::int64_t o = first; o < last; ++o)
        pack_panel<kTileRows>(weight + ((g * co + o) * ci + t * kTileRows) * kernel, 1, kernel, kernel,
                              at_most(kTileRows, ci - t * kTileRows), packed + ((g * tiles + t) * co + o) * kernel * kTileRows);
    return all_finite(weight + (g * co + first) * ci * kernel, (last - first) * ci * kernel);
  });
}

bool input_gradient_by_image_lanes(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, out_h = s.out_h(), out_w = s.out_w();
  Workspace workspace;
  ImageLanesCall call{.shape = {.channels = co, .rows = ci, .h = out_h, .w = out_w, .height = s.h, .width = s.w,
                                .kernel_w = s.kw, .kernel = s.kh * s.kw},
                      .x = dy, .bias = nullptr, .y = dx, .x_image = s.co * out_h * out_w, .y_image = s.ci * s.h * s.w};
  const auto place = [](std::int64_t distance, std::int64_t stride) { return distance % stride != 0 ? kNoTerm : distance / stride; };
  AxisTaps* rows = axis_taps(workspace, s.h, s.kh, out_h,
                             [&](std::int64_t i, std::int64_t k) { return place(i + s.pad_h - k * s.dilation_h, s.stride_h); });
  AxisTaps* columns = axis_taps(workspace, s.w, s.kw, out_w,
                                [&](std::int64_t j, std::int64_t k) { return place(j + s.pad_w - k * s.dilation_w, s.stride_w); });
  call.shape.rows_taps = rows, call.shape.columns_taps = columns;
  if (!image_lanes_pay(s.n, inside_part(rows, s.h) * inside_part(columns, s.w))) return false;
  if (co * s.kh * s.kw * kTileRows > kOffsetLimit || co * out_h * out_w * kTileColumns > kOffsetLimit) return false;
  float* packed = workspace.floats(s.groups * row_tiles(ci) * co * s.kh * s.kw * kTileRows);
  if (!pack_for_input(s, weight, packed)) return false;
  call.shape.weights = packed;
  run_image_lanes(s, call);
  return true;
}

void conv2d_input_gradient(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, out_h = s.out_h(), out_w = s.out_w();
  const std::int64_t phases_h = at_most(s.stride_h, s.h), phases_w = at_most(s.stride_w, s.w),
                     tiles = row_tiles(ci);
  if (s.n <= 0 || ci <= 0 || s.h <= 0 || s.w <= 0) return;
  if (co > 0 && out_h > 0 && out_w > 0 && input_gradient_by_image_lanes(s, dy, weight, dx)) return;
  Workspace workspace;
  auto* axes_h =
      static_cast<PhaseAxis*>(workspace.bytes(sizeof(PhaseAxis) * static_cast<std::size_t>(phases_h)));
  auto* axes_w =
      static_cast<PhaseAxis*>(workspace.bytes(sizeof(PhaseAxis) * static_cast<std::size_t>(phases_w)));
  for (std::int64_t a = 0; a < phases_h; ++a)
    axes_h[a] = phase_axis(workspace, a, s.h, s.kh, s.stride_h, s.pad_h, s.dilation_h);
  for (std::int64_t b = 0; b < phases_w; ++b)
    axes_w[b] = phase_axis(workspace, b, s.w, s.kw, s.stride_w, s.pad_w, s.dilation_w);
  const Margin top = margin_of(axes_h, phases_h, out_h), left = margin_of(axes_w, phases_w, out_w);
  const Slab slab = make_slab(co, top.before + out_h + top.after, left.before + out_w + left.after, 1);
  if (slab.image > kOffsetLimit) return table_of(Isa::reference).conv2d_input_gradient(s, dy, weight, dx);
  auto* phases =
      static_cast<Phase*>(workspace.bytes(sizeof(Phase) * static_cast<std::size_t>(phases_h * phases_w)));
  for (std::int64_t f = 0; f < phases_h * phases_w; ++f)
    phases[f] = make_phase(workspace, s, slab, axes_h[f / phases_w], axes_w[f % phases_w], top, left, weight);
  bool unmet = false;  // some elements meet no tap
  for (std::int64_t f = 0; f < phases_h * phases_w; ++f) unmet = unmet || phases[f].terms == 0;
  split_images(s, s.n, tiles,
               [&](std::int64_t group, std::int64_t first, std::int64_t images, std::int64_t tile0,
                   std::int64_t tile1) {
                 Workspace own;
                 const std::int64_t step =
                     images_per_slab(slab, images, at_least(1, s.h * s.w / (phases_h * phases_w)));
                 float* pixels = own.floats(step * slab.image);
                 for (std::int64_t n = first; n < first + images; n += step) {
                   const std::int64_t count = at_most(step, first + images - n);
                   fill_slab(slab, dy + (n * s.co + group * co) * out_h * out_w, count, s.co * out_h * out_w,
                             out_h, out_w, top.before, left.before, pixels);
                   const std::int64_t channel0 = tile0 * kTileRows, channel1 = at_most(ci, tile1 * kTileRows);
                   for (std::int64_t i = n; i < n + count && unmet; ++i)
                     zero_floats(dx + (i * s.ci + group * ci + channel0) * s.h * s.w,
                                 (channel1 - channel0) * s.h * s.w);
                   for (std::int64_t f = 0; f < phases_h * phases_w; ++f) {
                     const Phase& phase = phases[f];
                     if (phase.terms == 0) continue;
                     GatheredProduct p;
                     p.rows = ci, p.terms = phase.terms, p.offsets = phase.offsets;
                     p.weights = phase.weights + group * tiles * phase.terms * kTileRows;
                     p.height = axes_h[f / phases_w].elements, p.width = axes_w[f % phases_w].elements;
                     p.image = slab.image, p.row_step = slab.row;
                     p.y = dx + (n * s.ci + group * ci) * s.h * s.w + f / phases_w * s.w + f % phases_w;
                     p.y_image = s.ci * s.h * s.w, p.y_plane = s.h * s.w, p.y_row = s.stride_h * s.w,
                     p.y_column = s.stride_w;
                     multiply(p, pixels, count, tile0, tile1);
                   }
                 }
               });
}

// ---- weight gradient ----

// How one group's work is cut for threads: leaves at multiples of a power of two where there are enough of
// them (nothing is then done twice), row tiles otherwise.
struct Cut {
  std::int64_t leaves_per_range, ranges, tile_pieces;
};

Cut cut_for(std::int64_t leaves, std::int64_t tiles, std::int64_t pieces) {
  if (pieces <= 1) return {at_least(1, leaves), 1, 1};
  if (leaves < 4 * pieces) return {at_least(1, leaves), 1, at_most(tiles, pieces)};
  std::int64_t per_range = 1;
  while (per_range * 2 * 4 * pieces <= leaves) per_range *= 2;
  return {per_range, (leaves + per_range - 1) / per_range, 1};
}

// The part of an axis' (tap, output) pairs that falls inside.
ISOBIT_INLINE double inside_pairs(std::int64_t outputs, std::int64_t inputs, std::int64_t taps, std::int64_t stride,
                                  std::int64_t pad, std::int64_t dilation) {
  std::int64_t inside = 0;
  for (std::int64_t k = 0; k < taps; ++k) {
    const InsideRange range = inside_range(outputs, inputs, stride, pad, k * dilation);
    inside += at_least(0, range.end - range.begin);
  }
  return static_cast<double>(inside) / static_cast<double>(outputs * taps);
}

// Tiles of one tap each need channels to fill them.
ISOBIT_INLINE bool skipping_pays(const Conv2dShape& s) {
  return s.ci / s.groups >= 3 * kTileRows && s.kh * s.kw <= 64 &&
         inside_pairs(s.out_h(), s.h, s.kh, s.stride_h, s.pad_h, s.dilation_h) *
                 inside_pairs(s.out_w(), s.w, s.kw, s.stride_w, s.pad_w, s.dilation_w) <
             0.97;
}

void conv2d_weight_gradient(const Conv2dShape& s, const float* x, const float* dy, float* dweight) {
  using contract::kLeaf;
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, out_h = s.out_h(), out_w = s.out_w();
  const std::int64_t rows = ci * s.kh * s.kw, terms = s.n * out_h * out_w;
  if (co <= 0 || rows <= 0) return;
  if (terms <= 0) return zero_floats(dweight, s.co * rows);
  Workspace workspace;
  const Slab slab = input_slab(s);
  const std::int64_t plane = out_h * out_w, images = at_least(1, 2 * tuning().slab_floats / slab.image);
  if (slab.image > kOffsetLimit || kLeaf / plane * slab.image > kOffsetLimit)
    return table_of(Isa::reference).conv2d_weight_gradient(s, x, dy, dweight);
  auto* corner =
      static_cast<std::int64_t*>(workspace.bytes(sizeof(std::int64_t) * static_cast<std::size_t>(rows)));
  for (std::int64_t r = 0; r < rows; ++r)
    corner[r] = slab.offset(r / (s.kh * s.kw), r / s.kw % s.kh * s.dilation_h, r % s.kw * s.dilation_w);
  const WeightGradient w{s, slab, output_row_step(s, slab), at_least(1, images * plane / kLeaf), rows, co, x, dy, corner,
                         skipping_pays(s)};

  const std::int64_t leaves = (terms + kLeaf - 1) / kLeaf, tiles = w.tiles(), threads = useful_threads(s);
  const Cut cut = cut_for(leaves, tiles, (threads + s.groups - 1) / s.groups);
  const bool combine = cut.ranges > 1 || w.skipping;
  float* results = combine ? workspace.floats(s.groups * cut.ranges * w.tile_floats()) : nullptr;
  const std::int64_t per_group = cut.ranges * cut.tile_pieces, total = s.groups * per_group;
  parallel_for(0, total, at_least(1, total / threads), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t group = i / per_group, range = i % per_group / cut.tile_pieces,
                         piece = i % cut.tile_pieces;
      weight_gradient_leaves(w, group, range * cut.leaves_per_range,
                             at_most(leaves, (range + 1) * cut.leaves_per_range),
                             tiles * piece / cut.tile_pieces, tiles * (piece + 1) / cut.tile_pieces,
                             combine ? results + (group * cut.ranges + range) * w.tile_floats() : nullptr,
                             dweight + group * co * rows);
    }
  });
  if (!combine) return;
  const std::int64_t panels = column_panels(co);
  parallel_for(0, s.groups * panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t group = i / panels;
      finish_weight_gradient(w, i % panels, results + group * cut.ranges * w.tile_floats(), cut.ranges, w.tile_floats(),
                             dweight + group * co * rows);
    }
  });
}

}  // namespace

void fill_conv2d(KernelTable& t) {
  t.conv2d_forward = conv2d_forward;
  t.conv2d_input_gradient = conv2d_input_gradient;
  t.conv2d_weight_gradient = conv2d_weight_gradient;
}

}  // namespace isobit::kernels::ISOBIT_ISA
