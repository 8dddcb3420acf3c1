// Rows copied to given places: every implementation, every size of element, nothing else touched.
#include "kernels/place_rows.h"

#include <gtest/gtest.h>

#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Integers = std::vector<std::int64_t>;

TEST(PlaceRows, EveryImplementationMovesTheSameBytes) {
  const Integers to{6, 0, 3}, from{1, 4, 1};
  for (const std::int64_t size : {1, 2, 4, 8, 16}) {
    for (const std::int64_t inner : {0, 1, 5, 300}) {
      for (const std::int64_t outer : {0, 1, 3}) {
        RowPlacing p{outer, 7, 5, inner, size, 3, to.data(), from.data()};
        const std::size_t row = static_cast<std::size_t>(inner * size);
        std::vector<std::uint8_t> source(static_cast<std::size_t>(outer) * 5 * row),
            before(static_cast<std::size_t>(outer) * 7 * row, 0xee);
        for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
        std::vector<std::uint8_t> expected = before;
        for (std::size_t o = 0; o < static_cast<std::size_t>(outer); ++o) {
          for (std::size_t k = 0; k < 3; ++k) {
            for (std::size_t b = 0; b < row; ++b) {
              expected[(o * 7 + static_cast<std::size_t>(to[k])) * row + b] =
                  source[(o * 5 + static_cast<std::size_t>(from[k])) * row + b];
            }
          }
        }
        for_each_implementation([&](const std::string& where) {
          std::vector<std::uint8_t> got = before;
          place_rows(p, source.data(), got.data());
          EXPECT_EQ(got, expected) << where << ", elements of " << size << ", rows of " << inner << ", " << outer;
        });
      }
    }
  }
}

}  // namespace
}  // namespace isobit::kernels
