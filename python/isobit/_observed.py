"""What isobit.record makes of what it observes: fingerprints of whatever tensors came, and which call is the outermost."""

import threading
from collections.abc import Iterable

import torch

from isobit import _library

FINGERPRINTED = (torch.float32, torch.int64, torch.uint8, torch.bool)


class Depth:
    """Whether this is the outermost module's call on its thread."""

    def __init__(self, local: threading.local) -> None:
        self._local = local

    def __enter__(self) -> bool:
        self._local.value = getattr(self._local, "value", 0) + 1
        return bool(self._local.value == 1)

    def __exit__(self, *_: object) -> None:
        self._local.value -= 1


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        return torch.zeros(0)
    tensor = tensor.cpu()
    return tensor if tensor.dtype in FINGERPRINTED else tensor.contiguous().reshape(-1).view(torch.uint8)


def fingerprint_of(named: Iterable[tuple[str, torch.Tensor]]) -> str:
    pairs = [(name, _plain(tensor)) for name, tensor in named]
    return _library.fingerprint_list([name for name, _ in pairs], [tensor for _, tensor in pairs])


def fingerprint_of_text(text: str) -> str:
    return fingerprint_of([("", torch.tensor(list(text.encode()), dtype=torch.uint8))])
