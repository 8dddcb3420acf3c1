// The order of samples as data (contract, section 6): plan = (rule, seed, epoch, n) -> a permutation of
// 0 .. n - 1 with random access in constant time and memory.
//
// Rule `sequential`: position p is sample p. Rule `shuffled`: a Feistel network of eight rounds over the
// numbers of 2k bits, k the smallest with 4^k >= n but at least 4; round functions are Philox words; a
// position whose image is not below n is sent through again until it is ("cycle walking", Black and Rogaway,
// CT-RSA 2002). At most a few turns on average: 4^k < 4 n (n >= 65). Host and device; no state.
#pragma once

#include "contract/philox.h"

ISOBIT_CONTRACT_BEGIN

enum class OrderRule : std::int32_t { sequential = 0, shuffled = 1 };

inline constexpr std::uint32_t kOrderPurpose = 0x6f726472;  // "ordr": derive_key's purpose for orders
inline constexpr int kOrderRounds = 8;

class OrderPlan {
 public:
  // n <= 2^62.
  ISOBIT_HOST_DEVICE OrderPlan(OrderRule rule, std::uint64_t seed, std::uint64_t epoch, std::uint64_t n)
      : rule_(rule), key_(derive_key(seed, kOrderPurpose, epoch, 0)), n_(n) {
    while (half_bits_ < 31 && (std::uint64_t{1} << (2 * half_bits_)) < n) ++half_bits_;
  }

  [[nodiscard]] ISOBIT_HOST_DEVICE std::uint64_t size() const { return n_; }

  // Sample at a position. Precondition: position < size().
  [[nodiscard]] ISOBIT_HOST_DEVICE std::uint64_t operator()(std::uint64_t position) const {
    if (rule_ == OrderRule::sequential) return position;
    do position = permute(position, Words{*this});
    while (position >= n_);
    return position;
  }

  // Rule `shuffled` in its parts, for whoever keeps F: numbers have twice half_bits() bits.
  [[nodiscard]] ISOBIT_HOST_DEVICE int half_bits() const { return half_bits_; }
  // F of a round < kOrderRounds and a right half: half_bits() bits.
  [[nodiscard]] ISOBIT_HOST_DEVICE std::uint32_t word(std::uint32_t round, std::uint32_t right) const {
    return random_block(key_, right | static_cast<std::uint64_t>(round) << 32).word[0] &
           ((std::uint32_t{1} << half_bits_) - 1);
  }
  // (left, right) -> (right, left ^ F(round, right)), round by round: a bijection whatever F is.
  template <class F>
  [[nodiscard]] ISOBIT_HOST_DEVICE std::uint64_t permute(std::uint64_t number, const F& words) const {
    auto left = static_cast<std::uint32_t>(number >> half_bits_);
    auto right = static_cast<std::uint32_t>(number) & ((std::uint32_t{1} << half_bits_) - 1);
    for (std::uint32_t round = 0; round < kOrderRounds; ++round) {
      const std::uint32_t next = left ^ words(round, right);
      left = right;
      right = next;
    }
    return static_cast<std::uint64_t>(left) << half_bits_ | right;
  }

 private:
  struct Words {
    const OrderPlan& plan;
    ISOBIT_HOST_DEVICE std::uint32_t operator()(std::uint32_t round, std::uint32_t right) const {
      return plan.word(round, right);
    }
  };

  OrderRule rule_;
  std::uint64_t key_;
  std::uint64_t n_;
  int half_bits_ = 4;
};

ISOBIT_CONTRACT_END
