#include "aten/classification.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>

#include "aten/certified.h"
#include "aten/composite_operators.h"
#include "aten/exact_operators.h"

namespace isobit::aten {
namespace {

std::string full_name(std::string_view name, std::string_view overload) {
  std::string full(name);
  if (!overload.empty()) full.append(".").append(overload);
  return full;
}

// Sorted by full name, with the contract's section.
using Section = std::pair<std::string, std::string_view>;
const std::vector<Section>& certified_sections() {
  static const std::vector<Section> sections = [] {
    std::vector<Section> list;
    for (const CertifiedOperator& op : certified_operators()) list.emplace_back(full_name(op.name, op.overload), op.section);
    std::sort(list.begin(), list.end());
    return list;
  }();
  return sections;
}

const Section* find_certified(std::string_view full) {
  const auto& all = certified_sections();
  const auto found = std::lower_bound(all.begin(), all.end(), full,
                                      [](const Section& section, std::string_view name) { return section.first < name; });
  return found != all.end() && found->first == full ? &*found : nullptr;
}

}  // namespace

std::string_view to_string(OperatorClass kind) {
  switch (kind) {
    case OperatorClass::certified: return "certified";
    case OperatorClass::exact: return "exact";
    case OperatorClass::composite: return "composite";
    case OperatorClass::refused: break;
  }
  return "refused";
}

OperatorClass class_of(std::string_view full_name) {
  if (find_certified(full_name) != nullptr) return OperatorClass::certified;
  if (find_exact(full_name) != nullptr) return OperatorClass::exact;
  return is_composite(full_name) ? OperatorClass::composite : OperatorClass::refused;
}

OperatorInfo classify(std::string_view name, std::string_view overload) {
  const std::string full = full_name(name, overload);
  OperatorInfo info{std::string(name), std::string(overload), class_of(full), "not certified"};
  switch (info.kind) {
    case OperatorClass::certified: info.reason = find_certified(full)->second; break;
    case OperatorClass::exact: info.reason = find_exact(full)->reason; break;
    case OperatorClass::composite: info.reason = "calls certified and exact operators only"; break;
    case OperatorClass::refused: break;
  }
  return info;
}

std::vector<OperatorInfo> classify_all() {
  std::vector<OperatorInfo> all;
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    all.push_back(classify(op.name, op.overload_name));
  }
  std::sort(all.begin(), all.end(), [](const OperatorInfo& a, const OperatorInfo& b) {
    return std::tie(a.name, a.overload) < std::tie(b.name, b.overload);
  });
  return all;
}

}  // namespace isobit::aten
