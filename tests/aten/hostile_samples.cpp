#include "hostile_samples.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <tuple>

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

namespace isobit::test {
namespace {

using at::ScalarType;
using at::Tensor;
using c10::IValue;

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

template <typename Float, typename Bits>
Float hostile_float(std::uint64_t random) {
  using Limits = std::numeric_limits<Float>;
  const Float special[] = {
      Float(0),      -Float(0),        Limits::denorm_min(), -Limits::min() / 2,  Limits::min(),
      Limits::max(), Limits::lowest(), Limits::infinity(),   -Limits::infinity(), Limits::quiet_NaN(),
      Float(1),      Float(-1),        Float(0.5),           Float(1.5),          Float(2.5),
      Float(-0.5),   Float(16777217),  Float(1) / 3,         Limits::epsilon(),   Float(-3.5)};
  switch (random % 4) {
    case 0: return special[(random >> 8) % std::size(special)];
    case 1: {
      const Bits bits = static_cast<Bits>(random >> 2);
      Float value;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    default: return static_cast<Float>(static_cast<std::int64_t>(random >> 40) - (1 << 23)) / Float(1 << 20);
  }
}

template <typename Value, typename Make>
void fill(const Tensor& tensor, std::uint64_t seed, Make make) {
  Value* values = tensor.data_ptr<Value>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] = static_cast<Value>(make(mix(seed * 1000003 + i)));
}

Tensor small_integers(at::IntArrayRef sizes, ScalarType type, std::int64_t below, std::uint64_t seed) {
  Tensor wide = at::empty(sizes, at::kLong);
  fill<std::int64_t>(wide, seed, [&](std::uint64_t random) { return random % static_cast<std::uint64_t>(below); });
  return wide.to(type);
}

bool is_float(ScalarType type) { return c10::isFloatingType(type); }

using Sizes = std::vector<std::int64_t>;

Tensor integers(const Sizes& values) { return at::tensor(at::IntArrayRef(values)); }

Tensor identity() { return integers({1, 0, 0, 0, 1, 0, 0, 0, 1}).reshape({3, 3}).to(at::kFloat); }

// Arguments that the general rules below get wrong, by operator without or with its overload.
using Table = std::map<std::string, std::map<std::string, IValue>>;
const Table& special_arguments() {
  static const Table table = {
      {"aten::pixel_shuffle", {{"upscale_factor", 2}}},
      {"aten::pixel_unshuffle", {{"downscale_factor", 2}}},
      {"aten::im2col",
       {{"kernel_size", Sizes{3, 3}}, {"dilation", Sizes{1, 1}}, {"padding", Sizes{1, 1}}, {"stride", Sizes{2, 2}}}},
      {"aten::narrow_copy", {{"start", 3}, {"length", 70}}},
      {"aten::nonzero_static", {{"size", 90000}}},
      {"aten::roll", {{"shifts", Sizes{5}}, {"dims", Sizes{2}}}},
      {"aten::div", {{"rounding_mode", "floor"}}},
      {"aten::div_", {{"rounding_mode", "floor"}}},
      {"aten::divide.Tensor_mode", {{"rounding_mode", "floor"}}},
      {"aten::divide_.Tensor_mode", {{"rounding_mode", "floor"}}},
      {"aten::divide.Scalar_mode", {{"rounding_mode", "floor"}}},
      {"aten::divide_.Scalar_mode", {{"rounding_mode", "floor"}}},
      {"aten::arange", {{"start", 5}, {"end", 100005}, {"step", 1}}},
      {"aten::clamp", {{"min", 3}, {"max", 50}}},
      {"aten::clamp_", {{"min", 3}, {"max", 50}}},
      {"aten::clip", {{"min", 3}, {"max", 50}}},
      {"aten::clip_", {{"min", 3}, {"max", 50}}},
      {"aten::eye", {{"n", 300}, {"m", 301}}},
      {"aten::tril_indices", {{"row", 300}, {"col", 301}}},
      {"aten::triu_indices", {{"row", 300}, {"col", 301}}},
      {"aten::_convolution_mode",
       {{"padding", "same"}, {"stride", Sizes{1, 1}}, {"dilation", Sizes{1, 1}}, {"groups", 1}}},
      {"aten::_convolution_double_backward",
       {{"stride", Sizes{1, 1}},
        {"padding", Sizes{0, 0}},
        {"dilation", Sizes{1, 1}},
        {"output_padding", Sizes{0, 0}},
        {"groups", 1},
        {"output_mask", c10::List<bool>({true, true, true})}}},
      {"aten::_sobol_engine_draw", {{"n", 7}, {"dimension", 3}, {"num_generated", 5}}},
      {"aten::_sobol_engine_ff_", {{"n", 7}, {"dimension", 3}, {"num_generated", 5}}},
      {"aten::_sobol_engine_initialize_state_", {{"dimension", 3}}},
      {"aten::_sobol_engine_scramble_", {{"dimension", 3}}},
      {"aten::_pad_circular", {{"pad", Sizes{1, 2, 1, 2}}}},
      {"aten::_pad_enum", {{"pad", Sizes{1, 2, 1, 2}}, {"mode", 1}}},
      {"aten::pad", {{"pad", Sizes{1, 2, 1, 2}}}},
      {"aten::constant_pad_nd", {{"pad", Sizes{1, 2, 1, 2}}}},
      {"aten::adaptive_avg_pool2d", {{"output_size", Sizes{2, 3}}}},
      {"aten::max_pool2d", {{"kernel_size", Sizes{2, 2}}}},
      {"aten::as_strided_scatter", {{"size", Sizes{3, 4}}, {"stride", Sizes{4, 1}}}},
      {"aten::broadcast_to", {{"size", Sizes{3, 2, 4, 8, 8}}}},
      {"aten::expand_copy", {{"size", Sizes{3, 2, 4, 8, 8}}}},
      {"aten::permute_copy", {{"dims", Sizes{1, 0, 3, 2}}}},
      {"aten::repeat", {{"repeats", Sizes{1, 2, 1, 2}}}},
      {"aten::reshape", {{"shape", Sizes{8, 64}}}},
      {"aten::view_copy", {{"size", Sizes{8, 64}}}},
      {"aten::unflatten", {{"sizes", Sizes{2, 4}}}},
      {"aten::sum_to_size", {{"size", Sizes{1, 4, 1, 8}}}},
      {"aten::diagonal_backward", {{"input_sizes", Sizes{3, 4}}, {"dim1", 0}, {"dim2", 1}, {"offset", 0}}},
      {"aten::select_backward", {{"input_sizes", Sizes{3, 4}}, {"dim", 0}, {"index", 1}}},
      {"aten::slice_backward", {{"input_sizes", Sizes{3, 4}}, {"dim", 0}, {"start", 1}, {"end", 3}, {"step", 1}}},
      {"aten::index_select_backward", {{"self_sizes", Sizes{3, 4}}, {"dim", 0}}},
      {"aten::value_selecting_reduction_backward", {{"sizes", Sizes{3, 4}}, {"dim", 1}, {"keepdim", false}}},
      {"aten::trace_backward", {{"sizes", Sizes{3, 3}}}},
      {"aten::masked_scatter_backward", {{"sizes", Sizes{2, 4, 8, 8}}}},
      {"aten::select_scatter", {{"dim", 0}, {"index", 1}}},
      {"aten::meshgrid", {{"indexing", "ij"}}},
      {"aten::l1_loss", {{"reduction", 1}}},
      {"aten::swapaxes_", {{"axis0", 0}, {"axis1", 1}}},
      {"aten::tensordot", {{"dims_self", Sizes{1}}, {"dims_other", Sizes{1}}}},
      {"aten::embedding_backward", {{"num_weights", 10}, {"padding_idx", -1}}},
      {"aten::softmax", {{"dim", 1}}},
      {"aten::batch_norm", {{"training", true}, {"cudnn_enabled", false}}},
      {"aten::_batch_norm_impl_index", {{"training", true}, {"cudnn_enabled", false}}},
      {"aten::conv1d.padding", {{"padding", "same"}}},
      {"aten::conv2d.padding", {{"padding", "same"}}},
      {"aten::conv3d.padding", {{"padding", "same"}}},
      {"aten::dropout", {{"train", true}}},
      {"aten::dropout_", {{"train", true}}},
      {"aten::randint", {{"low", 2}, {"high", 9}}},
      {"aten::randint_like", {{"low", 2}, {"high", 9}}},
      {"aten::alpha_dropout", {{"train", true}}},
      {"aten::alpha_dropout_", {{"train", true}}},
      {"aten::feature_dropout", {{"train", true}}},
      {"aten::feature_dropout_", {{"train", true}}},
      {"aten::feature_alpha_dropout", {{"train", true}}},
      {"aten::feature_alpha_dropout_", {{"train", true}}},
      {"aten::layer_norm", {{"normalized_shape", Sizes{8}}}},
      {"aten::rms_norm", {{"normalized_shape", Sizes{8}}}},
      {"aten::_fused_rms_norm", {{"normalized_shape", Sizes{8}}}},
      {"aten::instance_norm", {{"use_input_stats", true}}},
      {"aten::ctc_loss.IntList", {{"input_lengths", Sizes{5, 4}}, {"target_lengths", Sizes{2, 1}}}},
      {"aten::affine_grid_generator", {{"size", Sizes{2, 4, 8, 8}}}},
      {"aten::affine_grid_generator_backward", {{"size", Sizes{2, 4, 8, 8}}}},
      {"aten::grid_sampler", {{"interpolation_mode", 0}, {"padding_mode", 0}}},
      {"aten::linalg_matrix_norm", {{"ord", 1.0}}},
      {"aten::linalg_matrix_norm.str_ord", {{"ord", "fro"}}},
      {"aten::linalg_norm.ord_str", {{"ord", "fro"}, {"dim", Sizes{1, 2}}}},
      {"aten::gradient.scalarrayarray", {{"dim", Sizes{1, 2}}}},
      {"aten::_weight_norm_differentiable_backward", {{"dim", 0}}},
      {"aten::einsum", {{"equation", "abij,abjk->abik"}}},
      {"aten::quantile", {{"q", at::scalar_tensor(0.3)}, {"dim", 1}, {"interpolation", "linear"}}},
      {"aten::quantile.scalar", {{"q", 0.3}, {"dim", 1}, {"interpolation", "linear"}}},
      {"aten::adaptive_avg_pool1d", {{"output_size", Sizes{3}}}},
      {"aten::adaptive_avg_pool3d", {{"output_size", Sizes{2, 3, 2}}}},
      {"aten::adaptive_max_pool1d", {{"output_size", Sizes{3}}}},
      {"aten::avg_pool1d", {{"kernel_size", Sizes{2}}, {"padding", Sizes{1}}}},
      {"aten::max_pool1d_with_indices", {{"kernel_size", Sizes{2}}, {"padding", Sizes{1}}}},
      {"aten::max_pool3d", {{"kernel_size", Sizes{2, 2, 2}}, {"padding", Sizes{1, 1, 1}}}},
      {"aten::upsample_nearest1d", {{"output_size", Sizes{12}}}},
      {"aten::upsample_nearest2d", {{"output_size", Sizes{12, 13}}}},
      {"aten::upsample_nearest3d", {{"output_size", Sizes{6, 12, 13}}}},
      {"aten::_upsample_nearest_exact1d", {{"output_size", Sizes{12}}}},
      {"aten::_upsample_nearest_exact2d", {{"output_size", Sizes{12, 13}}}},
      {"aten::_upsample_nearest_exact3d", {{"output_size", Sizes{6, 12, 13}}}},
      {"aten::upsample_linear1d", {{"output_size", Sizes{12}}}},
      {"aten::upsample_bilinear2d", {{"output_size", Sizes{12, 13}}}},
      {"aten::upsample_trilinear3d", {{"output_size", Sizes{6, 12, 13}}}},
      {"aten::upsample_bicubic2d", {{"output_size", Sizes{12, 13}}}},
      {"aten::_upsample_bilinear2d_aa", {{"output_size", Sizes{5, 6}}}},
      {"aten::_upsample_bicubic2d_aa", {{"output_size", Sizes{5, 6}}}},
      {"aten::embedding_bag.padding_idx", {{"padding_idx", 3}, {"mode", 1}}},
      {"aten::_pack_padded_sequence", {{"lengths", integers({4, 2, 2, 1})}, {"batch_first", true}}},
      {"aten::_pack_padded_sequence_backward",
       {{"batch_sizes", integers({4, 3, 1, 1})}, {"input_size", Sizes{4, 4, 5}}, {"batch_first", true}}},
      {"aten::_pad_packed_sequence",
       {{"batch_sizes", integers({4, 3, 1, 1})}, {"padding_value", 0}, {"total_length", 6}}},
      {"aten::linalg_cholesky", {{"self", identity()}}},
      {"aten::lu_solve",
       {{"self", identity()}, {"LU_data", identity()}, {"LU_pivots", integers({1, 2, 3}).to(at::kInt)}}},
      {"aten::_linalg_check_errors",
       {{"info", integers({0, 0}).to(at::kInt)}, {"api_name", "linalg.inv"}, {"is_matrix", false}}},
  };
  return table;
}

// Sizes of tensor arguments that are not the general ones.
const std::map<std::string, std::map<std::string, Sizes>>& special_sizes() {
  static const std::map<std::string, std::map<std::string, Sizes>> table = {
      {"aten::trace", {{"self", {112, 112}}}},
      {"aten::_local_scalar_dense", {{"self", {}}}},
      {"aten::item", {{"self", {}}}},
      {"aten::is_nonzero", {{"self", {}}}},
      {"aten::reflection_pad1d", {{"self", {8, 112, 112}}}},
      {"aten::replication_pad1d", {{"self", {8, 112, 112}}}},
      {"aten::reflection_pad3d", {{"self", {2, 4, 14, 8, 112}}}},
      {"aten::replication_pad3d", {{"self", {2, 4, 14, 8, 112}}}},
      {"aten::index_copy", {{"source", {2, 4, 9, 112}}}},
      {"aten::index_copy_", {{"source", {2, 4, 9, 112}}}},
      {"aten::index_add", {{"source", {2, 4, 9, 112}}}},
      {"aten::index_add_", {{"source", {2, 4, 9, 112}}}},
      {"aten::_index_put_impl_", {{"values", {2, 9, 112, 112}}}},
      {"aten::index_put", {{"values", {2, 9, 8, 8}}}},
      {"aten::index_put_", {{"values", {2, 9, 8, 8}}}},
      {"aten::_unsafe_index_put", {{"values", {2, 9, 8, 8}}}},
      {"aten::linear", {{"input", {5, 7}}, {"weight", {3, 7}}, {"bias", {3}}}},
      {"aten::conv1d", {{"input", {2, 4, 9}}, {"weight", {3, 4, 3}}, {"bias", {3}}}},
      {"aten::upsample_nearest1d", {{"input", {2, 4, 9}}}},
      {"aten::upsample_nearest3d", {{"input", {2, 4, 5, 9, 9}}}},
      {"aten::_upsample_nearest_exact1d", {{"input", {2, 4, 9}}}},
      {"aten::_upsample_nearest_exact3d", {{"input", {2, 4, 5, 9, 9}}}},
      {"aten::upsample_linear1d", {{"input", {2, 4, 9}}}},
      {"aten::upsample_trilinear3d", {{"input", {2, 4, 5, 9, 9}}}},
      {"aten::cdist", {{"x1", {5, 4}}, {"x2", {6, 4}}}},
      {"aten::_euclidean_dist", {{"x1", {5, 4}}, {"x2", {6, 4}}}},
      {"aten::pdist", {{"self", {5, 4}}}},
      {"aten::affine_grid_generator", {{"theta", {2, 2, 3}}}},
      {"aten::affine_grid_generator_backward", {{"grad", {2, 8, 8, 2}}}},
      {"aten::grid_sampler", {{"grid", {2, 5, 6, 2}}}},
      {"aten::bilinear", {{"input1", {5, 4}}, {"input2", {5, 3}}, {"weight", {6, 4, 3}}, {"bias", {6}}}},
      {"aten::combinations", {{"self", {5}}}},
      {"aten::cov", {{"self", {5, 6}}}},
      {"aten::corrcoef", {{"self", {5, 6}}}},
      {"aten::cross", {{"self", {4, 3}}, {"other", {4, 3}}}},
      {"aten::gradient.scalarrayint", {{"self", {5, 6}}}},
      {"aten::_weight_norm_differentiable_backward", {{"saved_g", {2, 1, 1, 1}}, {"saved_norms", {2, 1, 1, 1}}}},
      {"aten::linspace.Scalar_Tensor", {{"end", {}}}},
      {"aten::linspace.Tensor_Scalar", {{"start", {}}}},
      {"aten::linspace.Tensor_Tensor", {{"start", {}}, {"end", {}}}},
      {"aten::logspace.Scalar_Tensor", {{"end", {}}}},
      {"aten::logspace.Tensor_Scalar", {{"start", {}}}},
      {"aten::logspace.Tensor_Tensor", {{"start", {}}, {"end", {}}}},
      {"aten::avg_pool1d", {{"self", {2, 4, 9}}}},
      {"aten::adaptive_avg_pool1d", {{"self", {2, 4, 9}}}},
      {"aten::adaptive_avg_pool3d", {{"self", {2, 4, 5, 9, 9}}}},
      {"aten::adaptive_max_pool1d", {{"self", {2, 4, 9}}}},
      {"aten::max_pool1d_with_indices", {{"self", {2, 4, 9}}}},
      {"aten::max_pool3d", {{"self", {2, 4, 5, 9, 9}}}},
      {"aten::conv3d", {{"input", {2, 4, 5, 9, 9}}, {"weight", {3, 4, 3, 3, 3}}, {"bias", {3}}}},
      {"aten::conv_transpose1d", {{"input", {2, 3, 9}}, {"weight", {3, 4, 3}}, {"bias", {4}}}},
      {"aten::conv_transpose2d", {{"input", {2, 3, 9, 9}}, {"weight", {3, 4, 3, 3}}, {"bias", {4}}}},
      {"aten::conv_transpose3d", {{"input", {2, 3, 5, 9, 9}}, {"weight", {3, 4, 3, 3, 3}}, {"bias", {4}}}},
      {"aten::conv2d", {{"input", {2, 4, 9, 9}}, {"weight", {3, 4, 3, 3}}, {"bias", {3}}}},
      {"aten::_convolution_mode", {{"input", {2, 4, 9, 9}}, {"weight", {3, 4, 3, 3}}, {"bias", {3}}}},
      {"aten::_convolution_double_backward",
       {{"ggI", {2, 4, 9, 9}},
        {"ggW", {3, 4, 3, 3}},
        {"ggb", {3}},
        {"gO", {2, 3, 7, 7}},
        {"weight", {3, 4, 3, 3}},
        {"self", {2, 4, 9, 9}}}},
      {"aten::batch_norm", {{"weight", {4}}, {"bias", {4}}, {"running_mean", {4}}, {"running_var", {4}}}},
      {"aten::_batch_norm_impl_index", {{"weight", {4}}, {"bias", {4}}, {"running_mean", {4}}, {"running_var", {4}}}},
      {"aten::nll_loss", {{"self", {2, 5}}}},
      {"aten::nll_loss_nd", {{"self", {2, 5}}}},
      {"aten::cross_entropy_loss", {{"self", {2, 5}}}},
      {"aten::embedding", {{"weight", {112, 5}}}},
      {"aten::cosine_embedding_loss", {{"input1", {2, 5}}, {"input2", {2, 5}}, {"target", {2}}}},
      {"aten::nll_loss2d", {{"self", {2, 5, 3, 4}}}},
      {"aten::multilabel_margin_loss", {{"self", {2, 5}}}},
      {"aten::prelu", {{"weight", {4}}}},
      {"aten::scaled_dot_product_attention", {{"value", {2, 4, 8, 8}}}},
      {"aten::_scaled_dot_product_attention_math", {{"value", {2, 4, 8, 8}}}},
      {"aten::ctc_loss", {{"log_probs", {5, 2, 4}}}},
      {"aten::embedding_bag", {{"weight", {10, 5}}}},
      {"aten::_pack_padded_sequence", {{"input", {4, 4, 5}}}},
      {"aten::_pack_padded_sequence_backward", {{"grad", {9, 5}}}},
      {"aten::_pad_packed_sequence", {{"data", {9, 5}}}},
      {"aten::outer", {{"self", {5}}, {"vec2", {6}}}},
      {"aten::ger", {{"self", {5}}, {"vec2", {6}}}},
      {"aten::diag", {{"self", {5, 6}}}},
      {"aten::t_copy", {{"self", {5, 6}}}},
      {"aten::matrix_H", {{"self", {5, 6}}}},
      {"aten::fill_diagonal_", {{"self", {6, 6}}}},
      {"aten::tensordot", {{"self", {3, 4}}, {"other", {5, 4}}}},
      {"aten::as_strided_scatter", {{"src", {3, 4}}}},
      {"aten::diagonal_scatter", {{"self", {4, 5}}, {"src", {4}}}},
      {"aten::diagonal_backward", {{"grad_output", {3}}}},
      {"aten::select_backward", {{"grad_output", {4}}}},
      {"aten::slice_backward", {{"grad_output", {2, 4}}}},
      {"aten::index_select_backward", {{"grad", {9, 4}}}},
      {"aten::value_selecting_reduction_backward", {{"grad", {3}}}},
      {"aten::trace_backward", {{"grad", {}}}},
      {"aten::select_scatter", {{"src", {4, 8, 8}}}},
      {"aten::_foreach_add.Tensor", {{"other", {}}}},
      {"aten::_foreach_add_.Tensor", {{"other", {}}}},
      {"aten::_foreach_mul.Tensor", {{"other", {}}}},
      {"aten::_foreach_mul_.Tensor", {{"other", {}}}},
      {"aten::_foreach_div.Tensor", {{"other", {}}}},
      {"aten::_foreach_div_.Tensor", {{"other", {}}}},
      {"aten::_foreach_addcmul.Tensor", {{"scalars", {2}}}},
      {"aten::_foreach_addcmul_.Tensor", {{"scalars", {2}}}},
      {"aten::_foreach_addcdiv.Tensor", {{"scalars", {2}}}},
      {"aten::_foreach_addcdiv_.Tensor", {{"scalars", {2}}}},
      {"aten::block_diag", {{"tensors", {3, 4}}}},
      {"aten::cartesian_prod", {{"tensors", {3}}}},
      {"aten::meshgrid", {{"tensors", {3}}}},
      {"aten::flatten_dense_tensors", {{"tensors", {3, 4}}}},
      {"aten::unflatten_dense_tensors", {{"flat", {24}}, {"tensors", {3, 4}}}},
  };
  return table;
}

// Index-like tensors: their sizes and the bound of their values.
struct Indices {
  Sizes sizes;
  std::int64_t below;
};
const std::map<std::string, std::map<std::string, Indices>>& special_indices() {
  static const std::map<std::string, std::map<std::string, Indices>> table = {
      {"aten::_sobol_engine_draw", {{"quasi", {{3}, 1024}}, {"sobolstate", {{3, 30}, 1024}}}},
      {"aten::_sobol_engine_ff_", {{"self", {{3}, 1024}}, {"sobolstate", {{3, 30}, 1024}}}},
      {"aten::_sobol_engine_initialize_state_", {{"self", {{3, 30}, 2}}}},
      {"aten::_sobol_engine_scramble_", {{"self", {{3, 30}, 1024}}, {"ltm", {{3, 30, 30}, 2}}}},
      {"aten::take", {{"index", {{40000}, 2 * 4 * 112 * 112}}}},
      {"aten::embedding", {{"indices", {{3, 4}, 112}}}},
      {"aten::embedding_backward", {{"indices", {{2, 4, 8}, 10}}}},
      {"aten::narrow.Tensor", {{"start", {{}, 2}}}},
      {"aten::one_hot", {{"self", {{5, 6}, 7}}}},
      {"aten::bincount", {{"self", {{100}, 7}}}},
      {"aten::repeat_interleave", {{"repeats", {{1}, 7}}}},
      {"aten::nll_loss", {{"target", {{2}, 5}}}},
      {"aten::nll_loss_nd", {{"target", {{2}, 5}}}},
      {"aten::cross_entropy_loss", {{"target", {{2}, 5}}}},
      {"aten::nll_loss2d", {{"target", {{2, 3, 4}, 5}}}},
      {"aten::ctc_loss", {{"targets", {{2, 2}, 4}}, {"input_lengths", {{2}, 5}}, {"target_lengths", {{2}, 3}}}},
      {"aten::multilabel_margin_loss", {{"target", {{2, 5}, 5}}}},
      {"aten::embedding_bag", {{"indices", {{6}, 10}}, {"offsets", {{2}, 1}}}},
      {"aten::value_selecting_reduction_backward", {{"indices", {{3}, 4}}}},
      {"aten::index_select_backward", {{"index", {{9}, 3}}}},
      {"aten::tensor_split.tensor_indices_or_sections", {{"tensor_indices_or_sections", {{3}, 2}}}},
  };
  return table;
}

// The entry for the full name, else for the operator whatever its overload.
template <typename Map>
const typename Map::mapped_type::mapped_type* special(const Map& table, const std::string& full,
                                                      const std::string& base, const std::string& argument) {
  for (const std::string& key : {full, base}) {
    const auto op = table.find(key);
    if (op == table.end()) continue;
    const auto value = op->second.find(argument);
    if (value != op->second.end()) return &value->second;
  }
  return nullptr;
}

class Builder {
 public:
  Builder(const std::string& full_name, ScalarType type, std::int64_t side)
      : op_(find_operator(full_name)),
        full_(full_name),
        base_(full_name.substr(0, full_name.find('.'))),
        type_(type),
        side_(side),
        shape_({2, 4, side, side}) {}

