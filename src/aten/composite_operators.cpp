#include "aten/composite_operators.h"

#include <algorithm>

#include "aten/operator_list.h"

namespace isobit::aten {
namespace {

// Shapes, copies and creation.
constexpr std::string_view kStructure = R"(
aten::reshape aten::reshape_as aten::flatten.using_ints aten::unflatten.int aten::ravel aten::contiguous aten::clone
aten::view_as aten::expand_as aten::broadcast_to aten::broadcast_tensors aten::narrow aten::narrow.Tensor aten::chunk
aten::unsafe_chunk aten::split.sizes aten::tensor_split.sections aten::tensor_split.indices
aten::tensor_split.tensor_indices_or_sections aten::hsplit.int aten::hsplit.array aten::vsplit.int aten::vsplit.array
aten::dsplit.int aten::dsplit.array aten::movedim.int aten::movedim.intlist aten::moveaxis.int aten::moveaxis.intlist
aten::swapaxes aten::swapdims aten::adjoint aten::mT aten::mH aten::numpy_T aten::matrix_H aten::atleast_1d
aten::atleast_2d aten::atleast_3d aten::atleast_1d.Sequence aten::atleast_2d.Sequence aten::atleast_3d.Sequence
aten::diag aten::diagflat aten::diag_embed aten::linalg_diagonal aten::meshgrid aten::meshgrid.indexing
aten::cartesian_prod aten::tile aten::repeat aten::repeat_interleave.self_int aten::repeat_interleave.self_Tensor
aten::stack aten::stack.out aten::hstack aten::hstack.out aten::vstack aten::vstack.out aten::dstack aten::dstack.out
aten::row_stack aten::row_stack.out aten::column_stack aten::column_stack.out aten::concat aten::concat.out
aten::concatenate aten::concatenate.out aten::fliplr aten::flipud aten::rot90 aten::pad aten::constant_pad_nd
aten::_pad_enum aten::_pad_circular aten::pad_sequence aten::flatten_dense_tensors aten::unflatten_dense_tensors
aten::take_along_dim aten::take_along_dim.out aten::argwhere aten::nonzero_numpy aten::real aten::to.device
aten::to.dtype aten::to.dtype_layout aten::to.other aten::_to_copy aten::type_as aten::_to_cpu aten::_cast_Byte
aten::_cast_Char aten::_cast_Double aten::_cast_Float aten::_cast_Int aten::_cast_Long aten::_cast_Short
aten::resolve_conj aten::resolve_neg aten::conj aten::positive aten::_dim_arange aten::copy aten::_unsafe_index.Tensor
aten::_unsafe_index_put aten::index_put aten::index_put_ aten::fill.Scalar aten::fill.Tensor aten::masked_fill.Scalar
aten::masked_fill.Tensor aten::masked_scatter aten::masked_scatter_backward aten::masked_select_backward
aten::index_fill.int_Scalar aten::index_fill.int_Tensor aten::fill_diagonal_ aten::select_backward
aten::slice_backward aten::diagonal_backward aten::select_scatter aten::slice_scatter aten::diagonal_scatter
aten::diagonal_copy aten::as_strided_scatter aten::index_select_backward aten::gather_backward
aten::value_selecting_reduction_backward aten::trace_backward aten::lift_fresh_copy aten::alias_copy aten::detach_copy
aten::expand_copy aten::permute_copy aten::select_copy.int aten::slice_copy.Tensor aten::split_copy.Tensor
aten::split_with_sizes_copy aten::squeeze_copy aten::squeeze_copy.dim aten::squeeze_copy.dims aten::t_copy
aten::transpose_copy.int aten::unbind_copy.int aten::unsqueeze_copy aten::view_copy aten::unfold_copy aten::zeros
aten::zeros.out aten::zeros_like aten::new_zeros aten::ones aten::ones.out aten::ones_like aten::new_ones aten::full
aten::full.out aten::full_like aten::new_full aten::eye aten::eye.m aten::arange aten::arange.start
aten::arange.start_step aten::arange.out aten::linspace aten::linspace.Tensor_Tensor
aten::linspace.Tensor_Scalar aten::linspace.Scalar_Tensor aten::logspace aten::logspace.Tensor_Tensor
aten::logspace.Tensor_Scalar aten::logspace.Scalar_Tensor aten::put aten::combinations aten::one_hot aten::item aten::is_nonzero aten::embedding aten::sort
aten::sort.values aten::argsort aten::argsort.stable aten::msort aten::block_diag aten::where.ScalarSelf
aten::where.ScalarOther aten::where.Scalar aten::where aten::_pack_padded_sequence aten::_pack_padded_sequence_backward
aten::_pad_packed_sequence
)";

// Element-wise arithmetic and comparisons under other names or with a scalar.
constexpr std::string_view kArithmetic = R"(
aten::add.Scalar aten::add_.Scalar aten::sub.Scalar aten::sub_.Scalar aten::rsub.Scalar aten::mul.Scalar
aten::mul_.Scalar aten::div.Scalar aten::div_.Scalar aten::div.Scalar_mode aten::div_.Scalar_mode aten::abs aten::abs_
aten::absolute aten::absolute_ aten::absolute.out aten::negative aten::negative_ aten::negative.out aten::fix
aten::fix_ aten::fix.out aten::subtract.Tensor aten::subtract.Scalar aten::subtract.out aten::subtract_.Tensor
aten::subtract_.Scalar aten::multiply.Tensor aten::multiply.Scalar aten::multiply.out aten::multiply_.Tensor
aten::multiply_.Scalar aten::divide.Tensor aten::divide.Scalar aten::divide.out aten::divide_.Tensor
aten::divide_.Scalar aten::divide.Tensor_mode aten::divide.Scalar_mode aten::divide_.Tensor_mode
aten::divide_.Scalar_mode aten::true_divide.Tensor aten::true_divide.Scalar aten::true_divide.out
aten::true_divide_.Tensor aten::true_divide_.Scalar aten::floor_divide.Scalar aten::floor_divide_.Scalar
aten::fmod.Scalar aten::fmod_.Scalar aten::remainder.Scalar aten::remainder_.Scalar aten::square aten::square_
aten::square.out aten::clip aten::clip_ aten::clip.out aten::clip.Tensor aten::clip_.Tensor aten::max.other
aten::max.out aten::min.other aten::min.out aten::isinf aten::isfinite aten::isclose aten::allclose aten::isreal
aten::greater.Scalar aten::greater.Tensor aten::greater_.Scalar aten::greater_.Tensor aten::greater_equal.Scalar
aten::greater_equal.Tensor aten::greater_equal_.Scalar aten::greater_equal_.Tensor aten::less.Scalar aten::less.Tensor
aten::less_.Scalar aten::less_.Tensor aten::less_equal.Scalar aten::less_equal.Tensor aten::less_equal_.Scalar
aten::less_equal_.Tensor aten::not_equal.Scalar aten::not_equal.Tensor aten::not_equal_.Scalar aten::not_equal_.Tensor
aten::logical_and aten::logical_and_ aten::logical_or aten::logical_or_ aten::logical_xor aten::logical_xor_
aten::logical_not aten::logical_not_ aten::_is_all_true aten::_is_any_true aten::__and__.Scalar aten::__and__.Tensor
aten::__iand__.Scalar aten::__iand__.Tensor aten::__or__.Scalar aten::__or__.Tensor aten::__ior__.Scalar
aten::__ior__.Tensor aten::__xor__.Scalar aten::__xor__.Tensor aten::__ixor__.Scalar aten::__ixor__.Tensor
aten::bitwise_and.Scalar aten::bitwise_and_.Scalar aten::bitwise_or.Scalar aten::bitwise_or_.Scalar
aten::bitwise_xor.Scalar aten::bitwise_xor_.Scalar aten::bitwise_left_shift.Tensor_Scalar
aten::bitwise_left_shift_.Tensor_Scalar aten::bitwise_right_shift.Tensor_Scalar
aten::bitwise_right_shift_.Tensor_Scalar aten::special_expit aten::special_erf aten::special_expm1 aten::special_log1p
aten::nan_to_num aten::nan_to_num_ aten::remainder.Scalar_out aten::fmod.Scalar_out aten::copysign.Scalar aten::copysign_.Scalar
aten::special_exp2 aten::special_erfc aten::special_logit aten::special_sinc aten::special_xlog1py.other_scalar
aten::special_xlog1py.self_scalar aten::arcsin aten::arcsin_ aten::arccos aten::arccos_ aten::arctan aten::arctan_ aten::arcsinh
aten::arcsinh_ aten::arccosh aten::arccosh_ aten::arctanh aten::arctanh_ aten::arctan2 aten::arctan2_ aten::ldexp.Tensor
aten::ldexp.out aten::ldexp_ aten::float_power.Tensor_Tensor aten::float_power.Tensor_Scalar aten::float_power.Scalar
aten::deg2rad aten::deg2rad_ aten::rad2deg aten::rad2deg_ aten::trapezoid.x aten::trapezoid.dx aten::trapz.x aten::trapz.dx
aten::cumulative_trapezoid.x aten::cumulative_trapezoid.dx aten::kron aten::dist aten::cov aten::linalg_vecdot
aten::linalg_matrix_power aten::matrix_power aten::deg2rad.out aten::rad2deg.out aten::gradient.scalarint
aten::gradient.scalararray aten::gradient.array aten::gradient.scalarrayint aten::gradient.scalarrayarray
 aten::nanmean aten::std_mean aten::std_mean.dim aten::cross
aten::corrcoef aten::hann_window aten::hann_window.periodic aten::hamming_window
aten::hamming_window.periodic aten::hamming_window.periodic_alpha aten::hamming_window.periodic_alpha_beta
aten::blackman_window aten::blackman_window.periodic aten::bartlett_window aten::bartlett_window.periodic
aten::special_erfinv aten::special_erfinv.out aten::special_ndtr aten::special_ndtr.out aten::special_digamma
aten::special_digamma.out aten::special_psi aten::special_psi.out aten::special_polygamma aten::special_polygamma.out
aten::special_gammaln aten::special_gammaln.out aten::special_gammainc aten::special_gammainc.out
aten::special_gammaincc aten::special_gammaincc.out aten::special_i0 aten::special_i0.out
aten::special_zeta.self_scalar aten::special_zeta.other_scalar aten::special_zeta.self_scalar_out
aten::special_zeta.other_scalar_out aten::special_multigammaln aten::special_multigammaln.out aten::frexp.Tensor
aten::linalg_cholesky aten::linalg_cholesky.out aten::cholesky_solve aten::linalg_lu_factor aten::linalg_lu_factor.out
aten::_lu_with_info aten::lu_solve aten::lu_solve.out aten::linalg_solve_ex aten::linalg_solve_ex.out
aten::linalg_solve aten::linalg_solve.out aten::linalg_inv aten::linalg_inv.out aten::inverse aten::inverse.out
aten::linalg_det.out aten::det aten::linalg_slogdet.out aten::slogdet
aten::slogdet.out aten::logdet aten::_linalg_check_errors
aten::sum_to_size aten::outer aten::outer.out aten::ger aten::ger.out aten::diff
)";

