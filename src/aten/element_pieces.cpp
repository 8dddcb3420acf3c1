#include "aten/element_pieces.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "aten/flat_elements.h"
#include "aten/graph_check.h"
#include "aten/memory_overlap.h"
#include "aten/stock_threads.h"
#include "aten/turned_copy.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using c10::IValue;
using c10::OperatorHandle;
using torch::jit::Stack;

constexpr std::int64_t kWorthAThread = kWorthSeveralThreads / 4;

enum class Result { in_place, of_operands, truth };

struct Operator {
  std::string_view name;
  Result result;
  const char* out_overload = nullptr;  // of the same name; it writes into a last argument
};

constexpr auto kOperators = std::to_array<Operator>({
    {"aten::add.Tensor", Result::of_operands, "out"},
    {"aten::add_.Tensor", Result::in_place},
    {"aten::copy_", Result::in_place},
    {"aten::div.Tensor", Result::of_operands, "out"},
    {"aten::div_.Tensor", Result::in_place},
    {"aten::eq.Scalar", Result::truth, "Scalar_out"},
    {"aten::eq.Tensor", Result::truth, "Tensor_out"},
    {"aten::fill_.Scalar", Result::in_place},
    {"aten::ge.Scalar", Result::truth, "Scalar_out"},
    {"aten::ge.Tensor", Result::truth, "Tensor_out"},
    {"aten::gt.Scalar", Result::truth, "Scalar_out"},
    {"aten::gt.Tensor", Result::truth, "Tensor_out"},
    {"aten::le.Scalar", Result::truth, "Scalar_out"},
    {"aten::le.Tensor", Result::truth, "Tensor_out"},
    {"aten::lt.Scalar", Result::truth, "Scalar_out"},
    {"aten::lt.Tensor", Result::truth, "Tensor_out"},
    {"aten::masked_fill_.Scalar", Result::in_place},
    {"aten::mul.Tensor", Result::of_operands, "out"},
    {"aten::mul_.Tensor", Result::in_place},
    {"aten::ne.Scalar", Result::truth, "Scalar_out"},
    {"aten::ne.Tensor", Result::truth, "Tensor_out"},
    {"aten::neg", Result::of_operands, "out"},
    {"aten::neg_", Result::in_place},
    {"aten::sub.Tensor", Result::of_operands, "out"},
    {"aten::sub_.Tensor", Result::in_place},
    {"aten::where.self", Result::of_operands, "self_out"},
    {"aten::zero_", Result::in_place},
});

const Operator* find(const OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  const auto* found = std::find_if(kOperators.begin(), kOperators.end(), [&](const Operator& one) {
    const std::size_t dot = one.name.find('.');
    const std::string_view overload = dot == one.name.npos ? std::string_view() : one.name.substr(dot + 1);
    return name.overload_name == overload && name.name == one.name.substr(0, dot);
  });
  return found == kOperators.end() ? nullptr : found;
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor view_of(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides, std::int64_t offset) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(tensor.storage()),
                                                   c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  impl->set_sizes_and_strides(sizes, strides, offset);
  return at::Tensor(std::move(impl));
}

// The sizes that both are stretched to; false where they do not fit, which is stock's error.
bool stretch(at::DimVector& sizes, at::IntArrayRef other) {
  if (other.size() > sizes.size()) sizes.insert(sizes.begin(), other.size() - sizes.size(), 1);
  for (std::size_t i = 0; i < other.size(); ++i) {
    std::int64_t& size = sizes[sizes.size() - other.size() + i];
    if (size != other[i] && size != 1 && other[i] != 1) return false;
    if (size == 1) size = other[i];
  }
  return true;
}

// The operands of a call: those with dimensions, which are cut, and numbers, which each piece gets whole.
struct Operands {
  c10::SmallVector<std::pair<std::size_t, at::Tensor>, 4> cut;  // with the argument's index, of the result's sizes
  at::DimVector sizes;
  bool one_order = true;   // of memory, without gaps, and none is stretched
  bool row_major = false;  // contiguous all, one of the result's sizes among them

