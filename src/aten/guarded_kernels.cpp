#include "aten/guarded_kernels.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ATen/Context.h>
#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/sort.h>

#include "aten/arithmetic_types.h"
#include "aten/collectives.h"
#include "aten/conversions.h"
#include "aten/deterministic_writes.h"
#include "aten/element_pieces.h"
#include "aten/refusal.h"
#include "aten/subnormals.h"
#include "aten/stock_threads.h"
#include "aten/uninitialised.h"
#include "aten/memory_overlap.h"
#include "aten/reduced_floats.h"

namespace isobit::aten {
namespace {

using c10::DispatchKeySet;
using c10::IValue;
using c10::OperatorHandle;
using c10::ScalarType;
using c10::Stack;

std::string full_name(const OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// Calls visit(scalar type) for every tensor, dtype and number among the arguments; stops where it says false.
template <typename Visit>
bool every_type(const IValue& value, Visit&& visit) {
  if (value.isTensor()) return !value.toTensor().defined() || visit(value.toTensor().scalar_type());
  if (value.isDouble()) return visit(ScalarType::Double);
  if (value.isComplexDouble()) return visit(ScalarType::ComplexDouble);
  if (value.isList()) {
    for (const IValue& element : value.toListRef()) {
      if (!every_type(element, visit)) return false;
    }
  }
  return true;
}

bool is_float(ScalarType type) { return c10::isFloatingType(type) || c10::isComplexType(type); }

class Arguments {
 public:
  Arguments(const OperatorHandle& op, Stack& stack) : schema_(op.schema()) {
    const std::size_t count = schema_.arguments().size();
    values_ = stack.data() + (stack.size() - count);
  }

  template <typename Visit>
  bool every_type(Visit&& visit) const {
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
      if (!isobit::aten::every_type(values_[i], visit)) return false;
    }
    return true;
  }

  // Calls visit(tensor) for every tensor, also those in lists; stops where it says false.
  template <typename Visit>
  bool every_tensor(Visit&& visit) const {
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
      if (values_[i].isTensor() && values_[i].toTensor().defined() && !visit(values_[i].toTensor())) return false;
      if (!values_[i].isList()) continue;
      for (const IValue& element : values_[i].toListRef()) {
        if (element.isTensor() && element.toTensor().defined() && !visit(element.toTensor())) return false;
      }
    }
    return true;
  }

  // A dtype argument is an int to the interpreter: known by its name.
  [[nodiscard]] bool asks_for_float() const {
    const IValue* dtype = find("dtype");
    return dtype != nullptr && dtype->isInt() && is_float(static_cast<ScalarType>(dtype->toInt()));
  }

  [[nodiscard]] IValue* find(std::string_view name) const {
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
      if (schema_.arguments()[i].name() == name) return &values_[i];
    }
    return nullptr;
  }

  [[nodiscard]] IValue& at(std::size_t i) const { return values_[i]; }

 private:
  const c10::FunctionSchema& schema_;
  IValue* values_;
};

void call_stock_divided(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  const WithinOperator within;
  op.redispatchBoxed(keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect), stack);
}
void call_stock(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  const StockOnCaller on_caller(*stack, op.schema().arguments().size());
  call_stock_divided(op, keys, stack);
}

bool only_integers(const Arguments& arguments) {
  return arguments.every_type([](ScalarType type) { return !is_float(type); }) && !arguments.asks_for_float();
}

// Of a device: 16-bit and smaller floats have not been compared with the CPU's conversions.
bool converts_alike(ScalarType type) {
  return c10::isIntegralType(type, true) || type == ScalarType::Float || type == ScalarType::Double ||
         type == ScalarType::ComplexFloat || type == ScalarType::ComplexDouble;
}

// Of floats beyond the integer type's range stock's answer is its instruction set's choice: they are saturated here.
void check_conversion(const OperatorHandle& op, const Arguments& arguments) {
  const at::Tensor& to = arguments.at(0).toTensor();
  const at::Tensor& from = arguments.at(1).toTensor();
  if (!from.defined() || from.scalar_type() == to.scalar_type()) return;
  if ((to.is_cuda() || from.is_cuda()) && !(converts_alike(to.scalar_type()) && converts_alike(from.scalar_type()))) {
    refuse(full_name(op),
           std::string("converts only float32, float64, their complex types, integers and bool on a GPU, got ") +
               c10::toString(from.scalar_type()) + " to " + c10::toString(to.scalar_type()),
           "convert on the CPU");
  }
  if (!from.defined() || !is_float(from.scalar_type()) || !c10::isIntegralType(to.scalar_type(), false)) return;
  if (from.is_meta() || to.is_meta() || integer_type_holds(from, to.scalar_type())) return;
  if (from.is_complex()) {
    refuse(full_name(op), "does not convert complex numbers to integers", "convert the real part (x.real)");
  }
  arguments.at(1) = saturated(from, to.scalar_type());
}

