"""What a model of the list is: how it is made, what it is given, and what is minimised.

A model is made small by its configuration, with random weights. Its inputs come from NumPy's generator, so that they are
the same with the switch on and off. Nothing here imports the libraries: an entry's function does.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy
import torch


@dataclasses.dataclass
class Case:
    """A model with the arguments of one call. A dict is passed as keywords, a tuple as positions."""

    model: torch.nn.Module
    inputs: Any
    loss: Callable[[Any], torch.Tensor] | None = None  # of what the model returns; None: loss_of


@dataclasses.dataclass(frozen=True)
class Entry:
    library: str
    name: str
    make: Callable[[], Case]
    full_size: bool = False  # as it is trained, not made small

    @property
    def key(self):
        return f"{self.library}/{self.name}"


_entries: dict[str, Entry] = {}


def add(library, name, make, full_size=False):
    entry = Entry(library, name, make, full_size)
    if entry.key in _entries:
        raise ValueError(f"{entry.key} is in the list twice")
    _entries[entry.key] = entry


def all_entries(full_size=False):
    """{library/name: Entry}, in the order of the lists: those made small, or those of full size."""
    from model_runs import lists

    lists.load()
    return {key: entry for key, entry in _entries.items() if entry.full_size == full_size}


# ---- inputs


def uniform(*shape, low=-1.0, high=1.0):
    draw = numpy.random.RandomState(len(shape) + sum(shape))
    return torch.from_numpy(draw.uniform(low, high, shape).astype(numpy.float32))


def integers(high, *shape, low=0):
    draw = numpy.random.RandomState(len(shape) + sum(shape) + high)
    return torch.from_numpy(draw.randint(low, high, shape))


def image(size=32, batch=2, channels=3):
    return (uniform(batch, channels, size, size),)


# ---- what is minimised


def tensors_in(output):
    """The floating-point tensors within a result that have a gradient, in order."""
    if isinstance(output, torch.Tensor):
        return [output] if output.requires_grad and output.is_floating_point() else []
    if isinstance(output, dict):
        return [tensor for value in output.values() for tensor in tensors_in(value)]
    if isinstance(output, (list, tuple)):
        return [tensor for value in output for tensor in tensors_in(value)]
    if dataclasses.is_dataclass(output):
        return tensors_in(vars(output))
    return []


def loss_of(output):
    """The library's own loss where the result holds one; the cross-entropy of class scores; else a weighted mean of all."""
    own = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if isinstance(own, torch.Tensor) and own.requires_grad:
        return own if own.dim() == 0 else own.mean()
    if isinstance(output, torch.Tensor) and output.dim() == 2 and output.shape[1] > 1:
        labels = torch.arange(output.shape[0]) % output.shape[1]
        return torch.nn.functional.cross_entropy(output, labels)
    found = tensors_in(output)
    if not found:
        raise ValueError("the model's result holds no tensor with a gradient")
    return sum(weighted_mean(tensor) for tensor in found)


def weighted_mean(tensor):
    weights = uniform(*tensor.shape).to(tensor.dtype) if tensor.dim() else torch.ones((), dtype=tensor.dtype)
    return (tensor * weights).mean()