  // False where there is another operand.
  bool collect(const IValue* arguments, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (arguments[i].isList()) return false;
      if (!arguments[i].isTensor()) continue;
      const at::Tensor& tensor = arguments[i].toTensor();
      if (!tensor.defined() || !is_plain(tensor)) return false;
      if (tensor.dim() == 0) continue;
      if (cut.empty()) sizes = at::DimVector(tensor.sizes());
      if (!stretch(sizes, tensor.sizes())) return false;
      cut.emplace_back(i, tensor);
    }
    if (cut.empty() || c10::multiply_integers(sizes) < kWorthSeveralThreads) return false;
    one_order = is_whole(cut[0].second) && cut[0].second.is_non_overlapping_and_dense() &&
                std::all_of(cut.begin(), cut.end(), [&](const auto& one) {
                  return is_whole(one.second) && one.second.strides() == cut[0].second.strides();
                });
    row_major = std::all_of(cut.begin(), cut.end(), [](const auto& one) { return one.second.is_contiguous(); }) &&
                std::any_of(cut.begin(), cut.end(), [&](const auto& one) { return is_whole(one.second); });
    for (auto& one : cut) stretch_view(one.second);
    return true;
  }
  [[nodiscard]] bool is_whole(const at::Tensor& tensor) const { return tensor.sizes() == at::IntArrayRef(sizes); }

 private:
  void stretch_view(at::Tensor& tensor) const {
    if (is_whole(tensor)) return;
    at::DimVector strides(sizes.size(), 0);
    const std::size_t before = sizes.size() - static_cast<std::size_t>(tensor.dim());
    for (std::size_t d = before; d < sizes.size(); ++d) {
      const auto own = static_cast<std::int64_t>(d - before);
      if (tensor.size(own) == sizes[d]) strides[d] = tensor.stride(own);
    }
    tensor = view_of(tensor, sizes, strides, tensor.storage_offset());
  }
};

// Nothing that is read lies where another element is written: a piece might read it too late.
bool written_apart(const Operands& operands, const at::Tensor& result) {
  if (at::has_internal_overlap(result) != at::MemOverlap::No) return false;
  return std::all_of(operands.cut.begin(), operands.cut.end(), [&](const auto& one) {
    const at::Tensor& tensor = one.second;
    return !may_meet(tensor, result) || (tensor.const_data_ptr() == result.const_data_ptr() &&
                                         tensor.strides() == result.strides() && tensor.dtype() == result.dtype());
  });
}

// The type of an operator's result, where all operands of its shape agree.
std::optional<at::ScalarType> result_type(const Operands& operands, const IValue* arguments, std::size_t count) {
  const at::ScalarType type = operands.cut.back().second.scalar_type();  // the first may be where's condition
  if (!c10::isFloatingType(type)) return std::nullopt;
  const bool chooses = operands.cut[0].second.scalar_type() == at::kBool;
  for (std::size_t i = chooses ? 1 : 0; i < count; ++i) {
    if (!arguments[i].isTensor()) continue;
    const at::Tensor& tensor = arguments[i].toTensor();
    const bool number = tensor.dim() == 0 && !c10::isComplexType(tensor.scalar_type());
    if (tensor.scalar_type() != type && !number) return std::nullopt;
  }
  return type;
}

// How tensors are cut: flat, or along one dimension.
struct Cut {
  std::int64_t rows = 0, elements = 0;  // of the result: what is cut, and how many elements each has
  std::int64_t dim = -1;                // -1: flat

  static Cut of(const Operands& operands, const at::Tensor& result) {
    const std::int64_t count = result.numel();
    if (operands.one_order) return {count, 1, -1};
    // Along the outermost in memory, unless it has too few for all threads.
    const auto strides = result.strides(), sizes = result.sizes();
    auto dim = std::max_element(strides.begin(), strides.end()) - strides.begin();
    if (sizes[dim] < std::int64_t{2} * kernels::thread_count())
      dim = std::max_element(sizes.begin(), sizes.end()) - sizes.begin();
    return {sizes[dim], count / sizes[dim], dim};
  }

  // The rows [first, first + n).
  [[nodiscard]] at::Tensor piece(const at::Tensor& tensor, std::int64_t first, std::int64_t n) const {
    if (dim < 0) return view_of(tensor, {n}, {1}, tensor.storage_offset() + first);
    at::DimVector sizes(tensor.sizes());
    sizes[static_cast<std::size_t>(dim)] = n;
    return view_of(tensor, sizes, tensor.strides(), tensor.storage_offset() + first * tensor.stride(dim));
  }
};

