// A certified function by CPU fallback: the tensors of a call on a device are brought to the host, the CPU's function
// computes there, and what it writes or returns goes to the device.
//
// For what is rare or sequential. The arithmetic is certified like any other; the call waits for the device, and
// copies. Tensors that the function writes are brought too, so that it may read them; every argument is a copy of its
// own, so that an output may be an input. Private to this folder.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "aten/certified/support/tensors.h"
#include "aten/device_work.h"

namespace isobit::aten {
namespace by_host {

using at::Tensor;

inline Tensor on_host(const Tensor& tensor) {
  return tensor.defined() && tensor.is_cuda() ? tensor.to(at::kCPU) : tensor;
}

// One parameter of a call. value() is what the function gets; give_back() writes to the caller's tensor, and
// caller_of(t) is that tensor where t is what the function got, else nullptr.
template <class Parameter>
struct Brought {  // a number, a name, a list of sizes
  std::remove_reference_t<Parameter>& given;
  Parameter value() { return static_cast<Parameter>(given); }
  void give_back() {}
  Tensor* caller_of(const Tensor&) { return nullptr; }
};
template <>
struct Brought<const Tensor&> {
  const Tensor host;
  explicit Brought(const Tensor& given) : host(on_host(given)) {}
  const Tensor& value() { return host; }
  void give_back() {}
  Tensor* caller_of(const Tensor&) { return nullptr; }
};
template <>
struct Brought<const std::optional<Tensor>&> {
  std::optional<Tensor> host;
  explicit Brought(const std::optional<Tensor>& given) {
    if (given) host = on_host(*given);
  }
  const std::optional<Tensor>& value() { return host; }
  void give_back() {}
  Tensor* caller_of(const Tensor&) { return nullptr; }
};
template <>
struct Brought<at::TensorList> {
  std::vector<Tensor> host;
  explicit Brought(at::TensorList given) {
    for (const Tensor& tensor : given) host.push_back(on_host(tensor));
  }
  at::TensorList value() { return host; }
  void give_back() {}
  Tensor* caller_of(const Tensor&) { return nullptr; }
};
template <>
struct Brought<Tensor&> {
  Tensor& given;
  Tensor host;
  explicit Brought(Tensor& tensor) : given(tensor), host(on_host(tensor)) {}
  Tensor& value() { return host; }
  void give_back() { copy_out(given, host); }
  Tensor* caller_of(const Tensor& tensor) { return &tensor == &host ? &given : nullptr; }
};

}  // namespace by_host

// function(arguments...) on the host. Within a DeviceWork, which says where results go.
template <class Result, class... Parameter>
Result computed_by_host(Result (*function)(Parameter...), std::type_identity_t<Parameter>... arguments) {
  std::tuple<by_host::Brought<Parameter>...> brought{by_host::Brought<Parameter>{arguments}...};
  const c10::Device device = *working_device();
  return std::apply(
      [&](auto&... each) -> Result {
        const auto placed = [&](auto&& result) -> decltype(auto) {
          using Type = decltype(result);
          if constexpr (std::is_same_v<Type, at::Tensor&>) {
            at::Tensor* caller = nullptr;
            ((caller = caller != nullptr ? caller : each.caller_of(result)), ...);
            return static_cast<at::Tensor&>(*caller);
          } else {
            return result.defined() ? result.to(device) : at::Tensor(result);
          }
        };
        const auto go_back = [&](auto&& result) -> Result {
          (each.give_back(), ...);
          if constexpr (std::is_same_v<Result, at::Tensor> || std::is_same_v<Result, at::Tensor&>) {
            return placed(std::forward<Result>(result));
          } else {
            return std::apply([&](auto&&... part) { return Result(placed(std::forward<decltype(part)>(part))...); },
                              std::forward<Result>(result));
          }
        };
        return go_back([&]() -> Result {
          const DeviceWork on_host(at::kCPU);
          return function(each.value()...);
        }());
      },
      brought);
}

// The same as a function of its own signature, for the table of operators.
template <auto& function, class Signature = std::remove_reference_t<decltype(function)>>
struct ByHost;
template <auto& function, class Result, class... Parameter>
struct ByHost<function, Result(Parameter...)> {
  static Result call(Parameter... arguments) {
    return computed_by_host<Result, Parameter...>(&function, std::forward<Parameter>(arguments)...);
  }
};

}  // namespace isobit::aten
