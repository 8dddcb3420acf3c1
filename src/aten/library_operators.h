// Operators of other libraries that our code computes, where such a library is loaded: torchvision's boxes and
// deformable convolution (contract, section 16). And PyTorch's that take no tensor, but for those that only call
// others.
//
// Known by name and schema: one of the same name that takes something else is refused. The kernel stands at
// BackendSelect, so that every call that has passed autograd ends there, whatever the library registers for a backend,
// before or after the switch went on. Thread-safe; no state.
#pragma once

#include <string_view>
#include <vector>

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace isobit::aten {

struct LibraryOperator {
  std::string_view schema;   // "torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
  std::string_view section;  // the contract's, in words
  c10::KernelFunction (*kernel)();

  [[nodiscard]] std::string_view name() const { return schema.substr(0, schema.find('(')); }
};

[[nodiscard]] std::vector<LibraryOperator> window_operators();  // windows.cpp

[[nodiscard]] const std::vector<LibraryOperator>& library_operators();

// By full name; nullptr where the list has none.
[[nodiscard]] const LibraryOperator* find_library_operator(std::string_view full_name);

// Whether the operator takes and returns what ours does.
[[nodiscard]] bool fits(const LibraryOperator& ours, const c10::OperatorHandle& op);

}  // namespace isobit::aten
