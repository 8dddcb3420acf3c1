// A few images copied with their padding, so that a convolution's inner loops know no borders.
//
// Padded column q of a row lies at (q mod split) * phase_width + q div split: with split = the horizontal
// stride, neighbouring outputs read neighbouring memory whatever the stride. Along an axis where the kernel
// is one element wide only every stride-th element is read: with step = the stride, only those are copied.
#pragma once

#include <cstring>

#include "kernels/cpu/vector/lanes.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

struct Slab {
  std::int64_t channels, height, width;  // padded
  std::int64_t split, phase_width;
  std::int64_t row, plane, image;  // strides in floats
  std::int64_t step_h,
      step_w;  // padded element (r, q) is source element (r * step_h - top, q * step_w - left)

  [[nodiscard]] ISOBIT_INLINE std::int64_t offset(std::int64_t channel, std::int64_t r, std::int64_t q) const {
    return channel * plane + r * row + q % split * phase_width + q / split;
  }
};

ISOBIT_INLINE Slab make_slab(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t split,
                             std::int64_t step_h = 1, std::int64_t step_w = 1) {
  Slab s{channels, height, width, split, (width + split - 1) / split, 0, 0, 0, step_h, step_w};
  s.row = s.split * s.phase_width;
  s.plane = s.height * s.row;
  // Planes a multiple of 1 KiB apart would share cache sets.
  const std::int64_t within = s.plane * 4 % 1024;
  if (within < 64 || within > 960) s.plane += 24;
  s.image = s.channels * s.plane;
  return s;
}

// n >= 0. No loops for what is left: the compiler would make vectors of them, whose entry costs more than they do.
ISOBIT_INLINE void copy_floats(float* to, const float* from, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_loadu_ps(from + i));
  if (n & 4) _mm_storeu_ps(to + i, _mm_loadu_ps(from + i)), i += 4;
  if (n & 2) std::memcpy(to + i, from + i, 2 * sizeof(float)), i += 2;
  if (n & 1) to[i] = from[i];
}

ISOBIT_INLINE void zero_floats(float* to, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_setzero_ps());
  if (n > i) store_some(to + i, _mm256_setzero_ps(), n - i);
}

// to[i] = from[first + i * step] where that lies in [0, w), else 0; i < count.
ISOBIT_INLINE void copy_strided(float* to, std::int64_t count, const float* from, std::int64_t first, std::int64_t step,
                                std::int64_t w) {
  const std::int64_t before = first >= 0 ? 0 : (step - 1 - first) / step;
  const std::int64_t past = first >= w ? 0 : (w - first + step - 1) / step;
  const std::int64_t begin = before < count ? before : count, limit = past < count ? past : count;
  const std::int64_t end = limit > begin ? limit : begin;
  zero_floats(to, begin);
  std::int64_t i = begin;
  if (step == 2) {
    for (; i + 8 <= end && first + 2 * (i + 8) <= w; i += 8) {
      const __m256 low = _mm256_loadu_ps(from + first + 2 * i), high = _mm256_loadu_ps(from + first + 2 * i + 8);
      const __m256d pairs = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88));  // low's and high's, interleaved
      _mm256_storeu_ps(to + i, _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xd8)));
    }
  }
  for (; i < end; ++i) to[i] = from[first + i * step];
  zero_floats(to + end, count - end);
}

// One row of w floats at padded column `left`, split into phases.
ISOBIT_INLINE void fill_row(const Slab& s, const float* from, std::int64_t w, std::int64_t left, float* row) {
  if (s.split == 1 && s.step_w == 1) {
    const std::int64_t count = w < s.width - left ? w : s.width - left;
    const std::int64_t right = s.width - left - count;
    if (left <= 8 && right <= 8 && s.width >= 8) {  // both margins first: the pixels go over what is too much of them
      _mm256_storeu_ps(row, _mm256_setzero_ps());
      _mm256_storeu_ps(row + s.width - 8, _mm256_setzero_ps());
    } else {
      zero_floats(row, left);
      zero_floats(row + left + count, right);
    }
    copy_floats(row + left, from, count);
    return;
  }
  for (std::int64_t phase = 0; phase < s.split; ++phase)
    copy_strided(row + phase * s.phase_width, s.phase_width, from, phase * s.step_w - left, s.split * s.step_w, w);
}

// images x channels planes of h x w floats, plane_at(image, channel), into the slab at padded position (top, left).
// What lies past the slab's height or width is left out; nullptr is a plane of zeros.
template <class PlaneAt>
void fill_slab(const Slab& s, std::int64_t images, std::int64_t h, std::int64_t w, std::int64_t top, std::int64_t left,
               float* slab, PlaneAt plane_at) {
  for (std::int64_t n = 0; n < images; ++n)
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const float* from = plane_at(n, c);
      float* to = slab + n * s.image + c * s.plane;
      if (from == nullptr) {
        zero_floats(to, s.plane);
        continue;
      }
      for (std::int64_t r = 0; r < s.height; ++r) {
        const std::int64_t source_row = r * s.step_h - top;
        if (source_row < 0 || source_row >= h) {
          zero_floats(to + r * s.row, s.row);
        } else {
          fill_row(s, from + source_row * w, w, left, to + r * s.row);
        }
      }
    }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
