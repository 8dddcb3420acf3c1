"""One sequence of operations for each optimizer (contract, section 8).

For some optimizers PyTorch's foreach form does other operations than its single-tensor form, or in another order. While
the switch is on those take the single-tensor form, whatever `foreach` says; Adam and AdamW where they are capturable.

Adam, AdamW and SGD take the whole step in one pass where that gives the sequence's bits (src/aten/optimizer_steps.h); the
sequence itself where not, and where somebody watches its operators.
"""

import importlib
import itertools
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from isobit._base import _library

NAMES = ("adafactor", "adagrad", "asgd", "nadam", "radam")
IF_CAPTURABLE = ("adam",)
_Step = Callable[..., None]
_stock: dict[tuple[str, str], _Step] = {}  # (optimizer, name of a form)


def _module(name: str) -> types.ModuleType:
    return importlib.import_module("torch.optim." + ("_adafactor" if name == "adafactor" else name))


def _single_if_capturable(multi: _Step, single: _Step) -> _Step:
    def step(*lists: Any, capturable: bool, **options: Any) -> None:
        (single if capturable else multi)(*lists, capturable=capturable, **options)

    return step


# ---- whole steps in one pass

_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})


def _are_plain(*lists: Sequence[torch.Tensor]) -> bool:
    """No classes of tensors that see what is called on them, nor modes that do."""
    return (_PLAIN.issuperset(map(type, itertools.chain.from_iterable(lists)))
            and not torch._C._len_torch_function_stack() and not torch._C._len_torch_dispatch_stack())


# What follows runs at every step of every optimizer: C's loops instead of generators and comprehensions.
def _numbers(options: dict[str, Any], names: Sequence[str]) -> list[float] | None:
    """None where one is no number of Python's, or too large an integer for a float."""
    values: list[Any] = list(map(options.get, names))
    kinds = set(map(type, values))
    if not kinds <= {float, int}:
        return None
    return values if int not in kinds or max(map(abs, values)) < 2**53 else None  # or a float as large: the sequence has it


def _none_of(options: dict[str, Any], names: Sequence[str], more: Sequence[Any]) -> bool:
    return (not any(map(options.get, names)) and options.get("grad_scale") is None and options.get("found_inf") is None
            and not (more and any(value is not None for value in more)))


def _of_one_length(lists: Sequence[Sequence[Any]]) -> bool:
    return len(set(map(len, lists))) == 1


def _adam(sequence: _Step, together: bool) -> _Step:
    numbers_of = ("lr", "beta1", "beta2", "eps", "weight_decay")
    without = ("amsgrad", "maximize", "capturable", "differentiable", "has_complex")

    def step(params: Any, grads: Any, exp_avgs: Any, exp_avg_sqs: Any, max_exp_avg_sqs: Any, state_steps: Any,
             *more: Any, **options: Any) -> None:
        lists, numbers = (params, grads, exp_avgs, exp_avg_sqs, state_steps), _numbers(options, numbers_of)
        if not (numbers and _of_one_length(lists) and _none_of(options, without, more)
                and _are_plain(*lists)
                and _library.adam_in_one_pass(lists, numbers, bool(options.get("decoupled_weight_decay")), together)):
            sequence(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *more, **options)

    return step


_FEW = 6  # parameters for which an addition each is called sooner than one pass is prepared


def _sgd(sequence: _Step, together: bool) -> _Step:
    numbers_of, without = ("lr", "momentum", "dampening", "weight_decay"), ("maximize", "has_sparse_grad")

    def step(params: Any, grads: Any, momentum_buffer_list: Any, *more: Any, **options: Any) -> None:
        few = len(params) <= _FEW and not options.get("momentum") and not options.get("weight_decay")
        numbers = None if few else _numbers(options, numbers_of)
        lists = (params, grads, momentum_buffer_list) if options.get("momentum") else (params, grads)
        # Before a first step buffers are None, which is no tensor.
        if not (numbers and _of_one_length(lists) and _none_of(options, without, more)
                and _are_plain(*lists)
                and _library.sgd_in_one_pass(lists, numbers, bool(options.get("nesterov")), together)):
            sequence(params, grads, momentum_buffer_list, *more, **options)

    return step


_IN_ONE_PASS = {"adam": _adam, "sgd": _sgd}


def _replace(name: str, form: str, function: _Step) -> None:
    module = _module(name)
    _stock.setdefault((name, form), getattr(module, form))
    setattr(module, form, function)


def install() -> None:
    for name in (*NAMES, *IF_CAPTURABLE):
        module = _module(name)
        multi, single = getattr(module, f"_multi_tensor_{name}"), getattr(module, f"_single_tensor_{name}")
        _replace(name, f"_multi_tensor_{name}", _single_if_capturable(multi, single) if name in IF_CAPTURABLE else single)
    for name, in_one_pass in _IN_ONE_PASS.items():
        for form in (f"_single_tensor_{name}", f"_multi_tensor_{name}"):
            _replace(name, form, in_one_pass(getattr(_module(name), form), form.startswith("_multi")))


def remove() -> None:
    for (name, form), function in _stock.items():
        setattr(_module(name), form, function)
    _stock.clear()
