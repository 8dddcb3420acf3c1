// A section 4 reduction of any shape: leaves by leaf.h, the pairwise tree over them, one finish per output.
// Private to this folder.
//
// ordered_reduce(shape, op, finish) calls finish(o, value) once for every output o, on the device, with the
// tree's value (Value{} for no elements). Which threads take which leaves follows the shape and the device;
// the bits do not: every part of the tree that a thread, a warp or a block forms alone is one of the
// contract's, 2^j leaves from a multiple of 2^j on. One launch, two where an output's leaves go to several
// blocks.
#pragma once

#include "kernels/cuda/divider.h"
#include "kernels/cuda/leaf.h"
#include "kernels/reduce.h"

namespace isobit::kernels::ISOBIT_CUDA {

// Numbers a set of dimensions row-major; those that lie side by side in memory are made one.
struct Dimensions {
  int rank = 1;
  std::int64_t count = 1;
  Divider size[kMaxReduceRank];
  std::int64_t stride[kMaxReduceRank] = {};

  Dimensions(const std::int64_t* sizes, const std::int64_t* strides, int dimensions) {
    std::int64_t length[kMaxReduceRank] = {1};
    int last = -1;
    for (int d = 0; d < dimensions; ++d) {
      count *= sizes[d];
      if (sizes[d] == 1) continue;
      if (last >= 0 && stride[last] == strides[d] * sizes[d]) {
        length[last] *= sizes[d];
      } else {
        length[++last] = sizes[d];
      }
      stride[last] = strides[d];
    }
    if (last > 0) rank = last + 1;
    for (int d = 0; d < rank; ++d) size[d] = Divider(length[d], count);
  }

  [[nodiscard]] ISOBIT_DEVICE std::int64_t offset(std::int64_t i) const {
    std::int64_t offset = 0;
#pragma unroll 1
    for (int d = rank - 1; d > 0; --d) {
      const std::int64_t rest = size[d].quotient(i);
      offset += (i - rest * size[d].divisor()) * stride[d];
      i = rest;
    }
    return offset + i * stride[0];
  }
  [[nodiscard]] std::int64_t inner_size() const { return size[rank - 1].divisor(); }
  [[nodiscard]] std::int64_t inner_stride() const { return stride[rank - 1]; }
};

struct ReduceLayout {
  Dimensions kept, reduced;
  std::int64_t leaves;

  explicit ReduceLayout(const ReduceShape& s)
      : kept(s.kept_size, s.kept_stride, s.kept_rank),
        reduced(s.reduced_size, s.reduced_stride, s.reduced_rank),
        leaves(ceil_div(reduced.count, kLeafElements)) {}

  [[nodiscard]] ISOBIT_DEVICE int leaf_count(std::int64_t leaf) const {
    const std::int64_t rest = reduced.count - leaf * kLeafElements;
    return rest < kLeafElements ? static_cast<int>(rest) : kLeafElements;
  }
};

// Values of `count` parts of a tree, in order; part(i) covers 2^j leaves from a multiple of 2^j on, the last
// perhaps fewer.
template <class Value, class Part>
ISOBIT_DEVICE Value tree_of(std::int64_t count, Part part) {
  contract::PairwiseTreeOf<Value> tree;
  for (std::int64_t i = 0; i < count; ++i) tree.add(part(i));
  return tree.result();
}

// How outputs are shared out: `warps` of them (1 or a block's) take `chunk` leaves of an output each, a power
// of two, in order; `parts` such teams an output.
struct RowPlan {
  int warps;
  std::int64_t chunk, parts, blocks;

