#include "kernels/cpu/kernel_table.h"

namespace isobit::kernels::reference {

void fill_fingerprint(KernelTable&) {}

}  // namespace isobit::kernels::reference
