// Where PyTorch's operators with CUDA kernels differ from those with CPU kernels: for the fake device, so that
// composites and autograd take the ways that they take in a PyTorch with CUDA. From native_functions.yaml of torch 2.13
// (torchgen/packaged): `dispatch` entries that name CUDA but not CPU, and CPU but not CUDA; without those of other
// vendors. Names that this torch does not have are passed over. Tests only.
#pragma once

#include <string_view>

namespace isobit::test {

inline constexpr std::string_view kOnlyCudaHas = R"(
aten::_chunk_cat aten::_chunk_cat.out aten::_conv_depthwise2d aten::_conv_depthwise2d.out
aten::_convert_weight_to_int4pack aten::_cudnn_attention_backward aten::_cudnn_attention_forward aten::_cudnn_ctc_loss
aten::_cudnn_ctc_loss.Tensor aten::_cudnn_init_dropout_state aten::_cudnn_rnn aten::_cudnn_rnn_backward
aten::_cudnn_rnn_flatten_weight aten::_efficient_attention_backward aten::_efficient_attention_forward
aten::_fill_mem_eff_dropout_mask_ aten::_flash_attention_backward aten::_flash_attention_forward
aten::_flash_attention_forward.quantized aten::_flash_attention_forward_no_dropout_inplace aten::_foreach_abs
aten::_foreach_abs_ aten::_foreach_acos aten::_foreach_acos_ aten::_foreach_add.List aten::_foreach_add.Scalar
aten::_foreach_add.ScalarList aten::_foreach_add.Tensor aten::_foreach_add_.List aten::_foreach_add_.Scalar
aten::_foreach_add_.ScalarList aten::_foreach_add_.Tensor aten::_foreach_addcdiv.Scalar
aten::_foreach_addcdiv.ScalarList aten::_foreach_addcdiv.Tensor aten::_foreach_addcdiv_.Scalar
aten::_foreach_addcdiv_.ScalarList aten::_foreach_addcdiv_.Tensor aten::_foreach_addcmul.Scalar
aten::_foreach_addcmul.ScalarList aten::_foreach_addcmul.Tensor aten::_foreach_addcmul_.Scalar
aten::_foreach_addcmul_.ScalarList aten::_foreach_addcmul_.Tensor aten::_foreach_asin aten::_foreach_asin_
aten::_foreach_atan aten::_foreach_atan_ aten::_foreach_ceil aten::_foreach_ceil_ aten::_foreach_clamp_max.List
aten::_foreach_clamp_max.Scalar aten::_foreach_clamp_max.ScalarList aten::_foreach_clamp_max_.List
aten::_foreach_clamp_max_.Scalar aten::_foreach_clamp_max_.ScalarList aten::_foreach_clamp_min.List
aten::_foreach_clamp_min.Scalar aten::_foreach_clamp_min.ScalarList aten::_foreach_clamp_min_.List
aten::_foreach_clamp_min_.Scalar aten::_foreach_clamp_min_.ScalarList aten::_foreach_clone aten::_foreach_copy_
aten::_foreach_cos aten::_foreach_cos_ aten::_foreach_cosh aten::_foreach_cosh_ aten::_foreach_div.List
aten::_foreach_div.Scalar aten::_foreach_div.ScalarList aten::_foreach_div.Tensor aten::_foreach_div_.List
aten::_foreach_div_.Scalar aten::_foreach_div_.ScalarList aten::_foreach_div_.Tensor aten::_foreach_erf
aten::_foreach_erf_ aten::_foreach_erfc aten::_foreach_erfc_ aten::_foreach_exp aten::_foreach_exp_
aten::_foreach_expm1 aten::_foreach_expm1_ aten::_foreach_floor aten::_foreach_floor_ aten::_foreach_frac
aten::_foreach_frac_ aten::_foreach_lerp.List aten::_foreach_lerp.Scalar aten::_foreach_lerp.ScalarList
aten::_foreach_lerp_.List aten::_foreach_lerp_.Scalar aten::_foreach_lerp_.ScalarList aten::_foreach_lgamma
aten::_foreach_lgamma_ aten::_foreach_log aten::_foreach_log10 aten::_foreach_log10_ aten::_foreach_log1p
aten::_foreach_log1p_ aten::_foreach_log2 aten::_foreach_log2_ aten::_foreach_log_ aten::_foreach_max
aten::_foreach_maximum.List aten::_foreach_maximum.Scalar aten::_foreach_maximum.ScalarList
aten::_foreach_maximum_.List aten::_foreach_maximum_.Scalar aten::_foreach_maximum_.ScalarList
aten::_foreach_minimum.List aten::_foreach_minimum.Scalar aten::_foreach_minimum.ScalarList
aten::_foreach_minimum_.List aten::_foreach_minimum_.Scalar aten::_foreach_minimum_.ScalarList aten::_foreach_mul.List
aten::_foreach_mul.Scalar aten::_foreach_mul.ScalarList aten::_foreach_mul.Tensor aten::_foreach_mul_.List
aten::_foreach_mul_.Scalar aten::_foreach_mul_.ScalarList aten::_foreach_mul_.Tensor aten::_foreach_neg
aten::_foreach_neg_ aten::_foreach_norm.Scalar aten::_foreach_pow.List aten::_foreach_pow.Scalar
aten::_foreach_pow.ScalarAndTensor aten::_foreach_pow.ScalarList aten::_foreach_pow_.List aten::_foreach_pow_.Scalar
aten::_foreach_pow_.ScalarList aten::_foreach_powsum.Scalar aten::_foreach_reciprocal aten::_foreach_reciprocal_
aten::_foreach_round aten::_foreach_round_ aten::_foreach_rsqrt aten::_foreach_rsqrt_ aten::_foreach_sigmoid
aten::_foreach_sigmoid_ aten::_foreach_sign aten::_foreach_sign_ aten::_foreach_sin aten::_foreach_sin_
aten::_foreach_sinh aten::_foreach_sinh_ aten::_foreach_sqrt aten::_foreach_sqrt_ aten::_foreach_sub.List
aten::_foreach_sub.Scalar aten::_foreach_sub.ScalarList aten::_foreach_sub_.List aten::_foreach_sub_.Scalar
aten::_foreach_sub_.ScalarList aten::_foreach_tan aten::_foreach_tan_ aten::_foreach_tanh aten::_foreach_tanh_
aten::_foreach_trunc aten::_foreach_trunc_ aten::_foreach_zero_ aten::_fused_dropout aten::_fused_rms_norm
aten::_fused_rms_norm_backward aten::_grouped_mm aten::_masked_scale aten::_mixed_dtypes_linear
aten::_scaled_dot_product_cudnn_attention aten::_scaled_dot_product_cudnn_attention_backward
aten::_scaled_dot_product_efficient_attention aten::_scaled_dot_product_efficient_attention_backward
aten::_scaled_dot_product_flash_attention aten::_scaled_dot_product_flash_attention.quantized
aten::_scaled_dot_product_flash_attention_backward aten::_scaled_grouped_mm aten::_scaled_grouped_mm_v2
aten::_sparse_semi_structured_addmm aten::_sparse_semi_structured_apply aten::_sparse_semi_structured_apply_dense
aten::_sparse_semi_structured_linear aten::_sparse_semi_structured_mm aten::_sparse_semi_structured_tile
aten::_thnn_fused_gru_cell aten::_thnn_fused_gru_cell_backward aten::_thnn_fused_lstm_cell
aten::_thnn_fused_lstm_cell_backward_impl aten::_to_sparse_semi_structured aten::_triton_multi_head_attention
aten::_triton_scaled_dot_attention aten::_use_cudnn_ctc_loss aten::_use_cudnn_ctc_loss.Tensor
aten::_weight_int4pack_mm aten::addmm.dtype aten::addmm.dtype_out aten::baddbmm.dtype aten::baddbmm.dtype_out
aten::batch_norm_backward_elemt aten::batch_norm_backward_reduce aten::batch_norm_elemt aten::batch_norm_elemt.out
aten::batch_norm_gather_stats aten::batch_norm_gather_stats_with_counts aten::batch_norm_stats aten::bmm.dtype
aten::bmm.dtype_out aten::conv_depthwise3d aten::convolution_backward aten::cudnn_affine_grid_generator
aten::cudnn_affine_grid_generator_backward aten::cudnn_batch_norm aten::cudnn_batch_norm.out
aten::cudnn_batch_norm_backward aten::cudnn_convolution aten::cudnn_convolution.out aten::cudnn_convolution_add_relu
aten::cudnn_convolution_relu aten::cudnn_convolution_transpose aten::cudnn_grid_sampler
aten::cudnn_grid_sampler_backward aten::mm.dtype aten::mm.dtype_out aten::record_stream
aten::split_with_sizes_copy.out
)";

