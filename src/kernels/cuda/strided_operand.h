// An operand of a tile product that lies in memory with strides. Private to this folder.
//
// Neighbouring threads walk along the direction in which memory is contiguous: along k (4 bytes a copy, since
// the shared tile has the rows contiguous), along the rows, or along the rows 16 bytes at a time.
#pragma once

#include "kernels/cuda/tile_product.h"

namespace isobit::kernels::ISOBIT_CUDA {

enum class Walk { k, rows, four_rows };

// element(batch, row, k); for the right factor a "row" is a column of the product.
struct StridedLayout {
  const float* data = nullptr;
  std::int64_t batch_stride = 0, row_stride = 0, k_stride = 0;
  std::int64_t rows = 0;
};

template <Walk walk>
struct StridedOperand : StridedLayout {
  template <int extent, class Config>
  class Loader {
    static constexpr int kThreads = Config::kThreads, kPitch = extent + Config::kPad;
    static constexpr int kWidth = walk == Walk::four_rows ? 4 : 1;
    // Threads side by side in k; a warp that walks along k reads sectors of 8 terms.
    static constexpr int kDeep = walk == Walk::k ? (kThreads / extent > 8 ? kThreads / extent : 8)
                                                 : (kThreads * kWidth > extent ? kThreads * kWidth / extent : 1);
    static constexpr int kAlong = kThreads / kDeep;
    static_assert(kDeep <= Config::kStep && kAlong * kWidth <= extent);

   public:
    ISOBIT_DEVICE Loader(const StridedOperand& operand, std::int64_t batch, std::int64_t first, std::int64_t k0,
                         int terms, int thread)
        : operand_(operand), terms_(terms) {
      deep_ = walk == Walk::k ? thread % kDeep : thread / kAlong;
      row_ = (walk == Walk::k ? thread / kDeep : thread % kAlong) * kWidth;
      rows_ = static_cast<int>(operand.rows - first < extent ? operand.rows - first : extent);
      from_ = operand.data + batch * operand.batch_stride + (first + row_) * operand.row_stride +
              (k0 + deep_) * operand.k_stride;
    }

    // Terms [k, k + kStep) of the chunk.
    ISOBIT_DEVICE void copy(float* tile, int k) {
#pragma unroll
      for (int d = 0; d < Config::kStep; d += kDeep) {
        const bool inside = k + d + deep_ < terms_;
#pragma unroll
        for (int r = 0; r < extent; r += kAlong * kWidth) {
          copy_async_or_zero<4 * kWidth>(tile + (d + deep_) * kPitch + r + row_,
                                         from_ + r * operand_.row_stride + d * operand_.k_stride,
                                         inside && r + row_ < rows_);
        }
      }
      from_ += Config::kStep * operand_.k_stride;
    }

   private:
    const StridedOperand& operand_;
    const float* from_;
    int terms_, deep_, row_, rows_;
  };
};

}  // namespace isobit::kernels::ISOBIT_CUDA
