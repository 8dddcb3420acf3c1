"""The form of a Python program's checkpoint: what run.save writes beside the program's own state (docs/formats/run.md)."""

import sys
from collections import OrderedDict
from typing import Any

import torch

from isobit._loops._steps import StepCount


def shape_of(model: torch.nn.Module) -> list[str]:
    """Names and shapes of what its state_dict has."""
    return [f"{name} {list(tensor.shape)}" for name, tensor in model.state_dict().items()]


# What run.save writes beside the program's own state.
PARTS: dict[str, tuple[type, ...]] = {
    "generators": (dict,), "epoch": (int,), "batch": (list, tuple), "loss": (int,), "progress": (dict,),
    "weights": (str, type(None)), "models": (list, tuple), "optimizers": (int,)}


def canonical(value: Any) -> Any:
    """The same in containers and texts of its own, so that pickle writes the same bytes whatever objects the program shares.

    Only plain containers are entered; tensors stay the objects that they are, and what they share stays shared.
    """
    if type(value) is str:
        return sys.intern(value)
    if type(value) is StepCount:
        return int(value)
    if type(value) in (list, tuple):
        return type(value)(map(canonical, value))
    if type(value) in (dict, OrderedDict):
        copy = type(value)((canonical(key), canonical(part)) for key, part in value.items())
        if type(value) is OrderedDict and value.__dict__:  # a state_dict's _metadata
            copy.__dict__.update(canonical(value.__dict__))
        return copy
    return value
