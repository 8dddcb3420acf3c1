// Activations with parameters and terms of losses, a register of lanes at a time.
#include "kernels/formulas/activation_kernels.h"
#include "kernels/cpu/vector/lane_map.h"

namespace isobit::kernels::ISOBIT_ISA {

void fill_activation(KernelTable& t) { ActivationKernels<LaneMap>::fill(t); }

}  // namespace isobit::kernels::ISOBIT_ISA
