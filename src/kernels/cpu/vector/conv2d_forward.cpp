#include "kernels/cpu/vector/channel_lanes_product.h"
#include "kernels/cpu/vector/conv2d_kernels.h"
#include "kernels/cpu/vector/conv_image_lanes.h"
#include "kernels/cpu/vector/conv_pixels.h"
#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

bool forward_by_image_lanes(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y) {
  if (!fills_lanes(s.n)) return false;
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, terms = ci * s.kh * s.kw, tiles = row_tiles(co);
  const std::int64_t height = tile_height(co);
  Workspace workspace;
  ImageLanesCall call{.shape = {.channels = ci,
                                .rows = co,
                                .h = s.h,
                                .w = s.w,
                                .height = s.out_h(),
                                .width = s.out_w(),
                                .kernel_w = s.kw,
                                .kernel = s.kh * s.kw},
                      .x = x,
                      .bias = bias,
                      .y = y,
                      .x_image = s.ci * s.h * s.w,
                      .y_image = s.co * s.out_h() * s.out_w()};
  AxisTaps* rows = axis_taps(workspace, s.out_h(), s.kh, s.h, [&](std::int64_t i, std::int64_t k) {
    return i * s.stride_h - s.pad_h + k * s.dilation_h;
  });
  AxisTaps* columns = axis_taps(workspace, s.out_w(), s.kw, s.w, [&](std::int64_t j, std::int64_t k) {
    return j * s.stride_w - s.pad_w + k * s.dilation_w;
  });
  call.shape.rows_taps = rows, call.shape.columns_taps = columns;
  const double inside = inside_part(rows, s.out_h()) * inside_part(columns, s.out_w());
  if (!image_lanes_pay(s.n, inside) && !short_rows_pay(s)) return false;
  if (terms * kTileRows > kOffsetLimit || ci * s.h * s.w * kTileColumns > kOffsetLimit) return false;
  float* packed = workspace.floats(s.groups * tiles * terms * kTileRows);
  const bool finite = pack_finite(s.groups * tiles, terms * kTileRows, [&](std::int64_t i) {
    const std::int64_t g = i / tiles, t = i % tiles;
    float* to = packed + i * terms * kTileRows;
    pack_panel<kTileRows>(weight + (g * co + t * height) * terms, 1, terms, terms, at_most(height, co - t * height),
                          to);
    return all_finite(to, terms * kTileRows);
  });
  if (!finite) return false;
  call.shape.weights = packed;
  run_image_lanes(s, call);
  return true;
}

}  // namespace

void conv2d_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y) {
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, out_h = s.out_h(), out_w = s.out_w();
  const std::int64_t terms = ci * s.kh * s.kw, tiles = row_tiles(co);
  const std::int64_t height = tile_height(co);
  if (s.n <= 0 || co <= 0 || out_h <= 0 || out_w <= 0) return;
  if (!is_ordinary(s)) return table_of(Isa::reference).conv2d_forward(s, x, weight, bias, y);
  if (forward_by_channel_lanes(s, x, weight, bias, y)) return;
  if (s.planes == nullptr && forward_by_image_lanes(s, x, weight, bias, y)) return;
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
      pack_panel<kTileRows>(weight + (g * co + t * height) * terms, 1, terms, terms, at_most(height, co - t * height),
                            packed + i * terms * kTileRows);
    }
  });
  std::int32_t* weight_offsets = workspace.ints(terms);
  for (std::int64_t k = 0; k < terms; ++k) weight_offsets[k] = static_cast<std::int32_t>(k);
  std::int32_t* offsets = workspace.ints(terms);
  for (std::int64_t k = 0; k < terms; ++k)
    offsets[k] = static_cast<std::int32_t>(
        slab.offset(k / (s.kh * s.kw), k / s.kw % s.kh * s.dilation_h, k % s.kw * s.dilation_w));
  split_images(
      s, s.n, tiles,
      [&](std::int64_t group, std::int64_t first, std::int64_t images, std::int64_t tile0, std::int64_t tile1) {
        Workspace own;
        const std::int64_t step = images_per_slab(slab, images, out_h * out_w);
        float* pixels = own.floats(step * slab.image);
        GatheredProduct p;
        p.rows = co, p.terms = terms, p.offsets = offsets;
        p.weights = pack ? packed + group * tiles * terms * kTileRows : nullptr;
        p.plain_weights = weight + group * co * terms, p.weight_row = terms, p.weight_offsets = weight_offsets;
        p.bias = bias == nullptr ? nullptr : bias + group * co;
        p.height = out_h, p.width = out_w, p.image = slab.image, p.row_step = output_row_step(s, slab);
        p.y_image = s.co * out_h * out_w, p.y_plane = out_h * out_w, p.y_row = out_w;
        for (std::int64_t n = first; n < first + images; n += step) {
          const std::int64_t count = at_most(step, first + images - n);
          fill_slab(slab, count, s.h, s.w, s.pad_h, s.pad_w, pixels, [&](std::int64_t i, std::int64_t c) {
            const std::int64_t plane = (n + i) * s.ci + group * ci + c;
            return s.planes != nullptr ? s.planes[plane] : x + plane * s.h * s.w;
          });
          p.y = y + (n * s.co + group * co) * out_h * out_w;
          multiply(p, pixels, count, tile0, tile1);
        }
      });
}

}  // namespace isobit::kernels::ISOBIT_ISA
