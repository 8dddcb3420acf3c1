"""One sequence of operations for each optimizer (contract, section 8).

For some optimizers PyTorch's foreach form does other operations than its single-tensor form, or in another order. While
the switch is on those take the single-tensor form, whatever `foreach` says; Adam and AdamW where they are capturable.

Adam, AdamW and SGD take the whole step in one pass where that gives the sequence's bits (src/aten/optimizer_steps.h); the
sequence itself where not, and where somebody watches its operators.
"""

import importlib
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from isobit import _check_mode, _library

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
    return (all(_PLAIN.issuperset(map(type, tensors)) for tensors in lists) and not _check_mode.on
            and not torch._C._len_torch_function_stack() and not torch._C._len_torch_dispatch_stack())


def _numbers(options: dict[str, Any], *names: str) -> list[float] | None:
    """None where one is no number of Python's, or too large an integer for a float."""
    values: list[Any] = [options.get(name) for name in names]
    good = all(type(value) is float or (type(value) is int and abs(value) < 2**53) for value in values)
    return values if good else None


def _none_of(options: dict[str, Any], *names: str) -> bool:
    return not any(options.get(name) for name in names) and options.get("grad_scale") is None and options.get("found_inf") is None


def _rows(*lists: Sequence[Any]) -> list[Any] | None:
    """What belongs to the first parameter, to the second, ...; None where a list is shorter than another."""
    alike = all(len(values) == len(lists[0]) for values in lists)
    return [value for row in zip(*lists, strict=True) for value in row] if alike else None


def _adam(sequence: _Step, together: bool) -> _Step:
    def step(params: Any, grads: Any, exp_avgs: Any, exp_avg_sqs: Any, max_exp_avg_sqs: Any, state_steps: Any,
             *more: Any, **options: Any) -> None:
        lists = (params, grads, exp_avgs, exp_avg_sqs, state_steps)
        rows, numbers = _rows(*lists), _numbers(options, "lr", "beta1", "beta2", "eps", "weight_decay")
        if not (rows is not None and numbers and not any(value is not None for value in more)
                and _none_of(options, "amsgrad", "maximize", "capturable", "differentiable", "has_complex")
                and _are_plain(*lists)
                and _library.adam_in_one_pass(rows, numbers, bool(options.get("decoupled_weight_decay")), together)):
            sequence(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *more, **options)

    return step


def _sgd(sequence: _Step, together: bool) -> _Step:
    def step(params: Any, grads: Any, momentum_buffer_list: Any, *more: Any, **options: Any) -> None:
        numbers = _numbers(options, "lr", "momentum", "dampening", "weight_decay")
        buffers: list[torch.Tensor] = momentum_buffer_list if options.get("momentum") else []
        rows = _rows(params, grads, buffers or [None] * len(params))
        # Before a first step buffers are None, which is no tensor.
        if not (rows is not None and numbers and not any(value is not None for value in more)
                and _none_of(options, "maximize", "has_sparse_grad") and _are_plain(params, grads, buffers)
                and _library.sgd_in_one_pass(rows, numbers, bool(options.get("nesterov")), together)):
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
