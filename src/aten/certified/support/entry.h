// One certified overload: its place in the table and its kernels. Private to this folder.
#pragma once

#include <torch/library.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "aten/certified.h"
#include "aten/certified/support/by_host.h"
#include "aten/certified/support/device_call.h"
#include "aten/reduced_floats.h"
#include "aten/stock_threads.h"
#include "aten/subnormals.h"
#include "kernels/float_environment.h"

namespace isobit::aten {

struct Entry {
  CertifiedOperator op;
  torch::CppFunction (*cpu_kernel)();     // nullptr: stock's is exact there
  torch::CppFunction (*device_kernel)();  // nullptr: devices refuse
  StockKernel* stock;                     // to be filled with what the device kernel replaces
  torch::CppFunction (*autograd_kernel)() =
      nullptr;  // where the operator is its own derivative formula, or a composition
};

// Elements of the first tensor of an operator's arguments, where it holds integers; others are not stock's to compute.
inline std::int64_t integers_of() { return kWorthStocksThreads; }
template <class First, class... Arguments>
std::int64_t integers_of(const First& first, const Arguments&... arguments) {
  if constexpr (!std::is_convertible_v<const First&, const at::Tensor&>) {
    return integers_of(arguments...);
  } else {
    const at::Tensor& tensor = first;
    return tensor.defined() && c10::isIntegralType(tensor.scalar_type(), true) ? tensor.numel() : kWorthStocksThreads;
  }
}

// A call with 16-bit floats among its arguments: through the boxed kernel that widens them. By signature, not by
// function.
template <class Signature>
struct WithReduced;
template <class Result, class... Arguments>
struct WithReduced<Result(Arguments...)> {
  [[gnu::noinline]] static Result call(const StockKernel& stock, Result (*function)(Arguments...),
                                       Arguments... arguments) {
    const c10::KernelFunction kernel = widening_kernel(c10::KernelFunction::makeFromUnboxedRuntimeFunction(function));
    return kernel.call<Result, Arguments...>(*stock.handle, c10::DispatchKeySet(c10::DispatchKey::CPU),
                                             std::forward<Arguments>(arguments)...);
  }
};

// The function, after what another library left of rounding modes is undone, for good as for exact operators
// (aten/subnormals.h): parameters are rounded before any kernel opens its own environment. What stock computes of
// integers stays on the calling thread (aten/stock_threads.h). 16-bit floats are widened before and rounded after.
template <auto& function, bool integers_by_stock, StockKernel& stock,
          class Signature = std::remove_reference_t<decltype(function)>>
struct InEnvironment;
template <auto& function, bool integers_by_stock, StockKernel& stock, class Result, class... Arguments>
struct InEnvironment<function, integers_by_stock, stock, Result(Arguments...)> {
  static Result call(Arguments... arguments) {
    if (!kernels::float_environment_is_ieee()) keep_subnormals();
    if (any_reduced(arguments...)) [[unlikely]]
      return WithReduced<Result(Arguments...)>::call(stock, &call, std::forward<Arguments>(arguments)...);
    if constexpr (integers_by_stock) {
      const StockOnCaller on_caller(integers_of(arguments...));
      return function(std::forward<Arguments>(arguments)...);
    } else {
      return function(std::forward<Arguments>(arguments)...);
    }
  }
};
template <auto& function, DeviceRules rules>
inline constexpr auto kHostKernel =
    &InEnvironment<function, rules.integers == DeviceIntegers::stock, stock_kernel<function, rules>>::call;

// certify<mm>("aten::mm", "", "section 3"): the unboxed function becomes the operator's kernel, on the CPU and, through
// a DeviceKernel, on a device. Given to torch as a pointer: its wrappers are then compiled once per signature. `rules`:
// what the device kernel takes besides float32 tensors of one device.
template <auto& function, DeviceRules rules = DeviceRules{}>
Entry certify(std::string_view name, std::string_view overload, std::string_view section) {
  return {{name, overload, section},
          [] { return torch::CppFunction(kHostKernel<function, rules>); },
          [] { return torch::CppFunction(device_kernel<function, rules>(function)); },
          &stock_kernel<function, rules>};
}

// An operator that PyTorch decides about before autograd: the function stands there too, and is differentiated by what
// it calls.
template <auto& function, DeviceRules rules = DeviceRules{}>
Entry certify_layer(std::string_view name, std::string_view overload, std::string_view section) {
  Entry entry = certify<function, rules>(name, overload, section);
  entry.autograd_kernel = [] { return torch::CppFunction(kHostKernel<function, rules>); };
  return entry;
}

// Certified on devices only: on the CPU stock's kernel is one IEEE operation and stays.
template <auto& function, DeviceRules rules = DeviceRules{}>
Entry certify_on_device(std::string_view name, std::string_view overload, std::string_view section) {
  Entry entry = certify<function, rules>(name, overload, section);
  entry.cpu_kernel = nullptr;
  entry.op.on_cpu = false;
  return entry;
}

// Certified on the CPU; a device's tensors are brought to the host and the results back (by_host.h), integers too.
template <auto& function>
Entry certify_by_host(std::string_view name, std::string_view overload, std::string_view section) {
  Entry entry = certify<ByHost<function>::call>(name, overload, section);
  entry.cpu_kernel = [] {
    return torch::CppFunction(
        &InEnvironment<function, true, stock_kernel<ByHost<function>::call, DeviceRules{}>>::call);
  };
  entry.op.by_host = true;
  return entry;
}

// The families of operators, defined in aten/certified/*.cpp. This list alone names them.
// clang-format off
#define ISOBIT_OPERATOR_FAMILIES(X) \
  X(matmul) X(convolution) X(unary) X(arithmetic) X(rounding) X(random) X(softmax) X(attention) X(loss) \
  X(reduce) X(extremum) X(pooling) X(normalization) X(group_normalization) X(activation) X(loss_term) \
  X(indexed_sum) X(indexed_reduction) X(embedding) X(index_put) X(optimizer) X(ctc) X(recurrent) \
  X(recurrent_cell) X(resampling) X(grid_sampling) X(pooling3d) X(unpooling) X(rank) X(lerp) \
  X(unique_value) X(distance) X(wide_function) X(sequence) X(scan) X(composed_reduction) \
  X(fractional_pooling) X(factorisation) X(histogram) X(special_function) X(distribution) \
  X(linear_algebra) X(grouped_matmul) X(lu_part)
// clang-format on

#define ISOBIT_DECLARE_FAMILY(family) std::vector<Entry> family##_operators();
ISOBIT_OPERATOR_FAMILIES(ISOBIT_DECLARE_FAMILY)
#undef ISOBIT_DECLARE_FAMILY

}  // namespace isobit::aten
