#include "trace/operator_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace isobit::trace {
namespace {

// What is in the memory that they give was never written by the program.
constexpr std::string_view kUnwritten[] = {"aten::empty",          "aten::empty_like", "aten::empty_strided",
                                           "aten::empty_permuted", "aten::new_empty",  "aten::new_empty_strided",
                                           "aten::resize_",        "aten::resize_as_", "aten::_empty_affine_quantized",
                                           "aten::_resize_output_"};

// Their first argument is written, never read.
constexpr std::string_view kOverwrites[] = {
    "aten::copy_",       "aten::fill_",      "aten::zero_",          "aten::normal_",
    "aten::uniform_",    "aten::random_",    "aten::bernoulli_",     "aten::exponential_",
    "aten::log_normal_", "aten::geometric_", "aten::cauchy_",        "aten::resize_",
    "aten::resize_as_",  "aten::set_",       "aten::_foreach_zero_", "aten::_foreach_copy_"};

template <std::size_t count>
bool holds(const std::string_view (&names)[count], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

OperatorTraits make_traits(const at::RecordFunction& call, std::string_view full_name) {
  OperatorTraits traits;
  const std::string_view name = full_name.substr(0, full_name.find('.'));
  traits.leaves_unwritten = holds(kUnwritten, name);
  if (const auto schema = call.operator_schema()) {
    for (const c10::Argument& argument : schema->arguments()) traits.overwritten.push_back(argument.is_out());
  }
  if (holds(kOverwrites, name) && !traits.overwritten.empty()) traits.overwritten.front() = true;
  return traits;
}

void append_list(const c10::IValue& value, Use use, std::string& text, std::vector<Operand>& operands) {
  text += '[';
  bool first = true;
  for (const c10::IValue& element : value.toList()) {
    if (!first) text += ',';
    append_argument(element, use, text, operands);
    first = false;
  }
  text += ']';
}

}  // namespace

const OperatorTraits& traits_of(const at::RecordFunction& call, const std::string& name) {
  thread_local std::unordered_map<std::string, OperatorTraits> known;
  const auto found = known.find(name);
  return found != known.end() ? found->second : known.emplace(name, make_traits(call, name)).first->second;
}

void append_argument(const c10::IValue& value, Use use, std::string& text, std::vector<Operand>& operands) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    text += tensor.defined() ? "t" : "none";
    if (tensor.defined()) operands.push_back({tensor, use});
  } else if (value.isList()) {
    append_list(value, use, text, operands);
  } else if (value.isInt()) {
    text += fmt::format("{}", value.toInt());
  } else if (value.isDouble()) {
    text += fmt::format("{}", value.toDouble());
  } else if (value.isBool()) {
    text += value.toBool() ? "true" : "false";
  } else if (value.isComplexDouble()) {
    text += fmt::format("{}+{}i", value.toComplexDouble().real(), value.toComplexDouble().imag());
  } else if (value.isString()) {
    text += '"' + value.toStringRef() + '"';
  } else if (value.isNone()) {
    text += "none";
  } else {
    text += value.tagKind();  // a generator, a device: what it holds is no argument's value
  }
}

}  // namespace isobit::trace
