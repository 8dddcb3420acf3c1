// Averages and maxima by windows given per dimension, a row of windows at a time: loops over neighbouring windows that
// compilers make vectors of. The maxima's gradient and unpooling keep the reference's functions.
#include "kernels/pool3d.h"

#include <cstring>
#include <limits>
#include <utility>

#include "contract/extrema.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

std::int64_t elements_in(const PoolAxis& a, std::int64_t o) {
  return a.end[o] > a.begin[o] ? a.end[o] - a.begin[o] : 0;
}

// Windows first .. last - 1 of a dimension, each of `count` elements, `stride` further than the one before, with the
// same extent.
struct Run {
  std::int64_t first = 0, last = 0, stride = 1, count = 0;
};

Run longest_run(const PoolAxis& a) {
  Run best;
  for (std::int64_t first = 0; first < a.out;) {
    const std::int64_t stride = first + 1 < a.out ? a.begin[first + 1] - a.begin[first] : 1,
                       count = elements_in(a, first);
    std::int64_t last = first + 1;
    while (last < a.out && a.begin[last] - a.begin[last - 1] == stride && elements_in(a, last) == count &&
           a.extent[last] == a.extent[first]) {
      ++last;
    }
    if (last - first > best.last - best.first && stride > 0) best = {first, last, stride, count};
    first = last > first + 1 ? last - 1 : last;  // the last of one run may be the first of the next
  }
  return best;
}

struct Average {
  PoolWindows p;
  Divisor divisor;
  float fixed;
  Run run;

  [[nodiscard]] float divided_by(std::int64_t d, std::int64_t h, std::int64_t w) const {
    switch (divisor) {
      case Divisor::inside: return static_cast<float>(elements_in(p.d, d) * elements_in(p.h, h) * elements_in(p.w, w));
      case Divisor::with_padding: return static_cast<float>(p.d.extent[d] * p.h.extent[h] * p.w.extent[w]);
      case Divisor::fixed: break;
    }
    return fixed;
  }
};

// function(d, h) for the rows of elements that windows (od, oh, .) take, in window order.
template <class Function>
void each_line(const PoolWindows& p, std::int64_t od, std::int64_t oh, Function function) {
  for (std::int64_t d = p.d.begin[od]; d < p.d.end[od]; d += p.d.step) {
    for (std::int64_t h = p.h.begin[oh]; h < p.h.end[oh]; h += p.h.step) function(d, h);
  }
}
// function(od, oh), ascending.
template <class Function>
void each_row(const PoolWindows& p, Function function) {
  for (std::int64_t od = 0; od < p.d.out; ++od) {
    for (std::int64_t oh = 0; oh < p.h.out; ++oh) function(od, oh);
  }
}
// function(plane) on the pool.
template <class Function>
void each_plane(const PoolWindows& p, Function function) {
  parallel_for(0, p.planes, 8192 / (p.in() + p.out() + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) function(plane);
  });
}

// sums[o] + line[o * stride] to sums[o], o below n.
template <int kStride>
void take(const float* __restrict line, std::int64_t stride, std::int64_t n, float* __restrict sums) {
  for (std::int64_t o = 0; o < n; ++o) sums[o] = sums[o] + line[o * (kStride == 0 ? stride : kStride)];
}
// line[o * stride] + shares[o] to line[o * stride].
template <int kStride>
void give(const float* __restrict shares, std::int64_t stride, std::int64_t n, float* __restrict line) {
  for (std::int64_t o = 0; o < n; ++o) {
    float& t = line[o * (kStride == 0 ? stride : kStride)];
    t = t + shares[o];
  }
}

// ---- averages: every sum takes its elements in window order

float one_average(const Average& a, const float* in, std::int64_t od, std::int64_t oh, std::int64_t ow) {
  const PoolWindows& p = a.p;
  float sum = 0.0f;
  each_line(p, od, oh, [&](std::int64_t d, std::int64_t h) {
    const float* const line = in + (d * p.h.in + h) * p.w.in;
    for (std::int64_t w = p.w.begin[ow]; w < p.w.end[ow]; ++w) sum = sum + line[w];
  });
  const bool empty = elements_in(p.d, od) == 0 || elements_in(p.h, oh) == 0 || elements_in(p.w, ow) == 0;
  return empty ? 0.0f : sum / a.divided_by(od, oh, ow);
}

