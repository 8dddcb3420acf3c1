// Point-wise operators, a register of lanes at a time.
#include "kernels/formulas/pointwise_kernels.h"
#include "kernels/cpu/vector/lane_map.h"

namespace isobit::kernels::ISOBIT_ISA {

void fill_pointwise(KernelTable& t) { PointwiseKernels<LaneMap>::fill(t); }

}  // namespace isobit::kernels::ISOBIT_ISA
