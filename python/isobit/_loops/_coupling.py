"""Whether a loss is a sum over its samples, by the graph behind it: what couples a grain's samples is refused by name.

Where a grain has several samples, everything in the graph that has one element was reduced over them (or has nothing to do with
them). From the loss down to those reductions only sums, and what is linear, may stand; what lies behind them is the network's.
"""

from typing import Any

import torch

from isobit._base import _check_mode, _library
from isobit._base._errors import RefusedError

_SUMS = {"SumBackward", "NansumBackward", "DotBackward", "StackBackward", "CatBackward"}
_PRODUCTS = {"MulBackward", "DivBackward"}
_LINEAR = {"AddBackward", "SubBackward", "RsubBackward", "NegBackward", "AliasBackward", "CloneBackward", "ToCopyBackward",
           "ViewBackward", "ReshapeAliasBackward", "UnsafeViewBackward", "SqueezeBackward", "UnsqueezeBackward", "SelectBackward",
           "UnbindBackward", "SliceBackward", "ExpandBackward", "PermuteBackward", "AsStridedBackward", "DetachBackward",
           "IndexBackward", "CopyBackwards", "torch::autograd::CopyBackwards", "torch::autograd::AccumulateGrad"}
_SUM = 2  # a loss's saved reduction: none, mean, sum


def require_sum(loss: torch.Tensor, samples: int, alone: bool) -> None:
    """RefusedError where the loss of several samples is not a sum over them. `alone`: the grain is its whole step."""
    if samples < 2 or loss.grad_fn is None:
        return
    open_nodes, met = [loss.grad_fn], {loss.grad_fn}
    while open_nodes:
        node = open_nodes.pop()
        if not _has_one_element(node):
            continue
        problem = _problem(node, samples)
        if problem:
            _refuse(node.name(), problem, alone)
        for below, _ in node.next_functions:
            if below is not None and below not in met:
                met.add(below)
                open_nodes.append(below)


def _has_one_element(node: Any) -> bool:
    shapes = [tuple(metadata.shape) for metadata in node._input_metadata]
    return all(extent == 1 for shape in shapes for extent in shape)


def _problem(node: Any, samples: int) -> str:
    kind = node.name().rstrip("0123456789")
    reduction = getattr(node, "_saved_reduction", None)
    if reduction is not None:
        return "" if reduction == _SUM else "with reduction='mean'"
    if kind == "MeanBackward":
        return "a mean"
    if kind in _PRODUCTS:
        if sum(below is not None for below, _ in node.next_functions) > 1:
            return "not linear in the samples' losses"
        other = getattr(node, "_saved_other", None) if kind == "DivBackward" else None
        if isinstance(other, torch.Tensor) and other.numel() == 1 and float(other) == samples:
            return f"divides by the grain's {samples} samples"
        return "" if kind == "MulBackward" or node.next_functions[0][0] is not None else "not linear in the samples' losses"
    return "" if kind in _SUMS or kind in _LINEAR else "not known to be a sum over samples"


def _refuse(name: str, problem: str, alone: bool) -> None:
    remedy = ("give step.backward the sum over the grain's samples (reduction='sum', losses.sum()); a loss that needs the whole "
              "batch takes grain=batch and step.backward(loss, mean=True)")
    if alone:
        remedy = "give step.backward the sum over the samples (reduction='sum'), or this loss as step.backward(loss, mean=True)"
    _check_mode.refuse(RefusedError(f"isobit: backward of {name} couples the samples of a grain ({problem}), so that the step's "
                                    f"grains do not add up, under {_library.contract_in_force()}\n  do     {remedy}"))