// Neural networks: products, losses, pooling, normalisation, as far as their parts are certified.
constexpr std::string_view kNetworks = R"(
aten::matmul.out aten::linalg_matmul aten::inner aten::tensordot aten::linear aten::conv1d aten::conv2d
aten::conv3d aten::conv_transpose1d aten::conv_transpose2d.input aten::conv_transpose3d.input
aten::conv1d.padding aten::conv2d.padding aten::conv3d.padding aten::_convolution_mode aten::_convolution_double_backward
aten::batch_norm aten::_batch_norm_impl_index
aten::max_pool2d aten::adaptive_avg_pool2d aten::dropout aten::dropout_ aten::rand aten::rand.generator
aten::rand_like aten::randn aten::randn.generator aten::randn_like aten::normal.float_float aten::bernoulli.p
aten::randint aten::randint.generator aten::randint.low aten::randint.low_generator aten::randint.out
aten::randint.generator_out aten::randint.low_out aten::randint.low_generator_out aten::randint_like
aten::randint_like.low_dtype aten::randperm aten::randperm.generator aten::randperm.out
aten::relu6 aten::relu6_
aten::var aten::var.dim aten::var.out aten::std aten::std.dim aten::std.out aten::var_mean aten::var_mean.dim
aten::softmax.int aten::log_softmax.int
aten::special_softmax aten::special_log_softmax aten::cross_entropy_loss aten::nll_loss aten::nll_loss_nd
aten::l1_loss aten::binary_cross_entropy_with_logits aten::kl_div
aten::soft_margin_loss aten::soft_margin_loss.out aten::soft_margin_loss_backward
aten::soft_margin_loss_backward.grad_input aten::hinge_embedding_loss aten::margin_ranking_loss
aten::cosine_embedding_loss aten::cosine_similarity aten::triplet_margin_loss aten::pairwise_distance
aten::poisson_nll_loss aten::nll_loss2d aten::nll_loss2d.out
aten::layer_norm aten::group_norm aten::instance_norm aten::rms_norm aten::_fused_rms_norm
aten::celu aten::celu_ aten::selu aten::selu_ aten::log_sigmoid aten::log_sigmoid.out aten::prelu aten::rrelu
aten::rrelu_ aten::rrelu_with_noise_backward aten::xlogy.Scalar_Self aten::xlogy.Scalar_Other
aten::xlogy_.Scalar_Other aten::xlogy.OutScalar_Self aten::xlogy.OutScalar_Other aten::special_xlogy
aten::special_xlogy.self_scalar aten::special_xlogy.other_scalar
aten::embedding_bag aten::embedding_bag.padding_idx
aten::multilabel_margin_loss aten::multilabel_margin_loss.out aten::ctc_loss.IntList aten::ctc_loss.Tensor
aten::logsumexp aten::logsumexp.out aten::special_logsumexp aten::cumprod_backward aten::embedding_backward
aten::alpha_dropout aten::alpha_dropout_ aten::feature_dropout aten::feature_dropout_ aten::feature_alpha_dropout
aten::feature_alpha_dropout_
aten::kthvalue aten::median.dim aten::nanmedian.dim aten::quantile aten::quantile.scalar aten::cdist aten::pdist
aten::_euclidean_dist
aten::avg_pool1d aten::adaptive_avg_pool1d aten::adaptive_avg_pool3d aten::adaptive_max_pool1d
aten::max_pool1d_with_indices aten::max_pool3d aten::upsample_nearest1d.vec aten::upsample_nearest2d.vec aten::upsample_nearest3d.vec
aten::_upsample_nearest_exact1d.vec aten::_upsample_nearest_exact2d.vec aten::_upsample_nearest_exact3d.vec
aten::upsample_linear1d.vec aten::upsample_bilinear2d.vec aten::upsample_trilinear3d.vec aten::upsample_bicubic2d.vec
aten::_upsample_bilinear2d_aa.vec aten::_upsample_bicubic2d_aa.vec
aten::_scaled_dot_product_attention_math aten::einsum
aten::grid_sampler aten::affine_grid_generator aten::affine_grid_generator_backward aten::bilinear aten::_trilinear
aten::_weight_norm aten::norm_except_dim aten::_weight_norm_differentiable_backward aten::linalg_norm aten::linalg_norm.ord_str
aten::linalg_matrix_norm aten::linalg_matrix_norm.str_ord
aten::_use_cudnn_rnn_flatten_weight aten::logcumsumexp aten::logcumsumexp.out aten::cummaxmin_backward aten::bernoulli aten::qr
)";

