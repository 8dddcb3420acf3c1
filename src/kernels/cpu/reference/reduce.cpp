#include "kernels/cpu/kernel_table.h"

namespace isobit::kernels::reference {

void fill_reduce(KernelTable&) {}

}  // namespace isobit::kernels::reference
