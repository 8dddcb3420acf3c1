// The public kernels: each opens the contract's floating-point environment and calls the active table (kernel_list.h).
#include "kernels/dispatch/kernel_table.h"
#include "kernels/float_environment.h"

namespace isobit::kernels {

#define ISOBIT_ENTRY(result, name, parameters, arguments) \
  result name parameters {                                \
    const FloatEnvironment environment;                   \
    return active_table().name arguments;                 \
  }
#define ISOBIT_UNROUNDED_ENTRY(result, name, parameters, arguments) \
  result name parameters { return active_table().name arguments; }
#define ISOBIT_HOST_ENTRY(result, name, parameters, arguments) \
  result name parameters {                                     \
    const FloatEnvironment environment;                        \
    return active_host_table().name arguments;                 \
  }
#define ISOBIT_NO_ENTRY(result, name, parameters)
ISOBIT_KERNEL_SLOTS(ISOBIT_ENTRY, ISOBIT_UNROUNDED_ENTRY, ISOBIT_NO_ENTRY)
ISOBIT_HOST_SLOTS(ISOBIT_HOST_ENTRY, ISOBIT_NO_ENTRY)

// Overloads, over inner slots.

void general_power(const float* x, const float* p, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().general_power_each(x, p, y, n);
}
void general_power(const float* x, float p, float* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_table().general_power_all(x, p, y, n);
}

void general_power(const double* x, const double* p, double* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_host_table().general_power_each(x, p, y, n);
}
void general_power(const double* x, double p, double* y, std::int64_t n) {
  const FloatEnvironment environment;
  active_host_table().general_power_all(x, p, y, n);
}

Fingerprint element_sums(const float* x, std::int64_t first, std::int64_t n) {
  return active_table().element_sums_float(x, first, n);
}
Fingerprint element_sums(const std::int64_t* x, std::int64_t first, std::int64_t n) {
  return active_table().element_sums_int64(x, first, n);
}
Fingerprint element_sums(const std::uint8_t* x, std::int64_t first, std::int64_t n) {
  return active_table().element_sums_uint8(x, first, n);
}

}  // namespace isobit::kernels
