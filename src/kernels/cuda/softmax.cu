// Softmax and log-softmax on a device. A short contiguous row stays in the registers of a warp from its load
// to its result; any other shape takes ordered reductions and one pass over the elements.
//
// Both forms know a row function by
//
//   Loaded                 what an element brings from memory
//   kShifts                whether elements are first taken relative to the row's maximum
//   load(at)               element at this offset
//   prepared(v, maximum)   what is kept of it
//   take(t, v)             the lane with the element (section 4)
//   row_value(sum)         what the row's sum is used as
//   store(at, v, value)    the element's result
#include "contract/functions.h"
#include "kernels/cuda/ordered_reduce.h"
#include "kernels/cuda/reduce_ops.h"
#include "kernels/cuda/table.h"
#include "kernels/softmax.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256;

struct FromMaximum {
  using Loaded = float;
  static constexpr bool kShifts = true;
  const float* x;
  float* y;
  [[nodiscard]] ISOBIT_DEVICE float load(std::int64_t at) const { return x[at]; }
};

struct Softmax : FromMaximum {
  [[nodiscard]] ISOBIT_DEVICE float prepared(float v, float maximum) const { return contract::exp(v - maximum); }
  [[nodiscard]] ISOBIT_DEVICE float take(float t, float e) const { return t + e; }
  [[nodiscard]] ISOBIT_DEVICE float row_value(float sum) const { return sum; }
  ISOBIT_DEVICE void store(std::int64_t at, float e, float sum) const { y[at] = e / sum; }
};

struct LogSoftmax : FromMaximum {
  [[nodiscard]] ISOBIT_DEVICE float prepared(float v, float maximum) const { return v - maximum; }
  [[nodiscard]] ISOBIT_DEVICE float take(float t, float v) const { return t + contract::exp(v); }
  [[nodiscard]] ISOBIT_DEVICE float row_value(float sum) const { return contract::log(sum); }
  ISOBIT_DEVICE void store(std::int64_t at, float v, float log_sum) const { y[at] = v - log_sum; }
};

struct GradientAndResult {
  float dy, y;
};
struct OfGradient {
  using Loaded = GradientAndResult;
  static constexpr bool kShifts = false;
  const float *dy, *y;
  float* dx;
  [[nodiscard]] ISOBIT_DEVICE Loaded load(std::int64_t at) const { return {dy[at], y[at]}; }
  [[nodiscard]] ISOBIT_DEVICE Loaded prepared(Loaded v, float) const { return v; }
  [[nodiscard]] ISOBIT_DEVICE float row_value(float sum) const { return sum; }
};

struct SoftmaxGradient : OfGradient {
  [[nodiscard]] ISOBIT_DEVICE float take(float t, Loaded v) const { return ::fmaf(v.dy, v.y, t); }
  ISOBIT_DEVICE void store(std::int64_t at, Loaded v, float dot) const { dx[at] = (v.dy - dot) * v.y; }
};

struct LogSoftmaxGradient : OfGradient {
  [[nodiscard]] ISOBIT_DEVICE float take(float t, Loaded v) const { return t + v.dy; }
  ISOBIT_DEVICE void store(std::int64_t at, Loaded v, float sum) const {
    dx[at] = ::fmaf(-contract::exp(v.y), sum, v.dy);
  }
};

// ---- rows in registers -----------------------------------------------------------------------------------

constexpr int kTurnsOfLeaf = WarpTeam::kTurns;
constexpr int kMostTurns = 2 * kTurnsOfLeaf;

// A warp: one row of at most 32 * turns elements; with more than a leaf's turns, of more than a leaf.
template <int turns, class Row>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 2) void short_row_kernel(Row row, std::int64_t rows, int size) {
  const std::int64_t r = block_index() * (kThreads / kWarp) + thread_index() / kWarp;
  if (r >= rows) return;  // a whole warp
  const WarpTeam team;
  const std::int64_t first = r * size;
  const auto each_element = [&](auto function) {
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
      if (turn * kLanes + team.lane < size) function(turn, first + turn * kLanes + team.lane);
    }
  };

  typename Row::Loaded v[turns];
  each_element([&](int turn, std::int64_t at) { v[turn] = row.load(at); });
  if constexpr (Row::kShifts) {
    Largest largest[1];
    each_element([&](int turn, std::int64_t) { largest[0] = largest[0] + Largest{v[turn]}; });
    const float maximum = team.fold(largest).value;
    each_element([&](int turn, std::int64_t) { v[turn] = row.prepared(v[turn], maximum); });
  }
  constexpr int kLeaves = turns > kTurnsOfLeaf ? 2 : 1;
  float lane[kLeaves][1] = {};
  each_element([&](int turn, std::int64_t) {
    float& t = lane[turn / kTurnsOfLeaf][0];
    t = row.take(t, v[turn]);
  });
  float sum = team.fold(lane[0]);
  if constexpr (kLeaves == 2) sum = sum + team.fold(lane[1]);
  const float value = row.row_value(sum + 0.0f);
  each_element([&](int turn, std::int64_t at) { row.store(at, v[turn], value); });
}