void check_reinterpretation(const OperatorHandle& op, const Arguments& arguments) {
  const at::Tensor& from = arguments.at(0).toTensor();
  const auto type = static_cast<ScalarType>(arguments.at(1).toInt());
  if (from.is_meta() || !is_float(from.scalar_type()) || type == from.scalar_type() || !holds_other_nan(from)) return;
  refuse(full_name(op), "shows the bits of floats only where every NaN is the canonical one, got another NaN",
         "replace them first (x[x.isnan()] = torch.nan)");
}

void check_real(const OperatorHandle& op, const Arguments& arguments) {
  if (!arguments.every_type([](ScalarType type) { return !c10::isComplexType(type); })) {
    refuse(full_name(op), "takes only real numbers", "take the parts (torch.view_as_real)");
  }
}

void check_summed(const OperatorHandle& op, const Arguments& arguments) {
  if (only_integers(arguments) || copies_only(*arguments.find("process_group"), *arguments.find("reduce_op"))) return;
  refuse(full_name(op), "is certified for integers, or for a group of one rank");
}

// Integers with a float of Python's, and quotients of integers, are computed in torch's default type.
bool in_default_type(const Arguments& arguments) {
  if (has_arithmetic(c10::get_default_dtype_as_scalartype())) return false;
  return arguments.every_tensor([](const at::Tensor& tensor) {
    return !is_float(tensor.scalar_type()) || (tensor.dim() == 0 && tensor.unsafeGetTensorImpl()->is_wrapped_number());
  });
}

void check_rounded(const OperatorHandle& op, const Arguments& arguments) {
  if (!arguments.every_type(has_arithmetic)) refuse_arithmetic(full_name(op));
  if (in_default_type(arguments) &&
      (!only_integers(arguments) || op.operator_name().name.find("div") != std::string::npos))
    refuse_arithmetic(full_name(op));
}

// Whether an index names a position twice along a dimension. Looked up on the host.
bool repeats(const at::Tensor& index, std::int64_t dim) {
  if (index.dim() == 0 || index.size(dim) < 2) return false;
  const at::Tensor sorted = std::get<0>(index.cpu().sort(std::optional<bool>(true), dim));
  const std::int64_t n = sorted.size(dim);
  return sorted.narrow(dim, 0, n - 1).eq(sorted.narrow(dim, 1, n - 1)).any().item<bool>();
}

// A device's stock kernel writes duplicates in any order.
void check_device_places(const OperatorHandle& op, const Arguments& arguments) {
  const IValue *source = arguments.find("src"), *index = arguments.find("index"), *dim = arguments.find("dim");
  if (source == nullptr || index == nullptr || dim == nullptr || !repeats(index->toTensor(), dim->toInt())) return;
  refuse(full_name(op), "needs an index without repetitions on a GPU, got one that repeats",
         "compute this part on the CPU");
}

// Of what an operator writes no element lies on another, and of what it reads none where it writes another. A constant
// may be written to one place twice.
void keep_apart(const OperatorHandle& op, const Arguments& arguments) {
  const auto& all = op.schema().arguments();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const c10::AliasInfo* const alias = all[i].alias_info();
    if (alias == nullptr || !alias->isWrite() || !arguments.at(i).isTensor()) continue;
    const at::Tensor written = arguments.at(i).toTensor();
    const std::string& name = op.operator_name().name;
    if (name != "aten::zero_" && name != "aten::fill_" && name != "aten::masked_fill_")
      require_own_places(name, written);
    for (std::size_t j = 0; j < all.size(); ++j) {
      if (j == i || !arguments.at(j).isTensor() || !arguments.at(j).toTensor().defined()) continue;
      const at::Tensor read = arguments.at(j).toTensor(), apart = apart_from(written, read);
      if (!apart.is_same(read)) arguments.at(j) = apart;
    }
  }
}