  explicit RowPlan(const ReduceLayout& layout) : warps(1), chunk(1), parts(1) {
    const std::int64_t outputs = layout.kept.count, leaves = layout.leaves;
    if (leaves <= 4) {
      chunk = 4;
      blocks = ceil_div(outputs, kTeamWarps);
      return;
    }
    warps = kTeamWarps;
    const std::int64_t enough = 8 * multiprocessors();
    while (chunk * warps < leaves && outputs * ceil_div(leaves, chunk * warps) > enough) chunk *= 2;
    parts = ceil_div(leaves, chunk * warps);
    blocks = outputs * parts;
  }
};

// A part of an output goes to partials[part * outputs + o]; where it is the only one, to finish.
template <class Op, class Finish>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kTeamThreads, 3) void row_kernel(Op op, Finish finish, ReduceLayout layout,
                                                                    RowPlan plan, typename Op::Value* partials) {
  using Value = typename Op::Value;
  const int warp = thread_index() / kWarp;
  const bool alone = plan.warps == 1;
  const std::int64_t o = alone ? block_index() * kTeamWarps + warp : block_index() / plan.parts;
  if (o >= layout.kept.count) return;  // a whole warp, and only where no block waits for it
  const std::int64_t part = alone ? 0 : block_index() % plan.parts;
  const std::int64_t block_leaf = part * kTeamWarps * plan.chunk;
  const std::int64_t first_leaf = alone ? 0 : block_leaf + warp * plan.chunk;
  const std::int64_t end = first_leaf + plan.chunk < layout.leaves ? first_leaf + plan.chunk : layout.leaves;

  const typename Op::Context context = op.context(o);
  const std::int64_t first = layout.kept.offset(o);
  const WarpTeam team;
  Value value = tree_of<Value>(end - first_leaf, [&](std::int64_t i) {
    const std::int64_t leaf = first_leaf + i;
    return leaf_value(op, context, team, leaf * kLeafElements, layout.leaf_count(leaf),
                      [&](std::int64_t element) { return first + layout.reduced.offset(element); });
  });
  if (alone) {
    if (team.lane == 0) finish(o, value);
    return;
  }
  Value* const of_warp = shared_memory<Value>();
  if (team.lane == 0) of_warp[warp] = value;
  barrier();
  if (thread_index() != 0) return;
  const std::int64_t warps = ceil_div(layout.leaves - block_leaf, plan.chunk);
  value = tree_of<Value>(warps < kTeamWarps ? warps : kTeamWarps, [&](std::int64_t i) { return of_warp[i]; });
  if (plan.parts == 1) {
    finish(o, value);
  } else {
    partials[part * layout.kept.count + o] = value;
  }
}

// A block: one leaf of `columns` outputs, which lie side by side in memory.
template <int columns, class Op, class Finish>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kTeamThreads, 2) void column_kernel(Op op, Finish finish, ReduceLayout layout,
                                                                       std::int64_t tiles,
                                                                       typename Op::Value* partials) {
  const ColumnTeam<columns> team;
  const std::int64_t leaf = block_index() / tiles;
  const std::int64_t o = block_index() % tiles * columns + team.column;
  const bool is_output = o < layout.kept.count;
  const std::int64_t source = is_output ? o : 0;
  const std::int64_t first = layout.kept.offset(source);
  const typename Op::Value value =
      leaf_value(op, op.context(source), team, leaf * kLeafElements, is_output ? layout.leaf_count(leaf) : 0,
                 [&](std::int64_t element) { return first + layout.reduced.offset(element); });
  if (!is_output || team.lane != 0) return;
  if (layout.leaves == 1) {
    finish(o, value);
  } else {
    partials[leaf * layout.kept.count + o] = value;
  }
}

// The tree over an output's partial values, by one thread.
template <class Value, class Finish>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kTeamThreads, 2) void combine_kernel(Finish finish, const Value* partials,
                                                                        std::int64_t parts, std::int64_t outputs) {
  const std::int64_t o = block_index() * kTeamThreads + thread_index();
  if (o >= outputs) return;
  finish(o, tree_of<Value>(parts, [&](std::int64_t i) { return partials[i * outputs + o]; }));
}

// The tree over the values of the warp's first `count` lanes, in lane 0.
template <class Value>
ISOBIT_DEVICE Value tree_of_warp(Value value, int count) {
  const int lane = thread_index() % kWarp;
  for (int w = 1; w < kWarp; w *= 2) {
    const Value later = moved(value, [&](auto v) { return shuffle_down(v, w); });
    if (lane % (2 * w) == 0 && lane + w < count) value = value + later;
  }
  return value;
}

