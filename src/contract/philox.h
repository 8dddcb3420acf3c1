// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11).
//
// Counter-based: word(key, e) depends on its arguments alone. Host and device; no state.
#pragma once

#include "contract/platform.h"

ISOBIT_CONTRACT_BEGIN

struct PhiloxBlock {
  std::uint32_t word[4];
};

[[nodiscard]] ISOBIT_HOST_DEVICE inline PhiloxBlock philox4x32_10(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2,
                                                                  std::uint32_t c3, std::uint32_t k0,
                                                                  std::uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ull * c0;
    const std::uint64_t p1 = 0xCD9E8D57ull * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Block b of the stream of a 64-bit key: counter (b low, b high, 0, 0), key (low, high).
[[nodiscard]] ISOBIT_HOST_DEVICE inline PhiloxBlock random_block(std::uint64_t key, std::uint64_t block) {
  return philox4x32_10(static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0,
                       static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
}

// Word of element e: word e mod 4 of block e div 4.
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::uint32_t random_word(std::uint64_t key, std::uint64_t e) {
  return random_block(key, e / 4).word[e % 4];
}

// A 64-bit number for a stated purpose of a run: Philox(seed; purpose, a, b), words 0 and 1.
// Used for grain seeds (step, grain), epoch shuffles, initial weights, augmentation keys.
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::uint64_t derive_key(std::uint64_t seed, std::uint32_t purpose,
                                                                 std::uint64_t a, std::uint32_t b) {
  const PhiloxBlock block =
      philox4x32_10(static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(a >> 32), b, 0x80000000u | purpose,
                    static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  return block.word[0] | static_cast<std::uint64_t>(block.word[1]) << 32;
}

ISOBIT_CONTRACT_END