// 16-bit floats are computed with on the CPU alone; a tensor without values has shape and type.
bool on_host(const Arguments& arguments) {
  return arguments.every_tensor([](const at::Tensor& tensor) { return tensor.is_cpu() || tensor.is_meta(); });
}

// A copy from a device to the host: its values are there when the call returns. Else what reads them would depend on
// who is first; PyTorch's own x.to("cpu", non_blocking=True) comes back with memory that is not written yet.
void wait_for_values(Arguments& arguments) {
  const at::Tensor &written = arguments.at(0).toTensor(), &read = arguments.at(1).toTensor();
  IValue* const non_blocking = arguments.find("non_blocking");
  if (non_blocking != nullptr && written.is_cpu() && !read.is_cpu()) *non_blocking = false;
}

template <ExactRule rule>
void check_and_call(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  Arguments arguments(op, *stack);
  keep_subnormals();
  if constexpr (rule == ExactRule::rounds) {
    if (any_reduced(op, *stack) && on_host(arguments)) {
      return call_widened(op, stack, [&](Stack* widened) { check_and_call<rule>(op, keys, widened); });
    }
  }
  if constexpr (rule == ExactRule::converts) {
    check_conversion(op, arguments);
    wait_for_values(arguments);
  }
  if constexpr (rule == ExactRule::reinterprets) check_reinterpretation(op, arguments);
  if constexpr (rule == ExactRule::real) check_real(op, arguments);
  if constexpr (rule == ExactRule::collects) check_summed(op, arguments);
  if constexpr (rule == ExactRule::rounds) check_rounded(op, arguments);
  if constexpr (rule == ExactRule::integers) {
    if (!only_integers(arguments)) refuse(full_name(op), "is certified for integers and bool only");
  }
  if constexpr (rule == ExactRule::inspects || rule == ExactRule::converts || rule == ExactRule::real ||
                rule == ExactRule::rounds || rule == ExactRule::integers || rule == ExactRule::places) {
    keep_apart(op, arguments);
  }
  if constexpr (rule == ExactRule::sorts) {
    if (IValue* stable = arguments.find("stable")) *stable = true;
  }
  if constexpr (rule == ExactRule::places) {
    std::optional<DeterministicWrites> writes;  // not on devices, where the mode takes another way
    if (arguments.at(0).toTensor().is_cuda()) {
      check_device_places(op, arguments);
    } else {
      writes.emplace();
    }
    call_stock(op, keys, stack);
  } else if constexpr (rule == ExactRule::sorts) {  // ten times the work of other operators, and more
    call_stock_divided(op, keys, stack);
  } else {
    constexpr bool element_wise = rule == ExactRule::rounds || rule == ExactRule::real || rule == ExactRule::inspects ||
                                  rule == ExactRule::converts;
    if (!element_wise || !call_in_pieces(op, keys, stack)) call_stock(op, keys, stack);
  }
}

// Whether every tensor of another device is a number that PyTorch made a tensor of: it takes the others' device.
bool only_numbers_elsewhere(const Arguments& arguments) {
  return arguments.every_tensor([](const at::Tensor& tensor) { return tensor.is_meta() || tensor.dim() == 0; });
}

// Whether tensors take part and all are on the device "meta" (but for numbers beside them), or one is to be made there:
// shapes without values. The dispatcher takes the kernel of "meta" then, which is behind all others.
bool has_no_values(const Arguments& arguments, DispatchKeySet keys) {
  if (const IValue* device = arguments.find("device"); device != nullptr && !device->isNone()) {
    return device->isDevice() && device->toDevice().is_meta();
  }
  constexpr auto kMeta = static_cast<std::uint8_t>(c10::BackendComponent::MetaBit);
  constexpr auto kAll = static_cast<std::uint8_t>(c10::BackendComponent::EndOfBackendKeys);
  constexpr std::uint64_t kBackends = (std::uint64_t{1} << kAll) - 1;
  constexpr std::uint64_t kMetaBit = std::uint64_t{1} << (kMeta - 1);
  const std::uint64_t backends = keys.raw_repr() & kBackends;
  return backends == kMetaBit || ((backends & kMetaBit) != 0 && only_numbers_elsewhere(arguments));
}

void refuse_call(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  if (!has_no_values(Arguments(op, *stack), keys)) refuse(full_name(op), "is not certified");
  const DispatchKeySet after = keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect);
  op.redispatchBoxed(after | DispatchKeySet(c10::DispatchKey::Meta), stack);
}

