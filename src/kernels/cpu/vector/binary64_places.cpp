// The reference's reductions, running values, sums by index and random numbers on binary64, with this instruction set's
// fused multiply-add.
#include "kernels/cpu/vector/binary64_kernels.h"
// Behind the declarations above, which are of the same names.
#include "kernels/cpu/reference/indexed.cpp"
#include "kernels/cpu/reference/random.cpp"
#include "kernels/cpu/reference/reduce.cpp"
#include "kernels/cpu/reference/scan.cpp"
