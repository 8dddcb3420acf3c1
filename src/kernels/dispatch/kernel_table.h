// One table of entry points per implementation, made from the list in kernel_list.h.
//
// A slot that an implementation leaves alone keeps the reference's function. A public kernel looks up the
// active table, opens a FloatEnvironment and calls. Entry points promise what the public header says and may
// use the pool; the reference ones run on the calling thread unless their work is split over independent
// outputs.
#pragma once

#include "kernels/activation.h"
#include "kernels/batch_norm.h"
#include "kernels/conv2d.h"
#include "kernels/dispatch/kernel_list.h"
#include "kernels/elementwise.h"
#include "kernels/exact_products.h"
#include "kernels/exact_sum.h"
#include "kernels/fingerprint.h"
#include "kernels/flat_elements.h"
#include "kernels/grid_sample.h"
#include "kernels/group_norm.h"
#include "kernels/householder.h"
#include "kernels/indexed.h"
#include "kernels/isa.h"
#include "kernels/linear_solvers.h"
#include "kernels/loss.h"
#include "kernels/matmul.h"
#include "kernels/optimizer.h"
#include "kernels/place_rows.h"
#include "kernels/pointwise.h"
#include "kernels/pool2d.h"
#include "kernels/pool3d.h"
#include "kernels/random.h"
#include "kernels/recurrent.h"
#include "kernels/reduce.h"
#include "kernels/resample.h"
#include "kernels/scan.h"
#include "kernels/softmax.h"
#include "kernels/sort.h"
#include "kernels/wide_functions.h"

namespace isobit::kernels {

#define ISOBIT_SLOT(result, name, parameters, ...) result(*name) parameters = nullptr;
struct KernelTable {
  ISOBIT_KERNEL_SLOTS(ISOBIT_SLOT, ISOBIT_SLOT, ISOBIT_SLOT)
};
// Of kernels that exist on hosts only.
struct HostTable {
  ISOBIT_HOST_SLOTS(ISOBIT_SLOT, ISOBIT_SLOT)
};
#undef ISOBIT_SLOT

// The slots' names, in the tables' order.
#define ISOBIT_SLOT_NAME(result, name, ...) #name,
inline constexpr const char* kKernelSlotNames[] = {
    ISOBIT_KERNEL_SLOTS(ISOBIT_SLOT_NAME, ISOBIT_SLOT_NAME, ISOBIT_SLOT_NAME)};
inline constexpr const char* kHostSlotNames[] = {ISOBIT_HOST_SLOTS(ISOBIT_SLOT_NAME, ISOBIT_SLOT_NAME)};
#undef ISOBIT_SLOT_NAME
static_assert(sizeof(kKernelSlotNames) == sizeof(KernelTable) && sizeof(kHostSlotNames) == sizeof(HostTable));

[[nodiscard]] const KernelTable& table_of(Isa isa);
[[nodiscard]] const HostTable& host_table_of(Isa isa);
// The device's within a DeviceScope (kernels/device.h), else the active instruction set's.
[[nodiscard]] const KernelTable& active_table();
// The active instruction set's. Throws DeviceError within a DeviceScope.
[[nodiscard]] const HostTable& active_host_table();

// For tests: another one on this thread while it lives, as a DeviceScope with a backend of the test's gives another
// KernelTable.
class HostTableScope {
 public:
  explicit HostTableScope(const HostTable& table);
  ~HostTableScope();
  HostTableScope(const HostTableScope&) = delete;
  HostTableScope& operator=(const HostTableScope&) = delete;

 private:
  const HostTable* before_;
};

// fill_<family> of every family that an implementation of the kernels has; each defines its own.
#define ISOBIT_DECLARE_FILL(family) void fill_##family(KernelTable& t);
#define ISOBIT_DECLARE_HOST_FILL(family) void fill_##family(HostTable& t);
namespace reference {
ISOBIT_KERNEL_FAMILIES(ISOBIT_DECLARE_FILL, ISOBIT_DECLARE_FILL, ISOBIT_DECLARE_HOST_FILL, ISOBIT_DECLARE_HOST_FILL)
void fill_tables(KernelTable& t, HostTable& h);
}  // namespace reference

// The vector builds, one namespace per instruction set. lanes16 is null where only a test would use it, and so are the
// emulations of products by int8 instructions.
#ifdef ISOBIT_HAVE_X86_VECTORS
namespace avx2 {
void fill_tables(KernelTable& t, HostTable& h);
}
namespace avx512 {
void fill_tables(KernelTable& t, HostTable& h);
}
namespace lanes16 {
[[gnu::weak]] void fill_tables(KernelTable& t, HostTable& h);
}
namespace avx512vnni {
void fill_exact_products(KernelTable& t);
}
namespace amx {
void fill_exact_products(KernelTable& t);
}
namespace emulated_vnni {
[[gnu::weak]] void fill_exact_products(KernelTable& t);
}
namespace emulated_amx {
[[gnu::weak]] void fill_exact_products(KernelTable& t);
}
#endif

#ifdef ISOBIT_LANES  // a vector build
namespace ISOBIT_ISA {
#define ISOBIT_NO_FILL(family)
ISOBIT_KERNEL_FAMILIES(ISOBIT_DECLARE_FILL, ISOBIT_NO_FILL, ISOBIT_DECLARE_HOST_FILL, ISOBIT_NO_FILL)
#undef ISOBIT_NO_FILL
}  // namespace ISOBIT_ISA
#endif
#undef ISOBIT_DECLARE_FILL
#undef ISOBIT_DECLARE_HOST_FILL

}  // namespace isobit::kernels
