// The formulas of wide_functions.h some elements at a time: loops over blocks that the compiler turns into vectors (this file has
// flags of its own, src/kernels/CMakeLists.txt). tan, erfc, sinc and entropy stay the reference's: they branch, or take long anyway.
#include <cmath>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/wide_formulas.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
void wide_unary(WideUnary op, const float* x, float* y, std::int64_t n);
void wide_binary(WideBinary op, const float* a, const float* b, float* y, std::int64_t n);
}

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kBlock = 64;

struct Block {
  float a[kBlock], b[kBlock], rest[kBlock], y[kBlock];
  std::int32_t hard[kBlock];
};

// rest = fmod(a, b): in binary64 a quotient below 2^29 times b and the difference are exact; the quotient may be one too large
// where it was rounded. Others by integers.
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

struct Fmod {
  static void run(Block& block) {
    find_rests(block);
    for (std::int64_t i = 0; i < kBlock; ++i) block.y[i] = block.rest[i];
  }
};
struct Remainder {
  static void run(Block& block) {
    find_rests(block);
    for (std::int64_t i = 0; i < kBlock; ++i) block.y[i] = wide::remainder_of(block.rest[i], block.b[i]);
  }
};
struct FloorDivide {
  static void run(Block& block) {
    find_rests(block);
    for (std::int64_t i = 0; i < kBlock; ++i) block.y[i] = wide::floor_of(block.a[i], block.b[i], block.rest[i]);
  }
};

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

void wide_unary(WideUnary op, const float* x, float* y, std::int64_t n) {
  switch (op) {
    case WideUnary::log2: return run<One<WideUnary::log2>>(x, nullptr, y, n);
    case WideUnary::log10: return run<One<WideUnary::log10>>(x, nullptr, y, n);
    case WideUnary::exp2: return run<One<WideUnary::exp2>>(x, nullptr, y, n);
    case WideUnary::sinh: return run<One<WideUnary::sinh>>(x, nullptr, y, n);
    case WideUnary::cosh: return run<One<WideUnary::cosh>>(x, nullptr, y, n);
    case WideUnary::asin: return run<One<WideUnary::asin>>(x, nullptr, y, n);
    case WideUnary::acos: return run<One<WideUnary::acos>>(x, nullptr, y, n);
    case WideUnary::atan: return run<One<WideUnary::atan>>(x, nullptr, y, n);
    case WideUnary::asinh: return run<One<WideUnary::asinh>>(x, nullptr, y, n);
    case WideUnary::acosh: return run<One<WideUnary::acosh>>(x, nullptr, y, n);
    case WideUnary::atanh: return run<One<WideUnary::atanh>>(x, nullptr, y, n);
    case WideUnary::logit: return run<One<WideUnary::logit>>(x, nullptr, y, n);
    default: return reference::wide_unary(op, x, y, n);
  }
}

void wide_binary(WideBinary op, const float* a, const float* b, float* y, std::int64_t n) {
  switch (op) {
    case WideBinary::fmod: return run<Fmod>(a, b, y, n);
    case WideBinary::remainder: return run<Remainder>(a, b, y, n);
    case WideBinary::floor_divide: return run<FloorDivide>(a, b, y, n);
    case WideBinary::trunc_divide: return run<Two<WideBinary::trunc_divide>>(a, b, y, n);
    case WideBinary::hypot: return run<Two<WideBinary::hypot>>(a, b, y, n);
    case WideBinary::copysign: return run<Two<WideBinary::copysign>>(a, b, y, n);
    case WideBinary::fmaximum: return run<Two<WideBinary::fmaximum>>(a, b, y, n);
    case WideBinary::fminimum: return run<Two<WideBinary::fminimum>>(a, b, y, n);
    case WideBinary::heaviside: return run<Two<WideBinary::heaviside>>(a, b, y, n);
    case WideBinary::atan2: return run<Two<WideBinary::atan2>>(a, b, y, n);
    case WideBinary::logaddexp: return run<Two<WideBinary::logaddexp>>(a, b, y, n);
    case WideBinary::logaddexp2: return run<Two<WideBinary::logaddexp2>>(a, b, y, n);
    case WideBinary::xlog1py: return run<Two<WideBinary::xlog1py>>(a, b, y, n);
    case WideBinary::logit_backward: return run<Two<WideBinary::logit_backward>>(a, b, y, n);
    default: return reference::wide_binary(op, a, b, y, n);
  }
}

}  // namespace

void fill_wide_functions(KernelTable& t) {
  t.wide_unary = wide_unary;
  t.wide_binary = wide_binary;
}

}  // namespace isobit::kernels::ISOBIT_ISA
