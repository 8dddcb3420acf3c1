// Sampling at given places as grid_sample.h writes it: the loops of grid_sample_kernels.h for a plain machine.
#include "kernels/cpu/grid_sample_kernels.h"

namespace isobit::kernels::reference {

void fill_grid_sample(KernelTable& t) { ISOBIT_ISA::fill_grid_kernels<ISOBIT_ISA::PlainTaps>(t); }

}  // namespace isobit::kernels::reference
