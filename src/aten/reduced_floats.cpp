#include "aten/reduced_floats.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear_native.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "aten/batch_statistics.h"
#include "aten/refusal.h"
#include "aten/uninitialised.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using c10::IValue;
using c10::ScalarType;

// Of these the first result alone is the layer's, in the type of its input; statistics and the gradients of weights
// stay float32 (autograd rounds a gradient to its parameter's type).
constexpr std::string_view kFirstResultOnly[] = {
    "aten::native_layer_norm",        "aten::native_layer_norm_backward",
    "aten::native_group_norm",        "aten::native_group_norm_backward",
    "aten::native_batch_norm",        "aten::native_batch_norm_backward",
    "aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit_no_training",
    "aten::_batch_norm_with_update",  "aten::_batch_norm_no_update",
    "aten::batch_norm_backward",      "aten::nll_loss_forward",
    "aten::nll_loss2d_forward"};

// Stock's products do not promote: a type that differs is a mistake.
constexpr std::string_view kOneType[] = {"aten::mm",          "aten::addmm",        "aten::addmm_", "aten::bmm",
                                         "aten::baddbmm",     "aten::baddbmm_",     "aten::mv",     "aten::addmv",
                                         "aten::addmv_",      "aten::dot",          "aten::vdot",   "aten::addbmm",
                                         "aten::addbmm_",     "aten::addr",         "aten::addr_",  "aten::_grouped_mm",
                                         "aten::convolution", "aten::_convolution", "aten::matmul"};

template <std::size_t n>
bool names(const std::string_view (&list)[n], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

bool is_float_tensor(const Tensor& tensor) { return tensor.defined() && c10::isFloatingType(tensor.scalar_type()); }
bool is_reduced_tensor(const Tensor& tensor) { return tensor.defined() && is_reduced(tensor.scalar_type()); }

// A call's arguments, in place of which the widened ones are put.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : name_(op.operator_name().name),
        schema_(op.schema()),
        values_(stack.data() + (stack.size() - schema_.arguments().size())) {}

  void widen();
  void narrow(torch::jit::Stack& stack) const;

 private:
  // What is to be written when the operator has computed: the program's tensor, and what stands for it.
  struct Written {
    std::size_t argument;
    Tensor to, from;
  };

  [[nodiscard]] bool is_written(std::size_t i) const {
    const c10::AliasInfo* const alias = schema_.arguments()[i].alias_info();
    const std::string& argument = schema_.arguments()[i].name();
    // Batch norm's schema does not say that it writes its running statistics.
    return (alias != nullptr && alias->isWrite()) || argument == "running_mean" || argument == "running_var";
  }
  [[nodiscard]] bool is_out(std::size_t i) const { return schema_.arguments()[i].is_out(); }

  void find_types();
  template <typename Visit>
  void each_tensor(Visit&& visit) const;
  [[nodiscard]] Tensor widened(std::size_t i, const Tensor& tensor);
  [[nodiscard]] Tensor narrowed(const Tensor& result) const;
  [[nodiscard]] const Tensor* written_as(const c10::Argument& result) const;
  void write_back() const;

  const std::string& name_;
  const c10::FunctionSchema& schema_;
  IValue* values_;
  ScalarType result_ = ScalarType::Float;
  std::optional<ScalarType> asked_;  // by the argument "dtype": what is computed with is converted to it first
  std::vector<Written> written_;
};

template <typename Visit>
void Call::each_tensor(Visit&& visit) const {
  for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
    if (values_[i].isTensor()) visit(i, values_[i].toTensor());
    if (!values_[i].isList()) continue;
    for (const IValue& element : values_[i].toListRef()) {
      if (element.isTensor()) visit(i, element.toTensor());
    }
  }
}

