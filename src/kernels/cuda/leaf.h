// One leaf of section 4 (contract/lane_sum.h) by a team of threads. Private to this folder.
//
// A team's thread holds one or more of the leaf's 32 lanes: a warp holds a leaf with one lane a thread, its
// elements side by side in memory; ColumnTeam holds the same leaf of neighbouring outputs, neighbours side by
// side. What is added up is told by an operation:
//
//   Op::Lane     what a lane carries; its + is the fold's and none() what it starts at
//   Op::Value    what a leaf gives; its + is the tree's
//   Op::Loaded   what an element brings from memory
//   op.context(o)                      what all elements of output o need
//   op.load(context, offset, i)        element i of the output, at this offset; asked once (moments aside)
//   op.take(lane, loaded, context, i)  the lane with the element
//
// Every thread of a team calls, also where it has no elements.
#pragma once

#include "contract/moments.h"
#include "contract/pairwise_tree.h"
#include "kernels/cuda/device.h"

namespace isobit::kernels::ISOBIT_CUDA {

inline constexpr int kLeafElements = static_cast<int>(contract::kLeaf);
inline constexpr int kLanes = static_cast<int>(contract::kSumLanes);
static_assert(kLanes == kWarp);
inline constexpr int kTeamThreads = 256;  // of a block
inline constexpr int kTeamWarps = kTeamThreads / kWarp;

// Two sums over the same elements.
struct Two {
  float first = 0.0f, second = 0.0f;
};
ISOBIT_DEVICE Two operator+(Two a, Two b) { return {a.first + b.first, a.second + b.second}; }

// A value with each of its members moved to another thread.
template <class Move>
ISOBIT_DEVICE float moved(float v, Move move) {
  return move(v);
}
template <class Move>
ISOBIT_DEVICE Two moved(Two v, Move move) {
  return {move(v.first), move(v.second)};
}
template <class Move>
ISOBIT_DEVICE contract::Moments moved(contract::Moments v, Move move) {
  return {move(v.n), move(v.mean), move(v.m2)};
}

// The first n lanes to lane 0: w = n / 2, ..., 2, 1.
template <int n, class Lane, int held>
ISOBIT_DEVICE void fold_first(Lane (&t)[held]) {
  if constexpr (n > 1) {
#pragma unroll
    for (int j = 0; j < n / 2; ++j) t[j] = t[j] + t[j + n / 2];
    fold_first<n / 2>(t);
  }
}

// Lane j is thread j of the warp. fold gives the leaf to every thread: where two lanes swap their values,
// both form the same sum (+ of lanes commutes).
struct WarpTeam {
  static constexpr int kHeld = 1, kTurns = kLeafElements / kLanes, kBatch = 8, kStep = kLanes;
  int lane = thread_index() % kWarp;

  template <class Lane>
  ISOBIT_DEVICE Lane fold(const Lane (&held)[kHeld]) const {
    Lane t = held[0];
#pragma unroll
    for (int w = kLanes / 2; w >= 1; w /= 2) {
      t = t + moved(t, [&](auto v) { return shuffle_xor(v, w); });
    }
    return t;
  }
  template <class Lane>
  ISOBIT_DEVICE Lane fold_for_all(const Lane (&held)[kHeld]) const {
    return fold(held);
  }
};

// A block's threads as groups of `columns` outputs; group g holds the lanes g, g + groups, ... With 256
// columns a thread holds its output alone, and leaves have at most kFew elements: lanes without any would add
// +0 in the fold, and whether that takes the sign of a zero away does not show after the root's + (+0).
inline constexpr int kFew = 8;

template <int columns>
struct ColumnTeam {
  static constexpr int kStep = kTeamThreads / columns;  // groups
  static constexpr int kHeld = kStep == 1 ? kFew : kLanes / kStep;
  static constexpr int kTurns = kStep == 1 ? 1 : kLeafElements / kLanes;
  static constexpr int kBatch = 8 / kHeld;
  static_assert(kStep * columns == kTeamThreads);
  int lane = thread_index() / columns;
  int column = thread_index() % columns;

  [[nodiscard]] static constexpr std::int64_t shared_bytes(std::int64_t lane_bytes) {
    return kStep == 1 ? 0 : lane_bytes * (kTeamThreads + columns);
  }

