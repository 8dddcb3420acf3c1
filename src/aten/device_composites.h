// Composite operators and gradients whose stock code takes another way for CUDA tensors than for the CPU's (cuDNN,
// fused kernels of their own randomness): replaced by the CPU's way, from certified operators. Thread-safe.
#pragma once

#include <string_view>

namespace torch {
class Library;
}

namespace isobit::aten {

[[nodiscard]] bool is_device_composite(std::string_view full_name);

// Preconditions: libraries of kind IMPL for namespace aten, DispatchKey::CUDA and AutogradCUDA. They last as long as
// the library objects.
void register_device_composites(torch::Library& device, torch::Library& autograd);

// Where PyTorch's Python code asks whether cuDNN is to be used: no. DispatchKey::CompositeImplicitAutograd.
void register_cudnn_answers(torch::Library& composites);

}  // namespace isobit::aten
