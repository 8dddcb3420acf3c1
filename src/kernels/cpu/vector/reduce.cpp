// Reductions over the lane count. Three ways through memory, one order of operations:
//
//   rows      outputs one after the other, each leaf read in place or gathered into a buffer of kLeaf floats
//   leaves    few outputs of many leaves: the leaves in parallel, then the tree
//   columns   the last kept axis is contiguous and the reduced ones are not: a register of outputs at a time
#include <cmath>

#include "contract/extrema.h"
#include "contract/formula.h"
#include "contract/lane_sum.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/vector/by_size.h"
#include "kernels/cpu/vector/lane_leaf.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

using contract::kLeaf;
constexpr std::int64_t kWorthAThread = 16384;  // elements

std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// What happens to elements. T is float or FloatLanes.
struct Add {
  static constexpr float kStart = 0.0f;
  template <class T>
  static ISOBIT_INLINE T step(T t, T x) {
    return t + x;
  }
  template <class T>
  ISOBIT_INLINE T operator()(T a, T b) const {
    return a + b;
  }
  template <class T>
  static ISOBIT_INLINE T root(T value) {
    return value + T(0.0f);
  }
};
struct AddSquares : Add {
  template <class T>
  static ISOBIT_INLINE T step(T t, T x) {
    using contract::fma;
    return fma(x, x, t);
  }
};
// Of numbers any order gives the same extremum, so the steps only keep a NaN once it is met; the root makes it the
// canonical one, and a zero +0 (contract/extrema.h).
struct TakeMaximum {
  static constexpr float kStart = -INFINITY;
  template <class T>
  static ISOBIT_INLINE T step(T t, T x) {
    using contract::at_least;
    using contract::select;
    return select(t != t, t, at_least(x, t));
  }
  template <class T>
  ISOBIT_INLINE T operator()(T a, T b) const {
    return step(a, b);
  }
  template <class T>
  static ISOBIT_INLINE T root(T value) {
    return contract::maximum(value, value);
  }
};
struct TakeMinimum {
  static constexpr float kStart = INFINITY;
  template <class T>
  static ISOBIT_INLINE T step(T t, T x) {
    using contract::at_most;
    using contract::select;
    return select(t != t, t, at_most(x, t));
  }
  template <class T>
  ISOBIT_INLINE T operator()(T a, T b) const {
    return step(a, b);
  }
  template <class T>
  static ISOBIT_INLINE T root(T value) {
    return contract::minimum(value, value);
  }
};

// What the tree adds: leaf values under the rule's merge.
template <class Rule, class T>
struct Leaf {
  T value = T(Rule::kStart);
};
template <class Rule, class T>
ISOBIT_INLINE Leaf<Rule, T> operator+(const Leaf<Rule, T>& a, const Leaf<Rule, T>& b) {
  return {Rule{}(a.value, b.value)};
}

// Axes without those of size 1, neighbours joined where they step through memory as one.
struct Axes {
  int rank = 0;
  std::int64_t size[kMaxReduceRank] = {}, stride[kMaxReduceRank] = {};
  std::int64_t count = 1;

  Axes(int given, const std::int64_t* sizes, const std::int64_t* strides) {
    for (int i = 0; i < given; ++i) {
      count *= sizes[i];
      if (sizes[i] == 1) continue;
      if (rank > 0 && stride[rank - 1] == sizes[i] * strides[i]) {
        size[rank - 1] *= sizes[i];
        stride[rank - 1] = strides[i];
        continue;
      }
      size[rank] = sizes[i];
      stride[rank++] = strides[i];
    }
  }
  [[nodiscard]] bool last_is_contiguous() const { return rank > 0 && stride[rank - 1] == 1; }
  [[nodiscard]] std::int64_t offset_of(std::int64_t index) const {
    std::int64_t offset = 0;
    for (int i = rank - 1; i >= 0; --i) {
      offset += index % size[i] * stride[i];
      index /= size[i];
    }
    return offset;
  }
  // segment(offset, first, n): elements [first, first + n) of [begin, begin + count) lie `stride of the last
  // axis` apart, from offset on.
  template <class Segment>
  ISOBIT_INLINE void walk(std::int64_t begin, std::int64_t n, Segment segment) const {
    if (rank == 0) return segment(0, 0, n);
    const std::int64_t inner = size[rank - 1];
    for (std::int64_t done = 0; done < n;) {
      const std::int64_t length = smaller(n - done, inner - (begin + done) % inner);
      segment(offset_of(begin + done), done, length);
      done += length;
    }
  }
};

