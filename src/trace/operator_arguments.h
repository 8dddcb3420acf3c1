// An operator's arguments as a trace has them: its tensors, and a text for all the rest. Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <string>
#include <vector>

namespace isobit::trace {

// What a tensor in an operator's argument is to it.
enum class Use { read, overwritten };

struct Operand {
  at::Tensor tensor;
  Use use = Use::read;
};

// Tensors that an operator leaves unwritten, or overwrites without reading.
struct OperatorTraits {
  bool leaves_unwritten = false;  // aten::empty: what is in its memory is nobody's
  std::vector<bool> overwritten;  // by argument: out=, and the first of fill_, copy_, normal_
};
// By the operator's schema; looked up once per name and thread.
[[nodiscard]] const OperatorTraits& traits_of(const at::RecordFunction& call, const std::string& name);

// "t,[t,t],2,0.5,none": a t per tensor; the tensors are appended to `operands` in that order.
void append_argument(const c10::IValue& value, Use use, std::string& text, std::vector<Operand>& operands);

}  // namespace isobit::trace
