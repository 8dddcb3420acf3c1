// Point-wise operators and their gradients: the formulas of every other implementation, one thread per element.
#include "kernels/formulas/pointwise_kernels.h"
#include "kernels/cuda/map.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {

void fill_pointwise(KernelTable& t) {
  ISOBIT_ISA::PointwiseKernels<DeviceMap>::fill(t);
  ISOBIT_ISA::PointwiseKernels<DeviceMap>::fill_scalar(t);
}

}  // namespace isobit::kernels::ISOBIT_CUDA
