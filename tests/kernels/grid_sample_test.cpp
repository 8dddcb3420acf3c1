// Sampling at given places: every implementation's bits, the order of outputs and channels, places outside.
#include "kernels/grid_sample.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;

TEST(GridSample, EveryImplementationGivesTheReferencesBits) {
  unsigned seed = 0;
  for (const int rank : {2, 3}) {
    for (const GridFilter filter : {GridFilter::linear, GridFilter::nearest, GridFilter::cubic}) {
      if (rank == 3 && filter == GridFilter::cubic) continue;
      for (const GridPadding padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
        for (const auto& [channels, out] :
             {std::pair<std::int64_t, std::int64_t>{3, 700}, {1, 1}, {1030, 17}, {2, 0}, {0, 5}}) {
          GridShape s;
          s.rank = rank, s.batch = 2, s.channels = channels, s.out = out, s.filter = filter, s.padding = padding;
          s.align_corners = ++seed % 2 == 0;
          s.in[0] = rank == 3 ? 3 : 1, s.in[1] = 5, s.in[2] = 7;
          const std::vector<float> x = hostile_floats(2 * channels * s.plane(), seed, seed % 3 == 0);
          const std::vector<float> dy = hostile_floats(2 * channels * out, seed + 1, false);
          std::vector<float> grid = normal_floats(2 * out * rank, seed + 2);
          for (std::size_t i = 0; i < grid.size(); i += 97)
            grid[i] = hostile_floats(1, seed + static_cast<unsigned>(i), true)[0];
          expect_reference_bits(
              [&] {
                std::vector<float> all(dy.size() + x.size() + grid.size(), 7.0f);
                grid_sample(s, x.data(), grid.data(), all.data());
                grid_sample_input_gradient(s, grid.data(), dy.data(), all.data() + dy.size());
                grid_sample_grid_gradient(s, x.data(), grid.data(), dy.data(), all.data() + dy.size() + x.size());
                return all;
              },
              "rank " + std::to_string(rank) + ", seed " + std::to_string(seed));
        }
      }
    }
  }
}

GridShape line(std::int64_t channels, std::int64_t out) {
  GridShape s;
  s.batch = 1, s.channels = channels, s.out = out, s.align_corners = true;
  s.in[2] = 2;  // one row of two elements: the height's number -1 .. 1 is the place 0
  return s;
}

TEST(GridSample, OutputsAreAddedInTheirOrder) {
  const GridShape s = line(1, 3);
  const std::vector<float> grid{-1, 0, -1, 0, -1, 0}, ascending{1.0f, 0x1p-24f, 0x1p-24f},
      descending{0x1p-24f, 0x1p-24f, 1.0f};
  for_each_implementation([&](const std::string& where) {
    float dx[2] = {7, 7};
    grid_sample_input_gradient(s, grid.data(), ascending.data(), dx);
    EXPECT_EQ(dx[0], 1.0f) << where;
    grid_sample_input_gradient(s, grid.data(), descending.data(), dx);
    EXPECT_EQ(dx[0], 0x1.000002p0f) << where;
    EXPECT_EQ(dx[1], 0.0f) << where;
  });
}

// Channels in leaves of 512: a chain through all of them would lose the small terms.
TEST(GridSample, ChannelsAreTheOrderedDot) {
  const GridShape s = line(1024, 1);
  std::vector<float> x(2048, 0.0f), dy(1024, 1.0f);
  x[1] = 1.0f;                                                       // channel 0, the right element
  for (std::size_t c = 512; c < 1024; ++c) x[2 * c + 1] = 0x1p-25f;  // the second leaf
  const std::vector<float> grid{0, 0};
  for_each_implementation([&](const std::string& where) {
    float dgrid[2];
    grid_sample_grid_gradient(s, x.data(), grid.data(), dy.data(), dgrid);
    EXPECT_EQ(dgrid[0], 0.5f * (1.0f + 0x1p-16f)) << where;
  });
}

TEST(GridSample, PlacesOutsideAreNoTerms) {
  const GridShape s = line(1, 2);
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{infinity, 2.0f}, grid{3.0f, 0.0f, nan, 0.0f};
  for_each_implementation([&](const std::string& where) {
    float y[2] = {7, 7};
    grid_sample(s, x.data(), grid.data(), y);
    EXPECT_EQ(y[0], 0.0f) << where;
    EXPECT_EQ(y[1], 0.0f) << where;
  });
}

}  // namespace
}  // namespace isobit::kernels