// Elements [begin, begin + n) in order: in place where they are contiguous, else copied to the buffer.
struct LeafBuffer {
  float data[kLeaf + kLanes];

  const float* gather(const Axes& axes, const float* x, std::int64_t begin, std::int64_t n) {
    if (axes.rank == 0) return x;
    const std::int64_t inner = axes.size[axes.rank - 1], stride = axes.stride[axes.rank - 1];
    if (stride == 1 && begin % inner + n <= inner) return x + axes.offset_of(begin);
    axes.walk(begin, n, [&](std::int64_t offset, std::int64_t first, std::int64_t length) {
      if (stride == 1) {
        copy_loose(x + offset, length, data + first);
      } else {
        for (std::int64_t i = 0; i < length; ++i) data[first + i] = x[offset + i * stride];
      }
    });
    return data;
  }
};

template <class Rule>
float contiguous_leaf(const float* p, std::int64_t n) {
  return leaf_value(
      n, Rule::kStart,
      [p](FloatLanes t, std::int64_t i, auto part) { return Rule::step(t, fetch(p + i, part, Rule::kStart)); }, Rule{});
}

// A register of floats, `stride` apart.
ISOBIT_INLINE FloatLanes gathered(const float* x, std::int64_t stride) {
  float element[kLanes];
  for (std::int64_t l = 0; l < kLanes; ++l) element[l] = x[l * stride];
  return load(element);
}

template <class Rule>
float reduce_row(const Axes& reduced, const float* x) {
  LeafBuffer buffer;
  if (reduced.count <= kLeaf) {
    return Rule::root(reduced.count == 0
                          ? Rule::kStart
                          : contiguous_leaf<Rule>(buffer.gather(reduced, x, 0, reduced.count), reduced.count));
  }
  contract::PairwiseTreeOf<Leaf<Rule, float>> tree;
  for (std::int64_t begin = 0; begin < reduced.count; begin += kLeaf) {
    const std::int64_t n = smaller(kLeaf, reduced.count - begin);
    tree.add({contiguous_leaf<Rule>(buffer.gather(reduced, x, begin, n), n)});
  }
  return Rule::root(tree.result().value);
}

template <class Rule, class Finish>
void reduce_short_rows(const Axes& kept, const Axes& reduced, const float* x, float* out, Finish finish) {
  const std::int64_t stride = reduced.rank == 0 ? 0 : reduced.stride[0], n = reduced.count;
  const std::int64_t next = kept.rank == 1 ? kept.stride[0] : 0;
  parallel_for(0, kept.count, kWorthAThread / (n + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t o = begin;
    for (; kept.rank == 1 && o + kLanes <= end; o += kLanes) {
      const auto element = [&](std::int64_t j) { return gathered(x + o * next + j * stride, next); };
      store(out + o, finish(Rule::root(short_leaf<Rule, FloatLanes>(n, element))));
    }
    for (; o < end; ++o) {
      const float* const from = x + kept.offset_of(o);
      out[o] = finish(Rule::root(short_leaf<Rule, float>(n, [&](std::int64_t j) { return from[j * stride]; })));
    }
  });
}

template <class Rule, class Finish>
void reduce_rows(const Axes& kept, const Axes& reduced, const float* x, float* out, Finish finish) {
  if (reduced.rank <= 1 && reduced.count > 0 && reduced.count <= kShort) {
    return reduce_short_rows<Rule>(kept, reduced, x, out, finish);
  }
  parallel_for(0, kept.count, kWorthAThread / (reduced.count + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) out[o] = finish(reduce_row<Rule>(reduced, x + kept.offset_of(o)));
  });
}

