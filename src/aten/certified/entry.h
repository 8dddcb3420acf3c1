// One certified overload: its place in the table and its kernel. Private to this folder.
#pragma once

#include <torch/library.h>

#include <initializer_list>
#include <vector>

#include "aten/certified.h"

namespace isobit::aten {

struct Entry {
  CertifiedOperator op;
  torch::CppFunction (*kernel)();
};

// certify<mm>("aten::mm", "", "section 3"): the unboxed function becomes the operator's CPU kernel.
template <auto& function>
Entry certify(std::string_view name, std::string_view overload, std::string_view section) {
  return {{name, overload, section}, [] { return torch::CppFunction(TORCH_FN(function)); }};
}

// One per family (a file of the same name).
std::vector<Entry> matmul_operators();
std::vector<Entry> convolution_operators();
std::vector<Entry> unary_operators();
std::vector<Entry> arithmetic_operators();
std::vector<Entry> random_operators();
std::vector<Entry> softmax_operators();
std::vector<Entry> loss_operators();
std::vector<Entry> reduce_operators();
std::vector<Entry> extremum_operators();
std::vector<Entry> pooling_operators();
std::vector<Entry> normalization_operators();

}  // namespace isobit::aten
