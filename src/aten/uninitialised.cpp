#include "aten/uninitialised.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_to_copy.h>
#include <ATen/ops/cat_ops.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/gather_ops.h>
#include <ATen/ops/index_select_ops.h>
#include <ATen/ops/zeros.h>
#include <c10/core/TensorOptions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include "aten/flat_elements.h"
#include "aten/stock_threads.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using c10::DispatchKeySet;
using c10::IValue;
using c10::OperatorHandle;

thread_local int operators = 0;  // that the thread is within, of those that say so
thread_local std::int64_t filled = 0;

// Of `count` elements: without threads, which a child of fork may not start. Copies of the first 4 KiB take the C
// library's widest stores, a sixth of the time of a loop compiled for every x86-64.
template <class Bits>
void fill_host(void* elements, std::int64_t count, Bits bits) {
  constexpr std::int64_t kCopied = 4096 / sizeof(Bits);
  auto* const first = static_cast<Bits*>(elements);
  std::fill_n(first, std::min(count, kCopied), bits);
  for (std::int64_t done = kCopied; done < count; done += kCopied)
    std::memcpy(first + done, first, static_cast<std::size_t>(std::min(count - done, kCopied)) * sizeof(Bits));
}
void fill_host(at::ScalarType type, void* elements, std::int64_t count) {
  if (c10::isComplexType(type)) return fill_host(c10::toRealValueType(type), elements, 2 * count);
  switch (type) {
    case at::kDouble: return fill_host<std::uint64_t>(elements, count, 0x7ff8000000000000);
    case at::kFloat: return fill_host<std::uint32_t>(elements, count, 0x7fc00000);
    case at::kHalf: return fill_host<std::uint16_t>(elements, count, 0x7e00);
    case at::kBFloat16: return fill_host<std::uint16_t>(elements, count, 0x7fc0);
    case at::kBool: return fill_host<std::uint8_t>(elements, count, 1);
    default: break;
  }
  const bool has_sign = !c10::isIntegralType(type, false) || c10::isSignedType(type);
  switch (c10::elementSize(type)) {
    case 8: return fill_host<std::uint64_t>(elements, count, has_sign ? INT64_MAX : UINT64_MAX);
    case 4: return fill_host<std::uint32_t>(elements, count, has_sign ? INT32_MAX : UINT32_MAX);
    case 2: return fill_host<std::uint16_t>(elements, count, has_sign ? INT16_MAX : UINT16_MAX);
    default: return fill_host<std::uint8_t>(elements, count, has_sign ? INT8_MAX : UINT8_MAX);  // and floats of 8 bits
  }
}
at::Scalar device_filling(at::ScalarType type) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (c10::isComplexType(type)) return c10::complex<double>(nan, nan);
  if (c10::isFloatingType(type)) return nan;
  std::int64_t largest = 0;
  fill_host(type, &largest, 1);
  return largest;
}

// From this byte of its storage on, whatever its strides.
void fill(const Tensor& tensor, std::size_t first_byte = 0) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.layout() != at::kStrided || tensor.is_quantized()) return;
  if (!tensor.is_cpu() && !tensor.is_cuda()) return;
  const at::AutoDispatchBelowADInplaceOrView no_version;
  const auto size = static_cast<std::int64_t>(tensor.element_size());
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  const std::int64_t first = (static_cast<std::int64_t>(first_byte) + size - 1) / size;
  if (bytes / size <= first) return;
  ++filled;
  if (tensor.is_cpu()) {
    auto* const elements = static_cast<char*>(tensor.storage().mutable_data());
    if (elements != nullptr) fill_host(tensor.scalar_type(), elements + first * size, bytes / size - first);
    return;
  }
  Tensor flat =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(tensor.storage()), tensor.key_set(), tensor.dtype());
  flat.unsafeGetTensorImpl()->set_storage_offset(first);
  flat.unsafeGetTensorImpl()->set_sizes_contiguous({bytes / size - first});
  flat.fill_(device_filling(tensor.scalar_type()));
}

constexpr auto kHere = c10::DispatchKey::BackendSelect;
constexpr DispatchKeySet kAfter(DispatchKeySet::FULL_AFTER, kHere);

// PyTorch's own accumulation of a gradient takes memory, then copies the gradient into all of it. The program's code
// runs there in hooks and in handlers of modes and subclasses alone. A handler's thread excludes all keys before
// Python's, or, as PyTorch lets it call itself again, includes Python's.
bool within_accumulation() {
  const auto node = torch::autograd::get_current_node();
  auto* const accumulation = dynamic_cast<torch::autograd::AccumulateGrad*>(node.get());
  if (accumulation == nullptr || !accumulation->variable.defined()) return false;
  const bool hooks = !accumulation->pre_hooks().empty() || !accumulation->post_hooks().empty() ||
                     !accumulation->tensor_pre_hooks().empty() || !accumulation->retains_grad_hooks().empty() ||
                     accumulation->tensor_post_acc_grad_hooks() != nullptr;
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  constexpr auto kPython = c10::DispatchKey::PythonTLSSnapshot;
  return !hooks && !keys.excluded_.has(kPython) && !keys.included_.has(kPython);
}