// The type of results, as PyTorch promotes; and where the program asks for one, float32 in its place.
void Call::find_types() {
  const bool one_type = names(kOneType, name_);
  at::native::ResultTypeState state;
  std::optional<ScalarType> first;
  each_tensor([&](std::size_t i, const Tensor& tensor) {
    if (!tensor.defined() || is_out(i)) return;
    if (!first && is_float_tensor(tensor)) first = tensor.scalar_type();
    TORCH_CHECK(!one_type || !is_float_tensor(tensor) || tensor.scalar_type() == *first, name_,
                ": tensors of one type expected, got ", *first, " and ", tensor.scalar_type(),
                ": convert one of them (.to(dtype))");
    state = at::native::update_result_type_state(tensor, state);
  });
  result_ = at::native::result_type(state);
  if (names(kFirstResultOnly, name_) && first) result_ = *first;
  for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
    const std::string& argument = schema_.arguments()[i].name();
    if (argument == "half_to_float" && values_[i].isBool() && values_[i].toBool()) {
      result_ = ScalarType::Float, values_[i] = false;
    } else if ((argument == "dtype" || argument == "input_dtype") && values_[i].isInt()) {
      result_ = static_cast<ScalarType>(values_[i].toInt());
      if (argument == "dtype") asked_ = result_;
      if (is_reduced(result_)) values_[i] = static_cast<std::int64_t>(ScalarType::Float);
    }
  }
}

Tensor Call::widened(std::size_t i, const Tensor& tensor) {
  if (!is_float_tensor(tensor)) return tensor;
  if (is_out(i)) {
    const WithinOperator within;
    Tensor stand_in = at::empty(tensor.sizes(), tensor.options().dtype(at::kFloat));
    written_.push_back({i, tensor, stand_in});
    return stand_in;
  }
  if (asked_ && is_reduced(*asked_) && tensor.scalar_type() != *asked_) {
    TORCH_CHECK(!is_written(i), name_, ": in place a tensor of ", tensor.scalar_type(), " cannot become ", *asked_);
    return tensor.to(*asked_).to(at::kFloat);
  }
  if (!is_reduced_tensor(tensor)) return tensor;
  if (is_written(i) && schema_.arguments()[i].name() == "running_mean" && BatchStatisticsScope::active()) {
    refuse(name_, "updates running statistics of 16 bits, which a step of several grains cannot apply",
           "keep the layer in float32, or let the batch be one grain");
  }
  Tensor wide = tensor.to(at::kFloat);
  if (is_written(i)) written_.push_back({i, tensor, wide});
  return wide;
}

void Call::widen() {
  find_types();
  for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
    if (values_[i].isTensor()) {
      const Tensor tensor = values_[i].toTensor();
      const Tensor wide = widened(i, tensor);
      if (!wide.is_same(tensor)) values_[i] = wide;
    } else if (values_[i].isList()) {
      const auto list = values_[i].toList();
      std::optional<c10::List<IValue>> copied;
      for (std::size_t j = 0; j < list.size(); ++j) {
        const IValue& element = list.get(j);
        if (!element.isTensor()) continue;
        const Tensor wide = widened(i, element.toTensor());
        if (wide.is_same(element.toTensor())) continue;
        if (!copied) copied = list.copy();
        copied->set(j, wide);
      }
      if (copied) values_[i] = *std::move(copied);
    }
  }
}

Tensor Call::narrowed(const Tensor& result) const {
  const bool rounds = result.defined() && result.scalar_type() == at::kFloat && is_reduced(result_);
  return rounds ? result.to(result_) : result;
}

// Drawn from [from, to): what is rounded up to `to` would be outside.
Tensor rounded_toward_zero(const Tensor& values, ScalarType type) {
  Tensor nearest = values.to(type);
  nearest.view(at::kShort).sub_(nearest.to(at::kFloat).abs().gt(values.abs()).to(at::kShort));
  return nearest;
}

