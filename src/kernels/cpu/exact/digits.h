// Digits of integers V of the exact tier (contract, section 17) as bytes, packed four terms at a time.
//
// V + 0x808080 has the digits, each raised by 128, as its three lower bytes; a byte with its upper bit turned is the
// digit as a signed byte. Written over whole lines, which the compiler turns into vectors.
#pragma once

#include <cstdint>
#include <cstring>

namespace isobit::kernels::ISOBIT_ISA::exact {

inline constexpr std::uint32_t kRaise = 0x808080, kSigned = 0x80808080;

// Four terms of `kLines` lines: to[c * 4 + i] = the byte of values[i * kLines + c]; `turned`: kSigned, or 0 for raised.
// `digit`: 0, the first and largest, to 2.
template <int kLines>
inline void pack_terms(const std::int32_t* values, int digit, std::uint32_t turned, std::uint8_t* to) {
  const int shift = 16 - 8 * digit;
  std::uint32_t groups[kLines];
  for (int c = 0; c < kLines; ++c) {
    const auto byte = [&](int i) {
      return (static_cast<std::uint32_t>(values[i * kLines + c]) + kRaise) >> shift & 0xff;
    };
    groups[c] = (byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24) ^ turned;
  }
  std::memcpy(to, groups, sizeof groups);  // little-endian, as every processor with these instructions
}

// One line's terms: to[k] = the digit of values[k], signed. Returns their sum.
inline std::int32_t line_digits(const std::int32_t* values, std::int64_t terms, int digit, std::uint8_t* to) {
  const int shift = 16 - 8 * digit;
  std::uint32_t raised = 0;
  for (std::int64_t k = 0; k < terms; ++k) {
    const std::uint32_t byte = (static_cast<std::uint32_t>(values[k]) + kRaise) >> shift & 0xff;
    raised += byte;
    to[k] = static_cast<std::uint8_t>(byte ^ 0x80);
  }
  return static_cast<std::int32_t>(raised) - static_cast<std::int32_t>(128 * terms);
}

}  // namespace isobit::kernels::ISOBIT_ISA::exact
