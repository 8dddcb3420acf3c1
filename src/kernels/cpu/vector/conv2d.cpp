#include "kernels/cpu/vector/conv2d_kernels.h"
#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA {

void fill_conv2d(KernelTable& t) {
  t.conv2d_forward = conv2d_forward;
  t.conv2d_input_gradient = conv2d_input_gradient;
  t.conv2d_weight_gradient = conv2d_weight_gradient;
}

}  // namespace isobit::kernels::ISOBIT_ISA
