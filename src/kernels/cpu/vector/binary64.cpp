// binary64 with this instruction set's fused multiply-add, which code for any machine calls the C library for: formulas
// as the reference writes them, in loops that the compiler turns into vectors (flags of its own:
// src/kernels/CMakeLists.txt), and softmax of rows that lie in order; and the table of all kernels on binary64.
#include "contract/functions_binary64.h"
#include "kernels/cpu/vector/binary64_chunks.h"
#include "kernels/cpu/vector/binary64_kernels.h"
#include "kernels/cpu/vector/binary64_loop.h"
#include "kernels/cpu/vector/binary64_rows.h"
#include "kernels/cpu/vector/lanes.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/formulas/activation_kernels.h"
#include "kernels/formulas/pointwise_kernels.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kWorthAThread = 4096;  // elements

// The powers that programs have most, whose digits the compiler knows.
template <std::int32_t whole, bool half, bool negative>
struct KnownPower {
  double operator()(double x) const { return contract::product_power(x, {whole, half, negative}); }
};
bool power(const double* x, double p, double* y, std::int64_t n) {
  using Map = LoopMap<1024>;
  if (p == 2.0) {
    Map::run(KnownPower<2, false, false>{}, y, n, x);
  } else if (p == 3.0) {
    Map::run(KnownPower<3, false, false>{}, y, n, x);
  } else if (p == 4.0) {
    Map::run(KnownPower<4, false, false>{}, y, n, x);
  } else if (p == 0.5) {
    Map::run(KnownPower<0, true, false>{}, y, n, x);
  } else if (p == -1.0) {
    Map::run(KnownPower<1, false, true>{}, y, n, x);
  } else if (p == -0.5) {
    Map::run(KnownPower<0, true, true>{}, y, n, x);
  } else {
    return PointwiseKernels<Map, double>::power(x, p, y, n);
  }
  return true;
}

template <class Formula>
void in_parallel_groups(Formula formula, double* y, std::int64_t n, const double* x) {
  parallel_for(0, n, 2048,
               [=](std::int64_t begin, std::int64_t end) { map_groups(formula, y + begin, end - begin, x + begin); });
}
// By chunks, where the formula has ways that few numbers take.
void unary(Unary op, const double* x, double* y, std::int64_t n) {
  switch (op) {
    case Unary::exp: return in_parallel_groups(ISOBIT_GROUPS(contract::binary64::exp), y, n, x);
    case Unary::expm1: return in_parallel_groups(ISOBIT_GROUPS(contract::binary64::expm1), y, n, x);
    case Unary::tanh: return in_parallel_groups(ISOBIT_GROUPS(contract::binary64::tanh), y, n, x);
    case Unary::sigmoid: return in_parallel_groups(ISOBIT_GROUPS(contract::binary64::sigmoid), y, n, x);
    case Unary::erf: return ChunkMap::run(ChunkErf(), y, n, x);
    case Unary::gelu: return ChunkMap::run(ChunkGelu(), y, n, x);
    case Unary::sin: return ChunkMap::run(ChunkSin(), y, n, x);
    case Unary::cos: return ChunkMap::run(ChunkCos(), y, n, x);
    default: return PointwiseKernels<LoopMap<1024>, double>::unary(op, x, y, n);
  }
}
void unary_with(UnaryWith op, const ParametersOf<double>& p, const double* x, double* y, std::int64_t n) {
  switch (op) {
    case UnaryWith::softplus: return ChunkMap::run(UnaryWithFormula<UnaryWith::softplus, double>{p}, y, n, x);
    case UnaryWith::log_sigmoid: return ChunkMap::run(UnaryWithFormula<UnaryWith::log_sigmoid, double>{p}, y, n, x);
    case UnaryWith::mish: return ChunkMap::run(UnaryWithFormula<UnaryWith::mish, double>{p}, y, n, x);
    default: return ActivationKernels<LoopMap<1024>, double>::unary_with(op, p, x, y, n);
  }
}
void binary_with(BinaryWith op, const ParametersOf<double>& p, const double* u, const double* v, double* y,
                 std::int64_t n) {
  if (op == BinaryWith::mish_backward)
    return ChunkMap::run(BinaryWithFormula<BinaryWith::mish_backward, double>{p}, y, n, u, v);
  ActivationKernels<LoopMap<1024>, double>::binary_with(op, p, u, v, y, n);
}
void binary(Binary op, const double* a, const double* b, double* y, std::int64_t n) {
  if (op == Binary::gelu_backward) return ChunkMap::run(ChunkGeluBackward(), y, n, a, b);
  PointwiseKernels<LoopMap<1024>, double>::binary(op, a, b, y, n);
}

// each(x, y) for the rows of a softmax over the last dimension.
template <class Each>
void for_rows(const SoftmaxShape& s, const double* x, double* y, Each each) {
  parallel_for(0, s.outer, kWorthAThread / 8 / (s.size + 1) + 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) each(x + row * s.size, y + row * s.size);
  });
}
void exponentials(const double* x, double m, std::int64_t n, double* y) {
  map_groups(
      [m](const WideGroup& v) __attribute__((always_inline)) { return contract::binary64::exp(v - WideGroup(m)); }, y,
      n, x);
}
void softmax(const SoftmaxShape& s, const double* x, double* y) {
  if (s.inner != 1) return plain_binary64().softmax(s, x, y);
  for_rows(s, x, y, [n = s.size](const double* from, double* to) {
    exponentials(from, extremum_of_row<Largest>(from, n), n, to);
    const double sum = sum_of_row<AddElement>(to, n);
    for (std::int64_t i = 0; i < n; ++i) to[i] = to[i] / sum;
  });
}
void log_softmax(const SoftmaxShape& s, const double* x, double* y) {
  if (s.inner != 1 || x == y) return plain_binary64().log_softmax(s, x, y);
  for_rows(s, x, y, [n = s.size](const double* from, double* to) {
    const double m = extremum_of_row<Largest>(from, n);
    exponentials(from, m, n, to);
    const double log_sum = contract::log(sum_of_row<AddElement>(to, n));
    for (std::int64_t i = 0; i < n; ++i) to[i] = (from[i] - m) - log_sum;
  });
}

void fill_plain(HostTable& t) {
  fill_batch_norm(t);
  fill_group_norm(t);
  fill_indexed(t);
  fill_loss(t);
  fill_random(t);
  fill_reduce(t);
  fill_scan(t);
  fill_softmax(t);
}

}  // namespace

const HostTable& plain_binary64() {
  static const HostTable table = [] {
    HostTable t;
    fill_plain(t);
    return t;
  }();
  return table;
}

// What the list calls binary64 families are the reference's (kernel_list.h); these take their places, but for sorting.
void fill_binary64(HostTable& t) {
  fill_plain(t);
  PointwiseKernels<LoopMap<1024>, double>::fill(t);
  fill_binary64_powers(t);
  ActivationKernels<LoopMap<1024>, double>::fill(t);
  fill_binary64_matmul(t);
  fill_binary64_reductions(t);
  t.unary = unary;
  t.unary_with = unary_with;
  t.binary_with = binary_with;
  t.binary = binary;
  t.power = power;
  t.softmax = softmax;
  t.log_softmax = log_softmax;
}

}  // namespace isobit::kernels::ISOBIT_ISA

#undef ISOBIT_GROUPS