  [[nodiscard]] Values build(ScalarType out_type) const {
    Values values;
    for (const c10::Argument& argument : op_.schema().arguments()) values.push_back(one(argument, out_type));
    return values;
  }

 private:
  [[nodiscard]] bool is(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (base_ == std::string("aten::") + name) return true;
    }
    return false;
  }

  [[nodiscard]] IValue one(const c10::Argument& argument, ScalarType out_type) const {
    const std::string& name = argument.name();
    const std::string type = argument.type()->str();
    if (type == "Tensor[]") {
      const Sizes* sizes = special(special_sizes(), full_, base_, name);
      const Sizes& own = sizes ? *sizes : shape_;
      return c10::List<Tensor>({hostile_tensor(own, type_, 1), hostile_tensor(own, type_, 2)});
    }
    if (type == "Tensor?[]") {
      c10::List<std::optional<Tensor>> indices;
      indices.push_back(std::nullopt);
      indices.push_back(small_integers({9}, at::kLong, 4, 5));
      return indices;
    }
    const IValue* const given = special(special_arguments(), full_, base_, name);
    const bool is_tensor = type.rfind("Tensor", 0) == 0;
    if (given != nullptr && given->isTensor() == is_tensor) return *given;
    if (is_tensor) return tensor(argument, out_type);
    if (argument.default_value()) return *argument.default_value();
    if (type == "int" || type == "SymInt") return 2;
    if (type == "int[]" || type == "SymInt[]") return int_list(argument);
    if (type == "Scalar" || type == "number") return is_float(type_) ? IValue(0.7) : IValue(3);
    if (type == "Scalar[]" || type == "number[]") {
      c10::List<at::Scalar> two;
      two.push_back(is_float(type_) ? at::Scalar(0.5) : at::Scalar(2));
      two.push_back(is_float(type_) ? at::Scalar(0.25) : at::Scalar(3));
      return two;
    }
    if (type == "float") return 0.5;
    if (type == "bool") return false;
    if (type == "Device") return c10::Device(c10::kCPU);
    return {};
  }

