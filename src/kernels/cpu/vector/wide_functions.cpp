// The formulas of wide_functions.h some elements at a time: loops over blocks that the compiler turns into vectors
// (this file has flags of its own, src/kernels/CMakeLists.txt), or the reference's: as the list's column `build` says
// (wide_functions_list.h).
#include <cmath>

#include "kernels/dispatch/kernel_table.h"
#include "kernels/formulas/wide_formulas.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
void wide_unary(WideUnary op, const float* x, float* y, std::int64_t n);
void wide_binary(WideBinary op, const float* a, const float* b, float* y, std::int64_t n);
}  // namespace isobit::kernels::reference

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kBlock = 64;

struct Block {
  float a[kBlock], b[kBlock], rest[kBlock], y[kBlock];
  std::int32_t hard[kBlock];
};

// rest = fmod(a, b): in binary64 a quotient below 2^29 times b and the difference are exact; the quotient may be one
// too large where it was rounded. Others by integers.
inline void find_rests(Block& block) {
  std::int32_t any = 0;
  for (std::int64_t i = 0; i < kBlock; ++i) {
    const double a = block.a[i], b = block.b[i], quotient = __builtin_trunc(a / b), size = __builtin_fabs(quotient);
    const double rest = a - quotient * b, back = rest + __builtin_copysign(b, a);
    const bool beyond = (rest != 0.0) & ((rest < 0.0) != (a < 0.0));
    block.rest[i] = __builtin_copysignf(static_cast<float>(beyond ? back : rest), block.a[i]);
    const std::int32_t easy = (size < 0x1p29) & (rest == rest);
    block.hard[i] = easy ^ 1;
    any |= easy ^ 1;
  }
  if (any == 0) return;
  for (std::int64_t i = 0; i < kBlock; ++i) {
    if (block.hard[i] != 0) block.rest[i] = contract::exact_fmod(block.a[i], block.b[i]);
  }
}

// The reference's formula, the operator a constant.
template <WideUnary op>
struct One {
  static void run(Block& block) {
    for (std::int64_t i = 0; i < kBlock; ++i) block.y[i] = wide::apply(op, block.a[i]);
  }
};
template <WideBinary op>
struct Two {
  static void run(Block& block) {
    for (std::int64_t i = 0; i < kBlock; ++i) block.y[i] = wide::apply(op, block.a[i], block.b[i]);
  }
};

// Formulas of fmod's result.
template <WideBinary op>
struct OfRests {
  static void run(Block& block) {
    find_rests(block);
    for (std::int64_t i = 0; i < kBlock; ++i) block.y[i] = formula(block.a[i], block.b[i], block.rest[i]);
  }
  static float formula(float a, float b, float rest) {
    if constexpr (op == WideBinary::fmod) return rest;
    if constexpr (op == WideBinary::remainder) return wide::remainder_of(rest, b);
    if constexpr (op == WideBinary::floor_divide) return wide::floor_of(a, b, rest);
  }
};

// b is null for functions of one argument. The last block's absent elements are 1.
template <class Formula>
void run(const float* a, const float* b, float* y, std::int64_t n) {
  parallel_for(0, n, 1024, [=](std::int64_t begin, std::int64_t end) {
    Block block;
    for (std::int64_t first = begin; first < end; first += kBlock) {
      const std::int64_t count = end - first < kBlock ? end - first : kBlock;
      const auto take = [=](const float* from, float* to) {
        for (std::int64_t i = count; i < kBlock; ++i) to[i] = 1.0f;
        std::memcpy(to, from + first, static_cast<std::size_t>(count) * sizeof(float));
      };
      take(a, block.a);
      if (b != nullptr) take(b, block.b);
      Formula::run(block);
      std::memcpy(y + first, block.y, static_cast<std::size_t>(count) * sizeof(float));
    }
  });
}

// The list's column `build`.
template <WideUnary op>
void vectorized(const float* x, float* y, std::int64_t n) {
  run<One<op>>(x, nullptr, y, n);
}
template <WideUnary op>
void scalar(const float* x, float* y, std::int64_t n) {
  reference::wide_unary(op, x, y, n);
}
template <WideBinary op>
void vectorized(const float* a, const float* b, float* y, std::int64_t n) {
  run<Two<op>>(a, b, y, n);
}
template <WideBinary op>
void rests(const float* a, const float* b, float* y, std::int64_t n) {
  run<OfRests<op>>(a, b, y, n);
}
template <WideBinary op>
void scalar(const float* a, const float* b, float* y, std::int64_t n) {
  reference::wide_binary(op, a, b, y, n);
}

void wide_unary(WideUnary op, const float* x, float* y, std::int64_t n) {
  switch (op) {
#define ISOBIT_CASE(name, formula, build, ...) \
  case WideUnary::name: return build<WideUnary::name>(x, y, n);
    ISOBIT_WIDE_UNARY(ISOBIT_CASE)
#undef ISOBIT_CASE
  }
}
void wide_binary(WideBinary op, const float* a, const float* b, float* y, std::int64_t n) {
  switch (op) {
#define ISOBIT_CASE(name, formula, build, ...) \
  case WideBinary::name: return build<WideBinary::name>(a, b, y, n);
    ISOBIT_WIDE_BINARY(ISOBIT_CASE)
#undef ISOBIT_CASE
  }
}

}  // namespace

void fill_wide_functions(KernelTable& t) {
  t.wide_unary = wide_unary;
  t.wide_binary = wide_binary;
}

}  // namespace isobit::kernels::ISOBIT_ISA
