// The reference's kernels of networks on binary64, with this instruction set's fused multiply-add.
#include "kernels/cpu/vector/binary64_kernels.h"
// Behind the declarations above, which are of the same names.
#include "kernels/cpu/reference/batch_norm.cpp"
#include "kernels/cpu/reference/group_norm.cpp"
#include "kernels/cpu/reference/loss.cpp"
#include "kernels/cpu/reference/softmax.cpp"