template <int kStride>
void average_run(const Average& a, const float* in, std::int64_t od, std::int64_t oh, float* y) {
  const PoolWindows& p = a.p;
  const std::int64_t n = a.run.last - a.run.first;
  for (std::int64_t o = 0; o < n; ++o) y[o] = 0.0f;
  if (n == 0 || elements_in(p.d, od) == 0 || elements_in(p.h, oh) == 0 || a.run.count == 0) return;
  each_line(p, od, oh, [&](std::int64_t d, std::int64_t h) {
    const float* const line = in + (d * p.h.in + h) * p.w.in + p.w.begin[a.run.first];
    for (std::int64_t k = 0; k < a.run.count; ++k) take<kStride>(line + k, a.run.stride, n, y);
  });
  const float divisor = a.divided_by(od, oh, a.run.first);
  for (std::int64_t o = 0; o < n; ++o) y[o] = y[o] / divisor;
}

// Whether all windows of a dimension have as many elements.
bool alike(const PoolAxis& axis) {
  for (std::int64_t o = 1; o < axis.out; ++o) {
    if (elements_in(axis, o) != elements_in(axis, 0)) return false;
  }
  return axis.out > 0 && elements_in(axis, 0) > 0;
}
// Windows alike but too far apart for lanes, of one depth: some chains side by side, in registers.
void average_chains(const Average& a, const float* in, std::int64_t od, float* y) {
  constexpr std::int64_t kChains = 8;
  const PoolWindows& p = a.p;
  const std::int64_t windows = p.h.out * p.w.out, height = elements_in(p.h, 0), width = elements_in(p.w, 0);
  for (std::int64_t first = 0; first < windows; first += kChains) {
    const std::int64_t count = windows - first < kChains ? windows - first : kChains;
    const float* from[kChains];
    float sum[kChains] = {};
    for (std::int64_t j = 0; j < kChains; ++j) {
      const std::int64_t window = first + (j < count ? j : 0);
      from[j] = in + p.h.begin[window / p.w.out] * p.w.in + p.w.begin[window % p.w.out];
    }
    for (std::int64_t d = p.d.begin[od]; d < p.d.end[od]; ++d) {
      for (std::int64_t h = 0; h < height; ++h) {
        const std::int64_t line = (d * p.h.in + h) * p.w.in;
        for (std::int64_t w = line; w < line + width; ++w) {
#pragma GCC unroll 8
          for (std::int64_t j = 0; j < kChains; ++j) sum[j] = sum[j] + from[j][w];
        }
      }
    }
    for (std::int64_t j = 0; j < count; ++j) {
      y[first + j] = sum[j] / a.divided_by(od, (first + j) / p.w.out, (first + j) % p.w.out);
    }
  }
}

template <int kStride>
void average(const Average& a, const float* x, float* y) {
  const PoolWindows& p = a.p;
  const bool chains = kStride == 0 && p.w.out <= 16 && alike(p.h) && alike(p.w);
  each_plane(p, [&](std::int64_t plane) {
    const float* const in = x + plane * p.in();
    for (std::int64_t od = 0; chains && od < p.d.out; ++od) {
      float* const rows = y + plane * p.out() + od * p.h.out * p.w.out;
      if (elements_in(p.d, od) > 0) {
        average_chains(a, in, od, rows);
      } else {
        for (std::int64_t i = 0; i < p.h.out * p.w.out; ++i) rows[i] = 0.0f;
      }
    }
    if (chains) return;
    each_row(p, [&](std::int64_t od, std::int64_t oh) {
      float* const row = y + plane * p.out() + (od * p.h.out + oh) * p.w.out;
      for (std::int64_t ow = 0; ow < a.run.first; ++ow) row[ow] = one_average(a, in, od, oh, ow);
      average_run<kStride>(a, in, od, oh, row + a.run.first);
      for (std::int64_t ow = a.run.last; ow < p.w.out; ++ow) row[ow] = one_average(a, in, od, oh, ow);
    });
  });
}

// ---- gradients: every element takes its windows in ascending order

