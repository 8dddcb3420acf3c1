#include "aten/exact_operators.h"

#include <algorithm>

#include "aten/operator_list.h"

namespace isobit::aten {
namespace {

struct Group {
  ExactRule rule;
  std::string_view reason;
  std::string_view names;
  std::string_view not_on_device = {};  // why it is refused for CUDA tensors; empty: it is not
};

constexpr Group kGroups[] = {
    {ExactRule::moves, "view: shares the memory, computes nothing", R"(
aten::alias aten::as_strided aten::as_strided_ aten::detach aten::detach_ aten::diagonal aten::expand aten::permute
aten::select.int aten::slice.Tensor aten::split.Tensor aten::split_with_sizes aten::squeeze aten::squeeze.dim
aten::squeeze.dims aten::squeeze_ aten::squeeze_.dim aten::squeeze_.dims aten::t aten::t_ aten::transpose.int
aten::transpose_ aten::swapaxes_ aten::swapdims_ aten::unbind.int aten::unfold aten::unsqueeze aten::unsqueeze_
aten::view aten::imag aten::view_as_real aten::view_as_complex aten::_unsafe_view aten::_reshape_alias aten::lift
aten::lift_fresh aten::unsafe_split.Tensor aten::unsafe_split_with_sizes
)"},
    {ExactRule::moves, "describes a tensor or its position in the graph: no values", R"(
aten::is_same_size aten::is_set_to aten::_has_same_storage_numel aten::is_pinned aten::_assert_tensor_metadata
aten::_assert_async aten::_assert_async.msg aten::_assert_scalar aten::_is_zerotensor aten::size.int aten::stride.int
aten::dim aten::numel aten::storage_offset aten::sym_size.int aten::sym_stride.int aten::sym_numel
aten::sym_storage_offset aten::sym_is_contiguous aten::is_contiguous aten::is_contiguous.memory_format
aten::is_complex aten::is_floating_point aten::is_signed aten::is_conj aten::is_neg aten::is_inference aten::is_leaf
aten::is_distributed aten::output_nr aten::_version aten::requires_grad_ aten::retain_grad aten::retains_grad
aten::set_data aten::data aten::get_device aten::can_cast aten::promote_types aten::result_type.Tensor
aten::result_type.Scalar aten::result_type.Scalar_Tensor aten::result_type.Scalar_Scalar
aten::_debug_has_internal_overlap aten::_has_compatible_shallow_copy_type aten::cudnn_is_acceptable
aten::_efficientzerotensor aten::_make_dual aten::_unpack_dual aten::_fw_primal aten::_new_zeros_with_same_feature_meta
aten::is_vulkan_available aten::_nnpack_available aten::_shape_as_tensor aten::_backward aten::record_stream
profiler::_record_function_enter profiler::_record_function_enter_new profiler::_record_function_exit
profiler::_record_function_exit._RecordFunction
)"},
    {ExactRule::allocates, "allocates or resizes memory; its values are the caller's to write, and NaN before", R"(
aten::empty.memory_format aten::empty_strided aten::empty_like aten::empty_permuted aten::empty.out aten::new_empty
aten::new_empty_strided aten::resize_ aten::resize_as_
)"},
    {ExactRule::moves, "another memory for a tensor", R"(
aten::set_ aten::set_.source_Storage
aten::set_.source_Storage_storage_offset aten::set_.source_Tensor aten::set_.source_Tensor_storage_offset
)"},
    {ExactRule::moves, "writes one value, zeros, ones or index patterns", R"(
aten::zero aten::zero.out aten::scalar_tensor aten::eye.out aten::eye.m_out aten::tril_indices
aten::triu_indices
)"},
    {ExactRule::moves, "copies values unchanged", R"(
aten::cat aten::cat.out aten::_stack aten::_stack.out aten::flip aten::gather aten::gather.out aten::index.Tensor
aten::index.Tensor_out aten::index_select aten::index_select.out aten::masked_select aten::masked_select.out
aten::narrow_copy aten::narrow_copy.out aten::roll aten::take aten::take.out aten::tril aten::tril.out aten::tril_
aten::triu aten::triu.out aten::triu_ aten::masked_scatter_ aten::repeat_interleave.Tensor aten::pixel_shuffle
aten::pixel_unshuffle aten::channel_shuffle aten::native_channel_shuffle aten::reflection_pad1d
aten::reflection_pad1d.out aten::reflection_pad2d aten::reflection_pad2d.out aten::reflection_pad3d
aten::reflection_pad3d.out aten::pin_memory aten::_pin_memory aten::replication_pad1d aten::replication_pad1d.out aten::replication_pad2d
aten::replication_pad2d.out aten::replication_pad3d aten::replication_pad3d.out aten::im2col aten::im2col.out
)"},
    {ExactRule::moves, "Sobol's integers, divided by a power of two as they are drawn: one rounding", R"(
aten::_sobol_engine_draw aten::_sobol_engine_ff_ aten::_sobol_engine_initialize_state_ aten::_sobol_engine_scramble_
)"},
    {ExactRule::moves, "sends bits between processes unchanged", R"(
c10d::broadcast_ c10d::allgather_ c10d::_allgather_base_ c10d::allgather_coalesced_
c10d::allgather_into_tensor_coalesced_ c10d::alltoall_ c10d::alltoall_base_ c10d::barrier c10d::monitored_barrier_
c10d::gather_ c10d::scatter_ c10d::send c10d::recv_ c10d::recv_any_source_
)"},
    {ExactRule::inspects, "writes one value, converted to the tensor's type", R"(
aten::zero_ aten::fill_.Scalar aten::fill_.Tensor aten::masked_fill_.Scalar aten::masked_fill_.Tensor
aten::index_fill_.int_Scalar aten::index_fill_.int_Tensor aten::_local_scalar_dense
)"},
    {ExactRule::inspects, "selects one of two values", R"(
aten::where.self aten::where.self_out
)"},
    {ExactRule::inspects, "compares values", R"(
aten::eq.Scalar aten::eq.Scalar_out aten::eq.Tensor aten::eq.Tensor_out aten::eq_.Scalar aten::eq_.Tensor
aten::ne.Scalar aten::ne.Scalar_out aten::ne.Tensor aten::ne.Tensor_out aten::ne_.Scalar aten::ne_.Tensor
aten::lt.Scalar aten::lt.Scalar_out aten::lt.Tensor aten::lt.Tensor_out aten::lt_.Scalar aten::lt_.Tensor
aten::le.Scalar aten::le.Scalar_out aten::le.Tensor aten::le.Tensor_out aten::le_.Scalar aten::le_.Tensor
aten::gt.Scalar aten::gt.Scalar_out aten::gt.Tensor aten::gt.Tensor_out aten::gt_.Scalar aten::gt_.Tensor
aten::ge.Scalar aten::ge.Scalar_out aten::ge.Tensor aten::ge.Tensor_out aten::ge_.Scalar aten::ge_.Tensor aten::equal
aten::isin.Tensor_Tensor aten::isin.Tensor_Tensor_out aten::isin.Tensor_Scalar aten::isin.Tensor_Scalar_out
aten::isin.Scalar_Tensor aten::isin.Scalar_Tensor_out
aten::isnan aten::isposinf aten::isposinf.out aten::isneginf aten::isneginf.out aten::searchsorted.Tensor
aten::searchsorted.Tensor_out aten::searchsorted.Scalar aten::searchsorted.Scalar_out aten::bucketize.Tensor
aten::bucketize.Tensor_out aten::bucketize.Scalar aten::_cummax_helper aten::_cummin_helper aten::unique_consecutive
aten::unique_dim_consecutive
)"},
    {ExactRule::inspects, "tests which values are zero", R"(
aten::logical_and.out aten::logical_or.out aten::logical_xor.out aten::logical_not.out aten::any aten::any.dim
aten::any.dims aten::any.out aten::any.dims_out aten::any.all_out aten::all aten::all.dim aten::all.dims aten::all.out
aten::all.dims_out aten::all.all_out aten::nonzero aten::nonzero.out aten::nonzero_static aten::nonzero_static.out
aten::count_nonzero.dim_IntList aten::count_nonzero
)"},
    {ExactRule::converts, "copies, each value converted once to the other type", R"(
aten::copy_
)"},
    {ExactRule::reinterprets, "shares the memory, read as another type", R"(
aten::view.dtype
)"},
    {ExactRule::real, "changes the sign, or drops digits after the point", R"(
aten::neg aten::neg.out aten::neg_ aten::abs.out aten::sign aten::sign.out aten::sign_ aten::sgn aten::sgn.out
aten::sgn_ aten::floor aten::floor.out aten::floor_ aten::ceil aten::ceil.out aten::ceil_ aten::trunc aten::trunc.out
aten::trunc_ aten::round aten::round.out aten::round_
)",
     "stock's floating-point arithmetic may differ on a GPU"},
    {ExactRule::rounds, "one IEEE operation per element", R"(
aten::mul.Tensor aten::mul.out aten::mul_.Tensor aten::div.Tensor aten::div.out aten::div_.Tensor
aten::frac aten::frac.out aten::frac_ aten::threshold aten::threshold.out aten::threshold_
)",
     "stock's floating-point arithmetic may differ on a GPU"},
    {ExactRule::integers, "integers and bool only: exact in any order (float32 is refused)", R"(
aten::aminmax.out
aten::bitwise_and.Tensor aten::bitwise_and.Tensor_out aten::bitwise_and_.Tensor aten::bitwise_or.Tensor
aten::bitwise_or.Tensor_out aten::bitwise_or_.Tensor aten::bitwise_xor.Tensor aten::bitwise_xor.Tensor_out
aten::bitwise_xor_.Tensor aten::bitwise_not aten::bitwise_not.out aten::bitwise_not_ aten::bitwise_left_shift.Tensor
aten::bitwise_left_shift.Tensor_out aten::bitwise_left_shift_.Tensor aten::bitwise_right_shift.Tensor
aten::bitwise_right_shift.Tensor_out aten::bitwise_right_shift_.Tensor aten::__lshift__.Scalar aten::__lshift__.Tensor
aten::__ilshift__.Scalar aten::__ilshift__.Tensor aten::__rshift__.Scalar aten::__rshift__.Tensor
aten::__irshift__.Scalar aten::__irshift__.Tensor
aten::gcd aten::gcd.out aten::gcd_ aten::lcm aten::lcm.out aten::lcm_
)"},
    {ExactRule::collects, "integers, whose sums are exact in any order, or a group of one rank, which copies", R"(
c10d::allreduce_ c10d::reduce_ c10d::allreduce_coalesced_
)"},
    {ExactRule::places, "writes by index: one value, or each position once", R"(
aten::scatter.value aten::scatter.value_out aten::scatter_.value aten::scatter.src aten::scatter.src_out
aten::scatter_.src
)"},
    {ExactRule::places, "writes by index", R"(
aten::index_copy aten::index_copy.out aten::index_copy_
)",
     "of two writes to one position, another may win than on the CPU"},
    {ExactRule::sorts, "sorts by comparison, equal values in their order", R"(
aten::sort.stable aten::sort.values_stable
)",
     "stock may order NaN and zeros of both signs differently than on the CPU"},
};

std::vector<ExactOperator> collect() {
  std::vector<ExactOperator> all;
  for (const Group& group : kGroups) {
    for (const std::string_view name : words_of(group.names)) {
      all.push_back({name, group.rule, group.reason, group.not_on_device.empty(), group.not_on_device});
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

}  // namespace

const std::vector<ExactOperator>& exact_operators() {
  static const std::vector<ExactOperator> all = collect();
  return all;
}

const ExactOperator* find_exact(std::string_view full_name) {
  const auto& all = exact_operators();
  const auto found = std::lower_bound(all.begin(), all.end(), full_name,
                                      [](const ExactOperator& op, std::string_view name) { return op.name < name; });
  return found != all.end() && found->name == full_name ? &*found : nullptr;
}

}  // namespace isobit::aten
