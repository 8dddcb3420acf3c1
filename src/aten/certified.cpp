#include "aten/certified.h"

#include <string>

#include "aten/certified/entry.h"

namespace isobit::aten {
namespace {

std::vector<Entry> all_entries() {
  std::vector<Entry> all;
  for (auto* family : {&matmul_operators, &convolution_operators, &unary_operators, &arithmetic_operators,
                       &random_operators, &softmax_operators, &loss_operators, &reduce_operators,
                       &extremum_operators, &pooling_operators, &normalization_operators}) {
    const std::vector<Entry> entries = family();
    all.insert(all.end(), entries.begin(), entries.end());
  }
  return all;
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = all_entries();
  return all;
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
    std::string name(entry.op.name);
    if (!entry.op.overload.empty()) name.append(".").append(entry.op.overload);
    library.impl(name.c_str(), entry.kernel());
  }
}

}  // namespace isobit::aten