// Whether every element of a dimension is in one window.
bool tiles(const PoolAxis& axis) {
  std::int64_t next = 0;
  for (std::int64_t o = 0; o < axis.out; ++o) {
    if (axis.begin[o] != next || axis.end[o] <= next) return false;
    next = axis.end[o];
  }
  return next == axis.in;
}
// Windows that tile the planes: each element takes one share, after +0.
void tiles_backward(const Average& a, const float* dy, float* dx) {
  const PoolWindows& p = a.p;
  each_plane(p, [&](std::int64_t plane) {
    Workspace workspace;
    float* const line = workspace.floats(p.w.in);
    each_row(p, [&](std::int64_t od, std::int64_t oh) {
      const float* const row = dy + plane * p.out() + (od * p.h.out + oh) * p.w.out;
      for (std::int64_t ow = 0; ow < p.w.out; ++ow) {
        const float share = 0.0f + row[ow] / a.divided_by(od, oh, ow);
        for (std::int64_t w = p.w.begin[ow]; w < p.w.end[ow]; ++w) line[w] = share;
      }
      each_line(p, od, oh, [&](std::int64_t d, std::int64_t h) {
        std::memcpy(dx + plane * p.in() + (d * p.h.in + h) * p.w.in, line,
                    static_cast<std::size_t>(p.w.in) * sizeof(float));
      });
    });
  });
}

template <int kStride>
void average_backward(const Average& a, const float* dy, float* dx) {
  const PoolWindows& p = a.p;
  const Run& run = a.run;
  each_plane(p, [&](std::int64_t plane) {
    float* const to = dx + plane * p.in();
    for (std::int64_t i = 0; i < p.in(); ++i) to[i] = 0.0f;
    Workspace workspace;
    float* const shares = workspace.floats(p.w.out);
    each_row(p, [&](std::int64_t od, std::int64_t oh) {
      const float* const row = dy + plane * p.out() + (od * p.h.out + oh) * p.w.out;
      for (std::int64_t ow = 0; ow < run.first; ++ow) shares[ow] = row[ow] / a.divided_by(od, oh, ow);
      const float divisor = run.first < run.last ? a.divided_by(od, oh, run.first) : 1.0f;
      for (std::int64_t ow = run.first; ow < run.last; ++ow) shares[ow] = row[ow] / divisor;
      for (std::int64_t ow = run.last; ow < p.w.out; ++ow) shares[ow] = row[ow] / a.divided_by(od, oh, ow);
      each_line(p, od, oh, [&](std::int64_t d, std::int64_t h) {
        float* const line = to + (d * p.h.in + h) * p.w.in;
        const auto one = [&](std::int64_t ow) {
          for (std::int64_t w = p.w.begin[ow]; w < p.w.end[ow]; ++w) line[w] = line[w] + shares[ow];
        };
        for (std::int64_t ow = 0; ow < run.first; ++ow) one(ow);
        // The earlier a window, the further back it has an element: taps from the back are windows ascending.
        for (std::int64_t k = run.count - 1; k >= 0; --k) {
          give<kStride>(shares + run.first, run.stride, run.last - run.first, line + p.w.begin[run.first] + k);
        }
        for (std::int64_t ow = run.last; ow < p.w.out; ++ow) one(ow);
      });
    });
  });
}

void average_pool3d(const PoolWindows& p, Divisor divisor, std::int64_t fixed, const float* x, float* y) {
  const Average a = {p, divisor, static_cast<float>(fixed), longest_run(p.w)};
  if (a.run.stride == 1) return average<1>(a, x, y);
  if (a.run.stride == 2) return average<2>(a, x, y);
  average<0>(a, x, y);
}

void average_pool3d_backward(const PoolWindows& p, Divisor divisor, std::int64_t fixed, const float* dy, float* dx) {
  const Average a = {p, divisor, static_cast<float>(fixed), longest_run(p.w)};
  if (tiles(p.d) && tiles(p.h) && tiles(p.w)) return tiles_backward(a, dy, dx);
  if (a.run.stride == 1) return average_backward<1>(a, dy, dx);
  if (a.run.stride == 2) return average_backward<2>(a, dy, dx);
  average_backward<0>(a, dy, dx);
}

// ---- maxima: of each window the first of the largest, or the first NaN