template <class Rule, class Finish>
void reduce_leaves(const Axes& kept, const Axes& reduced, const float* x, float* out, Finish finish) {
  const std::int64_t leaves = (reduced.count + kLeaf - 1) / kLeaf;
  Workspace workspace;
  float* const values = workspace.floats(leaves);
  for (std::int64_t o = 0; o < kept.count; ++o) {
    const float* const from = x + kept.offset_of(o);
    parallel_for(0, leaves, kWorthAThread / kLeaf, [&](std::int64_t begin, std::int64_t end) {
      LeafBuffer buffer;
      for (std::int64_t leaf = begin; leaf < end; ++leaf) {
        const std::int64_t n = smaller(kLeaf, reduced.count - leaf * kLeaf);
        values[leaf] = contiguous_leaf<Rule>(buffer.gather(reduced, from, leaf * kLeaf, n), n);
      }
    });
    contract::PairwiseTreeOf<Leaf<Rule, float>> tree;
    for (std::int64_t leaf = 0; leaf < leaves; ++leaf) tree.add({values[leaf]});
    out[o] = finish(Rule::root(tree.result().value));
  }
}

// kWide registers of columns, or the first columns of one, of one leaf whose rows lie at x + offset[r].
template <class Rule, int kWide, class Extent, class Last>
ISOBIT_INLINE void leaf_of_columns(const float* x, const std::int64_t* offset, std::int64_t rows, Extent extent,
                                   float* out, Last last) {
  FloatLanes value[kWide];
  column_leaf<kWide>(
      rows, Rule::kStart,
      [&](FloatLanes t, std::int64_t r, int w) { return Rule::step(t, fetch(x + offset[r] + w * kLanes, extent)); },
      Rule{}, value);
  for (int w = 0; w < kWide; ++w) put(out + w * kLanes, last(value[w]), extent);
}

// Columns [0, columns) of one leaf of kRows rows, all of them in registers.
template <class Rule, int kRows, class Last>
void leaf_of_few_rows(const float* x, const std::int64_t* offset, std::int64_t columns, float* out, Last last) {
  const float* row[kRows];
  for (int r = 0; r < kRows; ++r) row[r] = x + offset[r];
  for_each_register(
      columns, [&](std::int64_t c, auto extent) __attribute__((always_inline)) {
        const auto element = [&](std::int64_t r) __attribute__((always_inline)) { return fetch(row[r] + c, extent); };
        put(out + c, last(short_leaf<Rule, FloatLanes>(kRows, element)), extent);
      });
}
constexpr int kFewRows = 8;

// Columns [c, last), c a multiple of 32, of one leaf.
template <class Rule, class Last>
void leaf_of_all_columns(const float* x, const std::int64_t* offset, std::int64_t rows, std::int64_t c,
                         std::int64_t last, float* out, Last last_step) {
  if (rows > 0 && rows <= kFewRows) {
    static constexpr auto kFunctions = by_size<kFewRows>([](auto few) { return &leaf_of_few_rows<Rule, few, Last>; });
    return kFunctions.of[rows](x + c, offset, last - c, out + c, last_step);
  }
  constexpr int kWidest = 8;
  for (; c + kWidest * kLanes <= last; c += kWidest * kLanes)
    leaf_of_columns<Rule, kWidest>(x + c, offset, rows, Whole{}, out + c, last_step);
  for (; c + contract::kSumLanes <= last; c += contract::kSumLanes)
    leaf_of_columns<Rule, kSlots>(x + c, offset, rows, Whole{}, out + c, last_step);
  for (; c + kLanes <= last; c += kLanes) leaf_of_columns<Rule, 1>(x + c, offset, rows, Whole{}, out + c, last_step);
  if (c < last) leaf_of_columns<Rule, 1>(x + c, offset, rows, Part{last - c}, out + c, last_step);
}

