// Operations of an ordered reduction (leaf.h) over one array: sums, sums of squares, extrema. Private to this
// folder.
#pragma once

#include "contract/extrema.h"
#include "contract/formula.h"
#include "kernels/cuda/leaf.h"

namespace isobit::kernels::ISOBIT_CUDA {

// Extrema have no order to fix, so that the sums' leaves and tree serve them too: + is the rule.
struct Largest {
  float value = -contract::kInfinity;
};
ISOBIT_DEVICE Largest operator+(Largest a, Largest b) { return {contract::maximum(a.value, b.value)}; }

struct Smallest {
  float value = contract::kInfinity;
};
ISOBIT_DEVICE Smallest operator+(Smallest a, Smallest b) { return {contract::minimum(a.value, b.value)}; }

template <class Move>
ISOBIT_DEVICE Largest moved(Largest v, Move move) {
  return {move(v.value)};
}
template <class Move>
ISOBIT_DEVICE Smallest moved(Smallest v, Move move) {
  return {move(v.value)};
}

// What the operations share.
template <class Accumulated>
struct OverArray {
  using Lane = Accumulated;
  using Value = Accumulated;
  using Loaded = float;
  struct Context {};
  const float* x;

  [[nodiscard]] ISOBIT_DEVICE Lane none() const { return {}; }
  [[nodiscard]] ISOBIT_DEVICE Context context(std::int64_t) const { return {}; }
  [[nodiscard]] ISOBIT_DEVICE float load(Context, std::int64_t offset, std::int64_t) const { return x[offset]; }
};

struct SumOp : OverArray<float> {
  [[nodiscard]] ISOBIT_DEVICE float take(float t, float x, Context, std::int64_t) const { return t + x; }
};
struct SquaresOp : OverArray<float> {
  [[nodiscard]] ISOBIT_DEVICE float take(float t, float x, Context, std::int64_t) const { return ::fmaf(x, x, t); }
};
template <class Extremum>
struct ExtremumOp : OverArray<Extremum> {
  [[nodiscard]] ISOBIT_DEVICE Extremum take(Extremum t, float x, typename OverArray<Extremum>::Context,
                                            std::int64_t) const {
    return t + Extremum{x};
  }
};

template <class Extremum>
struct StoreExtremum {
  float* out;
  ISOBIT_DEVICE void operator()(std::int64_t o, Extremum extremum) const { out[o] = extremum.value; }
};

}  // namespace isobit::kernels::ISOBIT_CUDA
