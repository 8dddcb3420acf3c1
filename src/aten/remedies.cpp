#include "aten/remedies.h"

#include <algorithm>
#include <string>

#include "aten/certified.h"

namespace isobit::aten {
namespace {

// The first that has a name counts: narrower families stand before wider ones.
constexpr Family kFamilies[] = {
    {"fsdp:: c10d::reduce_scatter c10d::_reduce_scatter",
     "sharded training (FullyShardedDataParallel, fully_shard), which adds gradients in the order of the transport",
     "wrap the model in DistributedDataParallel, and call isobit.distributed.exact(ddp)", ""},
    {"c10d::reduce c10d::allreduce c10d::check c10d:: _c10d_functional _dtensor:: symm_mem::",
     "collectives of torch.distributed (DistributedDataParallel), which add in the order of the transport",
     "call isobit.distributed.exact(ddp) after DistributedDataParallel(...), or write the loop with run.steps and "
     "start it "
     "by python -m isobit launch",
     ""},
    {"kaiser_window", "windows of spectra", "take torch.signal.windows.kaiser (sym=False for a periodic one)",
     "linspace cos sin"},
    {"fft_fftfreq fft_rfftfreq", "frequencies of a Fourier transform", "make them of torch.arange and a division",
     "arange div"},
    {"fft_fftshift fft_ifftshift", "order of a Fourier transform's frequencies", "use torch.roll", "roll"},
    {"fft_ stft istft", "Fourier transforms",
     "multiply by the transform's matrices (torch.cos and torch.sin of the angles, then torch.matmul)",
     "cos sin matmul"},
    {"histc histogram", "counts of values in bins",
     "find the bins with torch.bucketize, and count them with Tensor.scatter_add_ of ones", "bucketize scatter_add_"},
    {"corrcoef", "correlations", "divide torch.cov by the deviations, torch.sqrt of its diagonal", "cov diagonal sqrt"},
    {"nanquantile", "quantiles", "take torch.quantile of what is no NaN", "quantile isnan"},
    {"float_power", "powers in float64", "use torch.pow", "pow"},
    {"range", "", "use torch.arange, whose end is not included", "arange"},
    {"chain_matmul linalg_multi_dot", "products of several matrices", "write them one by one: a @ b @ c", "matmul"},
    {"vander linalg_vander", "powers of a column", "use torch.pow with torch.arange", "pow arange"},
    {"mvlgamma special_multigammaln", "the multivariate gamma function", "add up torch.lgamma", "lgamma sum"},
    {"special_gammaln", "logarithms of the gamma function", "use torch.lgamma", "lgamma"},
    {"special_chebyshev special_hermite special_laguerre special_legendre special_shifted", "orthogonal polynomials",
     "write the recurrence with * and -", "mul sub"},
    {"frobenius_norm native_norm linalg__powsum", "norms", "use torch.linalg.vector_norm", "linalg_vector_norm"},
    {"geqrf", "factorisations of matrices, and torch.nn.utils.parametrizations.orthogonal",
     "write it on torch.linalg.qr; of a square weight call torch.nn.init.orthogonal_ first, and give orthogonal() "
     "orthogonal_map=\"cayley\"",
     "linalg_qr"},
    {"det linalg_det slogdet linalg_slogdet logdet linalg_lu lu_ linalg_solve linalg_inv inverse pinverse linalg_pinv "
     "cholesky linalg_cholesky triangular_solve linalg_tensor linalg_lstsq linalg_ldl orgqr ormqr "
     "linalg_householder",
     "systems of equations and factorisations of matrices",
     "write it on torch.linalg.qr, cholesky, lu_factor, solve or inv, which are certified, or run this part outside "
     "isobit (with isobit.disabled():)",
     "linalg_qr linalg_cholesky linalg_lu_factor linalg_solve linalg_inv"},
    {"linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_svd linalg_svdvals svd lobpcg pca_lowrank "
     "svd_lowrank "
     "nuclear_norm linalg_cond linalg_matrix_rank",
     "eigenvalues and singular values",
     "iterate torch.linalg.qr, which is certified, or run this part outside isobit "
     "(with isobit.disabled():)",
     "linalg_qr"},
    {"matrix_exp linalg_matrix_exp", "exponentials of matrices", "add up the series with torch.matmul", "matmul"},
    {"complex polar angle imag conj_physical conj view_as_real_copy view_as_complex_copy", "complex numbers",
     "keep real and imaginary parts in two tensors: the contract has no complex arithmetic", ""},
    {"poisson binomial standard_gamma sample_dirichlet dirichlet philox_", "random numbers of a distribution",
     "draw with torch.randn, torch.rand, torch.bernoulli, torch.multinomial or Tensor.exponential_",
     "randn rand bernoulli multinomial exponential_"},
    {"nested_ jagged padded_dense_to_jagged to_padded_tensor nested_to_padded_tensor",
     "nested and jagged tensors (rows of several lengths)",
     "pad the rows to one length (torch.nn.utils.rnn.pad_sequence) and pass a mask of what is padding", "full where"},
    {"sparse_ spdiags spsolve sspaddmm hspmm smm to_sparse coalesce copy_sparse resize_as_sparse indices values "
     "crow_indices col_indices ccol_indices row_indices convert_indices validate_sparse cslt dimI dimV nnz "
     "is_coalesced",
     "sparse tensors", "use dense tensors (an index list with torch.index_select and Tensor.index_add_)",
     "index_select index_add_"},
    {"fake_quantize fused_moving_avg", "quantization that a training sees",
     "divide by the scale, torch.round, torch.clamp and multiply, in a torch.autograd.Function whose backward hands "
     "the "
     "gradient on",
     "div round clamp mul"},
    {"quantize quantized:: quantized_ quantization:: dequantize choose_qparams q_ qscheme int_repr "
     "make_per fbgemm weight_int convert_weight dyn_quant empty_affine empty_per_channel onednn::",
     "quantization", "compute in float32: nothing is certified for quantized numbers", ""},
    {"scaled_dot_product efficient_attention flash_attention cudnn_attention native_multi_head transformer_encoder "
     "triton_ fill_mem_eff",
     "fused attention", "call torch.nn.functional.scaled_dot_product_attention", "scaled_dot_product_attention"},
    {"masked_softmax", "", "use Tensor.masked_fill and torch.softmax", "masked_fill softmax"},
    {"amp_ autocast_ saturate_weight_to_fp16 cast_Half chalf scaled_mm scaled_grouped_mm",
     "arithmetic with 16 bits and fewer",
     "compute in float32, on the CPU also in bfloat16 or float16 by PyTorch's own operators", ""},
    {"batch_norm_stats batch_norm_gather batch_norm_elemt batch_norm_backward batch_norm_update",
     "SyncBatchNorm, which normalises over several processes", "use torch.nn.BatchNorm2d in one process", "batch_norm"},
    {"conv_tbc", "", "use torch.conv1d", "conv1d"},
    {"conv_depthwise3d slow_conv3d slow_conv_dilated3d", "", "use torch.conv3d", "conv3d"},
    {"slow_conv2d slow_conv_dilated2d thnn_conv2d nnpack conv_depthwise2d", "", "use torch.conv2d", "conv2d"},
    {"embedding_renorm", "torch.nn.Embedding with max_norm",
     "leave max_norm out, and shorten the rows yourself with torch.renorm", "renorm"},
    {"segment_reduce", "reductions over segments", "use Tensor.scatter_reduce_ or Tensor.index_add_",
     "scatter_reduce_ index_add_"},
    {"to_mkldnn mkldnn mkldnn::", "oneDNN's own layout", "use dense tensors: isobit's kernels are used by themselves",
     ""},
    {"prims:: inductor rngprims:: debugprims:: export:: static_runtime:: mkldnn_prepacked:: mkl::",
     "compiled and exported programs", "run the model as it was written, not compiled", ""},
};

// "aten::erfinv" -> "erfinv", "aten::_foo.out" -> "foo".
std::string_view base_name(std::string_view name) {
  if (const auto colon = name.rfind("::"); colon != name.npos) name.remove_prefix(colon + 2);
  name = name.substr(0, name.find('.'));
  while (!name.empty() && name.front() == '_') name.remove_prefix(1);
  return name;
}

// Without what only says in which module of Python's the function is: "special_ndtri" -> "ndtri".
std::string_view own_name(std::string_view name) {
  name = base_name(name);
  for (const std::string_view module : {"special_", "linalg_", "fft_"}) {
    if (name.starts_with(module)) name.remove_prefix(module.size());
  }
  return name;
}

// Whether one of the words is how the operator's full name, or its name in aten, begins. A word without an underscore
// or a colon at its end has to be the whole name, or all of it before an underscore.
bool begins(std::string_view op, std::string_view base, std::string_view words) {
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    const std::string_view word = words.substr(at, end - at);
    at = end + 1;
    const std::string_view name = word.find("::") == word.npos ? base : op;
    if (!name.starts_with(word)) continue;
    const bool open = word.back() == '_' || word.back() == ':';
    if (open || name.size() == word.size() || name[word.size()] == '_' || name[word.size()] == '.') return true;
  }
  return false;
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* family_of(std::string_view op) {
  const std::string_view base = op.starts_with("aten::") ? base_name(op) : std::string_view();
  for (const Family& family : kFamilies) {
    if (begins(op, base, family.names)) return &family;
  }
  return nullptr;
}

std::string_view search_word(std::string_view op) {
  constexpr std::size_t kShortest = 3;
  const std::string_view base = own_name(op);
  std::size_t best = 0;
  for (const CertifiedOperator& candidate : certified_operators()) {
    const std::string_view other = own_name(candidate.name);
    const auto differ = std::mismatch(base.begin(), base.end(), other.begin(), other.end());
    best = std::max<std::size_t>(best, differ.first - base.begin());
  }
  return best < kShortest ? std::string_view() : base.substr(0, best);
}

}  // namespace isobit::aten
