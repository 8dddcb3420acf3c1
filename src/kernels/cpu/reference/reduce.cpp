// Sums, means, norms and extrema, element after element in the order of the reduced index.
#include <cmath>
#include <limits>

#include "contract/extrema.h"
#include "contract/lane_sum.h"
#include "kernels/cpu/reference/plain.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_PLAIN {
namespace {

// Offset of the element with row-major number `index`.
std::int64_t offset_of(std::int64_t index, int rank, const std::int64_t* size, const std::int64_t* stride) {
  std::int64_t offset = 0;
  for (int i = rank - 1; i >= 0; --i) {
    offset += index % size[i] * stride[i];
    index /= size[i];
  }
  return offset;
}

// out[o] = value(element, count) for every output o, where element(i) is its i-th reduced element.
template <class T, class Out, class Value>
void for_each_output(const ReduceShape& s, const T* x, Out* out, Value value) {
  const std::int64_t count = s.reduced_count();
  parallel_for(0, s.kept_count(), 1024 / (count + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      const T* const first = x + offset_of(o, s.kept_rank, s.kept_size, s.kept_stride);
      if (s.reduced_rank == 1) {  // without a division for each element
        const std::int64_t stride = s.reduced_stride[0];
        out[o] = value([=](std::int64_t i) { return first[i * stride]; }, count);
        continue;
      }
      out[o] = value(
          [&](std::int64_t i) { return first[offset_of(i, s.reduced_rank, s.reduced_size, s.reduced_stride)]; }, count);
    }
  });
}

template <class T, class Element>
T sum_of(const Element& element, std::int64_t count) {
  contract::LaneSumOf<T> sum;
  for (std::int64_t i = 0; i < count; ++i) sum.add(element(i));
  return sum.result();
}

template <class T>
void sum(const ReduceShape& shape, const T* x, T* out) {
  for_each_output(shape, x, out, [](const auto& element, std::int64_t count) { return sum_of<T>(element, count); });
}

template <class T>
void mean(const ReduceShape& shape, const T* x, T* out) {
  for_each_output(shape, x, out, [](const auto& element, std::int64_t count) {
    return sum_of<T>(element, count) / static_cast<T>(count);
  });
}

template <class T>
void norm2(const ReduceShape& shape, const T* x, T* out) {
  for_each_output(shape, x, out, [](const auto& element, std::int64_t count) {
    contract::LaneSumOf<T> squares;
    for (std::int64_t i = 0; i < count; ++i) squares.add_product(element(i), element(i));
    return std::sqrt(squares.result());
  });
}

template <class T>
void maximum(const ReduceShape& shape, const T* x, T* out) {
  for_each_output(shape, x, out, [](const auto& element, std::int64_t count) {
    T best = -std::numeric_limits<T>::infinity();
    for (std::int64_t i = 0; i < count; ++i) best = contract::maximum(best, element(i));
    return best;
  });
}

template <class T>
void minimum(const ReduceShape& shape, const T* x, T* out) {
  for_each_output(shape, x, out, [](const auto& element, std::int64_t count) {
    T best = std::numeric_limits<T>::infinity();
    for (std::int64_t i = 0; i < count; ++i) best = contract::minimum(best, element(i));
    return best;
  });
}

template <class T>
void argmax(const ReduceShape& shape, const T* x, std::int64_t* out) {
  for_each_output(shape, x, out, [](const auto& element, std::int64_t count) {
    std::int64_t place = 0;
    for (std::int64_t i = 1; i < count; ++i) {
      if (contract::is_better_maximum(element(i), element(place))) place = i;
    }
    return place;
  });
}

template <class T, class Table>
void fill_reduce(Table& t) {
  t.sum = sum<T>;
  t.mean = mean<T>;
  t.norm2 = norm2<T>;
  t.maximum = maximum<T>;
  t.minimum = minimum<T>;
  t.argmax = argmax<T>;
}

}  // namespace

#ifndef ISOBIT_LANES
void fill_reduce(KernelTable& t) { fill_reduce<float>(t); }
#endif
void fill_reduce(HostTable& t) { fill_reduce<double>(t); }

}  // namespace isobit::kernels::ISOBIT_PLAIN
