// torchvision's operators by families, and what they share. Private to aten.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "aten/library_operators.h"

namespace isobit::aten::vision {

[[nodiscard]] std::vector<LibraryOperator> box_operators();         // boxes.cpp
[[nodiscard]] std::vector<LibraryOperator> deformable_operators();  // deformable.cpp

// The tensors on the host, row-major; refuses what is not dense float32 on the CPU or a CUDA device. (CPU fallback: the
// call waits for a device, and its result goes back there.)
[[nodiscard]] at::Tensor on_host(std::string_view op, const at::Tensor& tensor);

// The four neighbours of a place between pixels, in the order of their positions, and their weights.
struct Taps {
  std::int64_t place[4];
  float weight[4];
};

}  // namespace isobit::aten::vision