  [[nodiscard]] IValue int_list(const c10::Argument& argument) const {
    if (argument.name() != "padding") return Sizes{2};
    const std::size_t digit = base_.find_first_of("123");
    const int dims = digit == std::string::npos ? 1 : base_[digit] - '0';
    return Sizes(2 * dims, 1);
  }

  [[nodiscard]] IValue tensor(const c10::Argument& argument, ScalarType out_type) const {
    const std::string& name = argument.name();
    if (argument.is_out()) return at::empty({0}, out_type);
    if (const Indices* given = special(special_indices(), full_, base_, name)) {
      return small_integers(given->sizes, at::kLong, given->below, 5);
    }
    if (const Sizes* sizes = special(special_sizes(), full_, base_, name)) return hostile_tensor(*sizes, type_, 3);
    if (name == "mask" || name == "condition") return small_integers(shape_, at::kBool, 2, 3);
    if (name == "index" || name == "indices") return index();
    if (name == "value") return hostile_tensor({}, type_, 77);
    if (name == "boundaries" || name == "sorted_sequence") {
      Tensor sorted = at::empty({50}, at::kFloat);
      for (int i = 0; i < 50; ++i) sorted.data_ptr<float>()[i] = static_cast<float>(i - 25) / 8;
      return sorted.to(type_);
    }
    if (name == "other" || name == "src" || name == "source" || name == "values" || name == "elements") {
      // Integer division: no zero, and no -1 under the least value.
      if (!is_float(type_) && type_ != at::kBool) return small_integers(shape_, type_, 100, 2).add(1);
      return hostile_tensor(shape_, type_, 2);
    }
    if (argument.type()->str() == "Tensor?" && name != "min") return {};
    return hostile_tensor(shape_, type_, 1);
  }

