"""The samples of PyTorch's operator database, float32 (or another float) on the CPU, and what is done to them.

A sample is copied before each call: an operator may write to its arguments. Nothing here computes under the switch.
"""

import dataclasses
import warnings

import torch
from torch.utils import _pytree as pytree

WIDER = {torch.float32: torch.float64, torch.bfloat16: torch.float64, torch.float16: torch.float64,
         torch.complex64: torch.complex128}


@dataclasses.dataclass
class Sample:
    """One call: function(input, *args, **kwargs). `arguments` is (input, args, kwargs)."""

    operator: object
    number: int
    arguments: tuple
    strided: tuple  # the same with other strides, or None
    process: object  # what the database does to a result before it is differentiated


LARGE = {"XS": 11, "S": 23, "M": 41, "L": 130}  # the database's own: 3, 5, 10, 20
# Their samples then do not fit together, and stock reads past the end.
NOT_LARGE = {"_segment_reduce[lengths]", "_segment_reduce[offsets]"}


def operators(large=False, dtype=torch.float32):
    """name -> entry of the database that takes the type, in the database's order; variants of one name are told apart.

    large: tensors with sides some five times longer, where a sample's sizes are not written out.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal import common_methods_invocations as database
    # It puts the generator's state back after a random operator; whether one draws has to be seen here.
    database.wrapper_set_seed = lambda operator, *args, **kwargs: operator(*args, **kwargs)
    if large:
        for name, length in LARGE.items():
            setattr(database, name, length)
    entries = {}
    for entry in database.op_db:
        if entry.supports_dtype(dtype, "cpu"):
            name = entry.name + (f"[{entry.variant_test_name}]" if entry.variant_test_name else "")
            assert name not in entries, name
            if not large or name not in NOT_LARGE:
                entries[name] = entry
    return entries


def samples_of(entry, most=None, dtype=torch.float32):
    """The entry's samples, `most` of them evenly spread where there are more. The same list each time."""
    torch.manual_seed(0)
    found = list(entry.sample_inputs("cpu", dtype, requires_grad=entry.supports_autograd))
    chosen = range(len(found))
    if most is not None and len(found) > most:
        chosen = sorted({i * (len(found) - 1) // max(most - 1, 1) for i in range(most)})
    return [_sample(entry, number, found[number]) for number in chosen]


def _sample(entry, number, found):
    try:
        other = found.noncontiguous()
        strided = copy((other.input, other.args, other.kwargs))
    except Exception:  # sparse tensors and others that have no such form
        strided = None
    return Sample(entry, number, copy((found.input, found.args, found.kwargs)), strided, found.output_process_fn_grad)


def map_tensors(function, arguments):
    """Each tensor replaced by function(tensor); one that stands in two places stays one."""
    seen = {}

    def once(value):
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in seen:
            seen[id(value)] = (value, function(value))
        return seen[id(value)][1]

    return pytree.tree_map(once, arguments)


def tensors_of(arguments):
    unique = {id(value): value for value in pytree.tree_leaves(arguments) if isinstance(value, torch.Tensor)}
    return list(unique.values())


def _as_leaf(tensor, like):
    return tensor.requires_grad_(like.requires_grad) if like.requires_grad else tensor


def copy(arguments):
    def copied(tensor):
        if tensor.layout == torch.strided and not tensor.is_contiguous() and 0 not in tensor.stride():
            result = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            with torch.no_grad():
                result.copy_(tensor)
        else:
            result = tensor.detach().clone()
        return _as_leaf(result, tensor)

    return map_tensors(copied, arguments)


def in_float64(arguments):
    """The same numbers in float64; a dtype among the arguments becomes the wider one too."""
    def wider(tensor):
        return _as_leaf(tensor.detach().to(WIDER.get(tensor.dtype, tensor.dtype), copy=True), tensor)

    widened = map_tensors(wider, arguments)
    return pytree.tree_map(lambda value: WIDER.get(value, value) if isinstance(value, torch.dtype) else value, widened)


def splits(arguments):
    """Ways to cut a batch in two that may give the two parts of the result: [(first, second), ...].

    Cut is the first dimension: of the input alone, or of all tensors that are as long there. Whether the operator
    works sample by sample is for the caller to see.
    """
    lead = arguments[0]
    if isinstance(lead, (list, tuple)):
        lead = lead[0] if lead and isinstance(lead[0], torch.Tensor) else None
    if not isinstance(lead, torch.Tensor) or lead.layout != torch.strided or lead.dim() < 1 or lead.shape[0] < 2:
        return []
    length, place = lead.shape[0], max(1, lead.shape[0] // 3)

    def cut(chosen, part):
        def piece(tensor):
            if not chosen(tensor):
                return copy(tensor)
            return _as_leaf(tensor.detach()[part].clone(), tensor)

        return map_tensors(piece, arguments)

    def is_lead(tensor):
        return any(tensor is own for own in tensors_of(arguments[0]))

    def is_as_long(tensor):
        return tensor.layout == torch.strided and tensor.dim() > 0 and tensor.shape[0] == length

    parts = slice(0, place), slice(place, length)
    ways = [tuple(cut(lambda t: is_lead(t) and is_as_long(t), part) for part in parts)]
    if any(is_as_long(tensor) and not is_lead(tensor) for tensor in tensors_of(arguments)):
        ways.append(tuple(cut(is_as_long, part) for part in parts))
    return [(place, *way) for way in ways]
