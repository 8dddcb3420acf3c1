#include "kernels/cpu/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA {

void fill_batch_norm(KernelTable&) {}

}  // namespace isobit::kernels::ISOBIT_ISA
