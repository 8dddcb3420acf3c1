// Rows copied to given places: bits moved, nothing computed.
#pragma once

#include <cstdint>

namespace isobit::kernels {

// destination [outer, rows, inner], source [outer, source_rows, inner], elements of `size` bytes (1, 2, 4, 8 or 16).
// Row to[k] becomes the source's row from[k], k < count; the to's differ, else any of theirs may stay. Rows inside
// both.
struct RowPlacing {
  std::int64_t outer = 0, rows = 0, source_rows = 0, inner = 0, size = 4, count = 0;
  const std::int64_t *to = nullptr, *from = nullptr;
};
// Thread-safe; uses the pool.
void place_rows(const RowPlacing& placing, const void* source, void* destination);

}  // namespace isobit::kernels