// Blocks of 32 columns; a leaf's values of all columns go to one row of scratch, the tree runs over these
// rows. Where there is one leaf, its values are the results.
template <class Rule, class Finish>
void reduce_columns(const Axes& kept, const Axes& reduced, const float* x, float* out, Finish finish) {
  constexpr std::int64_t kBlock = contract::kSumLanes;
  const std::int64_t columns = kept.size[kept.rank - 1], groups = kept.count / columns;
  const std::int64_t leaves = (reduced.count + kLeaf - 1) / kLeaf, blocks = (columns + kBlock - 1) / kBlock;
  const bool several = leaves > 1;
  Workspace workspace;
  float* const values = several ? workspace.floats(groups * leaves * columns) : out;
  const auto last_step = [&](FloatLanes value) { return several ? value : finish(Rule::root(value)); };

  const std::int64_t smallest = kWorthAThread / (smaller(kLeaf, reduced.count) * kBlock) + 1;
  parallel_for(0, groups * leaves * blocks, smallest, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t offset[kLeaf], offsets_of = -1;
    for (std::int64_t task = begin, next; task < end; task = next) {
      const std::int64_t group = task / blocks / leaves, leaf = task / blocks % leaves, block = task % blocks;
      next = smaller(end, task - block + blocks);  // all of this leaf's columns that are ours
      const std::int64_t rows = smaller(kLeaf, reduced.count - leaf * kLeaf);
      if (leaf != offsets_of) {
        const std::int64_t step = reduced.rank > 0 ? reduced.stride[reduced.rank - 1] : 0;
        reduced.walk(leaf * kLeaf, rows, [&](std::int64_t from, std::int64_t first, std::int64_t length) {
          for (std::int64_t i = 0; i < length; ++i) offset[first + i] = from + i * step;
        });
        offsets_of = leaf;
      }
      leaf_of_all_columns<Rule>(x + kept.offset_of(group * columns), offset, rows, block * kBlock,
                                smaller(columns, (block + next - task) * kBlock),
                                values + (group * leaves + leaf) * columns, last_step);
    }
  });

  if (!several) return;
  parallel_for(0, groups, kWorthAThread / (leaves * columns) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group) {
      const float* const from = values + group * leaves * columns;
      for_each_register(columns, [&](std::int64_t c, auto part) {
        contract::PairwiseTreeOf<Leaf<Rule, FloatLanes>> tree;
        for (std::int64_t leaf = 0; leaf < leaves; ++leaf) tree.add({fetch(from + leaf * columns + c, part)});
        put(out + group * columns + c, finish(Rule::root(tree.result().value)), part);
      });
    }
  });
}

template <class Rule, class Finish>
void reduce(const ReduceShape& shape, const float* x, float* out, Finish finish) {
  const Axes kept(shape.kept_rank, shape.kept_size, shape.kept_stride);
  const Axes reduced(shape.reduced_rank, shape.reduced_size, shape.reduced_stride);
  if (kept.count == 0) return;
  const bool columns = kept.last_is_contiguous() && !reduced.last_is_contiguous() && reduced.count > 0;
  if (columns && kept.size[kept.rank - 1] > 1) return reduce_columns<Rule>(kept, reduced, x, out, finish);
  if (kept.count < 16 && reduced.count >= 8 * kLeaf) return reduce_leaves<Rule>(kept, reduced, x, out, finish);
  reduce_rows<Rule>(kept, reduced, x, out, finish);
}

struct AsIs {
  template <class T>
  ISOBIT_INLINE T operator()(T value) const {
    return value;
  }
};
struct OverCount {
  float count;
  template <class T>
  ISOBIT_INLINE T operator()(T value) const {
    return value / T(count);
  }
};
struct Root {
  template <class T>
  ISOBIT_INLINE T operator()(T value) const {
    using contract::sqrt;
    return sqrt(value);
  }
};

void sum(const ReduceShape& shape, const float* x, float* out) { reduce<Add>(shape, x, out, AsIs{}); }
void mean(const ReduceShape& shape, const float* x, float* out) {
  reduce<Add>(shape, x, out, OverCount{static_cast<float>(shape.reduced_count())});
}
void norm2(const ReduceShape& shape, const float* x, float* out) { reduce<AddSquares>(shape, x, out, Root{}); }
void maximum(const ReduceShape& shape, const float* x, float* out) { reduce<TakeMaximum>(shape, x, out, AsIs{}); }
void minimum(const ReduceShape& shape, const float* x, float* out) { reduce<TakeMinimum>(shape, x, out, AsIs{}); }

// First of [0, n) that is NaN (where best is) or equal to best; n where there is none.
std::int64_t first_at(const float* p, std::int64_t n, float best) {
  std::int64_t i = 0;
  const bool nan = best != best;
  for (; i + kLanes <= n; i += kLanes) {
    const FloatLanes v = load(p + i);
    if (any(nan ? v != v : v == FloatLanes(best))) break;
  }
  while (i < n && !(nan ? p[i] != p[i] : p[i] == best)) ++i;
  return i;
}

