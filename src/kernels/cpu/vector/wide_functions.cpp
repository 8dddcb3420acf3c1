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
// Both ways of the scalar formula, then one of them: no branch.
inline float atan_of_both(float x) {
  const double t = static_cast<double>(x), size = contract::atan_of(contract::absolute(t));
  const double near = contract::odd_series(t, -1.0 / 3.0, 1.0 / 5.0), far = t < 0.0 ? -size : size;
  return contract::rounded(contract::small(t) ? near : far);
}
inline float sinh_of_both(float x) {
  const double t = static_cast<double>(x), z = t * t, e = contract::exp_of(t), far = 0.5 * (e - 1.0 / e);
  double p = 1.0;
  for (int k = 14; k >= 2; k -= 2) p = 1.0 + p * (z / static_cast<double>(k * (k + 1)));
  const double near = t * p;
  return x != x ? contract::kNan : contract::rounded(contract::absolute(t) < 0.5 ? near : far);
}
inline float asin_of_both(float x) {
  const double t = static_cast<double>(x), a = contract::absolute(t);
  const double size = contract::atan_of(a / ::sqrt((1.0 - a) * (1.0 + a))), far = t < 0.0 ? -size : size;
  const double near = contract::odd_series(t, 1.0 / 6.0, 3.0 / 40.0);
  return a <= 1.0 ? contract::rounded(contract::small(t) ? near : far) : contract::kNan;
}
template <WideUnary op>
float formula(float x) {
  if constexpr (op == WideUnary::asin) return asin_of_both(x);
  if constexpr (op == WideUnary::atan) return atan_of_both(x);
  if constexpr (op == WideUnary::sinh) return sinh_of_both(x);
  return wide::apply(op, x);
}

template <WideUnary op>
void run(const float* x, float* y, std::int64_t n) {
  parallel_for(0, n, 1024, [=](std::int64_t begin, std::int64_t end) {
    float in[kBlock], out[kBlock];
    for (std::int64_t first = begin; first < end; first += kBlock) {
      const std::int64_t count = end - first < kBlock ? end - first : kBlock;
      for (std::int64_t i = count; i < kBlock; ++i) in[i] = 1.0f;
      std::memcpy(in, x + first, static_cast<std::size_t>(count) * sizeof(float));
      for (std::int64_t i = 0; i < kBlock; ++i) out[i] = formula<op>(in[i]);
      std::memcpy(y + first, out, static_cast<std::size_t>(count) * sizeof(float));
    }
  });
}

void wide_unary(WideUnary op, const float* x, float* y, std::int64_t n) {
  switch (op) {
    case WideUnary::log2: return run<WideUnary::log2>(x, y, n);
    case WideUnary::log10: return run<WideUnary::log10>(x, y, n);
    case WideUnary::exp2: return run<WideUnary::exp2>(x, y, n);
    case WideUnary::sinh: return run<WideUnary::sinh>(x, y, n);
    case WideUnary::cosh: return run<WideUnary::cosh>(x, y, n);
    case WideUnary::asin: return run<WideUnary::asin>(x, y, n);
    case WideUnary::acos: return run<WideUnary::acos>(x, y, n);
    case WideUnary::atan: return run<WideUnary::atan>(x, y, n);
    case WideUnary::asinh: return run<WideUnary::asinh>(x, y, n);
    case WideUnary::acosh: return run<WideUnary::acosh>(x, y, n);
    case WideUnary::atanh: return run<WideUnary::atanh>(x, y, n);
    case WideUnary::logit: return run<WideUnary::logit>(x, y, n);
    default: return reference::wide_unary(op, x, y, n);
  }
}

// y = the reference's formula, the operator a constant.
template <WideBinary op>
struct Plain {
  static void run(Block& block) {
    for (std::int64_t i = 0; i < kBlock; ++i) block.y[i] = wide::apply(op, block.a[i], block.b[i]);
  }
};

// The last block's absent elements are 1.
template <class Formula>
void run(const float* a, const float* b, float* y, std::int64_t n) {
  parallel_for(0, n, 2048, [=](std::int64_t begin, std::int64_t end) {
    Block block;
    for (std::int64_t first = begin; first < end; first += kBlock) {
      const std::int64_t count = end - first < kBlock ? end - first : kBlock;
      for (std::int64_t i = count; i < kBlock; ++i) block.a[i] = block.b[i] = 1.0f;
      std::memcpy(block.a, a + first, static_cast<std::size_t>(count) * sizeof(float));
      std::memcpy(block.b, b + first, static_cast<std::size_t>(count) * sizeof(float));
      Formula::run(block);
      std::memcpy(y + first, block.y, static_cast<std::size_t>(count) * sizeof(float));
    }
  });
}

void wide_binary(WideBinary op, const float* a, const float* b, float* y, std::int64_t n) {
  switch (op) {
    case WideBinary::fmod: return run<Fmod>(a, b, y, n);
    case WideBinary::remainder: return run<Remainder>(a, b, y, n);
    case WideBinary::floor_divide: return run<FloorDivide>(a, b, y, n);
    case WideBinary::trunc_divide: return run<Plain<WideBinary::trunc_divide>>(a, b, y, n);
    case WideBinary::hypot: return run<Plain<WideBinary::hypot>>(a, b, y, n);
    case WideBinary::copysign: return run<Plain<WideBinary::copysign>>(a, b, y, n);
    case WideBinary::fmaximum: return run<Plain<WideBinary::fmaximum>>(a, b, y, n);
    case WideBinary::fminimum: return run<Plain<WideBinary::fminimum>>(a, b, y, n);
    case WideBinary::heaviside: return run<Plain<WideBinary::heaviside>>(a, b, y, n);
    case WideBinary::atan2: return run<Plain<WideBinary::atan2>>(a, b, y, n);
    case WideBinary::logaddexp: return run<Plain<WideBinary::logaddexp>>(a, b, y, n);
    case WideBinary::logaddexp2: return run<Plain<WideBinary::logaddexp2>>(a, b, y, n);
    case WideBinary::xlog1py: return run<Plain<WideBinary::xlog1py>>(a, b, y, n);
    case WideBinary::logit_backward: return run<Plain<WideBinary::logit_backward>>(a, b, y, n);
    default: return reference::wide_binary(op, a, b, y, n);
  }
}

}  // namespace

void fill_wide_functions(KernelTable& t) {
  t.wide_unary = wide_unary;
  t.wide_binary = wide_binary;
}

}  // namespace isobit::kernels::ISOBIT_ISA
