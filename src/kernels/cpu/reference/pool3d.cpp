// Pooling by windows given per dimension, window after window, as pool3d.h writes it. Of all but the averages every
// host uses these.
#include "kernels/pool3d.h"

#include <limits>

#include "contract/extrema.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/formulas/pool_places.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

// function(plane) on the pool.
template <class Function>
void each_plane(const PoolWindows& p, Function function) {
  parallel_for(0, p.planes, 8192 / (p.in() + p.out() + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) function(plane);
  });
}

// function(window's number, od, oh, ow), ascending.
template <class Function>
void each_window(const PoolWindows& p, Function function) {
  std::int64_t o = 0;
  for (std::int64_t d = 0; d < p.d.out; ++d)
    for (std::int64_t h = 0; h < p.h.out; ++h)
      for (std::int64_t w = 0; w < p.w.out; ++w) function(o++, d, h, w);
}

// function(element's number) in window order.
template <class Function>
void each_element(const PoolWindows& p, std::int64_t od, std::int64_t oh, std::int64_t ow, Function function) {
  for (std::int64_t d = p.d.begin[od]; d < p.d.end[od]; d += p.d.step)
    for (std::int64_t h = p.h.begin[oh]; h < p.h.end[oh]; h += p.h.step)
      for (std::int64_t w = p.w.begin[ow]; w < p.w.end[ow]; w += p.w.step) function((d * p.h.in + h) * p.w.in + w);
}

float divisor_of(const PoolWindows& p, Divisor divisor, std::int64_t fixed, std::int64_t d, std::int64_t h,
                 std::int64_t w) {
  const auto inside = [](const PoolAxis& a, std::int64_t o) {
    return a.end[o] > a.begin[o] ? a.end[o] - a.begin[o] : 0;
  };
  switch (divisor) {
    case Divisor::inside: return static_cast<float>(inside(p.d, d) * inside(p.h, h) * inside(p.w, w));
    case Divisor::with_padding: return static_cast<float>(p.d.extent[d] * p.h.extent[h] * p.w.extent[w]);
    case Divisor::fixed: break;
  }
  return static_cast<float>(fixed);
}

void max_pool3d(const PoolWindows& p, const float* x, float* y, std::int64_t* index) {
  each_plane(p, [&](std::int64_t plane) {
    const float* const in = x + plane * p.in();
    each_window(p, [&](std::int64_t o, std::int64_t d, std::int64_t h, std::int64_t w) {
      std::int64_t best = -1;
      each_element(p, d, h, w, [&](std::int64_t at) {
        if (best < 0 || contract::is_better_maximum(in[at], in[best])) best = at;
      });
      y[plane * p.out() + o] = best < 0 ? -std::numeric_limits<float>::infinity() : in[best];
      index[plane * p.out() + o] = best;
    });
  });
}

void max_pool_gradient(std::int64_t planes, std::int64_t in, std::int64_t out, const float* dy,
                       const std::int64_t* index, float* dx) {
  parallel_for(0, planes, 8192 / (in + out + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      float* const to = dx + plane * in;
      for (std::int64_t i = 0; i < in; ++i) to[i] = 0.0f;
      for (std::int64_t o = plane * out; o < (plane + 1) * out; ++o) {
        if (index[o] >= 0 && index[o] < in) to[index[o]] += dy[o];
      }
    }
  });
}

void average_pool3d(const PoolWindows& p, Divisor divisor, std::int64_t fixed, const float* x, float* y) {
  each_plane(p, [&](std::int64_t plane) {
    const float* const in = x + plane * p.in();
    each_window(p, [&](std::int64_t o, std::int64_t d, std::int64_t h, std::int64_t w) {
      float sum = 0.0f;
      bool any = false;
      each_element(p, d, h, w, [&](std::int64_t at) { sum += in[at], any = true; });
      y[plane * p.out() + o] = any ? sum / divisor_of(p, divisor, fixed, d, h, w) : 0.0f;
    });
  });
}

void average_pool3d_backward(const PoolWindows& p, Divisor divisor, std::int64_t fixed, const float* dy, float* dx) {
  each_plane(p, [&](std::int64_t plane) {
    float* const to = dx + plane * p.in();
    for (std::int64_t i = 0; i < p.in(); ++i) to[i] = 0.0f;
    each_window(p, [&](std::int64_t o, std::int64_t d, std::int64_t h, std::int64_t w) {
      const float share = dy[plane * p.out() + o] / divisor_of(p, divisor, fixed, d, h, w);
      each_element(p, d, h, w, [&](std::int64_t at) { to[at] += share; });
    });
  });
}

void fractional_max_pool(const FractionalPool& p, const float* samples, const float* x, float* y, std::int64_t* index) {
  const std::int64_t in = p.in[0] * p.in[1] * p.in[2], out = p.out[0] * p.out[1] * p.out[2];
  parallel_for(0, p.planes, 8192 / (in + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin * out; o < end * out; ++o) {
      const std::int64_t plane = o / out,
                         best = ISOBIT_ISA::fractional_maximum(p, samples + 3 * plane, x + plane * in, o % out);
      y[o] = x[plane * in + best], index[o] = best;
    }
  });
}

std::int64_t unpool(std::int64_t planes, std::int64_t in, std::int64_t out, const float* x, const std::int64_t* index,
                    float* y) {
  for (std::int64_t i = 0; i < planes * in; ++i) {
    if (index[i] < 0 || index[i] >= out) return i;
  }
  parallel_for(0, planes, 16384 / (in + out + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * out; i < end * out; ++i) y[i] = 0.0f;
    for (std::int64_t i = begin * in; i < end * in; ++i) y[i / in * out + index[i]] = x[i];
  });
  return -1;
}

}  // namespace

void fill_pool3d(KernelTable& t) {
  t.max_pool3d = max_pool3d;
  t.fractional_max_pool = fractional_max_pool;
  t.max_pool_gradient = max_pool_gradient;
  t.average_pool3d = average_pool3d;
  t.average_pool3d_backward = average_pool3d_backward;
  t.unpool = unpool;
}

}  // namespace isobit::kernels::reference