// The list forms of eager optimizers: on the CPU, loops over the operators above.
constexpr std::string_view kForeach = R"(
aten::_foreach_abs aten::_foreach_abs_ aten::_foreach_neg aten::_foreach_neg_ aten::_foreach_sqrt aten::_foreach_sqrt_
aten::_foreach_reciprocal aten::_foreach_reciprocal_ aten::_foreach_rsqrt aten::_foreach_rsqrt_ aten::_foreach_sign
aten::_foreach_sign_ aten::_foreach_zero aten::_foreach_zero_ aten::_foreach_copy aten::_foreach_copy_
aten::_foreach_clone aten::_foreach_exp aten::_foreach_exp_ aten::_foreach_add.List aten::_foreach_add.Scalar
aten::_foreach_add.ScalarList aten::_foreach_add.Tensor aten::_foreach_add_.List aten::_foreach_add_.Scalar
aten::_foreach_add_.ScalarList aten::_foreach_add_.Tensor aten::_foreach_sub.List aten::_foreach_sub.Scalar
aten::_foreach_sub.ScalarList aten::_foreach_sub_.List aten::_foreach_sub_.Scalar aten::_foreach_sub_.ScalarList
aten::_foreach_mul.List aten::_foreach_mul.Scalar aten::_foreach_mul.ScalarList aten::_foreach_mul.Tensor
aten::_foreach_mul_.List aten::_foreach_mul_.Scalar aten::_foreach_mul_.ScalarList aten::_foreach_mul_.Tensor
aten::_foreach_div.List aten::_foreach_div.Scalar aten::_foreach_div.ScalarList aten::_foreach_div.Tensor
aten::_foreach_div_.List aten::_foreach_div_.Scalar aten::_foreach_div_.ScalarList aten::_foreach_div_.Tensor
aten::_foreach_addcmul.Scalar aten::_foreach_addcmul.ScalarList aten::_foreach_addcmul.Tensor
aten::_foreach_addcmul_.Scalar aten::_foreach_addcmul_.ScalarList aten::_foreach_addcmul_.Tensor
aten::_foreach_addcdiv.Scalar aten::_foreach_addcdiv.ScalarList aten::_foreach_addcdiv.Tensor
aten::_foreach_addcdiv_.Scalar aten::_foreach_addcdiv_.ScalarList aten::_foreach_addcdiv_.Tensor
aten::_foreach_lerp.Scalar aten::_foreach_lerp.ScalarList aten::_foreach_lerp_.Scalar
aten::_foreach_lerp_.ScalarList aten::_foreach_maximum.List aten::_foreach_maximum_.List
aten::_foreach_minimum.List aten::_foreach_minimum_.List aten::_foreach_clamp_max.Scalar
aten::_foreach_clamp_max_.Scalar
aten::_foreach_clamp_min.Scalar aten::_foreach_clamp_min_.Scalar aten::_foreach_pow.Scalar aten::_foreach_pow_.Scalar
aten::_foreach_pow.ScalarList aten::_foreach_pow_.ScalarList aten::_foreach_pow.ScalarAndTensor
)";

// In Python (torch/nn/modules/linear_cross_entropy.py).
constexpr std::string_view kPython = R"(
torch_nn::_linear_cross_entropy_batch_chunked torch_nn::_linear_cross_entropy_batch_chunked_no_reduction
)";

}  // namespace

const std::vector<std::string_view>& composite_operators() {
  static const std::vector<std::string_view> all = [] {
    std::vector<std::string_view> names;
    for (const std::string_view text : {kStructure, kArithmetic, kNetworks, kForeach}) {
      const auto words = words_of(text);
      names.insert(names.end(), words.begin(), words.end());
    }
    std::sort(names.begin(), names.end());
    return names;
  }();
  return all;
}

const std::vector<std::string_view>& python_composites() {
  static const std::vector<std::string_view> all = words_of(kPython);
  return all;
}

bool is_composite(std::string_view full_name) {
  for (const auto* all : {&composite_operators(), &python_composites()}) {
    if (std::binary_search(all->begin(), all->end(), full_name)) return true;
  }
  return false;
}

}  // namespace isobit::aten
