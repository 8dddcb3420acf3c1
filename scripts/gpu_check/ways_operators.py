"""Ways: operators that PyTorch has for CUDA tensors alone, types and layouts, and settings that choose other kernels."""

import contextlib

import torch
from torch.nn import functional

from gpu_check.ways_base import (
    Unavailable,
    Way,
    deterministic,
    flags,
    gradients,
    kernel_from_python,
    labels,
    need_real,
    normal,
    on_device,
    paired,
    positive,
    wide,
)

aten = torch.ops.aten


def heads(place, dtype=torch.float32):
    return [normal(place, 2, 2, 16, 16, name=name).to(dtype) for name in "qkv"]


def rows(place, dtype=torch.float32):
    return [x.transpose(1, 2).contiguous() for x in heads(place, dtype)]


def conv(place):
    return normal(place, 2, 4, 9, 9), normal(place, 6, 4, 3, 3)


def half(place, *shape):
    return normal(place, *shape).half()


def float8(place):
    kind = torch.float8_e4m3fn
    one = torch.ones((), device=place)
    return normal(place, 32, 32).to(kind), normal(place, 32, 32).to(kind).t(), one, one


# ---- called by name, past what PyTorch's composites choose

DIRECT = {
    "_scaled_dot_product_flash_attention": lambda p: aten._scaled_dot_product_flash_attention(*heads(p, torch.float16)),
    "_scaled_dot_product_flash_attention, float32": lambda p: aten._scaled_dot_product_flash_attention(*heads(p)),
    "_scaled_dot_product_efficient_attention": lambda p: aten._scaled_dot_product_efficient_attention(*heads(p), None, True),
    "_scaled_dot_product_cudnn_attention": lambda p: aten._scaled_dot_product_cudnn_attention(
        *heads(p, torch.float16), None, True
    ),
    "_scaled_dot_product_attention_math": lambda p: aten._scaled_dot_product_attention_math(*heads(p)),
    "_flash_attention_forward": lambda p: aten._flash_attention_forward(
        *rows(p, torch.float16), None, None, 16, 16, 0.0, False, False
    ),
    "_efficient_attention_forward": lambda p: aten._efficient_attention_forward(*rows(p), None, None, None, None, None, 0.0, 0),
    "_cudnn_attention_forward": lambda p: aten._cudnn_attention_forward(
        *heads(p, torch.float16), None, None, None, 16, 16, False
    ),
    "_fused_sdp_choice": lambda p: aten._fused_sdp_choice(*heads(p)),
    "cudnn_convolution": lambda p: aten.cudnn_convolution(*conv(p), [1, 1], [1, 1], [1, 1], 1, False, False, False),
    "cudnn_convolution_transpose": lambda p: aten.cudnn_convolution_transpose(
        normal(p, 2, 6, 9, 9), normal(p, 6, 4, 3, 3), [1, 1], [0, 0], [1, 1], [1, 1], 1, False, False, False
    ),
    "cudnn_convolution_relu": lambda p: torch.cudnn_convolution_relu(*conv(p), None, [1, 1], [1, 1], [1, 1], 1),
    "cudnn_convolution_add_relu": lambda p: torch.cudnn_convolution_add_relu(
        *conv(p), normal(p, 2, 6, 9, 9), 1.0, None, [1, 1], [1, 1], [1, 1], 1
    ),
    "cudnn_batch_norm": lambda p: aten.cudnn_batch_norm(normal(p, 4, 3, 5, 5), positive(p, 3), None, None, None, True, 0.1, 1e-5),
    "cudnn_grid_sampler": lambda p: aten.cudnn_grid_sampler(normal(p, 1, 2, 5, 5), normal(p, 1, 4, 4, 2)),
    "cudnn_affine_grid_generator": lambda p: aten.cudnn_affine_grid_generator(normal(p, 1, 2, 3), 1, 2, 5, 5),
    "_cudnn_rnn": lambda p: aten._cudnn_rnn(
        normal(p, 5, 2, 3),
        [normal(p, 4, 3), normal(p, 4, 4)],
        2,
        None,
        normal(p, 1, 2, 4),
        None,
        0,
        4,
        0,
        1,
        False,
        0.0,
        True,
        False,
        [],
        None,
    ),
    "_cudnn_init_dropout_state": lambda p: aten._cudnn_init_dropout_state(0.5, True, 1, dtype=torch.uint8, device=p),
    "_cudnn_ctc_loss": lambda p: aten._cudnn_ctc_loss(
        normal(p, 9, 2, 5).log_softmax(2), torch.ones(4, dtype=torch.int32), [9, 9], [2, 2], 0, True, False
    ),
    "miopen_convolution": lambda p: aten.miopen_convolution(*conv(p), None, [1, 1], [1, 1], [1, 1], 1, False, False),
    "_conv_depthwise2d": lambda p: aten._conv_depthwise2d(
        normal(p, 2, 4, 9, 9), normal(p, 4, 1, 3, 3), [3, 3], None, [1, 1], [1, 1], [1, 1]
    ),
    "conv_depthwise3d": lambda p: aten.conv_depthwise3d(
        normal(p, 1, 2, 5, 5, 5), normal(p, 2, 1, 3, 3, 3), [3] * 3, None, [1] * 3, [1] * 3, [1] * 3
    ),
    "_slow_conv2d_forward": lambda p: aten._slow_conv2d_forward(*conv(p), [3, 3], None, [1, 1], [1, 1]),
    "slow_conv_transpose2d": lambda p: torch._C._nn.slow_conv_transpose2d(normal(p, 2, 6, 5, 5), normal(p, 6, 4, 3, 3), [3, 3]),
    "slow_conv_dilated2d": lambda p: torch._C._nn.slow_conv_dilated2d(*conv(p), [3, 3]),
    "_convolution, cudnn asked for": lambda p: aten._convolution(
        *conv(p), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, True, False, True, True
    ),
    "convolution_backward": lambda p: aten.convolution_backward(
        normal(p, 2, 6, 9, 9), *conv(p), [6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3
    ),
    "_thnn_fused_lstm_cell": lambda p: aten._thnn_fused_lstm_cell(normal(p, 2, 16), normal(p, 2, 16), normal(p, 2, 4)),
    "_thnn_fused_gru_cell": lambda p: aten._thnn_fused_gru_cell(
        normal(p, 2, 12), normal(p, 2, 12), normal(p, 2, 4), normal(p, 12), normal(p, 12)
    ),
    "_fused_dropout": lambda p: aten._fused_dropout(normal(p, 99), 0.5),
    "native_dropout": lambda p: aten.native_dropout(normal(p, 99), 0.5, True),
    "_masked_scale": lambda p: aten._masked_scale(normal(p, 9), torch.ones(9, dtype=torch.uint8, device=p), 0.3),
    "_fused_rms_norm": lambda p: aten._fused_rms_norm(wide(p, 4, 33), [33], positive(p, 33), 1e-5),
    "batch_norm_stats": lambda p: aten.batch_norm_stats(wide(p, 4, 3, 5), 1e-5),
    "batch_norm_elemt": lambda p: aten.batch_norm_elemt(
        wide(p, 4, 3, 5), positive(p, 3), None, positive(p, 3), positive(p, 3), 1e-5
    ),
    "batch_norm_gather_stats": lambda p: aten.batch_norm_gather_stats(
        wide(p, 4, 3, 5), positive(p, 2, 3), positive(p, 2, 3), None, None, 0.1, 1e-5, 20
    ),
    "_batch_norm_with_update": lambda p: aten._batch_norm_with_update(
        wide(p, 4, 3, 5), positive(p, 3), None, normal(p, 3), positive(p, 3), 0.1, 1e-5
    ),
    "_addmm_activation": lambda p: aten._addmm_activation(normal(p, 9), normal(p, 7, 33), normal(p, 33, 9), use_gelu=True),
    "_int_mm": lambda p: torch._int_mm(labels(p, 100, 32, 32).to(torch.int8), labels(p, 100, 32, 32).to(torch.int8)),
    "_scaled_mm, float8": lambda p: torch._scaled_mm(*float8(p), out_dtype=torch.float32),
    "_grouped_mm": lambda p: aten._grouped_mm(normal(p, 2, 16, 16).bfloat16(), normal(p, 2, 16, 16).bfloat16()),
    "_weight_int8pack_mm": lambda p: aten._weight_int8pack_mm(
        normal(p, 4, 32).bfloat16(), labels(p, 9, 32, 32).to(torch.int8), normal(p, 32).bfloat16()
    ),
    "_cslt_compress": lambda p: torch._cslt_compress(half(p, 64, 64)),
    "_mixed_dtypes_linear": lambda p: aten._mixed_dtypes_linear(
        half(p, 16, 64), labels(p, 9, 64, 64).to(torch.int8), half(p, 64)
    ),
    "_sparse_semi_structured_mm": lambda p: aten._sparse_semi_structured_mm(
        half(p, 32, 32), torch.zeros(32, 4, dtype=torch.int16, device=p), half(p, 64, 32)
    ),
    "_transform_bias_rescale_qkv": lambda p: aten._transform_bias_rescale_qkv(normal(p, 2, 5, 24), normal(p, 24), 2),
    "_native_multi_head_attention": lambda p: aten._native_multi_head_attention(
        *[normal(p, 2, 5, 8)] * 3, 8, 2, normal(p, 24, 8), normal(p, 24), normal(p, 8, 8), normal(p, 8)
    ),
    "_triton_scaled_dot_attention": lambda p: aten._triton_scaled_dot_attention(*heads(p)),
    "_triton_multi_head_attention": lambda p: aten._triton_multi_head_attention(
        *[normal(p, 2, 5, 8)] * 3, 8, 2, normal(p, 24, 8), normal(p, 24), normal(p, 8, 8), normal(p, 8)
    ),
    "_amp_foreach_non_finite_check_and_unscale_": lambda p: amp_unscale(p),
    "_amp_update_scale_": lambda p: aten._amp_update_scale_(
        torch.ones(1, device=p) * 3, torch.zeros(1, dtype=torch.int32, device=p), torch.zeros(1, device=p), 1.1, 0.3, 1
    ),
    "_fake_quantize_learnable": lambda p: aten._fake_quantize_learnable_per_tensor_affine(
        normal(p, 9), torch.full((1,), 0.1, device=p), torch.zeros(1, device=p), 0, 255
    ),
    "_segment_reduce": lambda p: torch.segment_reduce(wide(p, 9), "sum", lengths=torch.tensor([4, 5], device=p)),
    "_embedding_bag": lambda p: aten._embedding_bag(wide(p, 9, 4), torch.arange(9, device=p), torch.tensor([0, 3], device=p)),
    "_softmax, half_to_float": lambda p: aten._softmax(half(p, 4, 9), 1, True),
    "_cdist_forward": lambda p: aten._cdist_forward(wide(p, 9, 33), wide(p, 7, 33), 2.0, 1),
    "renorm_, embedding_renorm_": lambda p: (
        wide(p, 5, 9).renorm_(2, 0, 1.0),
        aten.embedding_renorm_(wide(p, 5, 9), torch.arange(3, device=p), 1.0, 2.0),
    ),
    "mm.dtype": lambda p: aten.mm.dtype(half(p, 8, 8), half(p, 8, 8), torch.float32),
    "prims": lambda p: (torch.ops.prims.exp(normal(p, 99)), torch.ops.prims.sum(wide(p, 99), [0])),
    "torch._refs": lambda p: __import__("torch._refs")._refs.softmax(wide(p, 4, 99), 1),
    "torch._decomp": lambda p: torch._decomp.decomposition_table[aten.native_layer_norm.default](
        wide(p, 4, 99), [99], None, None, 1e-5
    ),
    "varlen_attn": lambda p: varlen(p),
    "flex_attention": lambda p: __import__("torch.nn.attention.flex_attention").nn.attention.flex_attention.flex_attention(
        *heads(p)
    ),
    "bsr_dense_mm of Triton": lambda p: block_sparse(p),
    "quantized::": lambda p: torch.ops.quantized.linear_dynamic(normal(p, 3, 4), None),
    "fbgemm, mkldnn": lambda p: aten.mkldnn_convolution(*conv(p), None, [1, 1], [1, 1], [1, 1], 1),
    "inductor's operators": lambda p: torch.ops.inductor._mm_plus_mm(*[wide(p, 9, 9)] * 4, torch.empty(9, 9, device=p)),
}


def amp_unscale(place):
    x = [wide(place, 9), wide(place, 5)]
    found = torch.zeros(1, device=place)
    torch._amp_foreach_non_finite_check_and_unscale_(x, found, torch.full((1,), 0.3, device=place))
    return x, found


def varlen(place):
    from torch.nn.attention.varlen import varlen_attn

    q = half(place, 32, 2, 16)
    ends = torch.tensor([0, 16, 32], dtype=torch.int32, device=place)
    return varlen_attn(q, q, q, ends, ends, 16, 16)


def block_sparse(place):
    from torch.sparse import _triton_ops

    x = torch.eye(64, device=place).to_sparse_bsr(16)
    if _triton_ops.bsr_dense_mm is None:
        raise Unavailable("no Triton")
    return _triton_ops.bsr_dense_mm(x, wide(place, 64, 64))


# ---- types and layouts

TYPES = {
    "half + 1": lambda p: half(p, 9) + 1,
    "half product": lambda p: half(p, 9, 9) @ half(p, 9, 9),
    "bfloat16 sum": lambda p: normal(p, 99).bfloat16().sum(),
    "half + float": lambda p: half(p, 9) + normal(p, 9),
    "half 0-dim + float": lambda p: half(p, 1)[0] + normal(p, 9),
    "half cumsum, float64": lambda p: half(p, 99).cumsum(0, dtype=torch.float64),
    "sum of half into float32": lambda p: half(p, 99).sum(dtype=torch.float32),
    "half softmax into float32": lambda p: half(p, 9).softmax(0, dtype=torch.float32),
    "float8 + float8": lambda p: float8(p)[0] + float8(p)[0],
    "layer_norm of half, float weights": lambda p: functional.layer_norm(half(p, 3, 9), [9], positive(p, 9), None),
    "float64 product": lambda p: wide(p, 33, 99).double() @ wide(p, 99, 33).double(),
    "float64 sum": lambda p: wide(p, 999).double().sum(),
    "float32 sum into float64": lambda p: wide(p, 999).sum(dtype=torch.float64),
    "float32 + float64": lambda p: wide(p, 9) + wide(p, 9).double(),
    "float32 + 0-dim float64": lambda p: wide(p, 9) + torch.tensor(0.1, dtype=torch.float64, device=p),
    "+ 0-dim of the CPU": lambda p: wide(p, 99) * torch.tensor(0.1) + torch.tensor(0.1, dtype=torch.float64),
    "/ 0-dim of the CPU": lambda p: (
        wide(p, 99) / torch.tensor(3.0),
        torch.tensor(3.0) / wide(p, 99),
        wide(p, 99) ** torch.tensor(0.3),
    ),
    "int + Python float": lambda p: labels(p, 99, 99) * 0.1 + 0.3,
    "int / int": lambda p: labels(p, 99, 99) / 7,
    "int mean": lambda p: labels(p, 99, 99).float().mean(),
    "int.mean(dtype)": lambda p: labels(p, 99, 99).mean(dtype=torch.float32),
    "int64 exp": lambda p: labels(p, 9, 99).exp(),
    "bool * float": lambda p: labels(p, 2, 99).bool() * 0.1,
    "torch.tensor(0.1).to(device) + int": lambda p: torch.tensor(0.1).to(p) + labels(p, 9, 9),
    "double to float while it moves": lambda p: (wide("cpu", 99).double() * 1.1).to(p, torch.float32),
    "float to half while it moves": lambda p: wide("cpu", 99).to(p, torch.float16),
    "back, to another type": lambda p: (wide(p, 99).to("cpu", torch.float16), wide(p, 99).to("cpu", torch.float64)),
    "copy_ of another type": lambda p: torch.zeros(99, device=p).copy_(wide("cpu", 99).double()),
    "copy_ from bfloat16": lambda p: torch.zeros(99, device=p).copy_(normal("cpu", 99).bfloat16()),
    "transposed copy of another type": lambda p: torch.zeros(9, 9, device=p).copy_(wide("cpu", 9, 9).t().double()),
    "complex product": lambda p: paired(p, 9, 9) @ paired(p, 9, 9),
    "complex abs, angle": lambda p: paired(p, 9).abs(),
    "polar": lambda p: torch.polar(positive(p, 9), wide(p, 9)),
    "view_as_real + 1": lambda p: torch.view_as_real(paired(p, 9)) + 1,
    "fft": lambda p: torch.fft.fft(wide(p, 64)),
    "rfft": lambda p: torch.fft.rfft(wide(p, 64)),
    "stft": lambda p: torch.stft(wide(p, 99), 16, return_complex=True),
    "conv by fft, istft": lambda p: torch.istft(torch.ones(9, 9, dtype=torch.complex64, device=p), 16),
    **{
        f"linalg.{name}": lambda p, name=name: getattr(torch.linalg, name)(
            normal(p, 9, 9) @ normal(p, 9, 9).t() + 9 * torch.eye(9, device=p)
        )
        for name in (
            "svd",
            "eigh",
            "eigvals",
            "inv",
            "det",
            "slogdet",
            "cholesky",
            "qr",
            "lu",
            "lu_factor",
            "ldl_factor",
            "matrix_exp",
            "pinv",
            "matrix_rank",
            "cond",
            "norm",
            "svdvals",
            "inv_ex",
        )
    },
    **{
        f"linalg.{name}(a, b)": lambda p, name=name: getattr(torch.linalg, name)(normal(p, 9, 9), normal(p, 9, 9))
        for name in ("solve", "lstsq", "matmul", "vecdot", "householder_product")
    },
    "linalg.solve_triangular": lambda p: torch.linalg.solve_triangular(positive(p, 9, 9).triu(), wide(p, 9, 9), upper=True),
    "magma preferred": lambda p: preferred(
        torch.backends.cuda.preferred_linalg_library, "magma", lambda: torch.linalg.inv(positive(p, 5, 5))
    ),
    "sparse COO @ dense": lambda p: wide(p, 9, 9).to_sparse() @ wide(p, 9, 9),
    "sparse CSR @ dense": lambda p: wide(p, 9, 9).to_sparse_csr() @ wide(p, 9, 9),
    "sparse coalesce": lambda p: torch.sparse_coo_tensor([[0, 0, 1]], wide(p, 3), device=p).coalesce(),
    "sparse + sparse": lambda p: wide(p, 9).to_sparse() + wide(p, 9).to_sparse(),
    "sparse to dense": lambda p: torch.sparse_coo_tensor([[0, 0, 1]], wide(p, 3), device=p).to_dense(),
    "sparse BSR @ dense": lambda p: wide(p, 16, 16).to_sparse_bsr(4) @ wide(p, 16, 16),
    "sparse.mm, sampled_addmm": lambda p: torch.sparse.sampled_addmm(wide(p, 9, 9).to_sparse_csr(), wide(p, 9, 9), wide(p, 9, 9)),
    "dense + sparse": lambda p: wide(p, 9) + wide(p, 9).to_sparse(),
    "sparse semi-structured": lambda p: (
        torch.sparse.to_sparse_semi_structured(torch.tensor([0, 0, 1, 1], device=p).half().repeat(64, 16)) @ half(p, 64, 64)
    ),
    "nested + 1": lambda p: torch.nested.nested_tensor([wide(p, 3), wide(p, 5)]) + 1,
    "nested, jagged": lambda p: torch.nested.nested_tensor([wide(p, 3, 4), wide(p, 5, 4)], layout=torch.jagged) * 0.3,
    "nested, jagged, linear": lambda p: functional.linear(
        torch.nested.nested_tensor([wide(p, 3, 4), wide(p, 5, 4)], layout=torch.jagged), wide(p, 6, 4)
    ),
    "nested softmax": lambda p: torch.nested.nested_tensor([wide(p, 3, 4), wide(p, 5, 4)], layout=torch.jagged).softmax(-1),
    "masked tensor": lambda p: torch.masked.masked_tensor(wide(p, 9), torch.ones(9, dtype=torch.bool, device=p)).sum().get_data(),
    "quantized": lambda p: torch.quantize_per_tensor(wide(p, 9), 0.1, 0, torch.qint8).dequantize(),
    "fake quantize": lambda p: torch.fake_quantize_per_tensor_affine(wide(p, 9), 0.1, 0, 0, 255),
}


# ---- settings that choose other kernels


@contextlib.contextmanager
def setting(function, value, get=None):
    before = (get or function)()
    function(value)
    try:
        yield
    finally:
        function(before)


def preferred(function, name, call):
    with setting(function, name):
        return call()


def products(place):
    return (
        normal(place, 65, 129) @ normal(place, 129, 70),
        functional.conv2d(*conv(place), padding=1),
        torch.bmm(wide(place, 3, 9, 40), wide(place, 3, 40, 9)),
        functional.scaled_dot_product_attention(*heads(place)),
    )


def within(make):
    def call(place):
        with make(place):
            return products(place)

    return call


def _flag(holder, name, value):
    return within(lambda _p: flags((holder, name, value)))


cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
SETTINGS = {
    "none": products,
    "allow_tf32": _flag(cuda.matmul, "allow_tf32", True),
    "cudnn.allow_tf32": _flag(cudnn, "allow_tf32", True),
    "matmul.fp32_precision": _flag(cuda.matmul, "fp32_precision", "tf32"),
    "cudnn.conv.fp32_precision": within(lambda p: flags((cudnn.conv, "fp32_precision", "tf32"))),
    "backends.fp32_precision": within(lambda p: flags((torch.backends, "fp32_precision", "tf32"))),
    **{
        f"set_float32_matmul_precision {value}": within(
            lambda p, value=value: setting(torch.set_float32_matmul_precision, value, torch.get_float32_matmul_precision)
        )
        for value in ("medium", "high")
    },
    "fp16 reduced precision": _flag(cuda.matmul, "allow_fp16_reduced_precision_reduction", True),
    "fp16 accumulation": _flag(cuda.matmul, "allow_fp16_accumulation", True),
    "cudnn.benchmark": _flag(cudnn, "benchmark", True),
    "cudnn.deterministic": _flag(cudnn, "deterministic", True),
    "cudnn.enabled set under the switch": _flag(cudnn, "enabled", True),
    "cudnn.flags": within(lambda p: cudnn.flags(enabled=True, benchmark=True, allow_tf32=True)),
    **{
        f"preferred_blas_library {name}": within(lambda p, name=name: setting(cuda.preferred_blas_library, name))
        for name in ("cublas", "cublaslt", "ck")
    },
    **{
        f"sdpa_kernel {name}": within(
            lambda p, name=name: torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, name))
        )
        for name in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
    },
    "enable_flash_sdp": within(lambda p: setting(cuda.enable_flash_sdp, True, cuda.flash_sdp_enabled)),
    "enable_mem_efficient_sdp": within(lambda p: setting(cuda.enable_mem_efficient_sdp, True, cuda.mem_efficient_sdp_enabled)),
    "enable_cudnn_sdp": within(lambda p: setting(cuda.enable_cudnn_sdp, True, cuda.cudnn_sdp_enabled)),
    "tunable operators": within(lambda p: tunable(p)),
    "mha fast path": lambda p: fast_path(p),
    **{f"autocast {str(kind)[6:]}": within(lambda p, kind=kind: autocast(p, kind)) for kind in (torch.float16, torch.bfloat16)},
    "autocast by set_autocast_enabled": lambda p: raw_autocast(p),
    "custom_fwd with cast_inputs": lambda p: custom_forward(p),
    "deterministic algorithms": within(lambda p: deterministic()),
    "set_default_device": lambda p: default_device(p),
    "inference_mode": within(lambda p: torch.inference_mode()),
    "set_default_dtype float64": within(lambda p: setting(torch.set_default_dtype, torch.float64, torch.get_default_dtype)),
    "set_flush_denormal": lambda p: (torch.set_flush_denormal(True), wide(p, 99) * 1e-42, torch.set_flush_denormal(False)),
    "_ExcludeDispatchKeyGuard of BackendSelect": lambda p: excluded(p),
    "autograd multithreading off": within(lambda p: torch.autograd.set_multithreading_enabled(False)),
    "anomaly mode": within(lambda p: torch.autograd.detect_anomaly()),
    "under torch.profiler": within(lambda p: torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])),
}