  [[nodiscard]] Tensor index() const {
    if (is({"index_select", "index_fill", "index_fill_", "index_copy", "index_copy_", "index_add", "index_add_"})) {
      return small_integers({9}, at::kLong, side_, 5);
    }
    return small_integers(shape_, at::kLong, side_, 5);
  }

  c10::OperatorHandle op_;
  std::string full_, base_;
  ScalarType type_;
  std::int64_t side_;
  Sizes shape_;
};

void absorb(std::uint64_t& digest, std::uint64_t word) { digest = mix(digest ^ word); }

template <typename Value, typename Bits>
void absorb_values(std::uint64_t& digest, const Tensor& tensor) {
  const Value* values = tensor.const_data_ptr<Value>();
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    Bits bits = static_cast<Bits>(0x7fc00000);
    if (values[i] == values[i]) std::memcpy(&bits, &values[i], sizeof(Value));
    sum += (bits + 1) * (0x9e3779b97f4a7c15ull * (2 * i + 1));
  }
  absorb(digest, sum);
}

void absorb_tensor(std::uint64_t& digest, const Tensor& given) {
  if (!given.defined()) return;
  absorb(digest, static_cast<std::uint64_t>(given.scalar_type()));
  for (const std::int64_t size : given.sizes()) absorb(digest, static_cast<std::uint64_t>(size));
  const Tensor tensor = given.contiguous();
  switch (tensor.scalar_type()) {
    case at::kFloat: return absorb_values<float, std::uint32_t>(digest, tensor);
    case at::kDouble: return absorb_values<double, std::uint64_t>(digest, tensor);
    case at::kHalf: return absorb_values<at::Half, std::uint16_t>(digest, tensor);
    case at::kBFloat16: return absorb_values<at::BFloat16, std::uint16_t>(digest, tensor);
    default: break;
  }
  const auto* bytes = static_cast<const unsigned char*>(tensor.const_data_ptr());
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < tensor.nbytes(); ++i) sum += (bytes[i] + 1) * (0x9e3779b97f4a7c15ull * (2 * i + 1));
  absorb(digest, sum);
}

