// Sums, means, norms and extrema on binary64 where the compiler can make vectors of them: of rows that lie in order,
// along the row; of other dimensions, over neighbours that are kept. All else is the reference's.
#include <algorithm>

#include "kernels/cpu/vector/binary64_kernels.h"
#include "kernels/cpu/vector/binary64_rows.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kWorthAThread = 4096;  // elements

// Rows that lie one after the other are reduced, all their elements in order.
bool are_rows(const ReduceShape& s) {
  std::int64_t stride = 1;
  for (int d = s.reduced_rank - 1; d >= 0; stride *= s.reduced_size[d--])
    if (s.reduced_size[d] != 1 && s.reduced_stride[d] != stride) return false;
  for (int d = s.kept_rank - 1; d >= 0; stride *= s.kept_size[d--])
    if (s.kept_size[d] != 1 && s.kept_stride[d] != stride) return false;
  return true;
}

// Kept elements that are neighbours, `inner` of them, and one step from a reduced element to the next.
struct Columns {
  std::int64_t inner = 0, outer = 1, terms = 1, step = 0;
  int outer_rank = 0;  // the first kept dimensions
};
constexpr std::int64_t kWorthColumns = 4;  // fewer neighbours are no vector
bool are_columns(const ReduceShape& s, Columns& c) {
  c.inner = 1;
  c.outer_rank = s.kept_rank;
  while (c.outer_rank > 0) {
    const std::int64_t size = s.kept_size[c.outer_rank - 1];
    if (size != 1 && s.kept_stride[c.outer_rank - 1] != c.inner) break;
    c.inner *= size;
    --c.outer_rank;
  }
  for (int d = 0; d < c.outer_rank; ++d) c.outer *= s.kept_size[d];
  for (int d = s.reduced_rank - 1; d >= 0; --d) {
    if (s.reduced_size[d] == 1) continue;
    if (c.terms == 1) c.step = s.reduced_stride[d];
    if (s.reduced_stride[d] != c.step * c.terms) return false;
    c.terms *= s.reduced_size[d];
  }
  return c.inner >= kWorthColumns;
}
std::int64_t offset_of(const ReduceShape& s, int rank, std::int64_t index) {
  std::int64_t offset = 0;
  for (int d = rank - 1; d >= 0; index /= s.kept_size[d--]) offset += index % s.kept_size[d] * s.kept_stride[d];
  return offset;
}

// use(first, count, out): up to kTogether columns, whose reduced elements begin at x + first, to out[0], out[1], ...
constexpr std::int64_t kTogether = 32;
template <class Use>
void for_columns(const ReduceShape& s, const Columns& c, const Use& use) {
  const std::int64_t blocks = (c.inner + kTogether - 1) / kTogether;
  parallel_for(
      0, c.outer * blocks, kWorthAThread / (kTogether * c.terms + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t column = i % blocks * kTogether, o = i / blocks;
          use(offset_of(s, c.outer_rank, o) + column, std::min(kTogether, c.inner - column), o * c.inner + column);
        }
      });
}
template <class Use>
void for_rows(const ReduceShape& s, const Use& use) {
  const std::int64_t n = s.reduced_count();
  parallel_for(0, s.kept_count(), kWorthAThread / (n + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) use(o, n);
  });
}

// ---- Sums: lanes of a leaf, its fold, the tree (contract/lane_sum.h)

struct Block {  // of kTogether columns
  double of[kTogether];
  Block operator+(const Block& other) const {
    Block sum;
    for (std::int64_t c = 0; c < kTogether; ++c) sum.of[c] = of[c] + other.of[c];
    return sum;
  }
};

// The fold of n lanes; lanes that no element has reached would add +0, which changes no sum's bits.
void fold(Block* lane, std::int64_t n) {
  for (std::int64_t w = kSumLanes / 2; w >= 1; w /= 2)
    for (std::int64_t j = 0; j < w && j + w < n; ++j) lane[j] = lane[j] + lane[j + w];
}

// kWhole: all of the block's columns, in loops of one length.
template <class Add, bool kWhole>
void add_rows(Block* lane, const double* p, std::int64_t rows, std::int64_t step, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i, p += step) {
    double* const to = lane[i % kSumLanes].of;
    for (std::int64_t c = 0; c < (kWhole ? kTogether : columns); ++c) to[c] = Add::to(to[c], p[c]);
  }
}

