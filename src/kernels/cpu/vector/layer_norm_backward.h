// Backward of layer normalisation: groups = 1, inner = 1, a row is one sample and a register holds channels.
//
// A row is read once for all three gradients: while it lies in the cache its own sums give dx, and it goes into the
// lanes of the channels' sums, which are rows of scratch (lane l of a leaf takes its rows l, l + 32, ...). What is
// handed out is a leaf's rows with r mod 8 in a range: of those the fold's first two merges are its own (l with l + 16,
// l + 8).
#pragma once

#include <algorithm>

#include "kernels/cpu/vector/lane_leaf.h"
#include "kernels/cpu/vector/norm_input_gradients.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/group_norm.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

class LayerNormBackward {
 public:
  // Few rows, or rows whose lanes fit no cache, give their channels' gradients a column at a time.
  static bool takes_channels(const GroupNormBackward& p) { return p.shape.n > 2 * kRows && p.shape.c <= kMostChannels; }

  explicit LayerNormBackward(const GroupNormBackward& p)
      : p_(p),
        n_(p.shape.n),
        c_(p.shape.c),
        leaves_((n_ + kLeafRows - 1) / kLeafRows),
        together_(c_ <= 128    ? 8
                  : c_ <= 256  ? 4
                  : c_ <= 1024 ? 2
                               : 1),
        channels_(takes_channels(p) && (p.dweight || p.dbias)) {
    while (together_ > 1 && leaves_ * parts() < 2 * thread_count()) together_ /= 2;
    if (channels_) folded_ = workspace_.floats(leaves_ * kLast * 2 * c_);
  }

  // dx, and where it takes channels their gradients.
  void run() {
    if (!channels_) return input_gradients_alone();
    const std::int64_t elements = std::min(kLeafRows, n_) * together_ / kLast * c_;
    parallel_for(0, leaves_ * parts(), rows_worth_a_thread(elements), [&](std::int64_t begin, std::int64_t end) {
      Workspace workspace;
      float* const lanes = workspace.floats(kLanesInTurn * together_ * 2 * c_);
      for (std::int64_t i = begin; i < end; ++i) take(i / parts(), i % parts() * together_, lanes);
    });
    parallel_for(0, (c_ + kLanes - 1) / kLanes, rows_worth_a_thread(leaves_ * kLast * kLanes),
                 [&](std::int64_t b, std::int64_t e) {
                   for_each_register(std::min(e * kLanes, c_) - b * kLanes,
                                     [&](std::int64_t i, auto part) { finish_channels(b * kLanes + i, part); });
                 });
  }

 private:
  static constexpr std::int64_t kLeafRows = contract::kLeaf, kRows = contract::kSumLanes;
  static constexpr std::int64_t kLast = 8;                     // lanes that are left after two merges
  static constexpr std::int64_t kLanesInTurn = kRows / kLast;  // lanes for each of them
  static constexpr std::int64_t kMostChannels = 8192;          // 64 KiB a lane, four lanes at the least

  [[nodiscard]] std::int64_t parts() const { return kLast / together_; }

  void input_gradients_alone() const {
    if (!p_.dx) return;
    parallel_for(0, n_, rows_worth_a_thread(c_), [&](std::int64_t begin, std::int64_t end) {
      rows_in_turn(c_, begin, end,
                   [&](std::int64_t r, std::int64_t rows) { input_gradients(r, rows, rows, SeenByNobody{}); });
    });
  }