void Call::write_back() const {
  for (const Written& each : written_) {
    const Tensor values = is_out(each.argument)       ? narrowed(each.from)
                          : name_ == "aten::uniform_" ? rounded_toward_zero(each.from, each.to.scalar_type())
                                                      : each.from;
    if (each.to.sizes() != values.sizes()) at::native::resize_output(each.to, values.sizes());
    each.to.copy_(values);
  }
}

// The program's tensor where a result is an argument that was written.
const Tensor* Call::written_as(const c10::Argument& result) const {
  const c10::AliasInfo* const alias = result.alias_info();
  if (alias == nullptr || !alias->isWrite()) return nullptr;
  for (const Written& each : written_) {
    const c10::AliasInfo* const argument = schema_.arguments()[each.argument].alias_info();
    if (argument != nullptr && argument->beforeSets() == alias->beforeSets()) return &each.to;
  }
  return nullptr;
}

void Call::narrow(torch::jit::Stack& stack) const {
  write_back();
  const std::size_t count = schema_.returns().size(), begin = stack.size() - count;
  for (std::size_t i = 0; i < count; ++i) {
    IValue& result = stack[begin + i];
    if (const Tensor* const tensor = written_as(schema_.returns()[i])) {
      result = *tensor;
    } else if (schema_.returns()[i].alias_info() != nullptr || (i > 0 && names(kFirstResultOnly, name_))) {
      continue;
    } else if (result.isTensor()) {
      result = narrowed(result.toTensor());
    } else if (result.isTensorList()) {
      c10::List<Tensor> list = result.toTensorList().copy();
      for (std::size_t j = 0; j < list.size(); ++j) list.set(j, narrowed(list.get(j)));
      result = std::move(list);
    }
  }
}

// Stock's takes one of two ways by the strides of x: a product and a sum, rounded in between, or both at once.
Tensor linear_one_way(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  if (!is_reduced_tensor(x) || !x.is_cpu() || x.dim() < 1 || weight.dim() != 2)
    return at::native::linear(x, weight, bias);
  if (x.dim() == 1) return linear_one_way(x.unsqueeze(0), weight, bias).squeeze(0);
  std::int64_t rows = 1;
  for (std::int64_t d = 0; d + 1 < x.dim(); ++d) rows *= x.size(d);
  const Tensor matrix = x.dim() == 2 ? x : x.reshape({rows, x.size(-1)});
  Tensor y = bias && bias->defined() ? at::addmm(*bias, matrix, weight.t()) : at::mm(matrix, weight.t());
  if (x.dim() == 2) return y;
  std::vector<std::int64_t> sizes(x.sizes().begin(), x.sizes().end());
  sizes.back() = weight.size(0);
  return y.view(sizes);
}

class WideningKernel final : public c10::OperatorKernel {
 public:
  explicit WideningKernel(c10::KernelFunction inner) : inner_(std::move(inner)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    call_widened(op, stack, [&](torch::jit::Stack* widened) { inner_.callBoxed(op, keys, widened); });
  }

 private:
  c10::KernelFunction inner_;
};

}  // namespace

bool any_reduced(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const IValue* const values = stack.data() + (stack.size() - arguments.size());
  const auto is_one = [](const IValue& value) { return value.isTensor() && is_reduced_tensor(value.toTensor()); };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (is_one(values[i])) return true;
    if (values[i].isList() && std::any_of(values[i].toListRef().begin(), values[i].toListRef().end(), is_one))
      return true;
  }
  return false;
}

void call_widened(const c10::OperatorHandle& op, torch::jit::Stack* stack,
                  c10::function_ref<void(torch::jit::Stack*)> compute) {
  Call call(op, *stack);
  call.widen();
  compute(stack);
  call.narrow(*stack);
}

void register_reduced_composites(torch::Library& composites) { composites.impl("linear", TORCH_FN(linear_one_way)); }

c10::KernelFunction widening_kernel(c10::KernelFunction inner) {
  return c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<WideningKernel>(std::move(inner)));
}

}  // namespace isobit::aten