void absorb_value(std::uint64_t& digest, const IValue& value) {
  if (value.isTensor()) {
    absorb_tensor(digest, value.toTensor());
  } else if (value.isDouble()) {
    const double number = value.toDouble();
    std::uint64_t bits = 0;
    if (number == number) std::memcpy(&bits, &number, sizeof bits);
    absorb(digest, bits);
  } else if (value.isInt()) {
    absorb(digest, static_cast<std::uint64_t>(value.toInt()));
  } else if (value.isBool()) {
    absorb(digest, value.toBool());
  } else if (value.isList()) {
    for (const IValue& element : value.toListRef()) absorb_value(digest, element);
  }
}

}  // namespace

static Tensor make_hostile(at::IntArrayRef sizes, ScalarType type, std::uint64_t seed) {
  if (type == at::kDouble) {
    Tensor tensor = at::empty(sizes, type);
    fill<double>(tensor, seed, hostile_float<double, std::uint64_t>);
    return tensor;
  }
  if (is_float(type)) {
    Tensor tensor = at::empty(sizes, at::kFloat);
    fill<float>(tensor, seed, hostile_float<float, std::uint32_t>);
    return tensor.to(type);
  }
  if (type == at::kBool) return small_integers(sizes, type, 2, seed);
  Tensor tensor = at::empty(sizes, at::kLong);
  fill<std::int64_t>(tensor, seed, [](std::uint64_t random) {
    return static_cast<std::int64_t>(random % 8 == 0 ? random : random >> 8 & 0x7f);
  });
  return tensor.to(type);
}

Tensor hostile_tensor(at::IntArrayRef sizes, ScalarType type, std::uint64_t seed) {
  static std::map<std::tuple<std::vector<std::int64_t>, ScalarType, std::uint64_t>, Tensor> made;
  Tensor& tensor = made[{sizes.vec(), type, seed}];
  if (!tensor.defined()) tensor = make_hostile(sizes, type, seed);
  return tensor.clone();
}

Values sample_of(const std::string& full_name, ScalarType type, ScalarType out_type, std::int64_t side) {
  return Builder(full_name, type, side).build(out_type);
}

std::uint64_t digest_of(const IValue& value) {
  std::uint64_t digest = 1;
  absorb_value(digest, value);
  return digest;
}

}  // namespace isobit::test
