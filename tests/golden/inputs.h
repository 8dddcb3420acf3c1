// Inputs of golden cases from Philox alone (the same on every machine), and a digest of several results.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "contract/philox.h"
#include "contract/platform.h"
#include "kernels/fingerprint.h"

namespace isobit::golden {

using Floats = std::vector<float>;

// Uniform in [low, high): one exact product and one fma.
inline Floats uniform(std::uint64_t key, std::int64_t n, float low = -1.0f, float high = 1.0f) {
  Floats values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float u = static_cast<float>(contract::random_word(key, i) >> 8) * 0x1p-24f;
    values[i] = std::fma(u, high - low, low);
  }
  return values;
}

// Magnitudes over 2^-40 .. 2^40, some zeros of both signs and subnormals; `wild` adds NaN and infinities.
inline Floats hostile(std::uint64_t key, std::int64_t n, bool wild = false) {
  constexpr std::uint32_t kTame[] = {0x00000000u, 0x80000000u, 0x00000001u, 0x80400000u};
  constexpr std::uint32_t kWild[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f7fffffu};
  Floats values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const contract::PhiloxBlock block = contract::random_block(key, i);
    const std::uint32_t exponent = 87 + block.word[1] % 81;
    values[i] = contract::float_of((block.word[0] & 0x807fffffu) | exponent << 23);
    if (block.word[2] % 16 == 0) values[i] = contract::float_of(kTame[block.word[3] % 4]);
    if (wild && block.word[2] % 64 == 1) values[i] = contract::float_of(kWild[block.word[3] % 4]);
  }
  return values;
}

inline std::vector<std::int64_t> integers(std::uint64_t key, std::int64_t n, std::uint32_t below) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = contract::random_word(key, i) % below;
  return values;
}

// Fingerprint of the list of results, in the order added.
class Digest {
 public:
  Digest& add(const Floats& x) {
    return close(kernels::element_sums(x.data(), 0, static_cast<std::int64_t>(x.size())), "float32", x.size());
  }
  Digest& add(const std::vector<std::int64_t>& x) {
    return close(kernels::element_sums(x.data(), 0, static_cast<std::int64_t>(x.size())), "int64", x.size());
  }
  Digest& add(const std::vector<std::uint8_t>& x) {
    return close(kernels::element_sums(x.data(), 0, static_cast<std::int64_t>(x.size())), "uint8", x.size());
  }
  [[nodiscard]] kernels::Fingerprint result() const { return list_.result(); }

 private:
  Digest& close(kernels::Fingerprint sums, const char* dtype, std::size_t n) {
    const std::int64_t shape[] = {static_cast<std::int64_t>(n)};
    const std::string name(1, static_cast<char>('a' + count_++));
    list_.add(name, dtype, shape, 1, kernels::close_tensor(sums, dtype, shape, 1));
    return *this;
  }
  kernels::ListFingerprint list_;
  int count_ = 0;
};

}  // namespace isobit::golden
