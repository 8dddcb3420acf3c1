#include "kernels/tuning.h"

#if defined(__unix__)
#include <unistd.h>
#endif

#include <atomic>
#include <stdexcept>
#include <string>

namespace isobit::kernels {
namespace {

constexpr TuningKey kKeys[] = {
    {"product_rows", &Tuning::product_rows, 1, 1 << 16, "rows of a product packed together"},
    {"product_columns", &Tuning::product_columns, 1, 1 << 20, "columns of a product packed together"},
    {"product_leaves", &Tuning::product_leaves, 1, 1 << 20, "leaves of 512 terms packed together"},
    {"product_thread", &Tuning::product_thread, 1, 1 << 30, "multiply-adds that pay for another thread"},
    {"slab_floats", &Tuning::slab_floats, 1, 1 << 24, "values of a convolution's images worked on together"},
    {"large_slab_floats", &Tuning::large_slab_floats, 1, 1 << 24, "the same where that leaves fewer lanes empty"},
    {"pack_positions", &Tuning::pack_positions, 0, 1 << 30,
     "output positions from which packing a convolution's weights pays"},
};

// One word each: a reader may see some values of one setting and some of another, which is as good as either.
std::atomic<std::int64_t> values[std::size(kKeys)];
std::atomic<bool> given{false};

}  // namespace

std::int64_t near_leaves() {
#if defined(_SC_LEVEL2_CACHE_SIZE)
  static const std::int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);  // 0 or -1 where the system does not know
#else
  static const std::int64_t bytes = 0;
#endif
  return bytes >= 2 << 20 ? 4 : bytes >= 1 << 20 ? 2 : 1;
}

std::span<const TuningKey> tuning_keys() { return kKeys; }

Tuning tuning() {
  Tuning found;
  if (!given.load(std::memory_order_acquire)) return found;
  for (std::size_t i = 0; i < std::size(kKeys); ++i) found.*kKeys[i].member = values[i].load(std::memory_order_relaxed);
  return found;
}

void set_tuning(const Tuning& tuning) {
  for (const TuningKey& key : kKeys) {
    const std::int64_t value = tuning.*key.member;
    if (value >= key.least && value <= key.most) continue;
    throw std::invalid_argument(std::string(key.name) + " is " + std::to_string(value) +
                                ", allowed: " + std::to_string(key.least) + " to " + std::to_string(key.most));
  }
  for (std::size_t i = 0; i < std::size(kKeys); ++i)
    values[i].store(tuning.*kKeys[i].member, std::memory_order_relaxed);
  given.store(true, std::memory_order_release);
}

}  // namespace isobit::kernels
