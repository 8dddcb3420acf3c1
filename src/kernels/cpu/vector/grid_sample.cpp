// Sampling at given places: the loops of grid_sample_kernels.h, lanes being neighbouring outputs.
#include "kernels/cpu/grid_sample_kernels.h"

namespace isobit::kernels::ISOBIT_ISA {

void fill_grid_sample(KernelTable& t) { fill_grid_kernels(t); }

}  // namespace isobit::kernels::ISOBIT_ISA
