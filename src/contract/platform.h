// What lets one source of the arithmetic serve host, device and every instruction set.
//
// ISOBIT_HOST_DEVICE marks functions that CUDA and HIP compile for both sides.
// ISOBIT_ISA names the instruction set that a translation unit is compiled for. Everything inline in
// isobit::contract lives in an inline namespace of that name: code compiled with AVX-512 flags can then
// never be merged by the linker with the same function compiled for a plain machine.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define ISOBIT_HOST_DEVICE __host__ __device__
#else
#define ISOBIT_HOST_DEVICE
#endif

#ifndef ISOBIT_ISA
#define ISOBIT_ISA baseline
#endif

#define ISOBIT_CONTRACT_BEGIN  \
  namespace isobit::contract { \
  inline namespace ISOBIT_ISA {
#define ISOBIT_CONTRACT_END \
  }                         \
  }

ISOBIT_CONTRACT_BEGIN

// Version of the contract: every change of bits raises it (docs/contract.md).
inline constexpr const char* kContractVersion = "isobit-0.1";

// Terms per leaf of every ordered reduction (sections 3 and 4).
inline constexpr std::int64_t kLeaf = 512;
// Lanes of a section 4 sum.
inline constexpr std::int64_t kSumLanes = 32;

[[nodiscard]] ISOBIT_HOST_DEVICE inline std::uint32_t bits_of(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
#endif
}

[[nodiscard]] ISOBIT_HOST_DEVICE inline float float_of(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

ISOBIT_CONTRACT_END