  // Rows r of the leaf with r mod 8 in [first, first + together_); together_ rows at a time.
  void take(std::int64_t leaf, std::int64_t first, float* lanes) const {
    std::fill_n(lanes, kLanesInTurn * together_ * 2 * c_, 0.0f);
    const std::int64_t rows = std::min(kLeafRows, n_ - leaf * kLeafRows);
    for (std::int64_t r = first; r < rows; r += kLast) {
      const std::int64_t count = std::min(together_, rows - r), row = leaf * kLeafRows + r;
      float* const turn = lane(lanes, r / kLast % kLanesInTurn, 0);
      if (p_.dx) {
        const auto also = [=, this](std::int64_t i) {
          return [ c = c_, dy = p_.dy + (row + i) * c_, sums = turn + i * 2 * c_ ](
              std::int64_t at, FloatLanes centered, FloatLanes inverse, auto part) __attribute__((always_inline)) {
            add_to_channels(fetch(dy + at, part), centered * inverse, sums + at, c, part);
          };
        };
        input_gradients(row, count, kLast, also);
      } else {
        for (std::int64_t i = 0; i < count; ++i) add_row(row + i, turn + i * 2 * c_);
      }
    }
    for (std::int64_t i = 0; i < together_; ++i) {
      const float *const a = lane(lanes, 0, i), *const b = lane(lanes, 1, i), *const c = lane(lanes, 2, i),
                         *const d = lane(lanes, 3, i);
      float* const to = folded_ + (leaf * kLast + first + i) * 2 * c_;
      for_each_register(2 * c_, [&](std::int64_t j, auto part) {
        put(to + j, (fetch(a + j, part) + fetch(c + j, part)) + (fetch(b + j, part) + fetch(d + j, part)), part);
      });
    }
  }
  [[nodiscard]] float* lane(float* lanes, std::int64_t turn, std::int64_t i) const {
    return lanes + (turn * together_ + i) * 2 * c_;
  }

  // A row's dy into sums[0, c), its products into sums[c, 2 c).
  template <class Extent>
  static ISOBIT_INLINE void add_to_channels(FloatLanes dy, FloatLanes normal, float* sums, std::int64_t c,
                                            Extent part) {
    put(sums, fetch(sums, part) + dy, part);
    put(sums + c, fma(dy, normal, fetch(sums + c, part)), part);
  }
  ISOBIT_INLINE void add_row(std::int64_t row, float* sums) const {
    const float *const x = p_.x + row * c_, *const dy = p_.dy + row * c_;
    const FloatLanes mean(p_.mean[row]), inverse(p_.invstd[row]);
    for_each_register(c_, [&](std::int64_t i, auto part) {
      add_to_channels(fetch(dy + i, part), (fetch(x + i, part) - mean) * inverse, sums + i, c_, part);
    });
  }

  template <class Also>
  ISOBIT_INLINE void input_gradients(std::int64_t first, std::int64_t rows, std::int64_t ahead, Also also) const {
    const std::int64_t c = c_;
    const float *const dy = p_.dy + first * c, *const w = p_.weight;
    if (w) {
      const auto weighted = [=](std::int64_t r) {
        return [ row = dy + r * c, w ](std::int64_t i, auto part) __attribute__((always_inline)) {
          return fetch(row + i, part) * fetch(w + i, part);
        };
      };
      norm_input_gradients(p_, first, rows, ahead, weighted, also);
    } else {
      const auto plain = [=](std::int64_t r) {
        return [row = dy + r * c](std::int64_t i, auto part) __attribute__((always_inline)) {
          return fetch(row + i, part);
        };
      };
      norm_input_gradients(p_, first, rows, ahead, plain, also);
    }
  }

  // The last merges of each leaf, 4, 2 and 1 lanes apart, and the tree of the leaves.
  template <class Extent>
  ISOBIT_INLINE void finish_channels(std::int64_t c, Extent part) const {
    for (int which = 0; which < 2; ++which) {
      float* const to = which == 0 ? p_.dbias : p_.dweight;
      if (!to) continue;
      contract::PairwiseTreeOf<FloatLanes> tree;
      for (std::int64_t leaf = 0; leaf < leaves_; ++leaf) {
        FloatLanes t[kLast];
        for (std::int64_t l = 0; l < kLast; ++l)
          t[l] = fetch(folded_ + ((leaf * kLast + l) * 2 + which) * c_ + c, part);
        for (std::int64_t half = kLast / 2; half >= 1; half /= 2) {
          for (std::int64_t l = 0; l < half; ++l) t[l] = t[l] + t[l + half];
        }
        tree.add(t[0]);
      }
      put(to + c, tree.result() + FloatLanes(0.0f), part);
    }
  }

  const GroupNormBackward& p_;
  const std::int64_t n_, c_, leaves_;
  std::int64_t together_;
  const bool channels_;
  Workspace workspace_;
  float* folded_ = nullptr;  // [leaves, 8, (sums, dots), c]
};

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
