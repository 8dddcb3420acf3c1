#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::reference {

void fill_tables(KernelTable& t, HostTable& h) {
#define ISOBIT_FILL(family) fill_##family(t);
#define ISOBIT_FILL_HOST(family) fill_##family(h);
  ISOBIT_KERNEL_FAMILIES(ISOBIT_FILL, ISOBIT_FILL, ISOBIT_FILL_HOST, ISOBIT_FILL_HOST)
}

}  // namespace isobit::kernels::reference