// By loops of isobit's own (flat_elements.h), where there is one: the result, or nothing.
std::optional<at::Tensor> by_own_loops(std::string_view name, const IValue* arguments) {
  using kernels::ExactBinary;
  const at::Tensor& first = arguments[0].toTensor();
  const auto computed = [&](ExactBinary kind, bool in_place) -> std::optional<at::Tensor> {
    const at::Tensor& second = arguments[1].toTensor();
    if (!in_place) return flat_new(kind, first, second);
    return flat_into(kind, first, second, first) ? std::optional(first) : std::nullopt;
  };
  const auto written = [&](bool done) { return done ? std::optional(first) : std::nullopt; };
  if (name == "aten::mul.Tensor") return computed(ExactBinary::multiply, false);
  if (name == "aten::mul_.Tensor") return computed(ExactBinary::multiply, true);
  if (name == "aten::div.Tensor") return computed(ExactBinary::divide, false);
  if (name == "aten::div_.Tensor") return computed(ExactBinary::divide, true);
  if (name == "aten::copy_") {
    if (!arguments[1].isTensor()) return std::nullopt;
    const at::Tensor& second = arguments[1].toTensor();
    return written(flat_copy(first, second) || turned_copy(first, second));
  }
  if (name == "aten::fill_.Scalar") return written(flat_fill(first, arguments[1].toScalar()));
  if (name == "aten::zero_") return written(flat_zero(first));
  return std::nullopt;
}

// Whether the first two lie in memory in different orders: a copy of one to the other is worth its own loop even to one
// thread.
bool in_another_order(const IValue* arguments, std::size_t count) {
  if (count < 2 || !arguments[1].isTensor()) return false;
  const at::Tensor &first = arguments[0].toTensor(), &second = arguments[1].toTensor();
  return second.defined() && first.strides() != second.strides() && first.sizes() == second.sizes();
}

}  // namespace

bool call_in_pieces(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const std::size_t count = op.schema().arguments().size();
  const IValue* arguments = stack->data() + (stack->size() - count);
  const c10::DispatchKeySet after =
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect);
  // Nested, sparse, quantized tensors and other backends have kernels of their own.
  if (after.highestPriorityTypeId() != c10::DispatchKey::CPU) return false;
  if (count == 0 || !arguments[0].isTensor() || !arguments[0].toTensor().defined()) return false;
  const bool alone = kernels::thread_count() < 2;
  if (alone && !in_another_order(arguments, count)) return false;
  const Operator* found = find(op);
  if (found == nullptr || (alone && found->name != "aten::copy_")) return false;
  if (auto result = by_own_loops(found->name, arguments)) {
    torch::jit::drop(*stack, count);
    torch::jit::push(*stack, std::move(*result));
    return true;
  }
  if (alone) return false;
  Operands operands;
  if (!operands.collect(arguments, count)) return false;

  at::Tensor result = arguments[0].toTensor();
  c10::OperatorHandle called = op;
  const bool makes_result = found->result != Result::in_place;
  if (!makes_result) {
    if (operands.cut[0].first != 0 || !operands.is_whole(result) || !written_apart(operands, result)) return false;
  } else {
    const auto type = found->result == Result::truth ? at::kBool : result_type(operands, arguments, count);
    if (!type || (!operands.one_order && !operands.row_major)) return false;
    const at::Tensor& like = operands.cut[0].second;
    result = operands.one_order ? at::detail::empty_strided_cpu(like.sizes(), like.strides(), *type)
                                : at::Tensor(at::detail::empty_cpu(operands.sizes, *type));
    called = c10::Dispatcher::singleton().findSchemaOrThrow(op.operator_name().name.c_str(), found->out_overload);
  }
  const Cut cut = Cut::of(operands, result);
  if (cut.rows < 2) return false;

  const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  const std::thread::id caller = std::this_thread::get_id();
  kernels::parallel_for(0, cut.rows, kWorthAThread / cut.elements + 1, [&](std::int64_t begin, std::int64_t end) {
    if (std::this_thread::get_id() != caller) graph_check::is_without_nodes();
    const c10::impl::ForceDispatchKeyGuard as_on_the_caller(local);
    const StockOnCaller on_caller(0);
    Stack call(arguments, arguments + count);
    for (const auto& one : operands.cut) call[one.first] = cut.piece(one.second, begin, end - begin);
    if (makes_result) call.emplace_back(cut.piece(result, begin, end - begin));
    called.redispatchBoxed(after, &call);
  });
  torch::jit::drop(*stack, count);
  torch::jit::push(*stack, std::move(result));
  return true;
}

}  // namespace isobit::aten