inline constexpr std::string_view kOnlyCpuHas = R"(
aten::_add_relu.Scalar aten::_add_relu.Tensor aten::_add_relu.out aten::_add_relu_.Scalar aten::_add_relu_.Tensor
aten::_convert_weight_to_int4pack_for_cpu aten::_dyn_quant_matmul_4bit aten::_dyn_quant_pack_4bit_weight
aten::_empty_affine_quantized aten::_empty_per_channel_affine_quantized aten::_functional_assert_async.msg
aten::_histogramdd_bin_edges aten::_histogramdd_from_bin_cts aten::_histogramdd_from_bin_tensors aten::_make_dep_token
aten::_scaled_dot_product_flash_attention_for_cpu aten::_scaled_dot_product_flash_attention_for_cpu_backward
aten::_spdiags aten::_stack aten::_stack.out aten::_upsample_lanczos2d_aa.out
aten::_upsample_lanczos2d_aa_backward.grad_input aten::_weight_int4pack_mm_for_cpu aten::from_file
aten::histogram.bin_ct aten::histogram.bin_ct_out aten::histogram.bins_tensor aten::histogram.bins_tensor_out
aten::mkldnn_rnn_layer aten::mkldnn_rnn_layer_backward aten::narrow_copy aten::narrow_copy.out
aten::native_channel_shuffle aten::pixel_shuffle aten::pixel_unshuffle aten::quantize_per_tensor.tensors
aten::slow_conv3d_forward aten::slow_conv3d_forward.output aten::to_mkldnn
)";

}  // namespace isobit::test
