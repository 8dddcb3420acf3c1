// Powers of binary64 of any exponents: in a unit of their own, since what they bring makes the compiler leave other
// formulas out of line.
#include "contract/functions_binary64.h"
#include "kernels/cpu/vector/binary64_kernels.h"
#include "kernels/cpu/vector/binary64_loop.h"
#include "kernels/cpu/vector/lanes.h"
#include "kernels/formulas/pointwise_kernels.h"

namespace isobit::kernels::ISOBIT_ISA {
void fill_binary64_powers(HostTable& t) { PointwiseKernels<LoopMap<256>, double>::fill_scalar(t); }

}  // namespace isobit::kernels::ISOBIT_ISA