@contextlib.contextmanager
def tunable(place):
    if not hasattr(torch._C, "_cuda_tunableop_enable"):
        raise Unavailable("no tunable operators")
    torch.cuda.tunable.enable(True)
    try:
        yield
    finally:
        torch.cuda.tunable.enable(False)


def fast_path(place):
    torch.backends.mha.set_fastpath_enabled(True)
    try:
        torch.manual_seed(1)
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).to(place).eval()
        with torch.no_grad():
            return layer(normal(place, 2, 5, 16))
    finally:
        torch.backends.mha.set_fastpath_enabled(False)


def autocast(place, kind):
    need_real(place)
    return torch.autocast("cuda" if on_device(place) else "cpu", kind)


def raw_autocast(place):
    kind = "cpu" if place == "cpu" else "cuda"
    torch.set_autocast_enabled(kind, True)
    torch.set_autocast_dtype(kind, torch.bfloat16)
    torch.autocast_increment_nesting()
    try:
        return products(place)
    finally:
        torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()
        torch.set_autocast_enabled(kind, False)


def custom_forward(place):
    class Half(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
        def forward(_context, x):
            return x @ x

    return Half.apply(normal(place, 9, 9))


def default_device(place):
    before = torch.get_default_device()
    torch.set_default_device(place)
    try:
        return torch.linspace(0, 1, 9).exp(), torch.ones(3).sum(), torch.randn(5)
    finally:
        torch.set_default_device(None if before == torch.device("cpu") else before)


def excluded(place):
    x = normal(place, 9)
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.BackendSelect)):
        return torch.special.bessel_j0(x)


