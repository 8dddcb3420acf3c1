// Sampling at given places, output by output, as the contract writes it (section 12). Its own text, places and weights
// too: other builds share theirs (formulas/grid_places.h), so that agreement with this one says something.
#include "kernels/grid_sample.h"

#include <cmath>

#include "contract/ordered_dot.h"
#include "contract/remainder.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

// A place along one dimension, and its derivative by the grid's number.
struct Place {
  float at, slope;
};

// The elements along one dimension that an output is made of, -1 for one outside; derivatives of their weights by the
// place.
struct Neighbours {
  int count = 1;
  std::int64_t element[4] = {0, 0, 0, 0};
  float weight[4] = {1.0f, 0.0f, 0.0f, 0.0f}, change[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  float slope = 0.0f;
};

Place place_of(const GridShape& s, float g, std::int64_t size) {
  const float n = static_cast<float>(size);
  if (s.align_corners) return {((g + 1.0f) / 2.0f) * (n - 1.0f), (n - 1.0f) / 2.0f};
  return {((g + 1.0f) * n - 1.0f) / 2.0f, n / 2.0f};
}

Place reflected(const GridShape& s, Place p, std::int64_t size) {
  const float low = s.align_corners ? 0.0f : -0.5f, span = static_cast<float>(s.align_corners ? size - 1 : size);
  if (span == 0.0f) return {0.0f, 0.0f};
  const bool below = p.at - low < 0.0f;
  const float d = std::fabs(p.at - low), r = contract::exact_fmod(d, span), slope = below ? -p.slope : p.slope;
  const float times = std::nearbyint((d - r) / span);
  const bool even = contract::exact_fmod(times, 2.0f) == 0.0f;
  return even ? Place{r + low, slope} : Place{(span - r) + low, -slope};
}

Place padded(const GridShape& s, Place p, std::int64_t size) {
  if (s.padding == GridPadding::zeros) return p;
  if (s.padding == GridPadding::reflection) p = reflected(s, p, size);
  const float last = static_cast<float>(size - 1);
  if (p.at > 0.0f && p.at < last) return p;
  return {p.at >= last && p.at > 0.0f ? last : 0.0f, 0.0f};  // NaN: 0
}

std::int64_t element_at(float at, std::int64_t size) {
  return at >= 0.0f && at < static_cast<float>(size) ? static_cast<std::int64_t>(at) : -1;
}

// Keys' kernel at a distance x below 1 and from 1 to 2, a = -0.75.
float keys_near(float x) { return ((1.25f * x - 2.25f) * x) * x + 1.0f; }
float keys_far(float x) { return ((-0.75f * x + 3.75f) * x - 6.0f) * x + 3.0f; }
float keys_near_change(float x) { return (3.75f * x - 4.5f) * x; }
float keys_far_change(float x) { return (-2.25f * x + 7.5f) * x - 6.0f; }

Neighbours neighbours_of(const GridShape& s, float g, std::int64_t size) {
  const Place raw = place_of(s, g, size);
  Neighbours n;
  switch (s.filter) {
    case GridFilter::nearest: n.element[0] = element_at(std::nearbyint(padded(s, raw, size).at), size); break;
    case GridFilter::linear: {
      const Place p = padded(s, raw, size);
      const float f = std::floor(p.at);
      n.count = 2, n.slope = p.slope;
      n.element[0] = element_at(f, size), n.weight[0] = (f + 1.0f) - p.at, n.change[0] = -1.0f;
      n.element[1] = element_at(f + 1.0f, size), n.weight[1] = p.at - f, n.change[1] = 1.0f;
      break;
    }
    case GridFilter::cubic: {
      const float f = std::floor(raw.at), t = raw.at - f, rest = 1.0f - t;
      n.count = 4, n.slope = raw.slope;
      for (int i = 0; i < 4; ++i) {
        n.element[i] = element_at(padded(s, {f + static_cast<float>(i - 1), 1.0f}, size).at, size);
      }
      n.weight[0] = keys_far(t + 1.0f), n.change[0] = keys_far_change(t + 1.0f);
      n.weight[1] = keys_near(t), n.change[1] = keys_near_change(t);
      n.weight[2] = keys_near(rest), n.change[2] = -keys_near_change(rest);
      n.weight[3] = keys_far(rest + 1.0f), n.change[3] = -keys_far_change(rest + 1.0f);
      break;
    }
  }
  return n;
}

struct Tap {
  std::int64_t at;          // in the plane
  float weight, change[3];  // by the place along width, height, depth
};

// Of an output those inside the image, in ascending (d, h, w); slopes of the places along width, height, depth.
struct Taps {
  int count = 0;
  Tap tap[kGridTaps];
  float slope[3];
};

Taps taps_of(const GridShape& s, const float* grid, std::int64_t n, std::int64_t o) {
  const float* const g = grid + (n * s.out + o) * s.rank;
  const Neighbours x = neighbours_of(s, g[0], s.in[2]), y = neighbours_of(s, g[1], s.in[1]);
  const Neighbours z = s.rank == 3 ? neighbours_of(s, g[2], s.in[0]) : Neighbours{};
  Taps taps;
  taps.slope[0] = x.slope, taps.slope[1] = y.slope, taps.slope[2] = z.slope;
  for (int d = 0; d < z.count; ++d) {
    for (int h = 0; h < y.count; ++h) {
      for (int w = 0; w < x.count; ++w) {
        if (z.element[d] < 0 || y.element[h] < 0 || x.element[w] < 0) continue;
        Tap& tap = taps.tap[taps.count++];
        tap.at = (z.element[d] * s.in[1] + y.element[h]) * s.in[2] + x.element[w];
        tap.weight = (x.weight[w] * y.weight[h]) * z.weight[d];
        tap.change[0] = (x.change[w] * y.weight[h]) * z.weight[d];
        tap.change[1] = (x.weight[w] * y.change[h]) * z.weight[d];
        tap.change[2] = (x.weight[w] * y.weight[h]) * z.change[d];
      }
    }
  }
  return taps;
}

// function(sample, output) on the pool.
template <class Function>
void each_output(const GridShape& s, Function function) {
  parallel_for(0, s.batch * s.out, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) function(i / s.out, i % s.out);
  });
}

