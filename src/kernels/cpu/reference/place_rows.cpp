// Rows copied to given places: one build for every host.
#include "kernels/place_rows.h"

#include <cstring>

#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

void place_rows(const RowPlacing& p, const void* source, void* destination) {
  const std::int64_t bytes = p.inner * p.size;
  if (bytes == 0) return;  // there may be no memory then
  parallel_for(0, p.outer * p.count, 16384 / (bytes + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t o = i / p.count, k = i % p.count;
      std::memcpy(static_cast<char*>(destination) + (o * p.rows + p.to[k]) * bytes,
                  static_cast<const char*>(source) + (o * p.source_rows + p.from[k]) * bytes,
                  static_cast<std::size_t>(bytes));
    }
  });
}

}  // namespace

void fill_place_rows(KernelTable& t) { t.place_rows = place_rows; }

}  // namespace isobit::kernels::reference
