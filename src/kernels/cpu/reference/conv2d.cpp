#include "kernels/cpu/kernel_table.h"

namespace isobit::kernels::reference {

void fill_conv2d(KernelTable&) {}

}  // namespace isobit::kernels::reference
