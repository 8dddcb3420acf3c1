// What tests ask of samples.
#pragma once

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "archive/user_error.h"
#include "samples/samples.h"

namespace isobit::samples {

// A field's values of these samples; of all, without `ids`.
template <class Value>
std::vector<Value> values(const Samples& samples, std::size_t field, std::vector<std::int64_t> ids = {}) {
  if (ids.empty()) {
    ids.resize(static_cast<std::size_t>(samples.count()));
    std::iota(ids.begin(), ids.end(), 0);
  }
  const Field& what = samples.fields().at(field);
  std::vector<Value> out(ids.size() * static_cast<std::size_t>(what.elements()));
  if (bytes_of(what.element) != sizeof(Value)) throw std::logic_error("the field has another element");
  samples.read(field, ids, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

// What a user error says; "" where there is none. Other exceptions come through.
template <class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const archive::UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace isobit::samples
