// The formulas of wide_functions.h some elements at a time: loops over blocks that the compiler turns into vectors
// (this file has flags of its own, src/kernels/CMakeLists.txt), such loops with a shorter formula (quick_functions.h),
// lanes, or the reference's: as the list's column `build` says (wide_functions_list.h).
#include <cmath>

#include "kernels/cpu/vector/lane_map.h"
#include "kernels/cpu/vector/quick_exp2.h"
#include "kernels/cpu/vector/quick_functions.h"
#include "kernels/cpu/vector/quick_special.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/formulas/wide_formulas.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
void wide_unary(WideUnary op, const float* x, float* y, std::int64_t n);
void wide_binary(WideBinary op, const float* a, const float* b, float* y, std::int64_t n);
}  // namespace isobit::kernels::reference

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kBlock = 256;

// The first `count` are elements, the others kFiller: a number at which all functions are quick.
struct Block {
  float a[kBlock], b[kBlock], rest[kBlock], y[kBlock];
  std::int32_t hard[kBlock];
  std::int64_t count;
};
constexpr float kFiller = 0.5f;

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
  for (std::int64_t i = 0; i < block.count; ++i) {
    if (block.hard[i] != 0) block.rest[i] = contract::exact_fmod(block.a[i], block.b[i]);
  }
}

// The reference's formula, the operator a constant.
template <WideUnary op>
struct One {
  [[gnu::flatten]] static void run(Block& block) {
    for (std::int64_t i = 0; i < kBlock; ++i) block.y[i] = wide::apply(op, block.a[i]);
  }
};
template <WideBinary op>
struct Two {
  [[gnu::flatten]] static void run(Block& block) {
    for (std::int64_t i = 0; i < kBlock; ++i) block.y[i] = wide::apply(op, block.a[i], block.b[i]);
  }
};

// Formulas of fmod's result.
template <WideBinary op>
struct OfRests {
  [[gnu::flatten]] static void run(Block& block) {
    find_rests(block);
    for (std::int64_t i = 0; i < kBlock; ++i) block.y[i] = formula(block.a[i], block.b[i], block.rest[i]);
  }
  static float formula(float a, float b, float rest) {
    if constexpr (op == WideBinary::fmod) return rest;
    if constexpr (op == WideBinary::remainder) return wide::remainder_of(rest, b);
    if constexpr (op == WideBinary::floor_divide) return wide::floor_of(a, b, rest);
  }
};

// Both ends of the shorter formula's error round alike, or the contract's formula decides.
inline void keep(Block& block, std::int64_t i, quick::Near near) {
  const float low = static_cast<float>(near.low), high = static_cast<float>(near.high);
  block.y[i] = low;
  std::int32_t low_bits, high_bits;  // zeros have two signs
  std::memcpy(&low_bits, &low, sizeof low);
  std::memcpy(&high_bits, &high, sizeof high);
  block.hard[i] = low == high ? low_bits ^ high_bits : 1;
}
template <class Formula>
inline void decide(Block& block, Formula formula) {
  std::int32_t any = 0;
  for (std::int64_t i = 0; i < kBlock; ++i) any |= block.hard[i];
  if (any == 0) return;
  for (std::int64_t i = 0; i < block.count; ++i) {
    if (block.hard[i] != 0) block.y[i] = formula(i);
  }
}

// The contract's rest and quarter turns where abs(x) < 2^16, and NaN beyond; x itself (a zero's sign, too) where there
// is no turn.
inline void find_turns(const Block& block, double* rest, std::int32_t* odd) {
  constexpr float kShift = contract::kRoundingShift;
  for (std::int64_t i = 0; i < kBlock; ++i) {
    const float x = block.a[i], shifted = __builtin_fmaf(x, 0x1.45f306p-1f, kShift), n = shifted - kShift;
    const float r = __builtin_fmaf(n, -contract::kHalfPi0, x), product = n * contract::kHalfPi1;
    const float product_low = __builtin_fmaf(n, contract::kHalfPi1, -product), h = r - product;
    const float l = __builtin_fmaf(n, -contract::kHalfPi2, ((r - h) - product) - product_low);
    std::int32_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    odd[i] = bits & 1;
    const double turned = static_cast<double>(h) + static_cast<double>(l),
                 size = __builtin_fabs(static_cast<double>(x));
    rest[i] = size < 0.5 ? static_cast<double>(x) : size < 0x1p16 ? turned : contract::kNanWide;
  }
}

