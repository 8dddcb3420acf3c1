// Sums, means, norms and extrema on a device.
#include "contract/extrema.h"
#include "contract/formula.h"
#include "kernels/cuda/ordered_reduce.h"
#include "kernels/cuda/table.h"
#include "kernels/reduce.h"

namespace isobit::kernels::ISOBIT_CUDA {

// Extrema have no order to fix, so that the sums' leaves and tree serve them too: + is the rule.
struct Largest {
  float value = -contract::kInfinity;
};
ISOBIT_DEVICE Largest operator+(Largest a, Largest b) { return {contract::maximum(a.value, b.value)}; }

struct Smallest {
  float value = contract::kInfinity;
};
ISOBIT_DEVICE Smallest operator+(Smallest a, Smallest b) { return {contract::minimum(a.value, b.value)}; }

// An element and its place; without one, place -1. The better one, of equals the one before.
struct Best {
  float value = 0.0f;
  std::int64_t place = -1;
};
ISOBIT_DEVICE Best operator+(Best a, Best b) {
  if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;
  const Best &earlier = a.place < b.place ? a : b, &later = a.place < b.place ? b : a;
  return contract::is_better_maximum(later.value, earlier.value) ? later : earlier;
}

template <class Move>
ISOBIT_DEVICE Largest moved(Largest v, Move move) {
  return {move(v.value)};
}
template <class Move>
ISOBIT_DEVICE Smallest moved(Smallest v, Move move) {
  return {move(v.value)};
}
template <class Move>
ISOBIT_DEVICE Best moved(Best v, Move move) {
  return {move(v.value), move(v.place)};
}

namespace {

// What the operations over one array share.
template <class Accumulated>
struct OverArray {
  using Lane = Accumulated;
  using Value = Accumulated;
  using Loaded = float;
  struct Context {};
  const float* x;

  [[nodiscard]] ISOBIT_DEVICE Lane none() const { return {}; }
  [[nodiscard]] ISOBIT_DEVICE Context context(std::int64_t) const { return {}; }
  [[nodiscard]] ISOBIT_DEVICE float load(Context, std::int64_t offset, std::int64_t) const {
    return x[offset];
  }
};

struct SumOp : OverArray<float> {
  [[nodiscard]] ISOBIT_DEVICE float take(float t, float x, Context, std::int64_t) const { return t + x; }
};
struct SquaresOp : OverArray<float> {
  [[nodiscard]] ISOBIT_DEVICE float take(float t, float x, Context, std::int64_t) const {
    return ::fmaf(x, x, t);
  }
};
template <class Extremum>
struct ExtremumOp : OverArray<Extremum> {
  [[nodiscard]] ISOBIT_DEVICE Extremum take(Extremum t, float x, typename OverArray<Extremum>::Context,
                                            std::int64_t) const {
    return t + Extremum{x};
  }
};
struct ArgmaxOp : OverArray<Best> {
  [[nodiscard]] ISOBIT_DEVICE Best take(Best t, float x, Context, std::int64_t i) const {
    return t + Best{x, i};
  }
};

// sum / count; the sum itself with count 1, since dividing by 1 changes nothing.
struct StoreMean {
  float* out;
  float count;
  ISOBIT_DEVICE void operator()(std::int64_t o, float sum) const { out[o] = (sum + 0.0f) / count; }
};
struct StoreRoot {
  float* out;
  ISOBIT_DEVICE void operator()(std::int64_t o, float squares) const { out[o] = ::sqrtf(squares + 0.0f); }
};
template <class Extremum>
struct StoreExtremum {
  float* out;
  ISOBIT_DEVICE void operator()(std::int64_t o, Extremum extremum) const { out[o] = extremum.value; }
};
struct StorePlace {
  std::int64_t* out;
  ISOBIT_DEVICE void operator()(std::int64_t o, Best best) const { out[o] = best.place; }
};

void sum(const ReduceShape& shape, const float* x, float* out) {
  ordered_reduce(shape, SumOp{{x}}, StoreMean{out, 1.0f});
}
void mean(const ReduceShape& shape, const float* x, float* out) {
  ordered_reduce(shape, SumOp{{x}}, StoreMean{out, static_cast<float>(shape.reduced_count())});
}
void norm2(const ReduceShape& shape, const float* x, float* out) {
  ordered_reduce(shape, SquaresOp{{x}}, StoreRoot{out});
}
void maximum(const ReduceShape& shape, const float* x, float* out) {
  ordered_reduce(shape, ExtremumOp<Largest>{{x}}, StoreExtremum<Largest>{out});
}
void minimum(const ReduceShape& shape, const float* x, float* out) {
  ordered_reduce(shape, ExtremumOp<Smallest>{{x}}, StoreExtremum<Smallest>{out});
}
void argmax(const ReduceShape& shape, const float* x, std::int64_t* out) {
  ordered_reduce(shape, ArgmaxOp{{x}}, StorePlace{out});
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

}  // namespace isobit::kernels::ISOBIT_CUDA
