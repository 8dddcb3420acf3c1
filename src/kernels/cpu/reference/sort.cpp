// Stable sorts. Every host uses these; PyTorch's own sort, exact too, is what its operators call there.
#include "kernels/sort.h"

#include <algorithm>
#include <numeric>

#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

template <class T>
struct Before {
  const T* x;
  bool descending;
  bool operator()(std::int64_t a, std::int64_t b) const {
    const T u = x[a], v = x[b];
    if (u != u || v != v) return descending ? u != u && v == v : u == u && v != v;
    return descending ? u > v : u < v;
  }
};

template <class T>
void sort_rows(bool descending, std::int64_t rows, std::int64_t n, const T* x, T* values, std::int64_t* places) {
  parallel_for(0, rows, 512 / (n + 1) + 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* const row = x + r * n;
      std::int64_t* const place = places + r * n;
      std::iota(place, place + n, 0);
      std::stable_sort(place, place + n, Before<T>{row, descending});
      for (std::int64_t i = 0; i < n; ++i) values[r * n + i] = row[place[i]];
    }
  });
}

template <class T, class Table>
void fill_sort(Table& t) {
  t.sort_rows = sort_rows<T>;
}

}  // namespace

void fill_sort(KernelTable& t) { fill_sort<float>(t); }
void fill_sort(HostTable& t) { fill_sort<double>(t); }

}  // namespace isobit::kernels::reference