template <class Add>
Block sum_of_columns(const double* p, std::int64_t n, std::int64_t step, std::int64_t columns) {
  contract::PairwiseTreeOf<Block> tree;
  for (std::int64_t first = 0; first < n; first += kLeaf, p += kLeaf * step) {
    const std::int64_t rows = std::min(kLeaf, n - first), lanes = std::min(rows, kSumLanes);
    Block lane[kSumLanes];
    for (std::int64_t l = 0; l < std::max<std::int64_t>(lanes, 1); ++l) lane[l] = Block{};
    columns == kTogether ? add_rows<Add, true>(lane, p, rows, step, columns)
                         : add_rows<Add, false>(lane, p, rows, step, columns);
    fold(lane, lanes);
    tree.add(lane[0]);
  }
  return tree.result() + Block{};
}

template <class Add, class Finish>
void reduce_sums(const ReduceShape& s, const double* x, double* out, Finish finish,
                 void (*plain)(const ReduceShape&, const double*, double*)) {
  Columns c;
  if (are_rows(s))
    return for_rows(s, [=](std::int64_t o, std::int64_t n) { out[o] = finish(sum_of_row<Add>(x + o * n, n)); });
  if (!are_columns(s, c)) return plain(s, x, out);
  for_columns(s, c, [=, &c](std::int64_t first, std::int64_t count, std::int64_t to) {
    const Block sum = sum_of_columns<Add>(x + first, c.terms, c.step, count);
    for (std::int64_t i = 0; i < count; ++i) out[to + i] = finish(sum.of[i]);
  });
}

void sum(const ReduceShape& s, const double* x, double* out) {
  reduce_sums<AddElement>(
      s, x, out, [](double total) { return total; }, plain_binary64().sum);
}
void mean(const ReduceShape& s, const double* x, double* out) {
  const auto count = static_cast<double>(s.reduced_count());
  reduce_sums<AddElement>(
      s, x, out, [=](double total) { return total / count; }, plain_binary64().mean);
}
void norm2(const ReduceShape& s, const double* x, double* out) {
  reduce_sums<AddSquare>(
      s, x, out, [](double total) { return std::sqrt(total); }, plain_binary64().norm2);
}

// ---- Extrema: of any order the same (contract/extrema.h)

template <class Better>
void reduce_extrema(const ReduceShape& s, const double* x, double* out,
                    void (*plain)(const ReduceShape&, const double*, double*)) {
  Columns c;
  if (are_rows(s))
    return for_rows(s, [=](std::int64_t o, std::int64_t n) { out[o] = extremum_of_row<Better>(x + o * n, n); });
  if (!are_columns(s, c)) return plain(s, x, out);
  for_columns(s, c, [=, &c](std::int64_t first, std::int64_t count, std::int64_t to) {
    double best[kTogether];
    for (double& b : best) b = Better::kFirst;
    const double* p = x + first;
    for (std::int64_t i = 0; i < c.terms; ++i, p += c.step)
      for (std::int64_t j = 0; j < count; ++j) best[j] = Better::of(best[j], p[j]);
    for (std::int64_t j = 0; j < count; ++j) out[to + j] = best[j];
  });
}
void maximum(const ReduceShape& s, const double* x, double* out) {
  reduce_extrema<Largest>(s, x, out, plain_binary64().maximum);
}
void minimum(const ReduceShape& s, const double* x, double* out) {
  reduce_extrema<Smallest>(s, x, out, plain_binary64().minimum);
}

// The first NaN, else the first of the largest: the maximum first, then its place.
std::int64_t argmax_of_row(const double* p, std::int64_t n) {
  const double largest = extremum_of_row<Largest>(p, n);
  std::int64_t i = 0;
  if (largest != largest) {
    while (p[i] == p[i]) ++i;
  } else {
    while (i + 1 < n && p[i] != largest) ++i;
  }
  return i;
}
void argmax(const ReduceShape& s, const double* x, std::int64_t* out) {
  if (!are_rows(s)) return plain_binary64().argmax(s, x, out);
  for_rows(s, [=](std::int64_t o, std::int64_t n) { out[o] = argmax_of_row(x + o * n, n); });
}

}  // namespace

void fill_binary64_reductions(HostTable& t) {
  t.sum = sum;
  t.mean = mean;
  t.norm2 = norm2;
  t.maximum = maximum;
  t.minimum = minimum;
  t.argmax = argmax;
}

}  // namespace isobit::kernels::ISOBIT_ISA
