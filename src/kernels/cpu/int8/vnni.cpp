// Products of the exact tier by AVX-512 VNNI: vpdpbusd adds four products of unsigned by signed bytes to an int32.
//
// The right side's digits are raised by 128; what that adds, 128 times the sum of the left side's digits, is packed
// with them and taken away first. Six products a step of four terms. Sums wrap modulo 2^32 on the way; what they end
// with fits, for 16384 terms and more.
//
// Compiled twice: for the instruction, and with it written out (ISOBIT_EMULATED), so that packing, edges and correction
// are tested on any machine.
#include "kernels/cpu/exact/digits.h"
#include "kernels/cpu/exact/problems.h"

#if !defined(ISOBIT_EMULATED)
#include <immintrin.h>
#endif

namespace isobit::kernels::ISOBIT_ISA {
namespace {

#if defined(ISOBIT_EMULATED)
struct Int32x16 {
  std::uint32_t v[16];
  static Int32x16 set(std::int32_t x) {
    Int32x16 r;
    for (std::uint32_t& lane : r.v) lane = static_cast<std::uint32_t>(x);
    return r;
  }
  void store(std::int32_t* p) const { std::memcpy(p, v, sizeof v); }
};
struct Bytes {
  std::uint8_t v[64];
  static Bytes load(const std::uint8_t* p) {
    Bytes r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
  }
  static Bytes broadcast(const std::uint8_t* four) {
    Bytes r;
    for (int i = 0; i < 64; ++i) r.v[i] = four[i % 4];
    return r;
  }
};
// vpdpbusd
void add_products(Int32x16& sum, const Bytes& unsigned_bytes, const Bytes& signed_bytes) {
  for (int lane = 0; lane < 16; ++lane) {
    for (int i = lane * 4; i < lane * 4 + 4; ++i)
      sum.v[lane] += static_cast<std::uint32_t>(unsigned_bytes.v[i] * static_cast<std::int8_t>(signed_bytes.v[i]));
  }
}
#else
struct Int32x16 {
  __m512i v;
  static Int32x16 set(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
  void store(std::int32_t* p) const { _mm512_storeu_si512(p, v); }
};
struct Bytes {
  __m512i v;
  static Bytes load(const std::uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  static Bytes broadcast(const std::uint8_t* four) {
    std::int32_t value;
    std::memcpy(&value, four, sizeof value);
    return {_mm512_set1_epi32(value)};
  }
};
inline void add_products(Int32x16& sum, const Bytes& unsigned_bytes, const Bytes& signed_bytes) {
  sum.v = _mm512_dpbusd_epi32(sum.v, unsigned_bytes.v, signed_bytes.v);
}
#endif

struct VnniEngine {
  static constexpr int kRows = 6, kColumns = 16;
  static constexpr std::int64_t kStep = 4, kBlock = 512, kPacked = kBlock;
  static constexpr bool kPacksAlong = false, kResumes = false, kPacksFloats = false;
  static constexpr int kParts = 3;
  static constexpr std::int32_t kWeights[kParts] = {65536, 256, 1};

  struct Session {
    Session() {}
  };

  // Digits, then per row three corrections.
  static constexpr std::int64_t left_bytes(std::int64_t terms) { return (terms + 4) * 3 * kRows; }
  static constexpr std::int64_t right_bytes(std::int64_t terms) { return terms * 3 * kColumns; }

  // values[r * terms + k] -> [3][r] int32, then [k / 4][digit][r][4], signed.
  static void pack_left(const std::int32_t* values, std::int64_t terms, std::uint8_t* to) {
    std::int32_t corrections[3][kRows];
    std::uint8_t* const digits = to + sizeof corrections;
    std::uint8_t line[kBlock];
    for (int r = 0; r < kRows; ++r) {
      std::int32_t sum[3];
      for (int digit = 0; digit < 3; ++digit) {
        sum[digit] = exact::line_digits(values + r * terms, terms, digit, line);
        for (std::int64_t k = 0; k < terms; k += 4)
          std::memcpy(digits + ((k / 4 * 3 + digit) * kRows + r) * 4, line + k, 4);
      }
      // 128 times the left digits of each group: (1), (1, 2), (1, 2, 3).
      corrections[0][r] = -128 * sum[0];
      corrections[1][r] = -128 * (sum[0] + sum[1]);
      corrections[2][r] = -128 * (sum[0] + sum[1] + sum[2]);
    }
    std::memcpy(to, corrections, sizeof corrections);
  }

  // values[k * kColumns + c] -> [k / 4][digit][c][4], raised by 128.
  static void pack_right(const std::int32_t* values, std::int64_t terms, std::uint8_t* to) {
    for (std::int64_t k = 0; k < terms; k += 4, values += 4 * kColumns) {
      for (int digit = 0; digit < 3; ++digit, to += kColumns * 4) exact::pack_terms<kColumns>(values, digit, 0, to);
    }
  }

  static void multiply(std::int64_t terms, const std::uint8_t* left, const std::uint8_t* right, std::int32_t* parts) {
    Int32x16 sum[3][kRows];
    std::int32_t corrections[3][kRows];
    std::memcpy(corrections, left, sizeof corrections);
    left += sizeof corrections;
    for (int group = 0; group < 3; ++group) {
      for (int r = 0; r < kRows; ++r) sum[group][r] = Int32x16::set(corrections[group][r]);
    }
    for (std::int64_t k = 0; k < terms; k += 4, left += 3 * kRows * 4, right += 3 * kColumns * 4) {
      const Bytes b1 = Bytes::load(right), b2 = Bytes::load(right + kColumns * 4);
      const Bytes b3 = Bytes::load(right + 2 * kColumns * 4);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Bytes a1 = Bytes::broadcast(left + r * 4), a2 = Bytes::broadcast(left + (kRows + r) * 4);
        const Bytes a3 = Bytes::broadcast(left + (2 * kRows + r) * 4);
        add_products(sum[0][r], b1, a1);
        add_products(sum[1][r], b1, a2);
        add_products(sum[2][r], b1, a3);
        add_products(sum[1][r], b2, a1);
        add_products(sum[2][r], b2, a2);
        add_products(sum[2][r], b3, a1);
      }
    }
    for (int group = 0; group < 3; ++group) {
      for (int r = 0; r < kRows; ++r) sum[group][r].store(parts + (group * kRows + r) * kColumns);
    }
  }
};

}  // namespace

void fill_exact_products(KernelTable& t) { exact::fill<VnniEngine>(t); }

}  // namespace isobit::kernels::ISOBIT_ISA
