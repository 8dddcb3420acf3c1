#include "aten/library_operators.h"

#include <algorithm>
#include <string>

#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include "aten/vision/vision.h"

namespace isobit::aten {

const std::vector<LibraryOperator>& library_operators() {
  static const std::vector<LibraryOperator> all = [] {
    std::vector<LibraryOperator> list = vision::box_operators();
    for (const LibraryOperator& op : vision::deformable_operators()) list.push_back(op);
    for (const LibraryOperator& op : window_operators()) list.push_back(op);
    return list;
  }();
  return all;
}

const LibraryOperator* find_library_operator(std::string_view full_name) {
  const auto& all = library_operators();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& op) { return op.name() == full_name; });
  return found == all.end() ? nullptr : &*found;
}

// Names of arguments and default values may differ between a library's versions; types and their order may not.
bool fits(const LibraryOperator& ours, const c10::OperatorHandle& op) {
  const c10::FunctionSchema expected = torch::jit::parseSchema(std::string(ours.schema)), &found = op.schema();
  const auto same = [](const std::vector<c10::Argument>& a, const std::vector<c10::Argument>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const c10::Argument& x, const c10::Argument& y) {
      return *x.real_type() == *y.real_type() && x.alias_info() == y.alias_info();
    });
  };
  return same(expected.arguments(), found.arguments()) && same(expected.returns(), found.returns()) &&
         !found.is_vararg() && !found.is_varret();
}

}  // namespace isobit::aten