void grid_sample(const GridShape& s, const float* x, const float* grid, float* y) {
  each_output(s, [&](std::int64_t n, std::int64_t o) {
    const Taps taps = taps_of(s, grid, n, o);
    for (std::int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
      float t = 0.0f;
      for (int k = 0; k < taps.count; ++k) {
        const float value = x[c * s.plane() + taps.tap[k].at];
        t = s.filter == GridFilter::nearest ? value : std::fma(taps.tap[k].weight, value, t);
      }
      y[c * s.out + o] = t;
    }
  });
}

// Samples are independent; the outputs of one come in ascending order.
void grid_sample_input_gradient(const GridShape& s, const float* grid, const float* dy, float* dx) {
  parallel_for(0, s.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * s.channels * s.plane(); i < end * s.channels * s.plane(); ++i) dx[i] = 0.0f;
    for (std::int64_t n = begin; n < end; ++n) {
      for (std::int64_t o = 0; o < s.out; ++o) {
        const Taps taps = taps_of(s, grid, n, o);
        for (std::int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
          for (int k = 0; k < taps.count; ++k) {
            float& t = dx[c * s.plane() + taps.tap[k].at];
            t = std::fma(taps.tap[k].weight, dy[c * s.out + o], t);
          }
        }
      }
    }
  });
}

void grid_sample_grid_gradient(const GridShape& s, const float* x, const float* grid, const float* dy, float* dgrid) {
  each_output(s, [&](std::int64_t n, std::int64_t o) {
    const Taps taps = taps_of(s, grid, n, o);
    float t[3] = {0.0f, 0.0f, 0.0f};
    for (int k = 0; k < taps.count; ++k) {
      const float* const inputs = x + n * s.channels * s.plane() + taps.tap[k].at;
      const float* const gradients = dy + n * s.channels * s.out + o;
      const float dot = contract::ordered_dot(inputs, s.plane(), gradients, s.out, s.channels);
      for (int d = 0; d < s.rank; ++d) t[d] = std::fma(dot, taps.tap[k].change[d], t[d]);
    }
    const bool zero = s.filter == GridFilter::nearest || s.channels == 0;
    for (int d = 0; d < s.rank; ++d) dgrid[(n * s.out + o) * s.rank + d] = zero ? 0.0f : t[d] * taps.slope[d];
  });
}

}  // namespace

void fill_grid_sample(KernelTable& t) {
  t.grid_sample = grid_sample;
  t.grid_sample_input_gradient = grid_sample_input_gradient;
  t.grid_sample_grid_gradient = grid_sample_grid_gradient;
}

}  // namespace isobit::kernels::reference
