// The windows of average pooling over a plane (pool2d.h): one text for the reference and the vector kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "contract/extrema.h"
#include "kernels/pool2d.h"

namespace isobit::kernels::ISOBIT_ISA {

struct Window {  // [h0, h1) x [w0, w1), clipped to the image, and what its sum is divided by
  std::int64_t h0, h1, w0, w1;
  float divisor;
  [[nodiscard]] bool empty() const { return h0 >= h1 || w0 >= w1; }
};

struct AverageRule {
  bool count_include_pad;
  std::int64_t divisor_override;  // 0: none
};

[[nodiscard]] inline Window average_window(const Pool2dShape& s, const AverageRule& rule, std::int64_t oh,
                                           std::int64_t ow) {
  const std::int64_t h0 = oh * s.stride_h - s.pad_h, h1 = std::min(h0 + s.kh, s.h + s.pad_h);
  const std::int64_t w0 = ow * s.stride_w - s.pad_w, w1 = std::min(w0 + s.kw, s.w + s.pad_w);
  Window window{std::max<std::int64_t>(h0, 0), std::min(h1, s.h), std::max<std::int64_t>(w0, 0), std::min(w1, s.w), 0};
  const std::int64_t inside = (window.h1 - window.h0) * (window.w1 - window.w0);
  const std::int64_t padded = (h1 - h0) * (w1 - w0);
  window.divisor = static_cast<float>(rule.divisor_override != 0 ? rule.divisor_override
                                      : rule.count_include_pad   ? padded
                                                                 : inside);
  return window;
}

[[nodiscard]] inline Window adaptive_window(const Pool2dShape& s, std::int64_t oh, std::int64_t ow) {
  const auto begin = [](std::int64_t o, std::int64_t size, std::int64_t out) { return o * size / out; };
  const auto end = [](std::int64_t o, std::int64_t size, std::int64_t out) { return ((o + 1) * size + out - 1) / out; };
  Window window{begin(oh, s.h, s.out_h), end(oh, s.h, s.out_h), begin(ow, s.w, s.out_w), end(ow, s.w, s.out_w), 0};
  window.divisor = static_cast<float>((window.h1 - window.h0) * (window.w1 - window.w0));
  return window;
}

}  // namespace isobit::kernels::ISOBIT_ISA