# ---- kernels of other libraries in front of ours


def stolen(name, key, under, call):
    """A kernel that gives zeros, registered with the switch on, or before it."""
    kernel = lambda *arguments, **_keywords: torch.zeros_like(arguments[0])
    if under:

        def run(place):
            with kernel_from_python(name, key, kernel):
                return call(place)

        return Way(f"torch.library, under the switch: {name}, {key}", run, stock=False)

    def before(place):
        stack = contextlib.ExitStack()
        if on_device(place):
            stack.enter_context(kernel_from_python(name, key, kernel))
        return stack

    return Way(
        f"torch.library, before the switch: {name}, {key}",
        lambda place, _stack: call(place),
        before=before,
        after=lambda stack: stack.close(),
        stock=False,
    )


def named_key(place):
    key = torch._C.DispatchKey.CUDA if place != "cpu" else torch._C.DispatchKey.CPU
    return aten.mm.default._op_dk(key, normal(place, 9, 9), normal(place, 9, 9))


def python_kernel(place):
    key = torch._C.DispatchKey.CUDA
    aten.mm.default.py_kernels[key] = lambda a, _b: a * 0
    try:
        return aten.mm.default(normal(place, 9, 9), normal(place, 9, 9))
    finally:
        aten.mm.default.py_kernels.pop(key, None)
        aten.mm.default._dispatch_cache.clear()


