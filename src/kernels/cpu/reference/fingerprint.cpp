// Fingerprint sums as the contract writes them, element by element.
#include "contract/fingerprint.h"

#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::reference {
namespace {

template <class T>
Fingerprint element_sums(const T* x, std::int64_t first, std::int64_t n) {
  Fingerprint sums;
  for (std::int64_t i = 0; i < n; ++i) {
    const contract::Mix m = contract::mix(static_cast<std::uint64_t>(first + i), contract::element_bits(x[i]));
    sums.high += m.high;
    sums.low += m.low;
  }
  return sums;
}

}  // namespace

void fill_fingerprint(KernelTable& t) {
  t.element_sums_float = element_sums<float>;
  t.element_sums_int64 = element_sums<std::int64_t>;
  t.element_sums_uint8 = element_sums<std::uint8_t>;
}

}  // namespace isobit::kernels::reference
