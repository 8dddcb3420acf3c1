// One operation per element, a register of lanes at a time.
#include "kernels/cpu/vector/lane_map.h"
#include "kernels/formulas/flat_kernels.h"

namespace isobit::kernels::ISOBIT_ISA {

void fill_flat_elements(HostTable& t) { FlatKernels<LaneMap>::fill(t); }

}  // namespace isobit::kernels::ISOBIT_ISA
