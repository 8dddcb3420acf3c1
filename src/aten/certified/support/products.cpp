#include "aten/certified/support/products.h"

#include <string>

#include "aten/operator_switch.h"
#include "aten/refusal.h"
#include "kernels/exact_products.h"

namespace isobit::aten {

bool ordered_products() { return OperatorSwitch::products() == contract::ProductTier::ordered; }

void require_ordered_products(std::string_view op, std::string_view what, std::string_view remedy) {
  if (ordered_products()) return;
  refuse(op, std::string(what) + " that products = \"" + std::string(name(OperatorSwitch::products())) + "\" lacks",
         remedy);
}

void multiply(const kernels::MatmulProblem& problem) {
  return ordered_products() ? kernels::matmul(problem) : kernels::exact3_matmul(problem);
}

void multiply(const kernels::WideMatmulProblem& problem) { kernels::matmul(problem); }

void convolve_planes(const kernels::Conv2dShape& shape, const float* x, const float* weight, const float* bias,
                     float* y) {
  return ordered_products() ? kernels::conv2d_forward(shape, x, weight, bias, y)
                            : kernels::exact3_conv2d_forward(shape, x, weight, bias, y);
}

void planes_input_gradient(const kernels::Conv2dShape& shape, const float* dy, const float* weight, float* dx) {
  return ordered_products() ? kernels::conv2d_input_gradient(shape, dy, weight, dx)
                            : kernels::exact3_conv2d_input_gradient(shape, dy, weight, dx);
}

void planes_weight_gradient(const kernels::Conv2dShape& shape, const float* x, const float* dy, float* dweight) {
  return ordered_products() ? kernels::conv2d_weight_gradient(shape, x, dy, dweight)
                            : kernels::exact3_conv2d_weight_gradient(shape, x, dy, dweight);
}

}  // namespace isobit::aten
