// Pooling by windows given per dimension: a thread per output; gradients a thread per element, which takes what meets
// it in ascending order of the outputs.
#include "kernels/pool3d.h"

#include <algorithm>
#include <vector>

#include "contract/extrema.h"
#include "contract/formula.h"
#include "kernels/formulas/pool_places.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/divider.h"
#include "kernels/cuda/incidence.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256;

struct Place {
  std::int64_t plane, d, h, w;
};

// Numbers the positions of planes [d, h, w].
struct Positions {
  Divider width, height, depth;
  std::int64_t count;

  Positions(std::int64_t planes, std::int64_t d, std::int64_t h, std::int64_t w)
      : width(w, planes * d * h * w), height(h, planes * d * h), depth(d, planes * d), count(planes * d * h * w) {}
  [[nodiscard]] ISOBIT_DEVICE Place split(std::int64_t i) const {
    const std::int64_t line = width.quotient(i), slice = height.quotient(line), plane = depth.quotient(slice);
    return {plane, slice - plane * depth.divisor(), line - slice * height.divisor(), i - line * width.divisor()};
  }
  [[nodiscard]] std::int64_t blocks() const { return ceil_div(count, kThreads); }
};
Positions inputs_of(const PoolWindows& p) { return {p.planes, p.d.in, p.h.in, p.w.in}; }
Positions outputs_of(const PoolWindows& p) { return {p.planes, p.d.out, p.h.out, p.w.out}; }

// Host arrays brought to the device in one piece.
class Tables {
 public:
  // Where the array will lie, in elements.
  std::int64_t add(const std::int64_t* values, std::int64_t n) {
    host_.insert(host_.end(), values, values + n);
    return static_cast<std::int64_t>(host_.size()) - n;
  }
  [[nodiscard]] const std::int64_t* copied(const Scratch& scratch) const {
    copy_to_device(scratch.as<std::int64_t>(), host_.data(), bytes());
    return scratch.as<std::int64_t>();
  }
  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(host_.size() * sizeof(std::int64_t)); }

 private:
  std::vector<std::int64_t> host_;
};

// The windows with their arrays on the device, as long as this lives.
class DeviceWindows {
 public:
  explicit DeviceWindows(const PoolWindows& p) : tables_(tables_of(p)), scratch_(tables_.bytes()), windows_(p) {
    const std::int64_t* at = tables_.copied(scratch_);
    for (PoolAxis* axis : {&windows_.d, &windows_.h, &windows_.w}) {
      axis->begin = at, axis->end = at + axis->out, axis->extent = at + 2 * axis->out;
      at += 3 * axis->out;
    }
  }
  [[nodiscard]] const PoolWindows& operator*() const { return windows_; }

 private:
  static Tables tables_of(const PoolWindows& p) {
    Tables tables;
    for (const PoolAxis* axis : {&p.d, &p.h, &p.w}) {
      for (const std::int64_t* values : {axis->begin, axis->end, axis->extent}) tables.add(values, axis->out);
    }
    return tables;
  }
  Tables tables_;
  Scratch scratch_;
  PoolWindows windows_;
};

// Of each element of a dimension the windows that take it, ascending: windows[begin[i]] up to begin[i + 1].
struct Covers {
  const std::int64_t *begin, *windows;
};
struct CoverTable {
  std::vector<std::int64_t> begin, windows;

  explicit CoverTable(const PoolAxis& axis) : begin(static_cast<std::size_t>(axis.in) + 1, 0) {
    each(axis, [&](std::size_t i, std::int64_t) { ++begin[i + 1]; });
    for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
    windows.resize(static_cast<std::size_t>(begin.back()));
    std::vector<std::int64_t> next(begin);
    each(axis, [&](std::size_t i, std::int64_t o) { windows[static_cast<std::size_t>(next[i]++)] = o; });
  }
  template <class Function>
  static void each(const PoolAxis& axis, Function function) {
    for (std::int64_t o = 0; o < axis.out; ++o) {
      for (std::int64_t i = axis.begin[o]; i < axis.end[o]; i += axis.step) function(static_cast<std::size_t>(i), o);
    }
  }
};

