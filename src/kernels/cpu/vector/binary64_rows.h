// Sums and extrema of rows of binary64 as contract/lane_sum.h and contract/extrema.h have them, in loops that the
// compiler makes vectors of.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "contract/extrema.h"
#include "contract/lane_sum.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

using contract::kLeaf;
using contract::kSumLanes;

// What a lane takes of an element.
struct AddElement {
  static double to(double lane, double x) { return lane + x; }
};
struct AddSquare {
  static double to(double lane, double x) { return std::fma(x, x, lane); }
};

template <class Add>
double sum_of_row(const double* p, std::int64_t n) {
  contract::PairwiseTreeOf<double> tree;
  for (std::int64_t first = 0; first < n; first += kLeaf) {
    const std::int64_t end = std::min(n, first + kLeaf);
    double lane[kSumLanes] = {};
    std::int64_t i = first;
    for (; i + kSumLanes <= end; i += kSumLanes)
      for (std::int64_t l = 0; l < kSumLanes; ++l) lane[l] = Add::to(lane[l], p[i + l]);
    for (std::int64_t l = 0; i + l < end; ++l) lane[l] = Add::to(lane[l], p[i + l]);
    tree.add(contract::fold_lanes(lane));
  }
  return tree.result() + 0.0;
}

// Of any order the same.
struct Largest {
  static constexpr double kFirst = -std::numeric_limits<double>::infinity();
  static double of(double a, double b) { return contract::maximum(a, b); }
};
struct Smallest {
  static constexpr double kFirst = std::numeric_limits<double>::infinity();
  static double of(double a, double b) { return contract::minimum(a, b); }
};

template <class Better>
double extremum_of_row(const double* p, std::int64_t n) {
  double lane[kSumLanes];
  for (double& best : lane) best = Better::kFirst;
  std::int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes)
    for (std::int64_t l = 0; l < kSumLanes; ++l) lane[l] = Better::of(lane[l], p[i + l]);
  for (std::int64_t l = 0; i + l < n; ++l) lane[l] = Better::of(lane[l], p[i + l]);
  for (std::int64_t w = kSumLanes / 2; w >= 1; w /= 2)
    for (std::int64_t l = 0; l < w; ++l) lane[l] = Better::of(lane[l], lane[l + w]);
  return lane[0];
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
