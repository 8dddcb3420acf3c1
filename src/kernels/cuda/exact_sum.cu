// Exact sums of gradients on a device. TODO: not written yet.
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {

void fill_exact_sum(KernelTable&) {}

}  // namespace isobit::kernels::ISOBIT_CUDA
