// Optimizer steps on a device. TODO: not written yet.
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {

void fill_optimizer(KernelTable&) {}

}  // namespace isobit::kernels::ISOBIT_CUDA
