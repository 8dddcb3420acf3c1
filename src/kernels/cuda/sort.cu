// Stable sorts: an element and its place become one 64-bit key, so that all keys differ and every sorter gives the one
// result. Tiles of 2048 keys are sorted in shared memory (8 a thread by a network, then merges); short rows share a
// tile, long ones are merged tile by tile in scratch, a pass for each doubling.
//
// A merge is cut into equal parts beforehand ("merge path": O. Green, R. McColl, D. Bader, "GPU merge path", 2012).
#include "kernels/sort.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/cuda/device.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 8;  // keys a thread holds
constexpr int kTile = kThreads * kEach;
constexpr int kTileShift = 11;
static_assert(kTile == 1 << kTileShift);

using Key = std::uint64_t;
constexpr Key kNone = ~Key{0};  // after every key

// Keys of long rows in scratch at once, twice; the emulation takes fewer, so that its tests go round more than once.
#ifdef __CUDACC__
constexpr std::int64_t kKeysAtOnce = std::int64_t{1} << 25;
#else
constexpr std::int64_t kKeysAtOnce = std::int64_t{1} << 13;
#endif

// Ascending as unsigned integers in the order asked for.
ISOBIT_DEVICE Key key_of(float x, bool descending, std::int64_t place) {
  const std::uint32_t bits = contract::bits_of(x + 0.0f);  // -0 becomes +0
  std::uint32_t rank = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  if (x != x) rank = ~0u;
  if (descending) rank = ~rank;
  return Key{rank} << 32 | static_cast<std::uint32_t>(place);
}
ISOBIT_DEVICE std::int64_t place_of(Key key) { return static_cast<std::int64_t>(key & 0xffffffffu); }

// Where key i of a tile lies in shared memory: a gap after every thread's eight, so that a warp's reads of its threads'
// first keys meet different banks.
ISOBIT_DEVICE int slot(int i) { return i + i / kEach; }
constexpr std::int64_t kSharedBytes = (kTile + kTile / kEach) * static_cast<std::int64_t>(sizeof(Key));

ISOBIT_DEVICE void order(Key& a, Key& b) {
  const Key smaller = b < a ? b : a, larger = b < a ? a : b;
  a = smaller, b = larger;
}
ISOBIT_DEVICE void sort_few(Key (&k)[kEach]) {
#pragma unroll
  for (int round = 0; round < kEach; ++round) {
#pragma unroll
    for (int i = round % 2; i + 1 < kEach; i += 2) order(k[i], k[i + 1]);
  }
}

