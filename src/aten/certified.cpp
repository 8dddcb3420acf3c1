#include "aten/certified.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/products.h"
#include "aten/dispatcher_entry.h"

namespace isobit::aten {
namespace {

// What some versions of PyTorch no longer have. Any other name without a schema is a mistake, and an error.
constexpr std::string_view kGoneInSome[] = {"aten::cholesky"};  // without since 2.15 at the latest

bool is_gone(const CertifiedOperator& op) {
  if (std::find(std::begin(kGoneInSome), std::end(kGoneInSome), op.name) == std::end(kGoneInSome)) return false;
  const c10::OperatorName name(std::string(op.name), std::string(op.overload));
  return !c10::Dispatcher::singleton().findSchema(name).has_value();
}

std::vector<Entry> all_entries() {
  std::vector<Entry> all;
  const auto add = [&](const std::vector<Entry>& family) { all.insert(all.end(), family.begin(), family.end()); };
#define ISOBIT_ADD_FAMILY(family) add(family##_operators());
  ISOBIT_OPERATOR_FAMILIES(ISOBIT_ADD_FAMILY)
#undef ISOBIT_ADD_FAMILY
  std::erase_if(all, [](const Entry& entry) { return is_gone(entry.op); });
  return all;
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = all_entries();
  return all;
}

// Their products are their own, and ordered ones; all others call mm, convolution and the like for theirs
// (tests/python/exact_products_test.py compares this with the operators' sections).
constexpr std::string_view kOrderedOnly[] = {"aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"};

// In the place of one of them where products are of another tier.
void refuse_products(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  require_ordered_products(
      op.schema().operator_name().name, "has products",
      "compute with products = \"ordered\", or run this part outside isobit (with isobit.disabled():)");
  throw std::logic_error("an operator was registered for another tier of products");
}

torch::CppFunction kernel_of(const Entry& entry, torch::CppFunction (*kernel)()) {
  const bool ordered_only =
      std::find(std::begin(kOrderedOnly), std::end(kOrderedOnly), entry.op.name) != std::end(kOrderedOnly);
  if (ordered_only && !ordered_products()) return torch::CppFunction::makeFromBoxedFunction<&refuse_products>();
  return kernel();
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
    if (entry.cpu_kernel != nullptr) library.impl(full_name(entry.op).c_str(), kernel_of(entry, entry.cpu_kernel));
  }
}

void register_certified_autograd(torch::Library& library) {
  for (const Entry& entry : entries()) {
    if (entry.autograd_kernel != nullptr)
      library.impl(full_name(entry.op).c_str(), kernel_of(entry, entry.autograd_kernel));
  }
}

void register_certified_on_device(torch::Library& library) {
  for (const Entry& entry : entries()) {
    const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(
        std::string(entry.op.name).c_str(), std::string(entry.op.overload).c_str());
    const bool has_stock = op.hasComputedKernelForDispatchKey(c10::DispatchKey::CUDA);
    *entry.stock = {&entry.op, op, has_stock ? kernel_at(op, c10::DispatchKey::CUDA) : c10::KernelFunction()};
    library.impl(full_name(entry.op).c_str(), kernel_of(entry, entry.device_kernel));
  }
}

}  // namespace isobit::aten
