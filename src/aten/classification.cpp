#include "aten/classification.h"

#include <algorithm>
#include <string>
#include <tuple>

#include <ATen/core/dispatch/Dispatcher.h>

#include "aten/certified.h"
#include "aten/composite_operators.h"
#include "aten/exact_operators.h"
#include "aten/library_operators.h"
#include "aten/sparse_operators.h"

namespace isobit::aten {
namespace {

std::string full_name(std::string_view name, std::string_view overload) {
  std::string full(name);
  if (!overload.empty()) full.append(".").append(overload);
  return full;
}

// Sorted by full name.
struct Certified {
  std::string name;
  std::string_view section;
  bool on_cpu, by_host;
};
const std::vector<Certified>& all_certified() {
  static const std::vector<Certified> all = [] {
    std::vector<Certified> list;
    for (const CertifiedOperator& op : certified_operators()) {
      list.push_back({full_name(op.name, op.overload), op.section, op.on_cpu, op.by_host});
    }
    for (const LibraryOperator& op : library_operators()) {
      list.push_back({std::string(op.name()), op.section, true, true});
    }
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return list;
  }();
  return all;
}

const Certified* find_certified(std::string_view full, DeviceKind device) {
  const auto& all = all_certified();
  const auto found = std::lower_bound(all.begin(), all.end(), full,
                                      [](const Certified& op, std::string_view name) { return op.name < name; });
  if (found == all.end() || found->name != full) return nullptr;
  return device != DeviceKind::cpu || found->on_cpu ? &*found : nullptr;
}

// An operator that only the list of sparse ones names.
const SparseOperator* only_sparse(std::string_view full) {
  return find_exact(full) != nullptr || is_composite(full) ? nullptr : find_sparse_operator(full);
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

OperatorClass class_of(std::string_view full_name, DeviceKind device) {
  if (find_certified(full_name, device) != nullptr) return OperatorClass::certified;
  if (const SparseOperator* sparse = only_sparse(full_name)) {
    return device == DeviceKind::cpu ? sparse->kind : OperatorClass::refused;
  }
  if (const ExactOperator* exact = find_exact(full_name)) {
    return device == DeviceKind::cpu || exact->on_device ? OperatorClass::exact : OperatorClass::refused;
  }
  return is_composite(full_name) ? OperatorClass::composite : OperatorClass::refused;
}

OperatorInfo classify(std::string_view name, std::string_view overload, DeviceKind device) {
  const std::string full = full_name(name, overload);
  OperatorInfo info{std::string(name), std::string(overload), class_of(full, device), "not certified"};
  const SparseOperator* const sparse = only_sparse(full);
  if (sparse != nullptr && info.kind == sparse->kind && find_certified(full, device) == nullptr) {
    info.reason = sparse->reason;
    return info;
  }
  switch (info.kind) {
    case OperatorClass::certified: {
      const Certified& found = *find_certified(full, device);
      info.reason = found.section;
      if (found.by_host) info.reason += "; on a GPU by CPU fallback";
      break;
    }
    case OperatorClass::exact: info.reason = find_exact(full)->reason; break;
    case OperatorClass::composite: info.reason = "calls certified and exact operators only"; break;
    case OperatorClass::refused:
      if (const ExactOperator* exact = find_exact(full)) info.reason = exact->device_reason;
      break;
  }
  return info;
}

std::vector<OperatorInfo> classify_all(DeviceKind device) {
  std::vector<OperatorInfo> all;
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    all.push_back(classify(op.name, op.overload_name, device));
  }
  std::sort(all.begin(), all.end(), [](const OperatorInfo& a, const OperatorInfo& b) {
    return std::tie(a.name, a.overload) < std::tie(b.name, b.overload);
  });
  return all;
}

}  // namespace isobit::aten
