// 128-bit fingerprints of tensors (contract, section 9).
//
// Two sums modulo 2^64 of mix(index, bits) over the elements in logical order; order-free, so computed in
// parallel and merged across shards. NaNs are canonical. Not cryptographic: it finds differences, it does not
// withstand an adversary (files are named by SHA-256).
// Thread-safe; uses the pool.
#pragma once

#include <cstdint>
#include <string>

namespace isobit::kernels {

struct Fingerprint {
  std::uint64_t high = 0, low = 0;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

// 32 lower-case hex digits, high first.
[[nodiscard]] std::string to_hex(const Fingerprint& fingerprint);

// The bare sums over elements first, first + 1, ...: merge shards with merge (additions modulo 2^64).
[[nodiscard]] Fingerprint element_sums(const float* x, std::int64_t first, std::int64_t n);
[[nodiscard]] Fingerprint element_sums(const std::int64_t* x, std::int64_t first, std::int64_t n);
[[nodiscard]] Fingerprint element_sums(const std::uint8_t* x, std::int64_t first, std::int64_t n);

[[nodiscard]] inline Fingerprint merge(Fingerprint a, Fingerprint b) { return {a.high + b.high, a.low + b.low}; }

// The sums closed with dtype name ("float32", "bfloat16", "int64" and so on) and shape.
[[nodiscard]] Fingerprint close_tensor(Fingerprint sums, const char* dtype, const std::int64_t* shape, int rank);

// Fingerprint of a list of named tensors; add in ascending order of the names' UTF-8 bytes (each name once):
// std::invalid_argument otherwise.
class ListFingerprint {
 public:
  void add(const std::string& name, const char* dtype, const std::int64_t* shape, int rank, Fingerprint tensor);
  [[nodiscard]] Fingerprint result() const;

 private:
  Fingerprint state_{};
  std::uint64_t count_ = 0;
  std::string last_name_;
};

}  // namespace isobit::kernels