// A register of outputs, each the first of the largest of n elements: element(r) holds element r of every output.
template <class Element>
ISOBIT_INLINE void argmax_in_lanes(std::int64_t n, Element element, std::int64_t count, std::int64_t* out) {
  FloatLanes best = element(0);
  IntLanes place(0);
  for (std::int64_t r = 1; r < n; ++r) {
    const FloatLanes v = element(r);
    const auto better = (best == best) & ((v != v) | (v > best));  // contract::is_better_maximum
    best = select(better, v, best), place = select(better, IntLanes(static_cast<std::int32_t>(r)), place);
  }
  for (std::int64_t l = 0; l < count; ++l) out[l] = place.v[l];
}
void argmax_columns(const Axes& kept, const Axes& reduced, const float* x, std::int64_t* out) {
  constexpr std::int64_t kBlock = 64;
  const std::int64_t columns = kept.size[kept.rank - 1], groups = kept.count / columns, n = reduced.count,
                     stride = reduced.rank > 0 ? reduced.stride[0] : 0, blocks = (columns + kBlock - 1) / kBlock;
  parallel_for(0, groups * blocks, kWorthAThread / (n * kBlock) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t group = task / blocks, first = task % blocks * kBlock;
      const float* const from = x + kept.offset_of(group * columns) + first;
      std::int64_t* const to = out + group * columns + first;
      const std::int64_t count = smaller(kBlock, columns - first);
      for_each_register(count, [&](std::int64_t c, auto part) {
        const auto element = [&](std::int64_t r) { return fetch(from + c + r * stride, part); };
        argmax_in_lanes(n, element, smaller(kLanes, count - c), to + c);
      });
    }
  });
}

std::int64_t first_maximum(const float* x, std::int64_t n) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < n; ++i) {
    if (contract::is_better_maximum(x[i], x[best])) best = i;
  }
  return best;
}

// Rows of a few elements: a register of outputs at a time where these are evenly apart.
void argmax_short_rows(const Axes& kept, const Axes& reduced, const float* x, std::int64_t* out) {
  const std::int64_t n = reduced.count, next = kept.rank == 1 ? kept.stride[0] : 0;
  parallel_for(0, kept.count, kWorthAThread / (n + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t o = begin;
    for (; kept.rank == 1 && o + kLanes <= end; o += kLanes) {
      const auto element = [&](std::int64_t r) { return gathered(x + o * next + r, next); };
      argmax_in_lanes(n, element, kLanes, out + o);
    }
    for (; o < end; ++o) out[o] = first_maximum(x + kept.offset_of(o), n);
  });
}

// The first of the largest, or of NaN (contract/extrema.h): by columns, of a few element by element, or the maximum by
// the rule of section 1 (+0 for a zero, which equals both zeros), then its first place.
void argmax(const ReduceShape& shape, const float* x, std::int64_t* out) {
  const Axes kept(shape.kept_rank, shape.kept_size, shape.kept_stride);
  const Axes reduced(shape.reduced_rank, shape.reduced_size, shape.reduced_stride);
  if (kept.count == 0) return;
  if (kept.last_is_contiguous() && !reduced.last_is_contiguous() && reduced.rank <= 1 && reduced.count > 0 &&
      reduced.count <= INT32_MAX)
    return argmax_columns(kept, reduced, x, out);
  if (reduced.rank == 1 && reduced.stride[0] == 1 && reduced.count <= kShort)
    return argmax_short_rows(kept, reduced, x, out);
  parallel_for(0, kept.count, kWorthAThread / (reduced.count + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    LeafBuffer buffer;
    for (std::int64_t o = begin; o < end; ++o) {
      const float* const from = x + kept.offset_of(o);
      const float best = reduce_row<TakeMaximum>(reduced, from);
      out[o] = 0;
      for (std::int64_t first = 0; first < reduced.count; first += kLeaf) {
        const std::int64_t n = smaller(kLeaf, reduced.count - first);
        const std::int64_t at = first_at(buffer.gather(reduced, from, first, n), n, best);
        if (at == n) continue;
        out[o] = first + at;
        break;
      }
    }
  });
}

}  // namespace

void fill_reduce(KernelTable& t) {
  t.sum = sum;
  t.mean = mean;
  t.norm2 = norm2;
  t.maximum = maximum;
  t.minimum = minimum;
  t.argmax = argmax;
}

}  // namespace isobit::kernels::ISOBIT_ISA
