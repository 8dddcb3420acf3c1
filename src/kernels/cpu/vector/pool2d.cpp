#include "kernels/cpu/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA {

void fill_pool2d(KernelTable&) {}

}  // namespace isobit::kernels::ISOBIT_ISA
