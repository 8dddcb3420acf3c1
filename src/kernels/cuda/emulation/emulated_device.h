// The device of src/kernels/cuda/device.h, emulated on the calling thread.
//
// One block at a time, each of its threads a fiber; a thread runs until it waits (barrier, shuffle) or ends,
// then another goes on. Threads run in ascending, descending or shuffled order between waits, blocks likewise.
// Shared memory starts as NaN; the target of an asynchronous copy is NaN until its group's wait, so that what
// is read too early shows, and a copy that nobody waited for when its thread ends throws. A barrier that a thread of
// the block never reaches, or two threads waiting at different barriers, throws EmulationError. For tests of mistakes,
// the waits written at one place of the source can be left out (omit).
//
// Not thread-safe: launches come from one thread at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <tuple>
#include <utility>

#include "kernels/cuda/emulation/emulation.h"
#include "kernels/cuda/runtime.h"

#define ISOBIT_KERNEL
#define ISOBIT_DEVICE inline
#define ISOBIT_LAUNCH_BOUNDS(threads, blocks)

namespace isobit::kernels::emulated {

using Where = std::source_location;

namespace emulation {

struct Place {
  int thread = 0, threads = 0;
  std::int64_t block = 0, blocks = 0;
  unsigned char* shared = nullptr;
};
[[nodiscard]] const Place& place();

void wait_block(const Where& where);
// Every thread of the warp gives 8 bytes; returns what `lane` gave.
std::uint64_t exchange(std::uint64_t value, int lane, const Where& where);
// Every thread of the warp gives its part of three matrices (mma_s8); d is the warp's product when it returns.
struct WarpProduct {
  int* d;
  const std::uint32_t *a, *b;
};
void multiply_in_warp(const WarpProduct& product, const Where& where);
void start_copy(void* to, const void* from, int bytes);  // from nullptr: zeros
void commit_copies();
void wait_copies(int groups, const Where& where);
void run(const Launch& shape, const std::function<void()>& body);

template <class T>
T exchanged(T value, int lane, const Where& where) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(bits, lane, where);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace emulation

inline int thread_index() { return emulation::place().thread; }
inline std::int64_t block_index() { return emulation::place().block; }
inline std::int64_t block_count() { return emulation::place().blocks; }
inline int block_threads() { return emulation::place().threads; }

inline void barrier(const Where& where = Where::current()) { emulation::wait_block(where); }

template <class T>
T shuffle(T value, int lane, const Where& where = Where::current()) {
  return emulation::exchanged(value, lane & 31, where);
}
template <class T>
T shuffle_xor(T value, int mask, const Where& where = Where::current()) {
  return emulation::exchanged(value, (thread_index() ^ mask) & 31, where);
}
// As on the device: a lane beyond the warp's end gives the caller's own value.
template <class T>
T shuffle_down(T value, int delta, const Where& where = Where::current()) {
  const int lane = thread_index() % 32;
  return emulation::exchanged(value, lane + delta < 32 ? lane + delta : lane, where);
}

inline void mma_s8(int (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                   const Where& where = Where::current()) {
  emulation::multiply_in_warp({d, a, b}, where);
}

// Alignment is checked, as a GPU would.
inline void require_aligned(const void* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) throw EmulationError("misaligned vector access");
}

inline void load_matrices(std::uint32_t (&r)[4], const void* row, const Where& where = Where::current()) {
  require_aligned(row, 16);
  const auto own = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(row));
  for (int matrix = 0; matrix < 4; ++matrix) {
    const std::uint64_t of_row = emulation::exchanged(own, 8 * matrix + thread_index() % 32 / 4, where);
    std::memcpy(&r[matrix], reinterpret_cast<const char*>(of_row) + thread_index() % 4 * 4, 4);
  }
}

template <class T>
T* shared_memory() {
  return reinterpret_cast<T*>(emulation::place().shared);
}

template <int bytes, class T>
void copy_async(T* to, const T* from) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  emulation::start_copy(to, from, bytes);
}
template <int bytes, class T>
void copy_async_or_zero(T* to, const T* from, bool inside) {
  static_assert(bytes == 4 || bytes == 16);
  emulation::start_copy(to, inside ? from : nullptr, bytes);
}
inline void commit_async() { emulation::commit_copies(); }
template <int groups>
void wait_async(const Where& where = Where::current()) {
  emulation::wait_copies(groups, where);
}

inline Float4 load4(const float* from) {
  require_aligned(from, 16);
  return {from[0], from[1], from[2], from[3]};
}
inline void store4(float* to, Float4 value) {
  require_aligned(to, 16);
  to[0] = value.x, to[1] = value.y, to[2] = value.z, to[3] = value.w;
}

inline int nearest_integer(float x) { return static_cast<int>(std::lrint(x)); }

inline void atomic_add(std::uint64_t* place, std::uint64_t value) { *place += value; }
inline void atomic_max(int* place, int value) { *place = std::max(*place, value); }
inline void atomic_min(std::int64_t* place, std::int64_t value) { *place = std::min(*place, value); }
inline int atomic_exchange(int* place, int value) { return std::exchange(*place, value); }
inline int atomic_fetch_add(int* place, int value) { return std::exchange(*place, *place + value); }

template <class... Parameter, class... Argument>
void launch(void (*kernel)(Parameter...), const Launch& shape, Argument&&... arguments) {
  if (shape.blocks == 0) return;
  const std::tuple<Parameter...> values(static_cast<Parameter>(arguments)...);
  emulation::run(shape, [&] { std::apply(kernel, values); });
}

}  // namespace isobit::kernels::emulated
