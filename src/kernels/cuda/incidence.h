// Which items meet at each place, in ascending order: what a gradient of a selection adds up. Private to this folder.
//
// Items are chained to their places in any order, then each place sorts its few; a place of many has a warp that looks
// through all items of its group. The lists do not depend on the order in which threads came.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/cuda/device.h"
#include "kernels/cuda/divider.h"

namespace isobit::kernels::ISOBIT_CUDA {

// List of place p: order[begin[p]], ..., count[p] of them.
struct Incidences {
  const int *begin, *count, *order;
};

inline constexpr int kIncidenceThreads = 256;
inline constexpr int kShortList = 48;

// head[p]: the last item chained to p, then where its list begins.
struct IncidenceMemory {
  int *head, *count, *next, *order, *longs;
  int* used;  // used[0]: of order, used[1]: of longs
};

template <class Destination>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kIncidenceThreads, 4) void chain_items_kernel(std::int64_t items,
                                                                                 Destination place_of,
                                                                                 IncidenceMemory memory) {
  const std::int64_t i = block_index() * kIncidenceThreads + thread_index();
  if (i >= items) return;
  const std::int64_t place = place_of(i);
  if (place >= 0) memory.next[i] = atomic_exchange(memory.head + place, static_cast<int>(i));
}

// A template, so that every source that includes it may have it.
template <int threads>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(threads, 4) void sort_chains_kernel(std::int64_t places, IncidenceMemory memory) {
  const std::int64_t p = block_index() * threads + thread_index();
  if (p >= places) return;
  int count = 0;
  for (int i = memory.head[p]; i >= 0; i = memory.next[i]) ++count;
  memory.count[p] = count;
  if (count == 0) return;
  const int begin = atomic_fetch_add(memory.used, count);
  int* const list = memory.order + begin;
  if (count > kShortList) {
    memory.longs[atomic_fetch_add(memory.used + 1, 1)] = static_cast<int>(p);
  } else {
    int sorted = 0;
    for (int i = memory.head[p]; i >= 0; i = memory.next[i]) {
      int at = sorted++;
      for (; at > 0 && list[at - 1] > i; --at) list[at] = list[at - 1];
      list[at] = i;
    }
  }
  memory.head[p] = begin;
}

// A warp per long list takes the items of its group 32 at a time.
template <class Destination>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kIncidenceThreads,
                                   4) void long_lists_kernel(std::int64_t group_items, Divider group_places,
                                                             Destination place_of, IncidenceMemory memory) {
  const int lane = thread_index() % kWarp, warps = kIncidenceThreads / kWarp;
  const std::int64_t all = block_count() * warps;
  for (std::int64_t l = block_index() * warps + thread_index() / kWarp; l < memory.used[1]; l += all) {
    const int place = memory.longs[l];
    const std::int64_t first = group_places.quotient(place) * group_items, end = first + group_items;
    int* const list = memory.order + memory.head[place];
    const unsigned count = static_cast<unsigned>(memory.count[place]);
    int at = 0;
    for (std::int64_t i = first; i < end; i += kWarp) {
      const std::int64_t mine = i + lane;
      const int met = mine < end && place_of(mine) == place ? 1 : 0;
      int before = met;  // of this lane and those before it
      for (int step = 1; step < kWarp; step *= 2) {
        const int other = shuffle(before, lane - step);
        if (lane >= step) before += other;
      }
      const auto slot = static_cast<unsigned>(at + before - 1);
      if (met != 0 && slot < count)
        list[slot] = static_cast<int>(mine);  // always inside; a slip above must not write elsewhere
      at += shuffle(before, kWarp - 1);
    }
  }
}

// Groups of items and places; place_of(item) is one of the item's group, or negative. Both counts below 2^31 in all.
class IncidenceLists {
 public:
  template <class Destination>
  IncidenceLists(std::int64_t groups, std::int64_t items, std::int64_t places, Destination place_of)
      : scratch_(bytes_of(groups * items, groups * places)) {
    const std::int64_t all_items = groups * items, all_places = groups * places;
    int* const memory = scratch_.as<int>();
    memory_.head = memory, memory_.count = memory + all_places, memory_.longs = memory + 2 * all_places;
    memory_.next = memory + 3 * all_places, memory_.order = memory_.next + all_items;
    memory_.used = memory_.order + all_items;
    fill_bytes(memory_.head, 0xff, all_places * kInt);
    fill_bytes(memory_.used, 0, 2 * kInt);
    fill_bytes(memory_.order, 0, all_items * kInt);  // so that a slip below shows as a wrong sum, never as a wild read
    launch(chain_items_kernel<Destination>, {ceil_div(all_items, kIncidenceThreads), kIncidenceThreads}, all_items,
           place_of, memory_);
    launch(sort_chains_kernel<kIncidenceThreads>, {ceil_div(all_places, kIncidenceThreads), kIncidenceThreads},
           all_places, memory_);
    if (items <= kShortList) return;
    launch(long_lists_kernel<Destination>, {multiprocessors(), kIncidenceThreads}, items, Divider(places, all_places),
           place_of, memory_);
  }
  [[nodiscard]] Incidences lists() const { return {memory_.head, memory_.count, memory_.order}; }
  // Of scratch memory, for one group.
  [[nodiscard]] static std::int64_t bytes_of(std::int64_t items, std::int64_t places) {
    return (3 * places + 2 * items + 2) * kInt;
  }

 private:
  static constexpr std::int64_t kInt = sizeof(int);
  Scratch scratch_;
  IncidenceMemory memory_;
};

}  // namespace isobit::kernels::ISOBIT_CUDA