// The same by a block: a thread takes `chunk` partial values, a power of two.
template <class Value, class Finish>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kTeamThreads, 2) void combine_block_kernel(Finish finish, const Value* partials,
                                                                              std::int64_t parts, std::int64_t outputs,
                                                                              std::int64_t chunk) {
  Value* const of_warp = shared_memory<Value>();
  const std::int64_t o = block_index(), first = thread_index() * chunk;
  const int warp = thread_index() / kWarp;
  const int threads = static_cast<int>(ceil_div(parts, chunk));  // that have partial values
  const std::int64_t mine = parts - first < chunk ? parts - first : chunk;
  const Value value = tree_of<Value>(mine, [&](std::int64_t i) { return partials[(first + i) * outputs + o]; });
  const Value of_this = tree_of_warp(value, threads - warp * kWarp);
  if (thread_index() % kWarp == 0) of_warp[warp] = of_this;
  barrier();
  if (thread_index() != 0) return;
  finish(o, tree_of<Value>(ceil_div(threads, kWarp), [&](std::int64_t i) { return of_warp[i]; }));
}

template <class Value, class Finish>
void combine(const Finish& finish, const Value* partials, std::int64_t parts, std::int64_t outputs) {
  if (parts <= 8 || outputs >= 4096) {
    launch(combine_kernel<Value, Finish>, {ceil_div(outputs, kTeamThreads), kTeamThreads}, finish, partials, parts,
           outputs);
    return;
  }
  std::int64_t chunk = 1;
  while (chunk * kTeamThreads < parts) chunk *= 2;
  launch(combine_block_kernel<Value, Finish>,
         {outputs, kTeamThreads, kTeamWarps * static_cast<std::int64_t>(sizeof(Value))}, finish, partials, parts,
         outputs, chunk);
}

template <int columns, class Op, class Finish>
void reduce_columns(const ReduceLayout& layout, const Op& op, const Finish& finish) {
  using Value = typename Op::Value;
  const std::int64_t outputs = layout.kept.count, tiles = ceil_div(outputs, columns);
  const Scratch scratch(layout.leaves > 1 ? layout.leaves * outputs * static_cast<std::int64_t>(sizeof(Value)) : 0);
  Value* const partials = scratch.as<Value>();
  launch(column_kernel<columns, Op, Finish>,
         {tiles * layout.leaves, kTeamThreads, ColumnTeam<columns>::shared_bytes(sizeof(typename Op::Lane))}, op,
         finish, layout, tiles, partials);
  if (layout.leaves > 1) combine<Value>(finish, partials, layout.leaves, outputs);
}

template <class Op, class Finish>
void reduce_rows(const ReduceLayout& layout, const Op& op, const Finish& finish) {
  using Value = typename Op::Value;
  const std::int64_t outputs = layout.kept.count;
  const RowPlan plan(layout);
  const Scratch scratch(plan.parts > 1 ? plan.parts * outputs * static_cast<std::int64_t>(sizeof(Value)) : 0);
  Value* const partials = scratch.as<Value>();
  launch(row_kernel<Op, Finish>, {plan.blocks, kTeamThreads, kTeamWarps * static_cast<std::int64_t>(sizeof(Value))}, op,
         finish, layout, plan, partials);
  if (plan.parts > 1) combine<Value>(finish, partials, plan.parts, outputs);
}

// Precondition: shape has outputs. finish and op are copied to the device.
template <class Op, class Finish>
void ordered_reduce(const ReduceShape& shape, const Op& op, const Finish& finish) {
  const ReduceLayout layout(shape);
  if (layout.kept.count == 0) return;
  const std::int64_t count = layout.reduced.count, inner = layout.kept.inner_size();
  const bool along_columns = layout.kept.inner_stride() < layout.reduced.inner_stride();
  if (count > 0 && count <= kFew) {
    reduce_columns<kTeamThreads>(layout, op, finish);
  } else if (count > 0 && along_columns && inner >= 8) {
    inner >= 32 ? reduce_columns<32>(layout, op, finish) : reduce_columns<8>(layout, op, finish);
  } else {
    reduce_rows(layout, op, finish);
  }
}

// The sums over n and inner that belong to each channel of [n, c, inner].
inline ReduceShape channel_sums(std::int64_t n, std::int64_t c, std::int64_t inner) {
  ReduceShape shape;
  shape.kept_rank = 1, shape.reduced_rank = 2;
  shape.kept_size[0] = c, shape.kept_stride[0] = inner;
  shape.reduced_size[0] = n, shape.reduced_stride[0] = c * inner;
  shape.reduced_size[1] = inner, shape.reduced_stride[1] = 1;
  return shape;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
