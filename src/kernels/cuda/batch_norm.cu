// Batch normalisation on a device. TODO: not written yet.
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {

void fill_batch_norm(KernelTable&) {}

}  // namespace isobit::kernels::ISOBIT_CUDA
