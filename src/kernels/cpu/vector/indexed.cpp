// Sums and reductions by index over the lane count: registers of a row's elements, which share their occurrences. Rows
// of fewer elements than a register are the reference's.
#include "kernels/cpu/indexed_lists.h"

#include "contract/extrema.h"
#include "contract/pairwise_tree.h"
#include "kernels/cpu/vector/lane_leaf.h"
#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

template <int kRegisters>
struct Registers {
  FloatLanes v[kRegisters];
};
template <int kRegisters>
ISOBIT_INLINE Registers<kRegisters> operator+(const Registers<kRegisters>& a, const Registers<kRegisters>& b) {
  Registers<kRegisters> sum;
  for (std::int64_t w = 0; w < kRegisters; ++w) sum.v[w] = a.v[w] + b.v[w];
  return sum;
}

// t[w] = step(t[w], that register of each row of [at, end)), in their order; rows at `source` on.
template <int kRegisters, class Extent, class Step>
ISOBIT_INLINE void take_rows(const List& list, const std::int64_t* at, const std::int64_t* end, const float* source,
                             Extent part, Step step, Registers<kRegisters>& t) {
  for (; at < end; ++at) {
    fetch_ahead(list, at, source, std::int64_t{kRegisters} * kLanes);
    const float* const from = source + *at * list.inner;
    for (std::int64_t w = 0; w < kRegisters; ++w) t.v[w] = step(t.v[w], fetch(from + w * kLanes, part));
  }
}

template <int kRegisters, class Extent>
ISOBIT_INLINE Registers<kRegisters> sum_of(const List& list, const float* source, Extent part) {
  const auto add = [](FloatLanes t, FloatLanes x) __attribute__((always_inline)) { return t + x; };
  const Registers<kRegisters> zero{};
  if (list.count() <= contract::kLeaf) {
    Registers<kRegisters> t = zero;
    take_rows(list, list.order, list.end, source, part, add, t);
    return t;
  }
  contract::PairwiseTreeOf<Registers<kRegisters>> tree;
  for (const std::int64_t* at = list.order; at < list.end; at += contract::kLeaf) {
    Registers<kRegisters> t = zero;
    take_rows(list, at, list.end - at < contract::kLeaf ? list.end : at + contract::kLeaf, source, part, add, t);
    tree.add(t);
  }
  return tree.result();
}

// use(registers as a constant, first element, Whole or Part) for the pieces that a row is cut into.
template <class Use>
ISOBIT_INLINE void for_pieces(std::int64_t inner, Use use) {
  constexpr std::int64_t kWide = std::int64_t{8} * kLanes, kSome = std::int64_t{2} * kLanes;
  std::int64_t i = 0;
  for (; i + kWide <= inner; i += kWide) use(std::integral_constant<int, 8>(), i, Whole{});
  for (; i + kSome <= inner; i += kSome) use(std::integral_constant<int, 2>(), i, Whole{});
  for (; i + kLanes <= inner; i += kLanes) use(std::integral_constant<int, 1>(), i, Whole{});
  if (i < inner) use(std::integral_constant<int, 1>(), i, Part{inner - i});
}

void indexed_add(const Occurrences& occurrences, std::int64_t outer, std::int64_t source_rows, std::int64_t inner,
                 float alpha, const float* source, float* destination) {
  if (inner < kLanes)
    return table_of(Isa::reference).indexed_add(occurrences, outer, source_rows, inner, alpha, source, destination);
  const std::int64_t rows = occurrences.row == nullptr ? occurrences.rows : occurrences.destination_rows;
  const FloatLanes factor(alpha);
  for_lists(occurrences, outer, inner, [&](const List& list, std::int64_t row, std::int64_t o) {
    for_pieces(
        inner, [&](auto registers, std::int64_t i, auto part) __attribute__((always_inline)) {
          constexpr int kRegisters = decltype(registers)::value;
          const Registers<kRegisters> sum = sum_of<kRegisters>(list, source + o * source_rows * inner + i, part);
          float* const to = destination + (o * rows + row) * inner + i;
          for (std::int64_t w = 0; w < kRegisters; ++w) {
            const FloatLanes before = fetch(to + w * kLanes, part);
            put(to + w * kLanes, alpha == 1.0f ? before + sum.v[w] : fma(factor, sum.v[w], before), part);
          }
        });
  });
}

