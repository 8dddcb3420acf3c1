"""Where PyTorch's Python code asks for the device or the mode and then computes in another way: it takes the certified one.

nn.MultiheadAttention and nn.TransformerEncoder have fused forms without gradients, which are not certified.
optim.swa_utils.AveragedModel averages by another formula for CUDA tensors than for the CPU's. Under
torch.use_deterministic_algorithms(True), nn.functional takes interpolation, padding and pooling of CUDA tensors apart into
other operators, which round otherwise: what is certified repeats by itself.
"""

import importlib
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as _functional
from torch.optim import swa_utils as _swa_utils

swa_utils: Any = _swa_utils  # what is replaced is not among its public names
_before: dict[str, Any] = {}


functional: Any = _functional


def _no_devices() -> list[str]:
    return []


class _WholeOperators:
    """What nn.functional asks of torch._decomp.decompositions, by the operators that it would call otherwise."""

    @staticmethod
    def _upsample_linear_vec(x: torch.Tensor, size: Any, align_corners: bool, scales: Any) -> torch.Tensor:
        operator: Any = torch._C._nn.upsample_bilinear2d if x.dim() == 4 else torch._C._nn.upsample_trilinear3d
        result: torch.Tensor = operator(x, size, align_corners, scales)
        return result

    @staticmethod
    def _replication_pad(x: torch.Tensor, padding: Sequence[int]) -> torch.Tensor:
        return torch._C._nn.pad(x, padding, "replicate", None)

    @staticmethod
    def max_pool3d_with_indices(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        result: tuple[torch.Tensor, torch.Tensor] = torch._C._nn.max_pool3d_with_indices(*arguments)
        return result


class _Importlib:
    @staticmethod
    def import_module(name: str, package: str | None = None) -> Any:
        return _WholeOperators if name == "torch._decomp.decompositions" else importlib.import_module(name, package)


def install() -> None:
    _before["fastpath"] = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    _before["devices"] = swa_utils._get_foreach_kernels_supported_devices
    swa_utils._get_foreach_kernels_supported_devices = _no_devices
    _before["importlib"] = functional.importlib
    functional.importlib = _Importlib


def remove() -> None:
    functional.importlib = _before.pop("importlib")
    swa_utils._get_foreach_kernels_supported_devices = _before.pop("devices")
    torch.backends.mha.set_fastpath_enabled(_before.pop("fastpath"))