  // The leaf, in the threads of group 0.
  template <class Lane>
  ISOBIT_DEVICE Lane fold(Lane (&held)[kHeld]) const {
    fold_first<kHeld>(held);
    if constexpr (kStep == 1) {
      return held[0];
    } else {
      Lane* const of_group = shared_memory<Lane>();
      of_group[lane * columns + column] = held[0];
      barrier();
      if (lane != 0) return held[0];
      Lane t[kStep];
#pragma unroll
      for (int g = 0; g < kStep; ++g) t[g] = of_group[g * columns + column];
      fold_first<kStep>(t);
      return t[0];
    }
  }
  // The barrier also lets the next fold write where this one read.
  template <class Lane>
  ISOBIT_DEVICE Lane fold_for_all(Lane (&held)[kHeld]) const {
    const Lane t = fold(held);
    if constexpr (kStep == 1) {
      return t;
    } else {
      Lane* const of_column = shared_memory<Lane>() + kTeamThreads;
      if (lane == 0) of_column[column] = t;
      barrier();
      return of_column[column];
    }
  }
};

// Leaf of the elements begin .. begin + count - 1; offset_of(i) is element i's. Loads come in batches, all of
// a batch before the first is used.
template <class Op, class Team, class OffsetOf>
ISOBIT_DEVICE typename Op::Value leaf_value(const Op& op, const typename Op::Context& context, const Team& team,
                                            std::int64_t begin, int count, OffsetOf offset_of) {
  typename Op::Lane t[Team::kHeld];
#pragma unroll
  for (int r = 0; r < Team::kHeld; ++r) t[r] = op.none();
  for (int turn = 0; turn * kLanes < count; turn += Team::kBatch) {
    typename Op::Loaded loaded[Team::kBatch][Team::kHeld];
#pragma unroll
    for (int b = 0; b < Team::kBatch; ++b) {
#pragma unroll
      for (int r = 0; r < Team::kHeld; ++r) {
        const int e = (turn + b) * kLanes + r * Team::kStep + team.lane;
        if (e < count) loaded[b][r] = op.load(context, offset_of(begin + e), begin + e);
      }
    }
#pragma unroll
    for (int b = 0; b < Team::kBatch; ++b) {
#pragma unroll
      for (int r = 0; r < Team::kHeld; ++r) {
        const int e = (turn + b) * kLanes + r * Team::kStep + team.lane;
        if (e < count) t[r] = op.take(t[r], loaded[b][r], context, begin + e);
      }
    }
  }
  return team.fold(t);
}

// Moments of x (contract/moments.h): a leaf stays in registers between its two sweeps.
struct MomentsOp {
  using Lane = float;
  using Value = contract::Moments;
  struct Context {};
  const float* x;

  ISOBIT_DEVICE Context context(std::int64_t) const { return {}; }
};

template <class Team, class OffsetOf>
ISOBIT_DEVICE contract::Moments leaf_value(const MomentsOp& op, const MomentsOp::Context&, const Team& team,
                                           std::int64_t begin, int count, OffsetOf offset_of) {
  float x[Team::kTurns][Team::kHeld];
  float t[Team::kHeld];
  const auto each_element = [&](auto function) {
#pragma unroll
    for (int turn = 0; turn < Team::kTurns; ++turn) {
#pragma unroll
      for (int r = 0; r < Team::kHeld; ++r) {
        const int e = turn * kLanes + r * Team::kStep + team.lane;
        if (e < count) function(turn, r, e);
      }
    }
  };
  const auto clear = [&] {
#pragma unroll
    for (int r = 0; r < Team::kHeld; ++r) t[r] = 0.0f;
  };
  each_element([&](int turn, int r, int e) { x[turn][r] = op.x[offset_of(begin + e)]; });
  clear();
  each_element([&](int turn, int r, int) { t[r] = t[r] + x[turn][r]; });
  const float mean = team.fold_for_all(t) / static_cast<float>(count);
  clear();
  each_element([&](int turn, int r, int) {
    const float d = x[turn][r] - mean;
    t[r] = ::fmaf(d, d, t[r]);
  });
  return {count, mean, team.fold(t)};
}

}  // namespace isobit::kernels::ISOBIT_CUDA
