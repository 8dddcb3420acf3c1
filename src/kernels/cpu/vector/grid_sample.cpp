// Sampling at given places: the loops of grid_sample_kernels.h, lanes being neighbouring outputs.
#include "kernels/cpu/vector/paired_taps.h"

namespace isobit::kernels::ISOBIT_ISA {

void fill_grid_sample(KernelTable& t) { fill_grid_kernels<PairedTaps>(t); }

}  // namespace isobit::kernels::ISOBIT_ISA
