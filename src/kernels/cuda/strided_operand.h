// An operand of a tile product that lies in memory with strides. Private to this folder.
//
// Neighbouring threads walk along the direction in which memory is contiguous: along k (4 bytes a copy, since
// the shared tile has the rows contiguous) or along the rows (16 bytes a copy where all strides allow).
#pragma once

#include "kernels/cuda/tile_product.h"

namespace isobit::kernels::ISOBIT_CUDA {

enum class Walk { k, rows };

// element(batch, row, k); for the right factor a "row" is a column of the product.
struct StridedLayout {
  const float* data = nullptr;
  std::int64_t batch_stride = 0, row_stride = 0, k_stride = 0;  // k_stride is 1 where Walk::k
  std::int64_t rows = 0;
  bool wide = false;  // row_stride 1, the others and `rows` multiples of 4, data aligned to 16 bytes
};

template <Walk walk>
struct StridedOperand : StridedLayout {
  template <int extent, class Config>
  class Loader {
    static constexpr int kThreads = Config::kThreads, kPitch = extent + Config::kPad;
    // Threads side by side in k. A warp that walks along k reads sectors of 8 terms.
    template <int width>
    static constexpr int kDeep = walk == Walk::k ? (kThreads / extent > 8 ? kThreads / extent : 8)
                                                 : (kThreads * width > extent ? kThreads * width / extent : 1);
    static constexpr bool kMayBeWide = walk == Walk::rows && kDeep<4> <= Config::kStep;

   public:
    ISOBIT_DEVICE Loader(const StridedOperand& operand, std::int64_t batch, std::int64_t first, std::int64_t k0,
                         int terms, int thread)
        : operand_(operand), terms_(terms) {
      if (kMayBeWide && operand.wide) {
        place<4>(thread);
      } else {
        place<1>(thread);
      }
      rows_ = static_cast<int>(operand.rows - first < extent ? operand.rows - first : extent) - row_;
      from_ =
          operand.data + batch * operand.batch_stride + (first + row_) * operand.row_stride + (k0 + deep_) * k_stride();
    }

    // Terms [k, k + kStep) of the chunk.
    ISOBIT_DEVICE void copy(float* tile, int k) {
      if (kMayBeWide && operand_.wide) {
        copy_by<kMayBeWide ? 4 : 1>(tile, k);
      } else {
        copy_by<1>(tile, k);
      }
      from_ += Config::kStep * k_stride();
    }

   private:
    ISOBIT_DEVICE std::int64_t k_stride() const { return walk == Walk::k ? 1 : operand_.k_stride; }

    template <int width>
    ISOBIT_DEVICE void place(int thread) {
      constexpr int kAlong = kThreads / kDeep<width>;
      deep_ = walk == Walk::k ? thread % kDeep<width> : thread / kAlong;
      row_ = (walk == Walk::k ? thread / kDeep<width> : thread % kAlong) * width;
    }

    template <int width>
    ISOBIT_DEVICE void copy_by(float* tile, int k) const {
      constexpr int kStride = kThreads / kDeep<width> * width;
      static_assert(kDeep<width> <= Config::kStep && kStride <= extent);
#pragma unroll
      for (int d = 0; d < Config::kStep; d += kDeep<width>) {
        const bool inside = k + d + deep_ < terms_;
#pragma unroll
        for (int r = 0; r < extent; r += kStride) {
          copy_async_or_zero<4 * width>(tile + (d + deep_) * kPitch + r + row_,
                                        from_ + r * operand_.row_stride + d * k_stride(), inside && r < rows_);
        }
      }
    }

    const StridedOperand& operand_;
    const float* from_;
    int terms_, deep_, row_, rows_;
  };
};

}  // namespace isobit::kernels::ISOBIT_CUDA
