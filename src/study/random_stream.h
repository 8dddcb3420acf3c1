// Random numbers of a study: Philox (contract, section 5), so that the same study draws the same numbers everywhere.
// One thread per object.
#pragma once

#include <cstdint>

#include "contract/philox.h"

namespace isobit::study {

// What the numbers are for; each purpose has a stream of its own.
enum class Purpose : std::uint32_t {
  sampled_cells = 0x7363656c,  // "scel"
  bootstrap = 0x73626f6f,      // "sboo"
  sign_flips = 0x73666c70,     // "sflp"
  components = 0x73636d70,     // "scmp"
};

class RandomStream {
 public:
  // `a` tells streams of one purpose apart.
  RandomStream(std::uint64_t seed, Purpose purpose, std::uint64_t a = 0)
      : key_(contract::derive_key(seed, static_cast<std::uint32_t>(purpose), a, 0)) {}

  [[nodiscard]] std::uint64_t bits() {
    if (used_ == 2) {
      block_ = contract::random_block(key_, next_++);
      used_ = 0;
    }
    const int half = 2 * used_++;
    return static_cast<std::uint64_t>(block_.word[half + 1]) << 32 | block_.word[half];
  }
  // 0 to n - 1, all equally likely: what would favour some is drawn again. Precondition: n >= 1.
  [[nodiscard]] std::uint64_t below(std::uint64_t n) {
    const std::uint64_t rest = (~std::uint64_t{0} % n + 1) % n;  // 2^64 mod n
    std::uint64_t word = bits();
    while (rest != 0 && word >= ~std::uint64_t{0} - rest + 1) word = bits();
    return word % n;
  }
  // Above 0 and below 1: an odd multiple of 2^-53.
  [[nodiscard]] double uniform() { return (static_cast<double>(bits() >> 12) + 0.5) * 0x1p-52; }

 private:
  std::uint64_t key_, next_ = 0;
  contract::PhiloxBlock block_{};
  int used_ = 2;
};

}  // namespace isobit::study