template <int turns, class Row>
void run_rows(const Row& row, std::int64_t rows, std::int64_t size) {
  launch(short_row_kernel<turns, Row>, {ceil_div(rows, kThreads / kWarp), kThreads}, row, rows, size);
}

// ---- any shape -------------------------------------------------------------------------------------------

ReduceShape along_the_middle(const SoftmaxShape& s) {
  ReduceShape shape;
  shape.kept_rank = 2, shape.reduced_rank = 1;
  shape.kept_size[0] = s.outer, shape.kept_stride[0] = s.size * s.inner;
  shape.kept_size[1] = s.inner, shape.kept_stride[1] = 1;
  shape.reduced_size[0] = s.size, shape.reduced_stride[0] = s.inner;
  return shape;
}

template <class Row>
struct RowSumOp {
  using Lane = float;
  using Value = float;
  using Loaded = typename Row::Loaded;
  using Context = float;  // the row's maximum
  Row row;
  const float* maximum;

  [[nodiscard]] ISOBIT_DEVICE float none() const { return 0.0f; }
  [[nodiscard]] ISOBIT_DEVICE float context(std::int64_t o) const { return Row::kShifts ? maximum[o] : 0.0f; }
  [[nodiscard]] ISOBIT_DEVICE Loaded load(float, std::int64_t offset, std::int64_t) const { return row.load(offset); }
  [[nodiscard]] ISOBIT_DEVICE float take(float t, Loaded v, float maximum_of_row, std::int64_t) const {
    return row.take(t, row.prepared(v, maximum_of_row));
  }
};

template <class Row>
struct StoreRowValue {
  Row row;
  float* values;
  ISOBIT_DEVICE void operator()(std::int64_t o, float sum) const { values[o] = row.row_value(sum + 0.0f); }
};

// Element `at` of [outer, size, inner] belongs to row at / (size inner) * inner + at % inner.
template <class Row>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void element_kernel(Row row, Divider block, Divider inner,
                                                                    std::int64_t count, const float* maximum,
                                                                    const float* values) {
  const std::int64_t at = block_index() * kThreads + thread_index();
  if (at >= count) return;
  const std::int64_t r = block.quotient(at) * inner.divisor() + at - inner.quotient(at) * inner.divisor();
  row.store(at, row.prepared(row.load(at), Row::kShifts ? maximum[r] : 0.0f), values[r]);
}

template <class Row>
void run_composed(const Row& row, const SoftmaxShape& s) {
  const ReduceShape shape = along_the_middle(s);
  const std::int64_t rows = s.outer * s.inner, count = rows * s.size;
  const Scratch scratch(2 * rows * static_cast<std::int64_t>(sizeof(float)));
  auto* const maximum = scratch.as<float>();
  float* const values = maximum + rows;
  if constexpr (Row::kShifts) {
    ordered_reduce(shape, ExtremumOp<Largest>{{row.x}}, StoreExtremum<Largest>{maximum});
  }
  ordered_reduce(shape, RowSumOp<Row>{row, maximum}, StoreRowValue<Row>{row, values});
  launch(element_kernel<Row>, {ceil_div(count, kThreads), kThreads}, row, Divider(s.size * s.inner, count),
         Divider(s.inner, count), count, maximum, values);
}

template <class Row>
void run(const Row& row, const SoftmaxShape& s) {
  if (s.outer * s.size * s.inner == 0) return;
  if (s.inner > 1 || s.size > kMostTurns * kLanes) {
    run_composed(row, s);
  } else if (s.size <= kLanes) {
    run_rows<1>(row, s.outer, s.size);
  } else if (s.size <= 4 * kLanes) {
    run_rows<4>(row, s.outer, s.size);
  } else if (s.size <= kTurnsOfLeaf * kLanes) {
    run_rows<kTurnsOfLeaf>(row, s.outer, s.size);
  } else {
    run_rows<kMostTurns>(row, s.outer, s.size);
  }
}

void softmax(const SoftmaxShape& s, const float* x, float* y) { run(Softmax{{x, y}}, s); }
void log_softmax(const SoftmaxShape& s, const float* x, float* y) { run(LogSoftmax{{x, y}}, s); }
void softmax_backward(const SoftmaxShape& s, const float* dy, const float* y, float* dx) {
  run(SoftmaxGradient{{dy, y, dx}}, s);
}
void log_softmax_backward(const SoftmaxShape& s, const float* dy, const float* y, float* dx) {
  run(LogSoftmaxGradient{{dy, y, dx}}, s);
}

}  // namespace

void fill_softmax(KernelTable& t) {
  t.softmax = softmax;
  t.log_softmax = log_softmax;
  t.softmax_backward = softmax_backward;
  t.log_softmax_backward = log_softmax_backward;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
