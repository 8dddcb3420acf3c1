// Products of float32 on the CPU or a device, by the tier that the switch names (operator_switch.h; contract, sections
// 3 and 17). Operators with products call these, or refuse another tier than the ordered one. Private to this folder.
// Thread-safe.
#pragma once

#include <string_view>

#include "kernels/conv2d.h"
#include "kernels/matmul.h"

namespace isobit::aten {

// Whether products are ordered, which every certified operator has.
[[nodiscard]] bool ordered_products();
// Refuses `op`, "aten::lstm", where they are not. What: "takes float32 products", "has products".
void require_ordered_products(std::string_view op, std::string_view what, std::string_view remedy);

void multiply(const kernels::MatmulProblem& problem);
void multiply(const kernels::WideMatmulProblem& problem);  // ordered
void convolve_planes(const kernels::Conv2dShape& shape, const float* x, const float* weight, const float* bias,
                     float* y);
void planes_input_gradient(const kernels::Conv2dShape& shape, const float* dy, const float* weight, float* dx);
void planes_weight_gradient(const kernels::Conv2dShape& shape, const float* x, const float* dy, float* dweight);

}  // namespace isobit::aten
