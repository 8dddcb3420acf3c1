// A certified function called with tensors of a CUDA device: what is checked before, and the scope it runs in.
//
// The function itself is the CPU's: within the scope new tensors come from the device and kernels run there.
// Taken are dense float32 tensors of one device, and integers beside them. Integers alone are given to stock's kernel
// or refused where the operator's rules say so; other floating types are refused. Private to this folder.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <type_traits>

#include "aten/certified.h"
#include "aten/certified/support/by_host.h"
#include "aten/device_work.h"

namespace isobit::aten {

enum class DeviceIntegers {
  ours,     // as any argument: the function converts them
  stock,    // stock's kernel of the device: exact on integers
  refused,  // stock has none, or none known to agree with the CPU's
};

struct DeviceRules {
  DeviceIntegers integers = DeviceIntegers::ours;
  bool host_scalars = false;  // tensors of no dimension may be on the CPU, as in element-wise operators
  bool out_decides = false;   // a floating `out` makes integers floats
  bool host_tensors = false;  // tensors of any size may be on the CPU; the function brings them
  bool doubles = false;       // float64 is computed on the host: what printing a tensor asks for
  bool divides = false;       // by integers where stock takes them: a zero among them is the CPU's error
};
inline constexpr DeviceRules kElementwise{DeviceIntegers::ours, true};
inline constexpr DeviceRules kElementwiseOrStock{DeviceIntegers::stock, true};
inline constexpr DeviceRules kElementwiseNoIntegers{DeviceIntegers::refused, true};
inline constexpr DeviceRules kIntegersByStock{DeviceIntegers::stock, false};
inline constexpr DeviceRules kIntegersByStockAndOut{DeviceIntegers::stock, false, true};
inline constexpr DeviceRules kNoIntegers{DeviceIntegers::refused, false};

// The kernel that a device kernel replaces, and the operator.
struct StockKernel {
  const CertifiedOperator* op = nullptr;
  std::optional<c10::OperatorHandle> handle;
  c10::KernelFunction kernel;
};

// Looks at a call's arguments, in order. Throws what is to be refused.
class DeviceArguments {
 public:
  DeviceArguments(const StockKernel& stock, const DeviceRules& rules) : stock_(stock), rules_(rules) {}

  template <class Argument>
  void find_device(const Argument& argument) {
    using Type = std::remove_cvref_t<Argument>;
    if constexpr (std::is_same_v<Type, at::Tensor>) {
      if (!device_ && argument.defined() && argument.is_cuda()) {
        device_ = argument.device();
        device_place_ = place_;
      }
    } else if constexpr (std::is_same_v<Type, std::optional<at::Tensor>>) {
      if (argument) return find_device(*argument);
    } else if constexpr (std::is_same_v<Type, at::TensorList>) {
      for (const at::Tensor& tensor : argument) {
        find_device(tensor);
        --place_;
      }
    }
    ++place_;
  }

  template <class Parameter>
  void check(const std::remove_reference_t<Parameter>& argument) {
    using Type = std::remove_cvref_t<Parameter>;
    constexpr bool writable = std::is_same_v<Parameter, at::Tensor&>;
    if constexpr (std::is_same_v<Type, at::Tensor>) {
      check_tensor(argument, writable, writable && place_ > 0);
    } else if constexpr (std::is_same_v<Type, std::optional<at::Tensor>>) {
      if (argument) check_tensor(*argument, false, false);
    } else if constexpr (std::is_same_v<Type, at::TensorList>) {
      for (const at::Tensor& tensor : argument) check_tensor(tensor, false, false);
    } else if constexpr (std::is_same_v<Type, at::Scalar>) {
      floats_ |= argument.isFloatingPoint() || argument.isComplex();
    } else if constexpr (std::is_same_v<Type, std::optional<at::Scalar>>) {
      if (argument) floats_ |= argument->isFloatingPoint() || argument->isComplex();
    } else if constexpr (std::is_same_v<Type, std::optional<at::ScalarType>>) {
      if (argument) floats_ |= !at::isIntegralType(*argument, /*includeBool=*/true);
    }
    ++place_;
  }

  void rewind() { place_ = 0; }
  [[nodiscard]] c10::Device device() const { return *device_; }
  // Neither a floating input nor a floating number nor a floating type asked for.
  [[nodiscard]] bool only_integers() const { return !floats_; }
  [[nodiscard]] bool has_doubles() const { return doubles_; }

 private:
  void check_tensor(const at::Tensor& tensor, bool writable, bool is_out);

  const StockKernel& stock_;
  const DeviceRules rules_;
  int place_ = 0, device_place_ = 0;
  std::optional<c10::Device> device_;
  bool floats_ = false, doubles_ = false;
};

[[noreturn]] void refuse_integers(const StockKernel& stock);
[[noreturn]] void refuse_without_kernels(const StockKernel& stock);

// Stock's kernels of a device answer a division of integers by zero with some number.
void refuse_zero_divisor(const at::Tensor& divisor);
template <class Dividend, class... Rest>
void refuse_zero_divisor(const Dividend&, const at::Tensor& divisor, const Rest&...) {
  refuse_zero_divisor(divisor);
}

// The stock kernel that the device kernel of `function` replaced.
template <auto& function, DeviceRules rules>
inline StockKernel stock_kernel;

// The kernel of a device: a class per signature, not per function, for each takes seconds of compiling.
template <class Signature>
struct DeviceKernel;

template <class Result, class... Parameter>
struct DeviceKernel<Result(Parameter...)> {
  Result (*function)(Parameter...);
  DeviceRules rules;
  const StockKernel* stock;
  Result (*by_host)(Result (*function)(Parameter...), Parameter...) = nullptr;    // with rules.doubles
  void (*check_divisor)(const std::remove_reference_t<Parameter>&...) = nullptr;  // with rules.divides

  Result operator()(Parameter... arguments) const {
    DeviceArguments checked(*stock, rules);
    (checked.find_device(arguments), ...);
    checked.rewind();
    (checked.template check<Parameter>(arguments), ...);
    if (rules.integers != DeviceIntegers::ours && checked.only_integers()) {
      if (rules.integers == DeviceIntegers::refused || !stock->kernel.isValid()) refuse_integers(*stock);
      if (check_divisor != nullptr) check_divisor(arguments...);
      return stock->kernel.template call<Result, Parameter...>(
          *stock->handle, c10::DispatchKeySet(c10::DispatchKey::CUDA), std::forward<Parameter>(arguments)...);
    }
    if (kernels::device_backend() == nullptr) refuse_without_kernels(*stock);
    const DeviceWork work(checked.device());
    if (checked.has_doubles()) return by_host(function, std::forward<Parameter>(arguments)...);
    return function(std::forward<Parameter>(arguments)...);
  }
};

// What stands for `function` on a device.
template <auto& function, DeviceRules rules, class Result, class... Parameter>
DeviceKernel<Result(Parameter...)> device_kernel(Result (&)(Parameter...)) {
  DeviceKernel<Result(Parameter...)> kernel{&function, rules, &stock_kernel<function, rules>};
  if constexpr (rules.doubles) kernel.by_host = &computed_by_host<Result, Parameter...>;
  if constexpr (rules.divides) {
    kernel.check_divisor = [](const std::remove_reference_t<Parameter>&... arguments) {
      refuse_zero_divisor(arguments...);
    };
  }
  return kernel;
}

}  // namespace isobit::aten
