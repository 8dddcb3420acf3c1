// A few images copied with their padding, so that a convolution's inner loops know no borders.
//
// Padded column q of a row lies at (q mod split) * phase_width + q div split: with split = the horizontal
// stride, neighbouring outputs read neighbouring memory whatever the stride.
#pragma once

#include "kernels/cpu/vector/lanes.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

struct Slab {
  std::int64_t channels, height, width;  // padded
  std::int64_t split, phase_width;
  std::int64_t row, plane, image;  // strides in floats

  [[nodiscard]] ISOBIT_INLINE std::int64_t offset(std::int64_t channel, std::int64_t r, std::int64_t q) const {
    return channel * plane + r * row + q % split * phase_width + q / split;
  }
};

ISOBIT_INLINE Slab make_slab(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t split) {
  Slab s{channels, height, width, split, (width + split - 1) / split, 0, 0, 0};
  s.row = s.split * s.phase_width;
  s.plane = s.height * s.row;
  // Planes a multiple of 1 KiB apart would share cache sets.
  const std::int64_t within = s.plane * 4 % 1024;
  if (within < 64 || within > 960) s.plane += 24;
  s.image = s.channels * s.plane;
  return s;
}

ISOBIT_INLINE void copy_floats(float* to, const float* from, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_loadu_ps(from + i));
  for (; i + 4 <= n; i += 4) _mm_storeu_ps(to + i, _mm_loadu_ps(from + i));
  for (; i < n; ++i) to[i] = from[i];
}

ISOBIT_INLINE void zero_floats(float* to, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_setzero_ps());
  for (; i < n; ++i) to[i] = 0.0f;
}

// One row of w floats at padded column `left`, split into phases.
ISOBIT_INLINE void fill_row(const Slab& s, const float* from, std::int64_t w, std::int64_t left, float* row) {
  if (s.split == 1) {
    const std::int64_t count = w < s.width - left ? w : s.width - left;
    zero_floats(row, left);
    copy_floats(row + left, from, count);
    zero_floats(row + left + count, s.width - left - count);
    return;
  }
  for (std::int64_t phase = 0; phase < s.split; ++phase) {
    float* to = row + phase * s.phase_width;
    for (std::int64_t i = 0; i < s.phase_width; ++i) {
      const std::int64_t column = i * s.split + phase - left;
      to[i] = column >= 0 && column < w ? from[column] : 0.0f;
    }
  }
}

// images x channels x h x w floats, image_stride apart, into the slab at padded position (top, left). What lies
// past the slab's height or width is left out.
void fill_slab(const Slab& s, const float* source, std::int64_t images, std::int64_t image_stride, std::int64_t h,
               std::int64_t w, std::int64_t top, std::int64_t left, float* slab) {
  for (std::int64_t n = 0; n < images; ++n)
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const float* from = source + n * image_stride + c * h * w;
      float* to = slab + n * s.image + c * s.plane;
      for (std::int64_t r = 0; r < s.height; ++r) {
        if (r < top || r >= top + h) {
          zero_floats(to + r * s.row, s.row);
        } else {
          fill_row(s, from + (r - top) * w, w, left, to + r * s.row);
        }
      }
    }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
