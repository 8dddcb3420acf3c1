#include "aten/classification.h"

#include <algorithm>
#include <string>
#include <unordered_map>

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

const std::unordered_map<std::string, std::string_view>& certified_sections() {
  static const std::unordered_map<std::string, std::string_view> sections = [] {
    std::unordered_map<std::string, std::string_view> map;
    for (const CertifiedOperator& op : certified_operators()) map.emplace(full_name(op.name, op.overload), op.section);
    return map;
  }();
  return sections;
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

OperatorInfo classify(std::string_view name, std::string_view overload) {
  const std::string full = full_name(name, overload);
  OperatorInfo info{std::string(name), std::string(overload), OperatorClass::refused, "not certified"};
  if (const auto found = certified_sections().find(full); found != certified_sections().end()) {
    info.kind = OperatorClass::certified;
    info.reason = found->second;
  } else if (const ExactOperator* exact = find_exact(full)) {
    info.kind = OperatorClass::exact;
    info.reason = exact->reason;
  } else if (is_composite(full)) {
    info.kind = OperatorClass::composite;
    info.reason = "calls certified and exact operators only";
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