// How many of the first d keys of the merge of a and b come from a.
template <class Count, class A, class B>
ISOBIT_DEVICE Count taken_of_first(Count d, Count na, Count nb, A a, B b) {
  Count low = d > nb ? d - nb : 0, high = d < na ? d : na;
  while (low < high) {
    const Count middle = (low + high) / 2;
    if (a(middle) < b(d - 1 - middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Keys d .. d + 7 of the merge of two runs that lie one after another in shared memory; kNone beyond their end.
ISOBIT_DEVICE void merge_few(const Key* keys, int first, int na, int nb, int d, Key (&out)[kEach]) {
  const auto a = [=](int i) { return keys[slot(first + i)]; };
  const auto b = [=](int j) { return keys[slot(first + na + j)]; };
  int i = taken_of_first(d, na, nb, a, b), j = d - i;
  Key u = i < na ? a(i) : kNone, v = j < nb ? b(j) : kNone;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const bool from_a = u < v;
    out[k] = from_a ? u : v;
    const int next = from_a ? ++i : na + ++j;  // one load, whichever run it is from
    const Key loaded = next < (from_a ? na : na + nb) ? keys[slot(first + next)] : kNone;
    if (from_a) {
      u = loaded;
    } else {
      v = loaded;
    }
  }
}
ISOBIT_DEVICE void keep(Key* keys, const Key (&mine)[kEach]) {
#pragma unroll
  for (int k = 0; k < kEach; ++k) keys[slot(thread_index() * kEach + k)] = mine[k];
}

// Rows of n floats and where their sorted elements go.
struct Target {
  std::int64_t n;
  const float* x;
  float* values;
  std::int64_t* places;

  ISOBIT_DEVICE void store(std::int64_t row, std::int64_t at, Key key) const {
    const std::int64_t place = place_of(key);
    if (place >= n) return;  // never, but where a wait is left out to see that it is needed
    values[row * n + at] = x[row * n + place];
    places[row * n + at] = place;
  }
};

// A tile holds parts of 2^shift keys: `tiles` parts a row. `whole`: one part a row, which is stored as the result; else
// its keys go to `sorted`, laid out as x.
template <bool whole>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void tile_kernel(Target target, bool descending, std::int64_t parts,
                                                                 std::int64_t tiles, int shift, Key* sorted) {
  Key* const keys = shared_memory<Key>();
  const int size = 1 << shift;
  const std::int64_t first_part = block_index() << (kTileShift - shift);
  const auto each = [&](auto function) {
    for (int i = thread_index(); i < kTile; i += kThreads) {
      const std::int64_t part = first_part + (i >> shift), row = part / tiles;
      const std::int64_t at = part % tiles * kTile + (i & (size - 1));
      function(i, row, at, part < parts && at < target.n);
    }
  };
  each([&](int i, std::int64_t row, std::int64_t at, bool inside) {
    keys[slot(i)] = inside ? key_of(target.x[row * target.n + at], descending, at) : kNone;
  });
  barrier();
  const int begin = thread_index() * kEach;
  Key mine[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) mine[k] = keys[slot(begin + k)];
  sort_few(mine);
  keep(keys, mine);
  barrier();
  for (int width = kEach; width < size; width *= 2) {
    const int pair = begin & ~(2 * width - 1);
    merge_few(keys, pair, width, width, begin - pair, mine);
    barrier();
    keep(keys, mine);
    barrier();
  }
  each([&](int i, std::int64_t row, std::int64_t at, bool inside) {
    if (!inside) return;
    if (whole) {
      target.store(row, at, keys[slot(i)]);
    } else {
      sorted[row * target.n + at] = keys[slot(i)];
    }
  });
}

// A block: one tile of the result of merging runs of `width` keys in pairs, width a multiple of the tile.
template <bool last>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void merge_kernel(Target target, std::int64_t tiles, std::int64_t width,
                                                                  const Key* from, Key* to) {
  Key* const keys = shared_memory<Key>();
  const std::int64_t n = target.n, row = block_index() / tiles, begin = block_index() % tiles * kTile;
  const std::int64_t pair = begin / (2 * width) * (2 * width), left = n - pair, d = begin - pair;
  const std::int64_t na = left < width ? left : width, nb = left - na < width ? left - na : width;
  const int count = n - begin < kTile ? static_cast<int>(n - begin) : kTile;
  const Key *const a = from + row * n + pair, *const b = a + na;
  // Half of the lanes look for the tile's begin, half for its end.
  const std::int64_t taken = taken_of_first<std::int64_t>(
      d + (thread_index() % kWarp < kWarp / 2 ? 0 : count), na, nb, [=](std::int64_t i) { return a[i]; },
      [=](std::int64_t j) { return b[j]; });
  const std::int64_t a_begin = shuffle(taken, 0);
  const std::int64_t a_end = shuffle(taken, kWarp / 2);
  const int of_a = static_cast<int>(a_end - a_begin);
  for (int i = thread_index(); i < count; i += kThreads) {
    const std::int64_t j = d - a_begin + i - of_a;
    keys[slot(i)] = i < of_a ? a[a_begin + i] : j >= 0 && j < nb ? b[j] : kNone;  // j is always inside, as above
  }
  barrier();
  Key mine[kEach];
  const int first = thread_index() * kEach;
  merge_few(keys, 0, of_a, count - of_a, first < count ? first : count, mine);
  barrier();
  keep(keys, mine);
  barrier();
  for (int i = thread_index(); i < count; i += kThreads) {
    if (last) {
      target.store(row, begin + i, keys[slot(i)]);
    } else {
      to[row * n + begin + i] = keys[slot(i)];
    }
  }
}

void sort_long_rows(bool descending, std::int64_t rows, const Target& target, Key* from, Key* to) {
  const std::int64_t tiles = ceil_div(target.n, kTile), blocks = rows * tiles;
  const Launch shape{blocks, kThreads, kSharedBytes};
  launch(tile_kernel<false>, shape, target, descending, blocks, tiles, kTileShift, from);
  std::int64_t width = kTile;
  for (; 2 * width < target.n; width *= 2, std::swap(from, to)) {
    launch(merge_kernel<false>, shape, target, tiles, width, from, to);
  }
  launch(merge_kernel<true>, shape, target, tiles, width, from, to);
}

void sort_rows(bool descending, std::int64_t rows, std::int64_t n, const float* x, float* values,
               std::int64_t* places) {
  if (n >> 32 != 0) throw std::length_error("sort_rows: rows of 2^32 elements and more");
  if (rows == 0 || n == 0) return;
  if (n <= kTile) {
    int shift = 3;
    while ((1 << shift) < n) ++shift;
    launch(tile_kernel<true>, {ceil_div(rows, std::int64_t{1} << (kTileShift - shift)), kThreads, kSharedBytes},
           Target{n, x, values, places}, descending, rows, 1, shift, nullptr);
    return;
  }
  const std::int64_t at_once = std::min(rows, std::max<std::int64_t>(1, kKeysAtOnce / n));
  const Scratch scratch(2 * at_once * n * static_cast<std::int64_t>(sizeof(Key)));
  for (std::int64_t row = 0; row < rows; row += at_once) {
    const std::int64_t place = row * n;
    sort_long_rows(descending, std::min(at_once, rows - row), Target{n, x + place, values + place, places + place},
                   scratch.as<Key>(), scratch.as<Key>() + at_once * n);
  }
}

}  // namespace

void fill_sort(KernelTable& t) { t.sort_rows = sort_rows; }

}  // namespace isobit::kernels::ISOBIT_CUDA