// ---- maxima

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void max_kernel(Positions outputs, PoolWindows p, const float* x,
                                                                float* y, std::int64_t* index) {
  const std::int64_t o = block_index() * kThreads + thread_index();
  if (o >= outputs.count) return;
  const Place place = outputs.split(o);
  const float* const in = x + place.plane * p.d.in * p.h.in * p.w.in;
  std::int64_t best = -1;
  float value = -contract::kInfinity;
  for (std::int64_t d = p.d.begin[place.d]; d < p.d.end[place.d]; d += p.d.step) {
    for (std::int64_t h = p.h.begin[place.h]; h < p.h.end[place.h]; h += p.h.step) {
      for (std::int64_t w = p.w.begin[place.w]; w < p.w.end[place.w]; w += p.w.step) {
        const std::int64_t at = (d * p.h.in + h) * p.w.in + w;
        const float candidate = in[at];
        if (best < 0 || contract::is_better_maximum(candidate, value)) best = at, value = candidate;
      }
    }
  }
  y[o] = value;
  index[o] = best;
}
void max_pool3d(const PoolWindows& p, const float* x, float* y, std::int64_t* index) {
  const DeviceWindows windows(p);
  const Positions outputs = outputs_of(p);
  launch(max_kernel, {outputs.blocks(), kThreads}, outputs, *windows, x, y, index);
}

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void fractional_kernel(FractionalPool p, std::int64_t count,
                                                                       Divider out, const float* samples,
                                                                       const float* x, float* y, std::int64_t* index) {
  const std::int64_t o = block_index() * kThreads + thread_index();
  if (o >= count) return;
  const std::int64_t plane = out.quotient(o);
  const float* const in = x + plane * p.in[0] * p.in[1] * p.in[2];
  const std::int64_t best = ISOBIT_ISA::fractional_maximum(p, samples + 3 * plane, in, o - plane * out.divisor());
  y[o] = in[best];
  index[o] = best;
}
void fractional_max_pool(const FractionalPool& p, const float* samples, const float* x, float* y, std::int64_t* index) {
  const std::int64_t out = p.out[0] * p.out[1] * p.out[2], count = p.planes * out;
  launch(fractional_kernel, {ceil_div(count, kThreads), kThreads}, p, count, Divider(out, count), samples, x, y, index);
}

struct IndexedPlace {
  const std::int64_t* index;
  std::int64_t in;
  Divider out;
  [[nodiscard]] ISOBIT_DEVICE std::int64_t operator()(std::int64_t o) const {
    const std::int64_t at = index[o];
    return at >= 0 && at < in ? out.quotient(o) * in + at : -1;
  }
};

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void chain_kernel(std::int64_t places, Incidences met, const float* dy,
                                                                  float* dx) {
  const std::int64_t i = block_index() * kThreads + thread_index();
  if (i >= places) return;
  float t = 0.0f;
  for (int k = 0; k < met.count[i]; ++k) t = t + dy[met.order[met.begin[i] + k]];
  dx[i] = t;
}

// Planes that one set of lists can hold, about 256 MiB of them.
std::int64_t planes_at_once(std::int64_t planes, std::int64_t in, std::int64_t out) {
  if (in >= kInt32End || out >= kInt32End)
    throw DeviceError("a plane of 2^31 elements or more is too large for pooling on a device");
  constexpr std::int64_t kMost = std::int64_t{256} << 20;
  const std::int64_t fit = std::max<std::int64_t>(kMost / IncidenceLists::bytes_of(out, in), 1);
  return std::min({planes, fit, (kInt32End - 1) / std::max<std::int64_t>({in, out, 1})});
}

void max_pool_gradient(std::int64_t planes, std::int64_t in, std::int64_t out, const float* dy,
                       const std::int64_t* index, float* dx) {
  if (planes == 0 || in == 0) return;
  const std::int64_t most = planes_at_once(planes, in, out);
  for (std::int64_t first = 0; first < planes; first += most) {
    const std::int64_t now = std::min(most, planes - first), places = now * in;
    const IncidenceLists met(now, out, in, IndexedPlace{index + first * out, in, Divider(out, now * out)});
    launch(chain_kernel, {ceil_div(places, kThreads), kThreads}, places, met.lists(), dy + first * out,
           dx + first * in);
  }
}

// ---- averages

struct Divisors {
  Divisor kind;
  float fixed;

