#include <algorithm>

#include "golden/enumerators.h"
#include "golden/inputs.h"
#include "golden/kernel_cases.h"
#include "kernels/grid_sample.h"
#include "kernels/resample.h"

#pragma GCC diagnostic error "-Wswitch"

namespace isobit::golden {
namespace {

using kernels::Fingerprint;
using kernels::GridFilter;
using kernels::GridPadding;
using kernels::GridShape;

const char* name_of(GridFilter filter) {
  switch (filter) {
    case GridFilter::linear: return "linear";
    case GridFilter::nearest: return "nearest";
    case GridFilter::cubic: return "cubic";
  }
  return nullptr;
}

const char* name_of(GridPadding padding) {
  switch (padding) {
    case GridPadding::zeros: return "zeros";
    case GridPadding::border: return "border";
    case GridPadding::reflection: return "reflection";
  }
  return nullptr;
}

// Places inside, at the edges (whole and half numbers), outside, far away and not finite.
Floats grid_of(std::int64_t n) {
  Floats grid = uniform(191, n, -1.7f, 1.7f);
  const Floats far = hostile(192, n, true);
  const std::vector<std::int64_t> eighths = integers(193, n, 33);
  for (std::size_t i = 0; i < grid.size(); ++i) {
    if (i % 5 == 3) grid[i] = static_cast<float>(eighths[i] - 16) * 0.125f;
    if (i % 23 == 7) grid[i] = far[i];
  }
  return grid;
}

void add_sampled(const GridShape& s, bool wild, Digest& digest) {
  const std::int64_t in = s.batch * s.channels * s.plane(), out = s.batch * s.channels * s.out;
  const Floats x = hostile(194, in, wild), dy = hostile(195, out), grid = grid_of(s.batch * s.out * s.rank);
  Floats y(dy.size()), dx(x.size()), dgrid(grid.size());
  kernels::grid_sample(s, x.data(), grid.data(), y.data());
  kernels::grid_sample_input_gradient(s, grid.data(), dy.data(), dx.data());
  kernels::grid_sample_grid_gradient(s, x.data(), grid.data(), dy.data(), dgrid.data());
  digest.add(y).add(dx).add(dgrid);
}

// More outputs than a block holds, more channels than a leaf, dimensions of one element.
Fingerprint sampled(int rank, GridFilter filter, GridPadding padding) {
  Digest digest;
  for (const bool align : {false, true}) {
    GridShape s{.rank = rank,
                .batch = 2,
                .channels = 3,
                .out = 307,
                .in = {rank == 3 ? 3 : 1, 5, 7},
                .filter = filter,
                .padding = padding,
                .align_corners = align};
    add_sampled(s, align, digest);
    s.channels = 517, s.out = 11;
    add_sampled(s, false, digest);
    s.channels = 2, s.out = 33, s.in[0] = 1, s.in[1] = rank == 3 ? 2 : 1, s.in[2] = 4;
    add_sampled(s, false, digest);
  }
  return digest.result();
}

// Outputs of `most` entries each, or of any number up to it; an edge may repeat.
Fingerprint resampled(std::int64_t most, bool ragged) {
  Digest digest;
  for (const std::int64_t inner : {1, 7, 35}) {
    constexpr std::int64_t kOuter = 9, kIn = 13, kOut = 43;
    const std::vector<std::int64_t> counts = integers(196, kOut, static_cast<std::uint32_t>(most + 1));
    std::vector<std::int32_t> begin{0}, source;
    for (std::int64_t r = 0; r < kOut; ++r) {
      const std::int64_t count = ragged ? counts[static_cast<std::size_t>(r)] : most;
      begin.push_back(begin.back() + static_cast<std::int32_t>(count));
    }
    for (const std::int64_t place : integers(197, begin.back(), kIn))
      source.push_back(static_cast<std::int32_t>(place));
    const Floats weight = hostile(198, begin.back(), ragged), x = hostile(199, kOuter * kIn * inner, ragged);
    Floats y(static_cast<std::size_t>(kOuter * kOut * inner));
    kernels::resample_axis({kIn, kOut, begin.data(), source.data(), weight.data(), most}, kOuter, inner, x.data(),
                           y.data());
    digest.add(y);
  }
  return digest.result();
}

}  // namespace

void add_sampling_cases(std::vector<Case>& cases) {
  for (const int rank : {2, 3}) {
    for_each_enumerator<GridFilter>(name_of, [&](GridFilter filter, const char* filter_name) {
      if (rank == 3 && filter == GridFilter::cubic) return;
      for_each_enumerator<GridPadding>(name_of, [&](GridPadding padding, const char* padding_name) {
        cases.push_back(
            {"grid_sample." + std::string(filter_name) + "_" + padding_name + "_" + std::to_string(rank) + "d",
             [=] { return sampled(rank, filter, padding); }});
      });
    });
  }
  cases.push_back({"resample.two_entries", [] { return resampled(2, false); }, true});
  cases.push_back({"resample.four_entries", [] { return resampled(4, false); }, true});
  cases.push_back({"resample.any_entries", [] { return resampled(9, true); }, true});
}

}  // namespace isobit::golden
