// Activations with parameters and terms of losses: the formulas of every other implementation.
#include "kernels/formulas/activation_kernels.h"
#include "kernels/cuda/map.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {

void fill_activation(KernelTable& t) { ISOBIT_ISA::ActivationKernels<DeviceMap>::fill(t); }

}  // namespace isobit::kernels::ISOBIT_CUDA