// What to do instead of a layout; keys of functionalities that torch adds later have the last answer.
const char* remedy_of_layout(c10::DispatchKey key) {
  const std::string_view name = c10::toString(key);
  if (name.find("NestedTensor") != name.npos) {
    return "pad the rows to one length (torch.nn.utils.rnn.pad_sequence) and pass a mask of what is padding";
  }
  if (name.find("Sparse") != name.npos) {
    return "use dense tensors (sparse=False of an embedding), or make them dense (Tensor.to_dense) outside isobit";
  }
  if (name.find("Quantized") != name.npos) return "compute in float32: nothing is certified for quantized numbers";
  return "use dense CPU tensors, or run this part outside isobit (with isobit.disabled():)";
}

void refuse_layout(const OperatorHandle& op, DispatchKeySet keys, Stack*) {
  const c10::DispatchKey key = keys.highestPriorityTypeId();
  refuse(full_name(op), std::string("is not certified for ") + c10::toString(key) + " tensors", remedy_of_layout(key));
}

void refuse_device(const OperatorHandle& op, DispatchKeySet, Stack*) {
  const ExactOperator* exact = find_exact(full_name(op));
  std::string why = exact == nullptr ? "" : " (" + std::string(exact->device_reason) + ")";
  refuse(full_name(op), "is not certified on a GPU" + why, "compute this part on the CPU");
}

void go_cpu_way(const OperatorHandle& op, DispatchKeySet, Stack* stack) {
  op.redispatchBoxed(DispatchKeySet(c10::DispatchKey::CPU), stack);
}

// Another library's operator that is ours; of tensors without values, what that library says about their shapes.
class LibraryKernel final : public c10::OperatorKernel {
 public:
  explicit LibraryKernel(c10::KernelFunction kernel) : kernel_(std::move(kernel)) {}
  void operator()(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    if (!has_no_values(Arguments(op, *stack), keys)) return kernel_.callBoxed(op, keys, stack);
    const DispatchKeySet after = keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect);
    op.redispatchBoxed(after | DispatchKeySet(c10::DispatchKey::Meta), stack);
  }

 private:
  c10::KernelFunction kernel_;
};

}  // namespace

c10::KernelFunction library_kernel(const LibraryOperator& op) {
  return c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<LibraryKernel>(op.kernel()));
}

c10::KernelFunction refusing_device_kernel() { return c10::KernelFunction::makeFromBoxedFunction<&refuse_device>(); }

c10::KernelFunction cpu_way_kernel() { return c10::KernelFunction::makeFromBoxedFunction<&go_cpu_way>(); }

c10::KernelFunction refusing_kernel() { return c10::KernelFunction::makeFromBoxedFunction<&refuse_call>(); }

c10::KernelFunction refusing_layout_kernel() { return c10::KernelFunction::makeFromBoxedFunction<&refuse_layout>(); }

c10::KernelFunction checking_kernel(ExactRule rule, std::string_view op) {
  using c10::KernelFunction;
  switch (rule) {
    case ExactRule::moves: return allocating_kernel(op);
    case ExactRule::allocates: return filling_kernel(op);
    case ExactRule::inspects: return KernelFunction::makeFromBoxedFunction<&check_and_call<ExactRule::inspects>>();
    case ExactRule::converts: return KernelFunction::makeFromBoxedFunction<&check_and_call<ExactRule::converts>>();
    case ExactRule::reinterprets:
      return KernelFunction::makeFromBoxedFunction<&check_and_call<ExactRule::reinterprets>>();
    case ExactRule::real: return KernelFunction::makeFromBoxedFunction<&check_and_call<ExactRule::real>>();
    case ExactRule::collects: return KernelFunction::makeFromBoxedFunction<&check_and_call<ExactRule::collects>>();
    case ExactRule::rounds: return KernelFunction::makeFromBoxedFunction<&check_and_call<ExactRule::rounds>>();
    case ExactRule::integers: return KernelFunction::makeFromBoxedFunction<&check_and_call<ExactRule::integers>>();
    case ExactRule::places: return KernelFunction::makeFromBoxedFunction<&check_and_call<ExactRule::places>>();
    case ExactRule::sorts: return KernelFunction::makeFromBoxedFunction<&check_and_call<ExactRule::sorts>>();
  }
  return {};
}

}  // namespace isobit::aten