// The largest size in a block; NaN where there is one.
inline float largest(const Block& block) {
  std::int32_t most = 0;  // as bits: compilers turn a maximum of integers into vectors
  for (std::int64_t i = 0; i < kBlock; ++i) {
    const std::int32_t size = contract::as_int(block.a[i]) & 0x7fffffff;
    most = size > most ? size : most;
  }
  return contract::as_float(most);
}
// Bessel functions' tails, with a square root and a division, only where a block has one.
template <int order, bool scaled>
inline void bessel(Block& block) {
  if (largest(block) <= static_cast<float>(quick::kBesselNear)) {
    for (std::int64_t i = 0; i < kBlock; ++i) keep(block, i, quick::bessel<order, scaled, false>(block.a[i]));
  } else {
    for (std::int64_t i = 0; i < kBlock; ++i) keep(block, i, quick::bessel<order, scaled, true>(block.a[i]));
  }
}

template <WideUnary op>
struct QuickOne {
  [[gnu::flatten]] static void run(Block& block) {
    if constexpr (op == WideUnary::i0) {
      bessel<0, false>(block);
    } else if constexpr (op == WideUnary::i0e) {
      bessel<0, true>(block);
    } else if constexpr (op == WideUnary::i1) {
      bessel<1, false>(block);
    } else if constexpr (op == WideUnary::i1e) {
      bessel<1, true>(block);
    } else if constexpr (op == WideUnary::erfinv) {
      if (largest(block) <= static_cast<float>(quick::kErfinvNear)) {
        for (std::int64_t i = 0; i < kBlock; ++i) keep(block, i, quick::erfinv_near(block.a[i]));
      } else {
        for (std::int64_t i = 0; i < kBlock; ++i) keep(block, i, quick::erfinv(block.a[i]));
      }
    } else if constexpr (op == WideUnary::tan) {
      double rest[kBlock];
      std::int32_t odd[kBlock];
      find_turns(block, rest, odd);
      for (std::int64_t i = 0; i < kBlock; ++i) keep(block, i, quick::tan_of(rest[i], odd[i] != 0));
    } else {
      for (std::int64_t i = 0; i < kBlock; ++i) keep(block, i, near(block.a[i]));
    }
    decide(block, [&](std::int64_t i) { return wide::apply(op, block.a[i]); });
  }
  static quick::Near near(float x) {
    if constexpr (op == WideUnary::sinh) return quick::sinh(x);
    if constexpr (op == WideUnary::cosh) return quick::cosh(x);
    if constexpr (op == WideUnary::erfc) return quick::erfc(x);
    if constexpr (op == WideUnary::log2) return quick::log2(x);
    if constexpr (op == WideUnary::log10) return quick::log10(x);
    if constexpr (op == WideUnary::logit) return quick::logit(x);
    if constexpr (op == WideUnary::atanh) return quick::atanh(x);
    if constexpr (op == WideUnary::lgamma) return quick::lgamma(x);
    if constexpr (op == WideUnary::digamma) return quick::digamma(x);
    if constexpr (op == WideUnary::asin) return quick::asin(x);
    if constexpr (op == WideUnary::acos) return quick::acos(x);
    if constexpr (op == WideUnary::atan) return quick::atan(x);
    if constexpr (op == WideUnary::ndtri) return quick::ndtri(x);
    if constexpr (op == WideUnary::erfcx) return quick::erfcx(x);
    if constexpr (op == WideUnary::log_ndtr) return quick::log_ndtr(x);
  }
};
template <WideBinary op>
struct QuickTwo {
  [[gnu::flatten]] static void run(Block& block) {
    for (std::int64_t i = 0; i < kBlock; ++i) keep(block, i, near(block.a[i], block.b[i]));
    decide(block, [&](std::int64_t i) { return wide::apply(op, block.a[i], block.b[i]); });
  }
  static quick::Near near(float a, float b) {
    if constexpr (op == WideBinary::atan2) return quick::atan2(a, b);
    if constexpr (op == WideBinary::logaddexp) return quick::logaddexp(a, b);
    if constexpr (op == WideBinary::logaddexp2) return quick::logaddexp2(a, b);
  }
};

