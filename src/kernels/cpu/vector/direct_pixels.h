// The product of gathered_product.h without the copy of pixels: for few rows, where copying would cost as
// much as multiplying.
//
// A slot is a register's worth of neighbouring positions of one image row; the lanes of a row's last slot
// that lie past its end compute what is not stored. Pixels are loaded from the slab itself.
#pragma once

#include "kernels/cpu/vector/by_size.h"
#include "kernels/cpu/vector/gathered_product.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// Slots at once: enough independent chains to hide the latency of fma.
constexpr int slots_for(int rows) { return rows == 1 ? 8 : rows == 2 ? 4 : 2; }

// out[r][s * kLanes + l] = chain over k of fma(a[k][r], slots[s][offsets[k] + l], .), + (+0)
template <int kRows>
__attribute__((noinline)) void direct_leaf(const float* a, const std::int32_t* offsets, const float* const* slots,
                                           std::int64_t terms, float* out) {
  constexpr int kSlots = slots_for(kRows);
  FloatLanes t[kRows][kSlots];
  const float* slot[kSlots];
  ISOBIT_UNROLL(GCC unroll 8)
  for (int s = 0; s < kSlots; ++s) slot[s] = slots[s];
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 8)
    for (int s = 0; s < kSlots; ++s) t[r][s] = FloatLanes(0.0f);
  }
  for (std::int64_t k = 0; k < terms; ++k, a += kTileRows) {
    const std::int64_t offset = offsets[k];
    FloatLanes column[kSlots];
    ISOBIT_UNROLL(GCC unroll 8)
    for (int s = 0; s < kSlots; ++s) column[s] = load(slot[s] + offset);
    ISOBIT_UNROLL(GCC unroll 16)
    for (int r = 0; r < kRows; ++r) {
      const FloatLanes factor(a[r]);
      ISOBIT_UNROLL(GCC unroll 8)
      for (int s = 0; s < kSlots; ++s) t[r][s] = fma(factor, column[s], t[r][s]);
    }
  }
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 8)
    for (int s = 0; s < kSlots; ++s) store(out + (r * kSlots + s) * kLanes, t[r][s] + FloatLanes(0.0f));
  }
}

constexpr auto kDirectFunctions = by_size<kTileRows>([](auto rows) { return &direct_leaf<rows>; });

// Measured: copying a panel costs about what six rows' products do.
ISOBIT_INLINE bool direct_is_faster(const GatheredProduct& p) {
  const std::int64_t slots = (p.width + kLanes - 1) / kLanes, wasted = slots * kLanes - p.width;
  return p.weights != nullptr && p.rows <= 4 * kTileRows && p.rows * wasted < 6 * p.width;
}

// The slots of the product in order: rows of images, the last of each perhaps shorter. Past the end the last one again,
// of length 0.
class SlotWalk {
 public:
  SlotWalk(const GatheredProduct& p, const float* slab, std::int64_t images)
      : p_(p), slab_(slab), left_(images * p.height * ((p.width + kLanes - 1) / kLanes)) {}

  [[nodiscard]] bool done() const { return left_ <= 0; }
  // `count` slots: where they lie in the slab, and their runs, a register apart.
  ISOBIT_INLINE void take(int count, const float** slot, PixelRun* runs) {
    for (int s = 0; s < count; ++s) {
      slot[s] = slab_ + n_ * p_.image + i_ * p_.row_step + j_;
      const std::int64_t length = p_.width - j_ < kLanes ? p_.width - j_ : kLanes;
      runs[s] = {s * kLanes, left_ > 0 ? length : 0, n_ * p_.y_image + i_ * p_.y_row + j_ * p_.y_column};
      if (--left_ > 0) advance();
    }
  }

 private:
  ISOBIT_INLINE void advance() {
    j_ += kLanes;
    if (j_ < p_.width) return;
    j_ = 0;
    if (++i_ < p_.height) return;
    i_ = 0, ++n_;
  }

  const GatheredProduct& p_;
  const float* slab_;
  std::int64_t left_, n_ = 0, i_ = 0, j_ = 0;
};

// ---- one row of one leaf (a convolution by channel): chains go straight to y

constexpr int kChains = slots_for(1);