LIBRARIES = [
    stolen(name, key, under, call)
    for name, call in {
        "mm": lambda p: normal(p, 9, 9) @ normal(p, 9, 9),
        "neg": lambda p: -normal(p, 9),
        "softmax.int": lambda p: normal(p, 9).softmax(0),
        "add.Tensor": lambda p: normal(p, 9) + normal(p, 9),
    }.items()
    for key in ("CUDA", "AutogradCUDA", "CompositeExplicitAutograd", "BackendSelect")
    for under in (True, False)
    if not (key == "CompositeExplicitAutograd" and name != "mm")
]
LIBRARIES += [
    Way("an operator called for the key CUDA by name", named_key, outside="an operator called for a given key"),
    Way("py_kernels written into", python_kernel),
]
EXCLUDED = "_ExcludeDispatchKeyGuard of BackendSelect"
WAYS = [Way(f"called directly: {name}", call) for name, call in DIRECT.items()]
WAYS += [Way(f"types and layouts: {name}", call) for name, call in TYPES.items()]
WAYS += [
    Way(f"setting: {name}", call, outside="dispatch keys excluded by hand" if name == EXCLUDED else "")
    for name, call in SETTINGS.items()
]
WAYS += [
    Way(f"setting, with gradients: {name}", lambda p, name=name: _training_within(p, name))
    for name in ("allow_tf32", "cudnn.benchmark", "cudnn.enabled set under the switch", "deterministic algorithms")
]
WAYS += LIBRARIES


def _training_within(place, name):
    make = {
        "allow_tf32": lambda: flags((cuda.matmul, "allow_tf32", True), (cudnn, "allow_tf32", True)),
        "cudnn.benchmark": lambda: flags((cudnn, "benchmark", True)),
        "deterministic algorithms": deterministic,
    }.get(name, lambda: flags((cudnn, "enabled", True)))
    with make():
        return (
            gradients(lambda x, w: functional.conv2d(x, w, padding=1), *conv(place)),
            gradients(lambda x: functional.batch_norm(x, None, None, training=True), wide(place, 4, 3, 5, 5)),
            gradients(functional.scaled_dot_product_attention, *heads(place)),
        )
