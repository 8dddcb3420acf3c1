// Pooling, window after window, as pool2d.h writes it.
#include <algorithm>
#include <cmath>

#include "contract/extrema.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/formulas/pool_windows.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

using ISOBIT_ISA::adaptive_window;
using ISOBIT_ISA::average_window;
using ISOBIT_ISA::Window;

template <class Function>
void for_each_plane(const Pool2dShape& s, Function function) {
  parallel_for(0, s.planes, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) function(plane);
  });
}

// y = chain over each window / divisor; window_of(oh, ow).
template <class WindowOf>
void average_forward(const Pool2dShape& s, const float* x, float* y, WindowOf window_of) {
  for_each_plane(s, [&](std::int64_t plane) {
    const float* const in = x + plane * s.h * s.w;
    float* out = y + plane * s.out_h * s.out_w;
    for (std::int64_t oh = 0; oh < s.out_h; ++oh) {
      for (std::int64_t ow = 0; ow < s.out_w; ++ow) {
        const Window window = window_of(oh, ow);
        float t = 0.0f;
        for (std::int64_t ih = window.h0; ih < window.h1; ++ih) {
          for (std::int64_t iw = window.w0; iw < window.w1; ++iw) t = t + in[ih * s.w + iw];
        }
        *out++ = window.empty() ? 0.0f : t / window.divisor;
      }
    }
  });
}

// Walking the outputs in ascending order adds to each element its windows in ascending order.
template <class WindowOf>
void average_backward(const Pool2dShape& s, const float* dy, float* dx, WindowOf window_of) {
  for_each_plane(s, [&](std::int64_t plane) {
    float* const in = dx + plane * s.h * s.w;
    const float* out = dy + plane * s.out_h * s.out_w;
    std::fill(in, in + s.h * s.w, 0.0f);
    for (std::int64_t oh = 0; oh < s.out_h; ++oh) {
      for (std::int64_t ow = 0; ow < s.out_w; ++ow) {
        const Window window = window_of(oh, ow);
        const float share = *out++ / window.divisor;
        for (std::int64_t ih = window.h0; ih < window.h1; ++ih) {
          for (std::int64_t iw = window.w0; iw < window.w1; ++iw) in[ih * s.w + iw] = in[ih * s.w + iw] + share;
        }
      }
    }
  });
}

void max_pool2d(const Pool2dShape& s, const float* x, float* y, std::int64_t* index) {
  for_each_plane(s, [&](std::int64_t plane) {
    const float* const in = x + plane * s.h * s.w;
    std::int64_t o = plane * s.out_h * s.out_w;
    for (std::int64_t oh = 0; oh < s.out_h; ++oh) {
      for (std::int64_t ow = 0; ow < s.out_w; ++ow, ++o) {
        std::int64_t best = -1;
        for (std::int64_t kh = 0; kh < s.kh; ++kh) {
          const std::int64_t ih = oh * s.stride_h - s.pad_h + kh * s.dilation_h;
          for (std::int64_t kw = 0; kw < s.kw; ++kw) {
            const std::int64_t iw = ow * s.stride_w - s.pad_w + kw * s.dilation_w;
            if (ih < 0 || ih >= s.h || iw < 0 || iw >= s.w) continue;
            const std::int64_t at = ih * s.w + iw;
            if (best < 0 || contract::is_better_maximum(in[at], in[best])) best = at;
          }
        }
        y[o] = best < 0 ? -INFINITY : in[best];
        index[o] = best;
      }
    }
  });
}

void max_pool2d_backward(const Pool2dShape& s, const float* dy, const std::int64_t* index, float* dx) {
  for_each_plane(s, [&](std::int64_t plane) {
    float* const in = dx + plane * s.h * s.w;
    std::fill(in, in + s.h * s.w, 0.0f);
    for (std::int64_t o = plane * s.out_h * s.out_w; o < (plane + 1) * s.out_h * s.out_w; ++o) {
      if (index[o] < 0 || index[o] >= s.h * s.w) continue;
      in[index[o]] = in[index[o]] + dy[o];
    }
  });
}

void average_pool2d(const Pool2dShape& s, bool count_include_pad, std::int64_t divisor_override, const float* x,
                    float* y) {
  average_forward(s, x, y, [&](std::int64_t oh, std::int64_t ow) {
    return average_window(s, {count_include_pad, divisor_override}, oh, ow);
  });
}

void average_pool2d_backward(const Pool2dShape& s, bool count_include_pad, std::int64_t divisor_override,
                             const float* dy, float* dx) {
  average_backward(s, dy, dx, [&](std::int64_t oh, std::int64_t ow) {
    return average_window(s, {count_include_pad, divisor_override}, oh, ow);
  });
}

void adaptive_average_pool2d(const Pool2dShape& s, const float* x, float* y) {
  average_forward(s, x, y, [&](std::int64_t oh, std::int64_t ow) { return adaptive_window(s, oh, ow); });
}

void adaptive_average_pool2d_backward(const Pool2dShape& s, const float* dy, float* dx) {
  average_backward(s, dy, dx, [&](std::int64_t oh, std::int64_t ow) { return adaptive_window(s, oh, ow); });
}

}  // namespace

void fill_pool2d(KernelTable& t) {
  t.max_pool2d = max_pool2d;
  t.max_pool2d_backward = max_pool2d_backward;
  t.average_pool2d = average_pool2d;
  t.average_pool2d_backward = average_pool2d_backward;
  t.adaptive_average_pool2d = adaptive_average_pool2d;
  t.adaptive_average_pool2d_backward = adaptive_average_pool2d_backward;
}

}  // namespace isobit::kernels::reference
