// The lists of occurrences that sums and reductions by index work off, for cpu/reference and cpu/vector: each includes
// it into a namespace of its own.
#pragma once

#include "contract/platform.h"
#include "kernels/indexed.h"
#include "kernels/threads.h"

namespace isobit::kernels {
namespace {

// One destination row's occurrences among rows of `inner` elements.
struct List {
  const std::int64_t *order, *end, *all_end;  // all_end: of all lists, for what is fetched ahead
  std::int64_t inner;

  [[nodiscard]] std::int64_t count() const { return end - order; }
};

// Rows lie anywhere, so those that come soon are fetched ahead: `width` elements of one.
template <class T>
inline void fetch_ahead(const List& list, const std::int64_t* at, const T* source, std::int64_t width) {
  constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));
  const std::int64_t ahead = width >= 256 ? 2 : 6;
  if (list.all_end - at <= ahead) return;
  const T* const soon = source + at[ahead] * list.inner;
  for (std::int64_t line = 0; line < width; line += kLine) __builtin_prefetch(soon + line);
}

// use(list, its destination row, o) for each list that is not empty, once for each o in [0, outer).
template <class Use>
void for_lists(const Occurrences& occurrences, std::int64_t outer, std::int64_t inner, Use use) {
  const std::int64_t lists = occurrences.rows, met = lists > 0 ? occurrences.begin[lists] : 0;
  if (met == 0 || inner == 0) return;
  const std::int64_t work = (met / lists + 1) * inner;
  parallel_for(0, outer * lists, 16384 / work + 1, [&](std::int64_t first, std::int64_t last) {
    std::int64_t o = first / lists, r = first % lists;
    for (std::int64_t line = first; line < last; ++line) {
      const std::int64_t begin = occurrences.begin[r], end = occurrences.begin[r + 1];
      if (begin < end) {
        const std::int64_t* const order = occurrences.order;
        use(List{order + begin, order + end, order + met, inner}, occurrences.row == nullptr ? r : occurrences.row[r],
            o);
      }
      if (++r == lists) r = 0, ++o;
    }
  });
}

}  // namespace
}  // namespace isobit::kernels