  [[nodiscard]] ISOBIT_DEVICE static std::int64_t inside(const PoolAxis& a, std::int64_t o) {
    return a.end[o] > a.begin[o] ? a.end[o] - a.begin[o] : 0;
  }
  [[nodiscard]] ISOBIT_DEVICE float of(const PoolWindows& p, std::int64_t d, std::int64_t h, std::int64_t w) const {
    if (kind == Divisor::inside) return static_cast<float>(inside(p.d, d) * inside(p.h, h) * inside(p.w, w));
    if (kind == Divisor::with_padding) return static_cast<float>(p.d.extent[d] * p.h.extent[h] * p.w.extent[w]);
    return fixed;
  }
};

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void average_kernel(Positions outputs, PoolWindows p, Divisors divisors,
                                                                    const float* x, float* y) {
  const std::int64_t o = block_index() * kThreads + thread_index();
  if (o >= outputs.count) return;
  const Place place = outputs.split(o);
  const float* const in = x + place.plane * p.d.in * p.h.in * p.w.in;
  float sum = 0.0f;
  bool any = false;
  for (std::int64_t d = p.d.begin[place.d]; d < p.d.end[place.d]; d += p.d.step) {
    for (std::int64_t h = p.h.begin[place.h]; h < p.h.end[place.h]; h += p.h.step) {
      for (std::int64_t w = p.w.begin[place.w]; w < p.w.end[place.w]; w += p.w.step) {
        sum = sum + in[(d * p.h.in + h) * p.w.in + w];
        any = true;
      }
    }
  }
  y[o] = any ? sum / divisors.of(p, place.d, place.h, place.w) : 0.0f;
}
void average_pool3d(const PoolWindows& p, Divisor divisor, std::int64_t fixed, const float* x, float* y) {
  const DeviceWindows windows(p);
  const Positions outputs = outputs_of(p);
  launch(average_kernel, {outputs.blocks(), kThreads}, outputs, *windows, Divisors{divisor, static_cast<float>(fixed)},
         x, y);
}

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void average_backward_kernel(Positions inputs, PoolWindows p,
                                                                             Divisors divisors, Covers depth,
                                                                             Covers height, Covers width,
                                                                             const float* dy, float* dx) {
  const std::int64_t i = block_index() * kThreads + thread_index();
  if (i >= inputs.count) return;
  const Place place = inputs.split(i);
  const float* const out = dy + place.plane * p.d.out * p.h.out * p.w.out;
  float t = 0.0f;
  for (std::int64_t a = depth.begin[place.d]; a < depth.begin[place.d + 1]; ++a) {
    for (std::int64_t b = height.begin[place.h]; b < height.begin[place.h + 1]; ++b) {
      for (std::int64_t c = width.begin[place.w]; c < width.begin[place.w + 1]; ++c) {
        const std::int64_t d = depth.windows[a], h = height.windows[b], w = width.windows[c];
        const float share = out[(d * p.h.out + h) * p.w.out + w] / divisors.of(p, d, h, w);
        t = t + share;
      }
    }
  }
  dx[i] = t;
}
void average_pool3d_backward(const PoolWindows& p, Divisor divisor, std::int64_t fixed, const float* dy, float* dx) {
  const DeviceWindows windows(p);
  const Positions inputs = inputs_of(p);
  const CoverTable covers[] = {CoverTable(p.d), CoverTable(p.h), CoverTable(p.w)};
  Tables tables;
  std::int64_t begins[3], lists[3];
  for (int axis = 0; axis < 3; ++axis) {
    const CoverTable& c = covers[axis];
    begins[axis] = tables.add(c.begin.data(), static_cast<std::int64_t>(c.begin.size()));
    lists[axis] = tables.add(c.windows.data(), static_cast<std::int64_t>(c.windows.size()));
  }
  const Scratch scratch(tables.bytes());
  const std::int64_t* const at = tables.copied(scratch);
  const auto cover = [&](int axis) { return Covers{at + begins[axis], at + lists[axis]}; };
  launch(average_backward_kernel, {inputs.blocks(), kThreads}, inputs, *windows,
         Divisors{divisor, static_cast<float>(fixed)}, cover(0), cover(1), cover(2), dy, dx);
}

// ---- unpooling: the last item of each place, by the largest number

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void last_item_kernel(std::int64_t items, Divider in, std::int64_t out,
                                                                      const std::int64_t* index, int* last,
                                                                      std::int64_t* outside) {
  const std::int64_t i = block_index() * kThreads + thread_index();
  if (i >= items) return;
  const std::int64_t plane = in.quotient(i), at = index[i];
  if (at < 0 || at >= out) {
    atomic_min(outside, i);
  } else {
    atomic_max(last + plane * out + at, static_cast<int>(i - plane * in.divisor()));
  }
}
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void place_items_kernel(std::int64_t places, Divider out,
                                                                        std::int64_t in, const int* last,
                                                                        const float* x, float* y) {
  const std::int64_t i = block_index() * kThreads + thread_index();
  if (i >= places) return;
  y[i] = last[i] < 0 ? 0.0f : x[out.quotient(i) * in + last[i]];
}

std::int64_t unpool(std::int64_t planes, std::int64_t in, std::int64_t out, const float* x, const std::int64_t* index,
                    float* y) {
  const std::int64_t items = planes * in, places = planes * out;
  if (in >= kInt32End) throw DeviceError("a plane of 2^31 elements or more is too large for unpooling on a device");
  constexpr std::int64_t kNone = std::int64_t{1} << 62, kWord = sizeof(std::int64_t);
  const Scratch scratch(kWord + places * static_cast<std::int64_t>(sizeof(int)));
  std::int64_t* const outside = scratch.as<std::int64_t>();
  int* const last = reinterpret_cast<int*>(outside + 1);
  copy_to_device(outside, &kNone, kWord);
  fill_bytes(last, 0xff, places * static_cast<std::int64_t>(sizeof(int)));
  launch(last_item_kernel, {ceil_div(items, kThreads), kThreads}, items, Divider(in, items), out, index, last, outside);
  launch(place_items_kernel, {ceil_div(places, kThreads), kThreads}, places, Divider(out, places), in, last, x, y);
  std::int64_t first = kNone;
  copy_to_host(&first, outside, kWord);
  return first == kNone ? -1 : first;
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

}  // namespace isobit::kernels::ISOBIT_CUDA
