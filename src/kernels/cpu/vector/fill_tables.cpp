#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA {

void fill_binary64(HostTable& t);  // binary64.cpp

void fill_tables(KernelTable& t, HostTable& h) {
#define ISOBIT_FILL(family) fill_##family(t);
#define ISOBIT_FILL_HOST(family) fill_##family(h);
#define ISOBIT_NO_FILL(family)
  ISOBIT_KERNEL_FAMILIES(ISOBIT_FILL, ISOBIT_NO_FILL, ISOBIT_FILL_HOST, ISOBIT_NO_FILL)
  fill_binary64(h);
}

}  // namespace isobit::kernels::ISOBIT_ISA