bool asked_by_the_program() { return operators == 0 && !within_accumulation(); }

// The two that other operators call most, without boxes.
Tensor empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
             std::optional<at::Device> device, std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  const DispatchKeySet key(c10::computeDispatchKey(dtype, layout, device));
  Tensor result = at::_ops::empty_memory_format::redispatch(key, sizes, dtype, layout, device, pinned, format);
  if (asked_by_the_program()) fill(result);
  return result;
}
Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pinned) {
  const DispatchKeySet key(c10::computeDispatchKey(dtype, layout, device));
  Tensor result = at::_ops::empty_strided::redispatch(key, sizes, strides, dtype, layout, device, pinned);
  if (asked_by_the_program()) fill(result);
  return result;
}

const IValue* argument(const OperatorHandle& op, const c10::Stack& stack, std::string_view name) {
  const auto& arguments = op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == name) return &stack[stack.size() - arguments.size() + i];
  }
  return nullptr;
}

// Of a factory without tensors, as PyTorch's own kernels there compute it.
DispatchKeySet key_of_options(const OperatorHandle& op, const c10::Stack& stack) {
  const IValue *dtype = argument(op, stack, "dtype"), *layout = argument(op, stack, "layout"),
               *device = argument(op, stack, "device");
  return DispatchKeySet(c10::computeDispatchKey(dtype->toOptional<at::ScalarType>(), layout->toOptional<at::Layout>(),
                                                device->toOptional<at::Device>()));
}

// Others: a new tensor, or one that is resized in place.
void allocate(const OperatorHandle& op, DispatchKeySet keys, c10::Stack* stack) {
  const IValue* resized = argument(op, *stack, "out");
  const bool in_place = op.schema().arguments()[0].alias_info() != nullptr;
  if (in_place) resized = argument(op, *stack, "self");
  const bool factory = !op.schema().arguments()[0].type()->isSubtypeOf(c10::TensorType::get()) && resized == nullptr;
  const std::size_t before =
      resized != nullptr && resized->toTensor().has_storage() ? resized->toTensor().storage().nbytes() : 0;
  const bool asked = asked_by_the_program();
  const WithinOperator within;
  op.redispatchBoxed(factory ? key_of_options(op, *stack) : keys & kAfter, stack);
  if (asked) fill(stack->back().toTensor(), before);
}

// ---- operators that allocate for themselves

// Those that are called most, without boxes.
Tensor to_copy(DispatchKeySet keys, const Tensor& tensor, std::optional<at::ScalarType> dtype,
               std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pinned,
               bool non_blocking, std::optional<at::MemoryFormat> format) {
  const WithinOperator within;
  return at::_ops::_to_copy::redispatch(keys & kAfter, tensor, dtype, layout, device, pinned, non_blocking, format);
}
Tensor clone(DispatchKeySet keys, const Tensor& tensor, std::optional<at::MemoryFormat> format) {
  const WithinOperator within;
  return at::_ops::clone::redispatch(keys & kAfter, tensor, format);
}
Tensor zeros(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
             std::optional<at::Device> device, std::optional<bool> pinned) {
  const WithinOperator within;
  const DispatchKeySet key(c10::computeDispatchKey(dtype, layout, device));
  return at::_ops::zeros::redispatch(key, sizes, dtype, layout, device, pinned);
}

Tensor cat(DispatchKeySet keys, const at::ITensorListRef& tensors, std::int64_t dim) {
  if ((keys & kAfter).highestPriorityTypeId() == c10::DispatchKey::CPU) {
    if (auto flat = flat_cat(tensors, dim)) return *std::move(flat);
  }
  std::int64_t elements = 0;
  for (const Tensor& tensor : tensors) elements += tensor.numel();
  const WithinOperator within;
  const StockOnCaller on_caller(elements);
  return at::_ops::cat::redispatch(keys & kAfter, tensors, dim);
}
Tensor gather(DispatchKeySet keys, const Tensor& tensor, std::int64_t dim, const Tensor& index, bool sparse) {
  const WithinOperator within;
  const StockOnCaller on_caller(index.numel());
  return at::_ops::gather::redispatch(keys & kAfter, tensor, dim, index, sparse);
}
Tensor index_select(DispatchKeySet keys, const Tensor& tensor, std::int64_t dim, const Tensor& index) {
  const std::int64_t rank = tensor.dim(), rows = rank == 0 || dim < -rank || dim >= rank ? 1 : tensor.size(dim);
  const WithinOperator within;
  const StockOnCaller on_caller(index.numel() * (tensor.numel() / std::max<std::int64_t>(1, rows)));
  return at::_ops::index_select::redispatch(keys & kAfter, tensor, dim, index);
}