// kSlots registers of each of kChains / kSlots neighbouring rows of positions; `rows` of them are stored, of the last
// register `length` lanes.
template <int kSlots>
__attribute__((noinline)) void single_row_block(const GatheredProduct& p, const float* const* from, float* const* to,
                                                std::int64_t rows, std::int64_t length) {
  constexpr int kRows = kChains / kSlots;
  const float* source[kRows];
  FloatLanes t[kRows][kSlots];
  ISOBIT_UNROLL(GCC unroll 8)
  for (int r = 0; r < kRows; ++r) {
    source[r] = from[r];
    ISOBIT_UNROLL(GCC unroll 8)
    for (int s = 0; s < kSlots; ++s) t[r][s] = FloatLanes(0.0f);
  }
  const float* weight = p.weights;
  for (std::int64_t k = 0; k < p.terms; ++k, weight += kTileRows) {
    const FloatLanes factor(*weight);
    const std::int64_t offset = p.offsets[k];
    ISOBIT_UNROLL(GCC unroll 8)
    for (int r = 0; r < kRows; ++r) {
      ISOBIT_UNROLL(GCC unroll 8)
      for (int s = 0; s < kSlots; ++s) t[r][s] = fma(factor, load(source[r] + offset + s * kLanes), t[r][s]);
    }
  }
  const FloatLanes zero(0.0f), bias(p.bias != nullptr ? *p.bias : 0.0f);
  ISOBIT_UNROLL(GCC unroll 8)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 8)
    for (int s = 0; s < kSlots; ++s) t[r][s] = (t[r][s] + zero) + bias;  // without a bias +0 again: no bit changes
  }
  ISOBIT_UNROLL(GCC unroll 8)
  for (int r = 0; r < kRows; ++r) {
    if (r >= rows) break;
    ISOBIT_UNROLL(GCC unroll 8)
    for (int s = 0; s < kSlots; ++s) {
      const std::int64_t count = s + 1 < kSlots ? kLanes : length;
      float* const y = to[r] + s * kLanes * p.y_column;
      if (p.y_column == 1) {
        store_first(y, t[r][s], count);
        continue;
      }
      for (std::int64_t l = 0; l < count; ++l) y[l * p.y_column] = t[r][s].v[l];
    }
  }
}

constexpr auto kSingleRowFunctions = by_size<kChains>([](auto slots) { return &single_row_block<slots>; });

void multiply_single_row(const GatheredProduct& p, const float* slab, std::int64_t images) {
  const std::int64_t slots = (p.width + kLanes - 1) / kLanes, pieces = (slots + kChains - 1) / kChains;
  const std::int64_t most = (slots + pieces - 1) / pieces, together = kChains / most, all = images * p.height;
  const std::int64_t entries = kChains / (slots - (pieces - 1) * most);  // rows that the last piece reads
  std::int64_t n = 0, i = 0;
  const auto advance = [&] {
    if (++i == p.height) i = 0, ++n;
  };
  for (std::int64_t row = 0; row < all; row += together) {
    const float* from[kChains];
    float* to[kChains];
    const std::int64_t rows = all - row < together ? all - row : together;
    for (std::int64_t r = 0; r < entries; ++r) {  // past the last row it again
      from[r] = slab + n * p.image + i * p.row_step;
      to[r] = p.y + n * p.y_image + i * p.y_row;
      if (r + 1 < rows) advance();
    }
    advance();
    for (std::int64_t first = 0; first < slots; first += most) {
      const std::int64_t count = slots - first < most ? slots - first : most;
      const std::int64_t last = (first + count) * kLanes, length = last < p.width ? kLanes : p.width - (last - kLanes);
      kSingleRowFunctions.of[count](p, from, to, rows, length);
      for (std::int64_t r = 0; r < entries; ++r) from[r] += count * kLanes, to[r] += count * kLanes * p.y_column;
    }
  }
}

// As multiply_pixels.
void multiply_pixels_directly(const GatheredProduct& p, const float* slab, std::int64_t images, std::int64_t tile0,
                              std::int64_t tile1) {
  using contract::kLeaf;
  if (p.rows == 1 && p.terms <= kLeaf) return multiply_single_row(p, slab, images);
  Workspace workspace;
  const std::int64_t leaves = p.terms > kLeaf ? (p.terms + kLeaf - 1) / kLeaf : 1;
  const std::int64_t level_stride = (tile1 - tile0) * kTileSize;
  float* partial = workspace.floats(tree_levels(leaves) * level_stride);
  alignas(64) float tile[kTileSize];
  const std::int64_t height = tile_height(p.rows), only_rows = p.rows - tile0 * height;  // where there is one tile
  const int most_slots = slots_for(static_cast<int>(tile1 - tile0 > 1 || only_rows > height ? height : only_rows));
  for (SlotWalk walk(p, slab, images); !walk.done();) {
    const float* slot[8];
    PixelRun runs[8];
    walk.take(most_slots, slot, runs);
    for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
      const std::int64_t k0 = leaf * kLeaf, terms = p.terms - k0 < kLeaf ? p.terms - k0 : kLeaf;
      for (std::int64_t t = tile0; t < tile1; ++t) {
        const std::int64_t rows = p.rows - t * height < height ? p.rows - t * height : height;
        // A last tile of one or two rows keeps the slots of the others: a third row is computed and not
        // stored.
        const std::int64_t computed = most_slots == 2 && rows < 3 ? 3 : rows;
        kDirectFunctions.of[computed](p.weights + (t * p.terms + k0) * kTileRows, p.offsets + k0, slot, terms, tile);
        if (add_leaf(tile, partial + (t - tile0) * kTileSize, level_stride, leaf, leaves))
          store_runs(p, runs, most_slots, t * height, rows, most_slots * kLanes, tile);
      }
    }
  }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