// b is null for functions of one argument. The last block's absent elements are 1.
template <class Formula>
void run(const float* a, const float* b, float* y, std::int64_t n) {
  parallel_for(0, n, 1024, [=](std::int64_t begin, std::int64_t end) {
    constexpr std::size_t kBytes = kBlock * sizeof(float);  // copies of a constant size need no call
    Block block, rest;
    for (std::int64_t first = begin; first < end; first += kBlock) {
      const std::int64_t count = end - first;
      const auto take = [=](const float* from, float* last, float* to) {
        if (count < kBlock) {
          for (std::int64_t i = 0; i < kBlock; ++i) last[i] = i < count ? from[first + i] : kFiller;
        }
        std::memcpy(to, count < kBlock ? last : from + first, kBytes);
      };
      take(a, rest.a, block.a);
      if (b != nullptr) take(b, rest.b, block.b);
      block.count = count < kBlock ? count : kBlock;
      Formula::run(block);
      std::memcpy(count < kBlock ? rest.y : y + first, block.y, kBytes);
      for (std::int64_t i = 0; i < count && count < kBlock; ++i) y[first + i] = rest.y[i];
    }
  });
}

// What the pairs leave open: infinities and zeros, else binary64.
float exp2_alone(float x) {
  if (x >= 128.0f) return contract::kInfinity;
  if (x < -151.0f) return 0.0f;
  const quick::Near near = quick::exp2(x);
  const float low = static_cast<float>(near.low);
  return low == static_cast<float>(near.high) ? low : contract::exp2(x);
}
[[gnu::noinline]] FloatLanes exp2_alone(FloatLanes x, FloatLanes y, IntLanes open) {
  alignas(64) float from[kLanes], to[kLanes];
  alignas(64) std::int32_t which[kLanes];
  store(from, x), store(to, y), store(which, open);
  for (int i = 0; i < kLanes; ++i) {
    if (which[i] != 0) to[i] = exp2_alone(from[i]);
  }
  return load(to);
}
template <class P>
ISOBIT_INLINE FloatPair<P> exp2_alone(FloatPair<P> x, FloatPair<P> y, decltype(as_int(FloatPair<P>())) open) {
  return {any_bit(open.a) ? exp2_alone(x.a, y.a, open.a) : y.a, any_bit(open.b) ? exp2_alone(x.b, y.b, open.b) : y.b};
}
template <class Lane>
ISOBIT_INLINE Lane exp2_lanes(Lane x) {
  using Int = contract::IntOf<Lane>;
  const quick::Exp2Sum<Lane> t = quick::exp2_sum(x);
  const Lane error(quick::kExp2Error), low = t.sum + (t.rest - error), high = t.sum + (t.rest + error);
  const Lane y = as_float(as_int(low) + t.power);
  const auto beyond = (as_int(x) & Int(INT32_MAX)) > Int(contract::as_int(quick::kExp2Largest));
  const Int open = select(beyond, Int(-1), as_int(low) ^ as_int(high));
  return any_bit(open) ? exp2_alone(x, y, open) : y;
}

// Formulas over lanes.
template <WideUnary op>
FloatLanes of_lanes(FloatLanes x) {
  if constexpr (op == WideUnary::sinc) return wide::sinc(x);
}
template <WideBinary op>
FloatLanes of_lanes(FloatLanes a, FloatLanes b) {
  if constexpr (op == WideBinary::copysign) return wide::copysign(a, b);
  if constexpr (op == WideBinary::nextafter) return contract::next_after(a, b);
}

// The list's column `build`.
template <WideUnary op>
void vectorized(const float* x, float* y, std::int64_t n) {
  run<One<op>>(x, nullptr, y, n);
}
template <WideUnary op>
void lanes(const float* x, float* y, std::int64_t n) {
  LaneMap::run([](FloatLanes v) { return of_lanes<op>(v); }, y, n, x);
}
template <WideUnary op>
void quicker(const float* x, float* y, std::int64_t n) {
  if constexpr (op == WideUnary::exp2) {
    LaneMap::run(
        [](auto v) __attribute__((always_inline)) { return exp2_lanes(v); }, y, n, x);
  } else {
    run<QuickOne<op>>(x, nullptr, y, n);
  }
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
void lanes(const float* a, const float* b, float* y, std::int64_t n) {
  LaneMap::run([](FloatLanes u, FloatLanes v) { return of_lanes<op>(u, v); }, y, n, a, b);
}
template <WideBinary op>
void quicker(const float* a, const float* b, float* y, std::int64_t n) {
  run<QuickTwo<op>>(a, b, y, n);
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
