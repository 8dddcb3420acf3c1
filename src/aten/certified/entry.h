// One certified overload: its place in the table and its kernels. Private to this folder.
#pragma once

#include <torch/library.h>

#include <vector>

#include "aten/certified.h"
#include "aten/certified/by_host.h"
#include "aten/certified/device_call.h"

namespace isobit::aten {

struct Entry {
  CertifiedOperator op;
  torch::CppFunction (*cpu_kernel)();     // nullptr: stock's is exact there
  torch::CppFunction (*device_kernel)();  // nullptr: devices refuse
  StockKernel* stock;  // to be filled with what the device kernel replaces
  torch::CppFunction (*autograd_kernel)() = nullptr;  // where the operator is its own derivative formula, or a composition
};

// certify<mm>("aten::mm", "", "section 3"): the unboxed function becomes the operator's kernel, on the CPU and, within
// a DeviceCall, on a device. `rules`: what the device kernel takes besides float32 tensors of one device.
template <auto& function, DeviceRules rules = {}>
Entry certify(std::string_view name, std::string_view overload, std::string_view section) {
  using Kernel = DeviceKernel<function, rules>;
  return {{name, overload, section},
          [] { return torch::CppFunction(TORCH_FN(function)); },
          [] { return torch::CppFunction(TORCH_FN(Kernel::call)); },
          &Kernel::stock};
}

// An operator that PyTorch decides about before autograd: the function stands there too, and is differentiated by what it
// calls.
template <auto& function, DeviceRules rules = {}>
Entry certify_layer(std::string_view name, std::string_view overload, std::string_view section) {
  Entry entry = certify<function, rules>(name, overload, section);
  entry.autograd_kernel = [] { return torch::CppFunction(TORCH_FN(function)); };
  return entry;
}

// Certified on devices only: on the CPU stock's kernel is one IEEE operation and stays.
template <auto& function, DeviceRules rules = {}>
Entry certify_on_device(std::string_view name, std::string_view overload, std::string_view section) {
  Entry entry = certify<function, rules>(name, overload, section);
  entry.cpu_kernel = nullptr;
  entry.op.on_cpu = false;
  return entry;
}

// Certified on the CPU; a device's tensors are brought to the host and the results back (by_host.h), integers too.
template <auto& function>
Entry certify_by_host(std::string_view name, std::string_view overload, std::string_view section) {
  using Kernel = DeviceKernel<ByHost<function>::call, DeviceRules{}>;
  Entry entry = certify<function>(name, overload, section);
  entry.device_kernel = [] { return torch::CppFunction(TORCH_FN(Kernel::call)); };
  entry.stock = &Kernel::stock;
  entry.op.by_host = true;
  return entry;
}

// One per family (a file of the same name).
std::vector<Entry> matmul_operators();
std::vector<Entry> convolution_operators();
std::vector<Entry> unary_operators();
std::vector<Entry> arithmetic_operators();
std::vector<Entry> rounding_operators();
std::vector<Entry> random_operators();
std::vector<Entry> softmax_operators();
std::vector<Entry> attention_operators();
std::vector<Entry> loss_operators();
std::vector<Entry> reduce_operators();
std::vector<Entry> extremum_operators();
std::vector<Entry> pooling_operators();
std::vector<Entry> normalization_operators();
std::vector<Entry> group_normalization_operators();
std::vector<Entry> activation_operators();
std::vector<Entry> loss_term_operators();
std::vector<Entry> indexing_operators();
std::vector<Entry> index_put_operators();
std::vector<Entry> optimizer_operators();
std::vector<Entry> ctc_operators();
std::vector<Entry> recurrent_operators();
std::vector<Entry> recurrent_cell_operators();
std::vector<Entry> resampling_operators();
std::vector<Entry> grid_sampling_operators();
std::vector<Entry> pooling3d_operators();
std::vector<Entry> unpooling_operators();
std::vector<Entry> selection_operators();
std::vector<Entry> distance_operators();
std::vector<Entry> wide_function_operators();
std::vector<Entry> sequence_operators();
std::vector<Entry> product_operators();
std::vector<Entry> fractional_pooling_operators();
std::vector<Entry> reduced_indexing_operators();
std::vector<Entry> factorisation_operators();

}  // namespace isobit::aten
