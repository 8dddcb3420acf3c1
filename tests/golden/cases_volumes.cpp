#include <algorithm>

#include "golden/enumerators.h"
#include "golden/inputs.h"
#include "golden/kernel_cases.h"
#include "kernels/pool3d.h"

#pragma GCC diagnostic error "-Wswitch"

namespace isobit::golden {
namespace {

using kernels::Divisor;
using kernels::Fingerprint;
using kernels::PoolAxis;
using kernels::PoolWindows;
using Integers = std::vector<std::int64_t>;

const char* name_of(Divisor divisor) {
  switch (divisor) {
    case Divisor::inside: return "inside";
    case Divisor::with_padding: return "with_padding";
    case Divisor::fixed: return "fixed";
  }
  return nullptr;
}

struct Axis {
  std::int64_t in, step;
  Integers begin, end, extent;

  [[nodiscard]] PoolAxis view() const {
    return {in, static_cast<std::int64_t>(begin.size()), step, begin.data(), end.data(), extent.data()};
  }
};

// Windows that lie in the padding altogether are empty.
Axis sliding(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t pad, std::int64_t dilation) {
  Axis axis{in, dilation, {}, {}, {}};
  const std::int64_t reach = dilation * (kernel - 1) + 1;
  for (std::int64_t first = -pad; first + reach <= in + pad; first += stride) {
    axis.extent.push_back(reach);
    axis.begin.push_back(first < 0 ? first + (-first + dilation - 1) / dilation * dilation : first);
    axis.end.push_back(std::min(first + reach, in));
  }
  return axis;
}

Axis adaptive(std::int64_t in, std::int64_t out) {
  Axis axis{in, 1, {}, {}, {}};
  for (std::int64_t o = 0; o < out; ++o) {
    axis.begin.push_back(o * in / out), axis.end.push_back(((o + 1) * in + out - 1) / out);
    axis.extent.push_back(axis.end.back() - axis.begin.back());
  }
  return axis;
}

struct Windows {
  std::int64_t planes;
  Axis d, h, w;

  [[nodiscard]] PoolWindows view() const { return {planes, d.view(), h.view(), w.view()}; }
  [[nodiscard]] bool dilated() const { return d.step > 1 || h.step > 1 || w.step > 1; }
};

std::vector<Windows> all_windows() {
  return {{3, sliding(5, 2, 2, 0, 1), sliding(7, 2, 2, 0, 1), sliding(41, 2, 2, 0, 1)},
          {2, sliding(5, 3, 1, 1, 1), sliding(6, 3, 2, 1, 1), sliding(37, 3, 1, 1, 1)},
          {2, sliding(7, 2, 1, 0, 3), sliding(9, 3, 1, 2, 2), sliding(23, 2, 3, 1, 2)},
          {2, sliding(4, 3, 2, 1, 1), sliding(5, 2, 1, 1, 1), sliding(53, 5, 3, 2, 1)},
          {3, adaptive(1, 1), adaptive(7, 3), adaptive(5, 8)},
          {1, sliding(3, 1, 1, 1, 1), sliding(2, 1, 1, 1, 1), sliding(3, 1, 1, 1, 1)}};
}

// Each kind of windows in a digest of its own would say little more: the sweeps of tests/kernels say which one differs.
Fingerprint maxima() {
  Digest digest;
  for (const Windows& windows : all_windows()) {
    const PoolWindows p = windows.view();
    const Floats x = hostile(181, p.planes * p.in(), true), dy = hostile(182, p.planes * p.out());
    Floats y(dy.size()), dx(x.size());
    Integers index(dy.size());
    kernels::max_pool3d(p, x.data(), y.data(), index.data());
    kernels::max_pool_gradient(p.planes, p.in(), p.out(), dy.data(), index.data(), dx.data());
    digest.add(y).add(index).add(dx);
  }
  return digest.result();
}

Fingerprint averages(Divisor divisor, bool wild) {
  Digest digest;
  for (const Windows& windows : all_windows()) {
    if (windows.dilated()) continue;  // averages never are
    const PoolWindows p = windows.view();
    const Floats x = hostile(183, p.planes * p.in(), wild), dy = hostile(184, p.planes * p.out(), wild);
    Floats y(dy.size()), dx(x.size());
    kernels::average_pool3d(p, divisor, 7, x.data(), y.data());
    kernels::average_pool3d_backward(p, divisor, 7, dy.data(), dx.data());
    digest.add(y).add(dx);
  }
  return digest.result();
}

Fingerprint fractional() {
  Digest digest;
  for (const bool plane : {false, true}) {
    kernels::FractionalPool p{3, {plane ? 1 : 5, 19, 23}, {plane ? 1 : 3, 8, 11}, {plane ? 1 : 2, 2, 3}};
    const std::int64_t in = p.in[0] * p.in[1] * p.in[2], out = p.out[0] * p.out[1] * p.out[2];
    const Floats x = hostile(185, p.planes * in, true), samples = uniform(186, p.planes * 3, 0.0f, 1.0f);
    Floats y(static_cast<std::size_t>(p.planes * out));
    Integers index(y.size());
    kernels::fractional_max_pool(p, samples.data(), x.data(), y.data(), index.data());
    digest.add(y).add(index);
  }
  return digest.result();
}

// Many indices of one element, some of none, some outside.
Fingerprint gradients_of_any_indices() {
  constexpr std::int64_t kPlanes = 3, kIn = 37, kOut = 701;
  const Floats dy = hostile(187, kPlanes * kOut);
  Integers index = integers(188, kPlanes * kOut, 43);
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = i % 3 == 0 ? 5 : index[i] - 3;
  Floats dx(static_cast<std::size_t>(kPlanes * kIn));
  kernels::max_pool_gradient(kPlanes, kIn, kOut, dy.data(), index.data(), dx.data());
  return Digest().add(dx).result();
}

Fingerprint unpooled() {
  constexpr std::int64_t kPlanes = 3, kIn = 201, kOut = 301;
  const Floats x = hostile(189, kPlanes * kIn, true);
  Integers index = integers(190, kPlanes * kIn, kOut);
  Floats y(static_cast<std::size_t>(kPlanes * kOut));
  const std::int64_t inside = kernels::unpool(kPlanes, kIn, kOut, x.data(), index.data(), y.data());
  Digest digest;
  digest.add(y);
  index[407] = kOut, index[409] = -1;
  const std::int64_t outside = kernels::unpool(kPlanes, kIn, kOut, x.data(), index.data(), y.data());
  return digest.add(Integers{inside, outside}).result();
}

}  // namespace

void add_volume_cases(std::vector<Case>& cases) {
  cases.push_back({"pool3d.maximum", maxima});
  for_each_enumerator<Divisor>(name_of, [&](Divisor divisor, const char* name) {
    cases.push_back({std::string("pool3d.average_") + name, [=] { return averages(divisor, false); }});
  });
  cases.push_back({"pool3d.average_wild", [] { return averages(Divisor::inside, true); }});
  cases.push_back({"pool3d.fractional", fractional});
  cases.push_back({"pool3d.gradient", gradients_of_any_indices});
  cases.push_back({"pool3d.unpool", unpooled});
}

}  // namespace isobit::golden
