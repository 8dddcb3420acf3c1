// A lane of 512 numbers of binary64: the formulas of contract/pointwise.h over it compute sine, cosine and the error
// function, and what is composed of several functions, of many numbers in loops without a branch, and then by
// themselves the few that take another way. Each number meets the operations of contract/functions_binary64.h in their
// order.
#pragma once

#include <algorithm>

#include "contract/functions_binary64.h"
#include "contract/pointwise.h"
#include "kernels/cpu/vector/wide_group.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

struct Chunk {
  static constexpr std::int64_t kSize = 512;
  double of[kSize];
  Chunk() {}
  explicit Chunk(double x) { std::fill_n(of, kSize, x); }
};

template <class Function>
Chunk each(Function function) {
  Chunk y;
  for (std::int64_t i = 0; i < Chunk::kSize; ++i) y.of[i] = function(i);
  return y;
}
Chunk operator+(const Chunk& a, const Chunk& b) {
  return each([&](std::int64_t i) { return a.of[i] + b.of[i]; });
}
Chunk operator*(const Chunk& a, const Chunk& b) {
  return each([&](std::int64_t i) { return a.of[i] * b.of[i]; });
}
Chunk operator-(const Chunk& a, const Chunk& b) {
  return each([&](std::int64_t i) { return a.of[i] - b.of[i]; });
}
Chunk operator/(const Chunk& a, const Chunk& b) {
  return each([&](std::int64_t i) { return a.of[i] / b.of[i]; });
}
Chunk operator-(const Chunk& a) {
  return each([&](std::int64_t i) { return -a.of[i]; });
}
struct Chosen {
  bool of[Chunk::kSize];
};
Chosen operator>(const Chunk& a, const Chunk& b) {
  Chosen y;
  for (std::int64_t i = 0; i < Chunk::kSize; ++i) y.of[i] = a.of[i] > b.of[i];
  return y;
}
Chunk select(const Chosen& m, const Chunk& a, const Chunk& b) {
  return each([&](std::int64_t i) { return m.of[i] ? a.of[i] : b.of[i]; });
}
// Whole formulas inlined: a call in the loop would leave it scalar.
#define ISOBIT_CHUNK __attribute__((flatten)) Chunk
Chunk magnitude(const Chunk& x) {
  return each([&](std::int64_t i) { return contract::magnitude(x.of[i]); });
}
// By groups of registers.
template <class Formula>
Chunk in_groups(Formula formula, const Chunk& x) {
  Chunk y;
  map_groups(formula, y.of, Chunk::kSize, x.of);
  return y;
}
#define ISOBIT_GROUPS(function) \
  [](const WideGroup& x) __attribute__((always_inline)) { return function(x); }
Chunk exp(const Chunk& x) { return in_groups(ISOBIT_GROUPS(contract::binary64::exp), x); }
Chunk exp_below(const Chunk& x) { return exp(x); }
Chunk tanh(const Chunk& x) { return in_groups(ISOBIT_GROUPS(contract::binary64::tanh), x); }
Chunk sigmoid(const Chunk& x) { return in_groups(ISOBIT_GROUPS(contract::binary64::sigmoid), x); }
ISOBIT_CHUNK log1p(const Chunk& x) {
  return each([&](std::int64_t i) { return contract::log1p(x.of[i]); });
}
Chunk fma(const Chunk& a, const Chunk& b, const Chunk& c) {
  return each([&](std::int64_t i) { return contract::fma(a.of[i], b.of[i], c.of[i]); });
}
}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA

ISOBIT_CONTRACT_BEGIN
template <>
struct GeluConstants<kernels::ISOBIT_ISA::Chunk> : GeluConstants<double> {};
ISOBIT_CONTRACT_END

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// below(x) of numbers below 2^20; rounded(x) of others.
template <class Below, class Rounded>
Chunk sine(const Chunk& x, Below below, Rounded rounded) {
  Chunk y = each([&](std::int64_t i) { return contract::magnitude(x.of[i]) < 0x1p20 ? x.of[i] : 0.0; });
  y = in_groups(below, y);
  for (std::int64_t i = 0; i < Chunk::kSize; ++i)
    if (!(contract::magnitude(x.of[i]) < 0x1p20)) y.of[i] = rounded(x.of[i]);
  return y;
}
Chunk sin(const Chunk& x) {
  return sine(x, ISOBIT_GROUPS(contract::binary64::sin_below), [](double v) { return contract::sin_rounded(v); });
}
Chunk cos(const Chunk& x) {
  return sine(x, ISOBIT_GROUPS(contract::binary64::cos_below), [](double v) { return contract::cos_rounded(v); });
}

