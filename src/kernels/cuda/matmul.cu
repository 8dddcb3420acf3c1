// Matrix products on a device. TODO: not written yet.
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {

void fill_matmul(KernelTable&) {}

}  // namespace isobit::kernels::ISOBIT_CUDA
