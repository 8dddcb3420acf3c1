// How a range is cut for the threads that work on it.
//
// A share a thread, side by side and as long as each other, in the same order for every range: what a thread writes in
// one operator it finds in its own caches in the next. Cores on different chips of one processor take 190 ns for a
// line that the other wrote (an AMD Zen 5), and read such memory at 21 GB/s. A share is cut in rounds, the later ones
// shorter: whoever has done his own takes what is left of the others'.
#pragma once

#include <cstdint>

namespace isobit::kernels {

struct Shares {
  static constexpr int kMostRounds = 3;

  std::int64_t begin = 0, end = 0;
  int parts = 1, rounds = 1;

  // Where a share begins, and the one before ends. Rounded up: where shares are few pieces long the first ones are the
  // longer, whose threads are awake first.
  [[nodiscard]] std::int64_t share(int part) const {
    const std::int64_t n = end - begin;
    return begin + n / parts * part + (n % parts * part + parts - 1) / parts;
  }
  // Where a share's round begins, and the one before ends.
  [[nodiscard]] std::int64_t border(int part, int round) const {
    static constexpr int kBefore[kMostRounds][kMostRounds + 1] = {
        {0, 100}, {0, 70, 100}, {0, 60, 85, 100}};  // percent of the share
    const std::int64_t first = share(part), n = share(part + 1) - first, before = kBefore[rounds - 1][round];
    return first + n / 100 * before + (n % 100 * before + 99) / 100;
  }
};

}  // namespace isobit::kernels
