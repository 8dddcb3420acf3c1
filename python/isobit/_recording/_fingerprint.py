"""Fingerprints of tensors and lists of them (docs/contract.md, section 9)."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from isobit._base import _check_mode, _library


def fingerprint(value: torch.Tensor | Mapping[str, torch.Tensor | torch.nn.Module] | torch.nn.Module
                | Sequence[torch.Tensor]) -> str:
    """The fingerprint of a tensor, a state dict, a module, or a list of tensors: "isobit-0.1:3f8c...".

    Of logical values: strides and the device do not matter, and NaN is NaN. A state dict counts as the list of its
    named tensors, whatever their order, a module as its state dict: `isobit run` prints the same for the same
    weights, and a record has it. Of several modules by name ({"generator": g, "critic": c}), each tensor's name begins with
    its module's ("generator.0.weight"), as in a record under run.track(generator=g, critic=c). The tensors of a list are
    named "0", "1", ... Within enable(products="exact3") the name is "isobit-0.1-exact3". Tensors of float32, float64,
    float16, bfloat16, int64, uint8 and bool; TypeError for anything else. Works with the switch on or off, in any thread; nothing
    may write to the tensors meanwhile.
    """
    if isinstance(value, torch.Tensor):
        digits = _library.fingerprint(_plain(value))
    else:
        names, tensors = _list_of(value)
        digits = _library.fingerprint_list(names, tensors)
    if _check_mode.on:
        return _check_mode.NO_FINGERPRINT
    return f"{_library.contract_in_force()}:{digits}"


fingerprint.__module__ = "isobit._fingerprint"  # as _old_names.py has it


def _list_of(value: object) -> tuple[list[str], list[torch.Tensor]]:
    if isinstance(value, torch.nn.Module):
        value = value.state_dict()
    if isinstance(value, Mapping):
        pairs = [pair for name, part in value.items() for pair in _named(name, part)]
    elif isinstance(value, (list, tuple)):
        pairs = [(str(index), tensor) for index, tensor in enumerate(value)]
    else:
        raise TypeError(f"isobit.fingerprint takes a tensor, a state dict, a module or a list, got {type(value).__name__}")
    for name, tensor in pairs:
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise TypeError(f"isobit.fingerprint takes tensors by name, as a model's state dict has them: {name!r} is "
                            f"{type(tensor).__name__}")
    return [name for name, _ in pairs], [_plain(tensor) for _, tensor in pairs]


def _named(name: Any, part: Any) -> list[tuple[Any, Any]]:
    if isinstance(part, torch.nn.Module):
        return [(f"{name}.{inner}", tensor) for inner, tensor in part.state_dict().items()]
    return [(name, part)]


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout != torch.strided:
        raise TypeError(f"isobit.fingerprint takes dense tensors, got {tensor.layout}")
    if not has_values(tensor):
        raise TypeError(f"isobit.fingerprint takes tensors that have values; of a {type(tensor).__name__} on {tensor.device} "
                        "there are none in memory")
    return tensor.detach().cpu()


def has_values(tensor: torch.Tensor) -> bool:
    """In memory of its own; not so on "meta", of wrappers, of zeros that are only known to be so."""
    if tensor.is_meta or tensor._is_zerotensor():
        return False
    try:
        return tensor.numel() == 0 or tensor.untyped_storage().data_ptr() != 0
    except (RuntimeError, NotImplementedError):
        return False
