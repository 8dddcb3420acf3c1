"""Where PyTorch's Python code asks for the device or the mode and then computes in another way: it takes the certified one.

nn.MultiheadAttention and nn.TransformerEncoder have fused forms without gradients, which are not certified.
optim.swa_utils.AveragedModel averages by another formula for CUDA tensors than for the CPU's.
"""

from typing import Any

import torch
from torch.optim import swa_utils as _swa_utils

swa_utils: Any = _swa_utils  # what is replaced is not among its public names
_before: dict[str, Any] = {}


def _no_devices() -> list[str]:
    return []


def install() -> None:
    _before["fastpath"] = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    _before["devices"] = swa_utils._get_foreach_kernels_supported_devices
    swa_utils._get_foreach_kernels_supported_devices = _no_devices


def remove() -> None:
    swa_utils._get_foreach_kernels_supported_devices = _before.pop("devices")
    torch.backends.mha.set_fastpath_enabled(_before.pop("fastpath"))
