// Rows copied to given places: a thread per element.
#include "kernels/place_rows.h"

#include "kernels/cuda/device.h"
#include "kernels/cuda/divider.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256;

struct Pair64 {
  std::uint64_t low, high;
};

template <class Element>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void place_kernel(RowPlacing p, Divider inner, Divider count,
                                                                  std::int64_t elements, const Element* source,
                                                                  Element* destination) {
  const std::int64_t i = block_index() * kThreads + thread_index();
  if (i >= elements) return;
  const std::int64_t line = inner.quotient(i), o = count.quotient(line), k = line - o * count.divisor();
  const std::int64_t at = i - line * inner.divisor();
  destination[(o * p.rows + p.to[k]) * p.inner + at] = source[(o * p.source_rows + p.from[k]) * p.inner + at];
}

template <class Element>
void place(const RowPlacing& p, const void* source, void* destination) {
  const std::int64_t lines = p.outer * p.count, elements = lines * p.inner;
  launch(place_kernel<Element>, {ceil_div(elements, kThreads), kThreads}, p, Divider(p.inner, elements),
         Divider(p.count, lines), elements, static_cast<const Element*>(source), static_cast<Element*>(destination));
}

void place_rows(const RowPlacing& p, const void* source, void* destination) {
  switch (p.size) {
    case 1: return place<std::uint8_t>(p, source, destination);
    case 2: return place<std::uint16_t>(p, source, destination);
    case 4: return place<std::uint32_t>(p, source, destination);
    case 8: return place<std::uint64_t>(p, source, destination);
    case 16: return place<Pair64>(p, source, destination);
    default:
      throw DeviceError("elements of " + std::to_string(p.size) + " bytes cannot be copied by index on a device");
  }
}

}  // namespace

void fill_place_rows(KernelTable& t) { t.place_rows = place_rows; }

}  // namespace isobit::kernels::ISOBIT_CUDA
