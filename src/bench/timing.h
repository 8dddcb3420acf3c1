// Honest timing of two sides in one process: interleaved, order swapped each round, medians.
//
// A ratio is isobit / stock (below 1: isobit is faster). The spread is the interquartile range of the ratios of
// the rounds. Nothing here decides anything: speed is printed, never asserted.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace isobit::bench {

struct BenchRow {
  std::string model;  // or operator and shape
  int threads = 1;
  std::string isa;
  double stock_ms = 0, isobit_ms = 0, ratio = 0, spread = 0;
  double median_of_ratios = 0;  // of the rounds: less moved by a machine that changes between them
  int rounds = 0;
  double gflop = 0;     // floating-point operations of one call, in 1e9; 0 where not stated
  double gbytes = 0;    // that one call has to read and write at least; 0 where not stated
  double bound_ms = 0;  // the machine's roof for it; 0 where not stated
};

inline double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

template <class Function>
double milliseconds(Function&& function, int calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) function();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return took.count() / calls;
}

// The same after calls that do not count, at least one: to switch between the sides turns out the processor's caches,
// one side's switch touches more memory than the other's, and what a side keeps between calls it fetches in its first.
template <class Function>
double warm_milliseconds(Function&& function, int calls) {
  for (int i = 0; i < std::max(calls / 8, 1); ++i) function();
  return milliseconds(function, calls);
}

// stock(calls) and ours(calls) return milliseconds per call, their switching outside of the clock.
// At least `rounds` rounds of both sides, each side's round at least `slice_ms` long.
template <class Stock, class Ours>
void measure(BenchRow& row, Stock&& stock, Ours&& ours, int rounds, double slice_ms) {
  const double first_stock = stock(1), first_ours = ours(1);  // warms caches and workspaces
  (void)first_stock, (void)first_ours;
  const double once = std::max(stock(1), ours(1));
  const int calls = std::clamp(static_cast<int>(slice_ms / std::max(once, 1e-6)), 1, 10000);
  std::vector<double> a, b, ratios;
  for (int round = 0; round < rounds; ++round) {
    double s = 0, o = 0;
    if (round % 2 == 0) {
      s = stock(calls);
      o = ours(calls);
    } else {
      o = ours(calls);
      s = stock(calls);
    }
    a.push_back(s);
    b.push_back(o);
    ratios.push_back(o / s);
  }
  row.stock_ms = quantile(a, 0.5);
  row.isobit_ms = quantile(b, 0.5);
  row.ratio = row.isobit_ms / row.stock_ms;
  row.median_of_ratios = quantile(ratios, 0.5);
  row.spread = quantile(ratios, 0.75) - quantile(ratios, 0.25);
  row.rounds = rounds;
}

}  // namespace isobit::bench
