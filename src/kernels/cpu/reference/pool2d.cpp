#include "kernels/cpu/kernel_table.h"

namespace isobit::kernels::reference {

void fill_pool2d(KernelTable&) {}

}  // namespace isobit::kernels::reference
