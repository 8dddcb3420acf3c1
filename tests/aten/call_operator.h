// Calls any operator of the dispatcher by its full name, as tables of samples need.
//
// Arguments are given in schema order; those left out take the schema's defaults. Header-only, tests only.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

namespace isobit::test {

using Values = std::vector<c10::IValue>;

inline c10::OperatorHandle find_operator(const std::string& full_name) {
  const auto dot = full_name.find('.');
  const std::string name = full_name.substr(0, dot);
  const std::string overload = dot == std::string::npos ? "" : full_name.substr(dot + 1);
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
}

// named: arguments after the given ones, by name.
inline Values call_operator(const std::string& full_name, Values arguments,
                            const std::vector<std::pair<std::string, c10::IValue>>& named = {}) {
  const c10::OperatorHandle op = find_operator(full_name);
  const auto& schema = op.schema().arguments();
  for (std::size_t i = arguments.size(); i < schema.size(); ++i) {
    c10::IValue value = schema[i].default_value().value_or(c10::IValue());
    for (const auto& [name, given] : named) {
      if (name == schema[i].name()) value = given;
    }
    arguments.push_back(std::move(value));
  }
  op.callBoxed(arguments);
  return arguments;
}

}  // namespace isobit::test