// As contract::reduced_by_index, element by element.
template <int kRegisters, class Extent>
ISOBIT_INLINE void reduce_piece(IndexReduction op, const List& list, bool include_self, const float* source,
                                Extent part, float* to) {
  Registers<kRegisters> t;
  if (op == IndexReduction::sum || op == IndexReduction::mean) {
    t = sum_of<kRegisters>(list, source, part);
    const FloatLanes count(static_cast<float>(list.count() + (include_self ? 1 : 0)));
    for (std::int64_t w = 0; w < kRegisters; ++w) {
      const FloatLanes total = include_self ? fetch(to + w * kLanes, part) + t.v[w] : t.v[w];
      put(to + w * kLanes, op == IndexReduction::sum ? total : total / count, part);
    }
    return;
  }
  const float* const first = source + list.order[0] * list.inner;
  for (std::int64_t w = 0; w < kRegisters; ++w) {
    const float* const from = (include_self ? to : first) + w * kLanes;
    t.v[w] = !include_self && op == IndexReduction::product ? FloatLanes(1.0f) : fetch(from, part);
  }
  const auto take = [&](auto step) __attribute__((always_inline)) {
    take_rows(list, list.order, list.end, source, part, step, t);
  };
  using F = FloatLanes;
  if (op == IndexReduction::product) take([](F u, F v) __attribute__((always_inline)) { return u * v; });
  if (op == IndexReduction::maximum)
    take([](F u, F v) __attribute__((always_inline)) { return contract::maximum(u, v); });
  if (op == IndexReduction::minimum)
    take([](F u, F v) __attribute__((always_inline)) { return contract::minimum(u, v); });
  for (std::int64_t w = 0; w < kRegisters; ++w) put(to + w * kLanes, t.v[w], part);
}

void indexed_reduce(IndexReduction op, const Occurrences& occurrences, std::int64_t inner, bool include_self,
                    const float* source, float* destination) {
  if (inner < kLanes)
    return table_of(Isa::reference).indexed_reduce(op, occurrences, inner, include_self, source, destination);
  for_lists(occurrences, 1, inner, [&](const List& list, std::int64_t row, std::int64_t) {
    for_pieces(
        inner, [&](auto registers, std::int64_t i, auto part) __attribute__((always_inline)) {
          reduce_piece<decltype(registers)::value>(op, list, include_self, source + i, part,
                                                   destination + row * inner + i);
        });
  });
}

// Lines side by side; one alone is a chain without lanes.
template <class Step>
ISOBIT_INLINE void run_lines(std::int64_t outer, std::int64_t size, std::int64_t inner, float start, const float* x,
                             float* y, Step step) {
  constexpr std::int64_t kWide = std::int64_t{4} * kLanes;  // a register's steps wait for each other
  const std::int64_t pieces = (inner + kWide - 1) / kWide;
  parallel_for(0, outer * pieces, 4096 / (size + 1) + 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t piece = first; piece < last; ++piece) {
      const std::int64_t i = piece % pieces * kWide, width = inner - i < kWide ? inner - i : kWide;
      const std::int64_t at = piece / pieces * size * inner + i;
      FloatLanes t[4] = {FloatLanes(start), FloatLanes(start), FloatLanes(start), FloatLanes(start)};
      for (std::int64_t k = 0; k < size; ++k) {
        const float* const from = x + at + k * inner;
        float* const to = y + at + k * inner;
        for_each_register(
            width, [&](std::int64_t j, auto part) __attribute__((always_inline)) {
              FloatLanes& u = t[j / kLanes];
              u = step(u, fetch(from + j, part));
              put(to + j, u, part);
            });
      }
    }
  });
}
void cumulative(Cumulative op, std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  if (inner < kLanes) return table_of(Isa::reference).cumulative(op, outer, size, inner, x, y);
  using F = FloatLanes;
  if (op == Cumulative::sum) {
    run_lines(
        outer, size, inner, 0.0f, x, y, [](F t, F v) __attribute__((always_inline)) { return t + v; });
  } else {
    run_lines(
        outer, size, inner, 1.0f, x, y, [](F t, F v) __attribute__((always_inline)) { return t * v; });
  }
}

}  // namespace

void fill_indexed(KernelTable& t) {
  t.indexed_add = indexed_add;
  t.indexed_reduce = indexed_reduce;
  t.cumulative = cumulative;
}

}  // namespace isobit::kernels::ISOBIT_ISA
