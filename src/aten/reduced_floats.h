// Operators on 16-bit floats, float16 and bfloat16 (contract, section 18): arguments are widened to float32, which is
// exact; the operator computes there as it does for float32; results are rounded once to the type that PyTorch's
// promotion gives. Stock rounds within some operators and not within others, as its kernels for a CPU please.
//
// One boxed kernel serves all operators: it reads the schema for what is written. Thread-safe; no state.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <c10/core/ScalarType.h>
#include <c10/util/FunctionRef.h>

#include <optional>
#include <type_traits>

namespace torch {
class Library;
}

namespace isobit::aten {

inline bool is_reduced(c10::ScalarType type) {
  return type == c10::ScalarType::Half || type == c10::ScalarType::BFloat16;
}

// Whether a tensor, a list's tensor or a type among an operator's arguments is a 16-bit float. A few loads.
template <class Argument>
bool is_reduced_argument(const Argument& argument) {
  if constexpr (std::is_same_v<Argument, at::Tensor>) {
    return argument.defined() && is_reduced(argument.scalar_type());
  } else if constexpr (std::is_same_v<Argument, std::optional<at::Tensor>>) {
    return argument && is_reduced_argument(*argument);
  } else if constexpr (std::is_same_v<Argument, c10::ScalarType>) {
    return is_reduced(argument);
  } else if constexpr (std::is_same_v<Argument, std::optional<c10::ScalarType>>) {
    return argument && is_reduced(*argument);
  } else if constexpr (std::is_same_v<Argument, at::TensorList>) {
    for (const at::Tensor& tensor : argument) {
      if (is_reduced_argument(tensor)) return true;
    }
    return false;
  } else if constexpr (std::is_same_v<Argument, c10::List<std::optional<at::Tensor>>>) {
    for (std::size_t i = 0; i < argument.size(); ++i) {
      if (is_reduced_argument(argument.get(i))) return true;
    }
    return false;
  } else {
    return false;
  }
}
template <class... Arguments>
bool any_reduced(const Arguments&... arguments) {
  return (is_reduced_argument(arguments) || ...);
}

// The same of a boxed call.
[[nodiscard]] bool any_reduced(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

// Widens the arguments in the stack, lets `compute` put the operator's float32 results in their place, and rounds
// these. Written arguments are written to where they are.
void call_widened(const c10::OperatorHandle& op, torch::jit::Stack* stack,
                  c10::function_ref<void(torch::jit::Stack*)> compute);

// A kernel that does so with `inner`.
[[nodiscard]] c10::KernelFunction widening_kernel(c10::KernelFunction inner);

// Composites of stock's that round more or less often by the strides of what they are given: they take one way for
// 16-bit floats. Precondition: kind IMPL, namespace aten, DispatchKey::CompositeImplicitAutograd.
void register_reduced_composites(torch::Library& composites);

}  // namespace isobit::aten