struct Largest {
  float value = -std::numeric_limits<float>::infinity();
  std::int64_t at = -1;
};

Largest one_maximum(const PoolWindows& p, const float* in, std::int64_t od, std::int64_t oh, std::int64_t ow) {
  Largest best;
  each_line(p, od, oh, [&](std::int64_t d, std::int64_t h) {
    const std::int64_t line = (d * p.h.in + h) * p.w.in;
    for (std::int64_t w = p.w.begin[ow]; w < p.w.end[ow]; w += p.w.step) {
      if (best.at < 0 || contract::is_better_maximum(in[line + w], best.value)) best = {in[line + w], line + w};
    }
  });
  return best;
}

// line[o * stride] takes the place of best[o] where it is better; its place is `at`, seen from window 0.
template <int kStride>
void compare(const float* __restrict line, std::int64_t stride, std::int32_t at, std::int64_t n, float* __restrict best,
             std::int32_t* __restrict place) {
  for (std::int64_t o = 0; o < n; ++o) {
    const float x = line[o * (kStride == 0 ? stride : kStride)], so_far = best[o];
    const bool better = (so_far == so_far) & ((x != x) | (x > so_far));
    best[o] = better ? x : so_far;
    place[o] = better ? at : place[o];
  }
}

// y and index from the run's first window on.
template <int kStride>
void maximum_run(const PoolWindows& p, const Run& run, const float* in, std::int64_t od, std::int64_t oh, float* y,
                 std::int64_t* index, std::int32_t* place) {
  const std::int64_t n = run.last - run.first;
  if (n == 0) return;
  const bool empty = elements_in(p.d, od) == 0 || elements_in(p.h, oh) == 0 || run.count == 0;
  for (std::int64_t o = 0; o < n; ++o) y[o] = -std::numeric_limits<float>::infinity(), index[o] = -1;
  if (empty) return;
  bool first = true;
  each_line(p, od, oh, [&](std::int64_t d, std::int64_t h) {
    const std::int64_t at = (d * p.h.in + h) * p.w.in + p.w.begin[run.first];
    for (std::int64_t k = 0; k < run.count; ++k) {
      if (!std::exchange(first, false)) {
        compare<kStride>(in + at + k, run.stride, static_cast<std::int32_t>(at + k), n, y, place);
        continue;
      }
      for (std::int64_t o = 0; o < n; ++o)
        y[o] = in[at + k + o * run.stride], place[o] = static_cast<std::int32_t>(at + k);
    }
  });
  for (std::int64_t o = 0; o < n; ++o) index[o] = place[o] + o * run.stride;
}

template <int kStride>
void maximum(const PoolWindows& p, const Run& run, const float* x, float* y, std::int64_t* index) {
  each_plane(p, [&](std::int64_t plane) {
    const float* const in = x + plane * p.in();
    Workspace workspace;
    std::int32_t* const place = workspace.ints(run.last - run.first);
    each_row(p, [&](std::int64_t od, std::int64_t oh) {
      const std::int64_t row = plane * p.out() + (od * p.h.out + oh) * p.w.out;
      const auto one = [&](std::int64_t ow) {
        const Largest best = one_maximum(p, in, od, oh, ow);
        y[row + ow] = best.value, index[row + ow] = best.at;
      };
      for (std::int64_t ow = 0; ow < run.first; ++ow) one(ow);
      maximum_run<kStride>(p, run, in, od, oh, y + row + run.first, index + row + run.first, place);
      for (std::int64_t ow = run.last; ow < p.w.out; ++ow) one(ow);
    });
  });
}

void max_pool3d(const PoolWindows& p, const float* x, float* y, std::int64_t* index) {
  const Run run = p.w.step == 1 ? longest_run(p.w) : Run{};
  if (run.stride == 1) return maximum<1>(p, run, x, y, index);
  if (run.stride == 2) return maximum<2>(p, run, x, y, index);
  maximum<0>(p, run, x, y, index);
}

}  // namespace

void fill_pool3d(KernelTable& t) {
  t.max_pool3d = max_pool3d;
  t.average_pool3d = average_pool3d;
  t.average_pool3d_backward = average_pool3d_backward;
}

}  // namespace isobit::kernels::ISOBIT_ISA
