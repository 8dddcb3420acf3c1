"""What isobit.record makes of what it observes: fingerprints of whatever tensors came, and which call is the outermost."""

import threading
from collections.abc import Iterable, Mapping, Sequence

import torch

from isobit._base import _library

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


def named_weights(tracked: Mapping[str, torch.nn.Module], called: Sequence[torch.nn.Module]) -> list[tuple[str, torch.Tensor]]:
    """Of the one model by its own names; of several with their names, or numbers, before them."""
    models = list(tracked.values()) or list(called)
    if len(models) == 1 and not any(tracked):
        return list(models[0].state_dict().items())
    names = list(tracked) or [str(number) for number in range(len(models))]
    return [(f"{part}.{name}", tensor) for part, model in zip(names, models, strict=True)
            for name, tensor in model.state_dict().items()]


def named_gradients(tracked: Mapping[str, torch.nn.Module], called: Sequence[torch.nn.Module],
                    optimizer: torch.optim.Optimizer) -> list[tuple[str, torch.Tensor]]:
    """Of the parameters that the optimizer updates, by the names of named_weights; those without a gradient are left out."""
    updated = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    models = list(tracked.values()) or list(called)
    alone = len(models) == 1 and not any(tracked)
    parts = [""] if alone else [f"{name}." for name in tracked or map(str, range(len(models)))]
    return [(f"{part}{name}", parameter.grad) for part, model in zip(parts, models, strict=True)
            for name, parameter in model.named_parameters() if id(parameter) in updated and parameter.grad is not None]


def optimizer_state(optimizers: Sequence[torch.optim.Optimizer]) -> list[tuple[str, torch.Tensor]]:
    return [(f"{number}.{parameter}.{name}", torch.as_tensor(value)) for number, optimizer in enumerate(optimizers)
            for parameter, state in optimizer.state_dict()["state"].items()
            for name, value in state.items() if isinstance(value, (torch.Tensor, int, float))]