void call_within(const OperatorHandle& op, DispatchKeySet keys, c10::Stack* stack) {
  const WithinOperator within;
  const StockOnCaller on_caller(*stack, op.schema().arguments().size());
  op.redispatchBoxed(keys & kAfter, stack);
}
void make_within(const OperatorHandle& op, DispatchKeySet, c10::Stack* stack) {
  const WithinOperator within;
  const StockOnCaller on_caller(0);  // what writes numbers in order, arange
  op.redispatchBoxed(key_of_options(op, *stack), stack);
}

// Those of torch 2.13 that call empty and its like, by what a profiler showed of PyTorch's own samples.
constexpr std::string_view kOfTensors[] = {"aten::bernoulli",
                                           "aten::bernoulli.p",
                                           "aten::constant_pad_nd",
                                           "aten::fill.Scalar",
                                           "aten::flip",
                                           "aten::full_like",
                                           "aten::im2col",
                                           "aten::index.Tensor",
                                           "aten::masked_select",
                                           "aten::nan_to_num",
                                           "aten::narrow_copy",
                                           "aten::native_channel_shuffle",
                                           "aten::new_full",
                                           "aten::new_ones",
                                           "aten::new_zeros",
                                           "aten::nonzero",
                                           "aten::ones_like",
                                           "aten::pixel_shuffle",
                                           "aten::pixel_unshuffle",
                                           "aten::rand_like",
                                           "aten::randint_like",
                                           "aten::randint_like.low_dtype",
                                           "aten::randn_like",
                                           "aten::reflection_pad1d",
                                           "aten::reflection_pad2d",
                                           "aten::reflection_pad3d",
                                           "aten::repeat",
                                           "aten::roll",
                                           "aten::replication_pad2d",
                                           "aten::take",
                                           "aten::tril",
                                           "aten::tril_",
                                           "aten::triu",
                                           "aten::triu_",
                                           "aten::zeros_like"};
constexpr std::string_view kOfSizes[] = {"aten::arange",
                                         "aten::arange.start",
                                         "aten::arange.start_step",
                                         "aten::eye",
                                         "aten::eye.m",
                                         "aten::full",
                                         "aten::normal.float_float",
                                         "aten::ones",
                                         "aten::rand",
                                         "aten::rand.generator",
                                         "aten::randint",
                                         "aten::randint.generator",
                                         "aten::randint.low",
                                         "aten::randint.low_generator",
                                         "aten::randn",
                                         "aten::randn.generator",
                                         "aten::randperm",
                                         "aten::randperm.generator",
                                         "aten::scalar_tensor"};

}  // namespace

WithinOperator::WithinOperator() { ++operators; }
WithinOperator::~WithinOperator() { --operators; }

std::int64_t fillings() { return filled; }

c10::KernelFunction allocating_kernel(std::string_view full_name) {
  using c10::KernelFunction;
  if (full_name == "aten::clone") return KernelFunction::makeFromUnboxedRuntimeFunction(&clone);
  if (full_name == "aten::_to_copy") return KernelFunction::makeFromUnboxedRuntimeFunction(&to_copy);
  if (full_name == "aten::cat") return KernelFunction::makeFromUnboxedRuntimeFunction(&cat);
  if (full_name == "aten::gather") return KernelFunction::makeFromUnboxedRuntimeFunction(&gather);
  if (full_name == "aten::index_select") return KernelFunction::makeFromUnboxedRuntimeFunction(&index_select);
  if (full_name == "aten::zeros") return KernelFunction::makeFromUnboxedRuntimeFunction(&zeros);
  if (std::ranges::find(kOfTensors, full_name) != std::end(kOfTensors))
    return KernelFunction::makeFromBoxedFunction<&call_within>();
  if (std::ranges::find(kOfSizes, full_name) != std::end(kOfSizes))
    return KernelFunction::makeFromBoxedFunction<&make_within>();
  return {};
}

c10::KernelFunction filling_kernel(std::string_view full_name) {
  if (full_name == "aten::empty.memory_format") return c10::KernelFunction::makeFromUnboxedRuntimeFunction(&empty);
  if (full_name == "aten::empty_strided") return c10::KernelFunction::makeFromUnboxedRuntimeFunction(&empty_strided);
  return c10::KernelFunction::makeFromBoxedFunction<&allocate>();
}

}  // namespace isobit::aten
