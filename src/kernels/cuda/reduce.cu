// Sums, means, norms and extrema on a device.
#include "kernels/cuda/ordered_reduce.h"
#include "kernels/cuda/reduce_ops.h"
#include "kernels/cuda/table.h"
#include "kernels/reduce.h"

namespace isobit::kernels::ISOBIT_CUDA {

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
ISOBIT_DEVICE Best moved(Best v, Move move) {
  return {move(v.value), move(v.place)};
}

namespace {

struct ArgmaxOp : OverArray<Best> {
  [[nodiscard]] ISOBIT_DEVICE Best take(Best t, float x, Context, std::int64_t i) const { return t + Best{x, i}; }
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
