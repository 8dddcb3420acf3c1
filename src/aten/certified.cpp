#include "aten/certified.h"

#include <string>

#include "aten/certified/entry.h"
#include "aten/dispatcher_entry.h"

namespace isobit::aten {
namespace {

std::vector<Entry> all_entries() {
  std::vector<Entry> all;
  for (auto* family : {&matmul_operators, &convolution_operators, &unary_operators, &arithmetic_operators,
                       &rounding_operators, &random_operators, &softmax_operators, &loss_operators, &reduce_operators,
                       &extremum_operators, &pooling_operators, &normalization_operators, &group_normalization_operators,
                       &activation_operators, &attention_operators, &loss_term_operators, &indexing_operators, &index_put_operators,
                       &optimizer_operators, &ctc_operators, &recurrent_operators, &recurrent_cell_operators,
                       &resampling_operators, &grid_sampling_operators, &pooling3d_operators, &unpooling_operators,
                       &selection_operators, &distance_operators, &wide_function_operators,
                       &sequence_operators, &product_operators, &fractional_pooling_operators, &reduced_indexing_operators,
                       &factorisation_operators}) {
    const std::vector<Entry> entries = family();
    all.insert(all.end(), entries.begin(), entries.end());
  }
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
