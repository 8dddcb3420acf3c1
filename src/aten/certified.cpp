#include "aten/certified.h"

#include <string>

#include "aten/certified/support/entry.h"
#include "aten/dispatcher_entry.h"

namespace isobit::aten {
namespace {

std::vector<Entry> all_entries() {
  std::vector<Entry> all;
  const auto add = [&](const std::vector<Entry>& family) { all.insert(all.end(), family.begin(), family.end()); };
#define ISOBIT_ADD_FAMILY(family) add(family##_operators());
  ISOBIT_OPERATOR_FAMILIES(ISOBIT_ADD_FAMILY)
#undef ISOBIT_ADD_FAMILY
  return all;
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = all_entries();
  return all;
}

std::string full_name(const CertifiedOperator& op) {
  std::string name(op.name);
  if (!op.overload.empty()) name.append(".").append(op.overload);
  return name;
}

}  // namespace

const std::vector<CertifiedOperator>& certified_operators() {
  static const std::vector<CertifiedOperator> operators = [] {
    std::vector<CertifiedOperator> list;
    for (const Entry& entry : entries()) list.push_back(entry.op);
    return list;
  }();
  return operators;
}

void register_certified(torch::Library& library) {
  for (const Entry& entry : entries()) {
    if (entry.cpu_kernel != nullptr) library.impl(full_name(entry.op).c_str(), entry.cpu_kernel());
  }
}

void register_certified_autograd(torch::Library& library) {
  for (const Entry& entry : entries()) {
    if (entry.autograd_kernel != nullptr) library.impl(full_name(entry.op).c_str(), entry.autograd_kernel());
  }
}

void register_certified_on_device(torch::Library& library) {
  for (const Entry& entry : entries()) {
    const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(
        std::string(entry.op.name).c_str(), std::string(entry.op.overload).c_str());
    const bool has_stock = op.hasComputedKernelForDispatchKey(c10::DispatchKey::CUDA);
    *entry.stock = {&entry.op, op, has_stock ? kernel_at(op, c10::DispatchKey::CUDA) : c10::KernelFunction()};
    library.impl(full_name(entry.op).c_str(), entry.device_kernel());
  }
}

}  // namespace isobit::aten
