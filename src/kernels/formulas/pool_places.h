// Windows at places computed from samples: one text for host and device (pool3d.h).
#pragma once

#include "contract/extrema.h"
#include "kernels/pool3d.h"

namespace isobit::kernels::ISOBIT_ISA {

// Where the window of output o begins along dimension d.
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::int64_t window_begin(const FractionalPool& p, int d, float sample,
                                                                  std::int64_t o) {
  const std::int64_t last = p.in[d] - p.window[d];
  if (o == p.out[d] - 1) return last;
  const float alpha = static_cast<float>(last) / static_cast<float>(p.out[d] - 1);
  return static_cast<std::int64_t>((static_cast<float>(o) + sample) * alpha) -
         static_cast<std::int64_t>(sample * alpha);
}

// The element of the plane x that is the maximum of output o.
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::int64_t fractional_maximum(const FractionalPool& p, const float* sample,
                                                                        const float* x, std::int64_t o) {
  const std::int64_t row = o / p.out[2];
  const std::int64_t d = window_begin(p, 0, sample[0], row / p.out[1]),
                     h = window_begin(p, 1, sample[1], row % p.out[1]);
  const std::int64_t w = window_begin(p, 2, sample[2], o - row * p.out[2]);
  std::int64_t best = (d * p.in[1] + h) * p.in[2] + w;
  float value = x[best];
  for (std::int64_t a = d; a < d + p.window[0]; ++a) {
    for (std::int64_t b = h; b < h + p.window[1]; ++b) {
      for (std::int64_t c = w; c < w + p.window[2]; ++c) {
        const std::int64_t at = (a * p.in[1] + b) * p.in[2] + c;
        if (contract::is_better_maximum(x[at], value)) best = at, value = x[at];
      }
    }
  }
  return best;
}

}  // namespace isobit::kernels::ISOBIT_ISA