// f of the continued fraction for kTogether numbers: its divisions wait for each other, so many are on their way.
constexpr std::int64_t kTogether = 16;
void fractions(const double* a, double* f) {
  using Eight = double __attribute__((vector_size(64)));
  Eight from[kTogether / 8], part[kTogether / 8];
  std::memcpy(from, a, sizeof from);
  std::memcpy(part, a, sizeof part);
  for (int k = contract::binary64::kErfParts; k >= 1; --k) {
    const double half = 0.5 * static_cast<double>(k);
#pragma GCC unroll 4
    for (std::int64_t j = 0; j < kTogether / 8; ++j) part[j] = from[j] + half / part[j];
  }
  std::memcpy(f, part, sizeof part);
}
Chunk erf(const Chunk& x) {
  namespace rules = contract::binary64;
  double far[Chunk::kSize + kTogether], f[kTogether];
  std::int64_t place[Chunk::kSize + 1], count = 0;
  Chunk y = in_groups(
      [](const WideGroup& v) __attribute__((always_inline)) {
        using Group = WideGroup;
        const Group a = magnitude(v);
        const auto is_near = a < Group(rules::kErfMiddle);
        const Group near = rules::erf_near(select(is_near, v, Group(0.0)));
        const Group middle = rules::erf_middle(select(a < Group(rules::kErfFar), a, Group(1.0)));
        const Group far = with_sign_of(select(a < Group(rules::kErfOne), middle, Group(1.0)), v);
        return select(v != v, Group(rules::kNan), select(is_near, near, far));
      },
      x);
  for (std::int64_t i = 0; i < Chunk::kSize; ++i) {
    const double a = contract::magnitude(x.of[i]);
    far[count] = a, place[count] = i;
    count += ((a >= rules::kErfFar) & (a < rules::kErfOne)) ? 1 : 0;
  }
  std::fill_n(far + count, kTogether, 2.0);
  for (std::int64_t first = 0; first < count; first += kTogether) {
    fractions(far + first, f);
    map_groups(
        [](const WideGroup& a, const WideGroup& part)
            __attribute__((always_inline)) { return rules::erf_of_fraction(a, part); },
        f, kTogether, far + first, f);
    for (std::int64_t j = 0; j < std::min(kTogether, count - first); ++j) {
      const std::int64_t i = place[first + j];
      y.of[i] = rules::with_sign_of(f[j], x.of[i]);
    }
  }
  return y;
}

// What is mapped over arrays.
struct ChunkErf {
  Chunk operator()(const Chunk& x) const { return erf(x); }
};
struct ChunkSin {
  Chunk operator()(const Chunk& x) const { return sin(x); }
};
struct ChunkCos {
  Chunk operator()(const Chunk& x) const { return cos(x); }
};
struct ChunkGelu {
  Chunk operator()(const Chunk& x) const { return contract::gelu(x); }
};
struct ChunkGeluBackward {
  Chunk operator()(const Chunk& dy, const Chunk& x) const { return contract::gelu_backward(dy, x); }
};

// Chunks of arrays; what an array lacks to a whole one is 0.
struct ChunkMap {
  template <class Formula, class... Input>
  static void run(Formula formula, double* y, std::int64_t n, const Input*... inputs) {
    constexpr std::int64_t kSize = Chunk::kSize;
    parallel_for(0, (n + kSize - 1) / kSize, 2, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t first = begin * kSize; first < std::min(end * kSize, n); first += kSize) {
        const std::int64_t count = std::min(kSize, n - first);
        const auto chunk = [=](const double* from) {
          Chunk c;
          std::copy_n(from + first, count, c.of);
          std::fill_n(c.of + count, kSize - count, 0.0);
          return c;
        };
        const Chunk result = formula(chunk(inputs)...);
        std::copy_n(result.of, count, y + first);
      }
    });
  }
};

#undef ISOBIT_CHUNK

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
