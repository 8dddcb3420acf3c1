// Sizes that fit the kernels to a machine's caches and threads. They change speed only, never a bit: every value within
// its range cuts the same sums into the same leaves.
//
// The defaults were chosen on an AMD Zen 4 (1 MiB of L2 cache a core); `isobit tune` measures others
// (docs/formats/tuning.md).
#pragma once

#include <cstdint>
#include <span>

namespace isobit::kernels {

// Leaves of the rows packed together that half of a core's second cache holds: 1, 2 or 4. (2 MiB, an Intel Xeon: 4.)
[[nodiscard]] std::int64_t near_leaves();

struct Tuning {
  std::int64_t product_rows = 96;                // rows of a product packed together, in tiles
  std::int64_t product_columns = 1024;           // columns packed together
  std::int64_t product_leaves = near_leaves();   // leaves of 512 terms packed together, a power of two at most
  std::int64_t product_thread = 200'000;         // multiply-adds that pay for another thread
  std::int64_t slab_floats = 80 * 1024;          // padded images of a convolution that are worked on together
  std::int64_t large_slab_floats = 1024 * 1024;  // the same where that leaves fewer lanes empty
  std::int64_t pack_positions = 2048;            // output positions from which packing a convolution's weights pays
  bool operator==(const Tuning&) const = default;
};

struct TuningKey {
  const char* name;
  std::int64_t Tuning::*member;
  std::int64_t least, most;
  const char* meaning;
};

[[nodiscard]] std::span<const TuningKey> tuning_keys();

// In force. Thread-safe.
[[nodiscard]] Tuning tuning();
// Throws std::invalid_argument naming the key whose value is out of range. Takes effect in kernels called afterwards;
// each kernel reads a value once.
void set_tuning(const Tuning& tuning);

}  // namespace isobit::kernels
