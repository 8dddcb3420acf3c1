"""What PyTorch's Python part does beside the dispatcher, and how the switch reaches it.

While the switch is on: names of modules and numbers of steps for refusals. From the first enable() on: the check of
graphs before each backward, and the refusal of torch.compile (both do nothing where nothing is wrong).
"""

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.variable import Variable
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from isobit import _library
from isobit._errors import RefusedError, carries_refusal

_handles: list[Any] = []
_generation = 0  # counts install(): what a thread noted before is stale


def install() -> None:
    global _generation, _steps
    _generation += 1
    _steps = 0
    _check_graphs()
    _refuse_compilation()
    _refuse_autocast()
    _refuse_scaling()
    _handles.append(torch_module.register_module_forward_pre_hook(_enter))
    _handles.append(torch_module.register_module_forward_hook(_leave, always_call=True))
    _handles.append(torch_optimizer.register_optimizer_step_post_hook(_after_step))


def remove() -> None:
    while _handles:
        _handles.pop().remove()
    _library.begin_step(-1)


# ---- names of modules


class _Location(threading.local):
    def __init__(self) -> None:
        self.generation = 0
        self.modules: list[torch.nn.Module] = []


_location = _Location()
# module -> {id of a module within: its name there}
_names: weakref.WeakKeyDictionary[torch.nn.Module, dict[int, str]] = weakref.WeakKeyDictionary()


def _name_within(parent: torch.nn.Module, module: torch.nn.Module) -> str:
    names = _names.get(parent)
    if names is None or id(module) not in names:
        names = {id(part): name for name, part in parent.named_modules()}
        _names[parent] = names
    return names.get(id(module)) or type(module).__name__


def _enter(module: torch.nn.Module, _arguments: object) -> None:
    open_modules = _location.modules
    if _location.generation != _generation:  # the switch was turned within a forward
        while open_modules:
            open_modules.pop()
            _library.leave_module()
        _location.generation = _generation
    name = _name_within(open_modules[-1], module) if open_modules else type(module).__name__
    _library.enter_module(name)
    open_modules.append(module)


def _leave(module: torch.nn.Module, _arguments: object, _result: object) -> None:
    open_modules = _location.modules
    if not any(entered is module for entered in open_modules):
        return
    while True:
        last = open_modules.pop()
        _library.leave_module()
        if last is module:
            return


# ---- numbers of steps: one per optimizer step since enable()

_steps = 0


def _after_step(_optimizer: object, _arguments: object, _keywords: object) -> None:
    global _steps
    _steps += 1
    _library.begin_step(_steps + 1)


# ---- graphs: recorded and run under the same setting of the switch

# Called with the roots of each backward, and whether it adds to .grad (isobit.record).
backward_watchers: list[Callable[[Sequence[torch.Tensor], bool], None]] = []


class _CheckingEngine:
    """Stands for torch's engine: looks at the graph, then leaves the work to it."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._run_backward = _with_refusals(engine.run_backward)

    def run_backward(self, roots: Sequence[torch.Tensor], *arguments: Any, **keywords: Any) -> Any:
        if not all(isinstance(root, torch.Tensor) for root in roots):
            raise RefusedError("isobit: a backward from a GradientEdge is not certified under "
                               f"{_library.contract_version}\n  do     give the tensor itself: its graph can be checked")
        _library.check_graph(roots)
        for watcher in backward_watchers:
            watcher(roots, bool(keywords.get("accumulate_grad")))
        return self._run_backward(roots, *arguments, **keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def _check_graphs() -> None:
    if not isinstance(Variable._execution_engine, _CheckingEngine):
        Variable._execution_engine = _CheckingEngine(Variable._execution_engine)  # type: ignore[assignment]


# ---- torch.compile: its code does not pass the dispatcher


def _refusing(function: Callable[..., Any], applies: Callable[..., bool] = lambda *_arguments, **_keywords: True,
              name: str = "torch.compile",
              remedy: str = "run the model uncompiled while isobit is on, or disable isobit") -> Callable[..., Any]:
    """The function, which raises while the switch is on, where it applies to the arguments."""

    @functools.wraps(function)
    def refuses(*arguments: Any, **keywords: Any) -> Any:
        if _library.is_on() and applies(*arguments, **keywords):
            raise RefusedError(f"isobit: {name} is not certified under {_library.contract_version}\n  do     {remedy}")
        return function(*arguments, **keywords)

    refuses._isobit = True  # type: ignore[attr-defined]
    return refuses


def _refuse_compilation() -> None:
    if not hasattr(torch.compile, "_isobit"):
        torch.compile = _refusing(torch.compile)
    # What was compiled before asks this function at each call which code to run; with None, the ordinary one.
    dynamo: Any = sys.modules.get("torch._dynamo.eval_frame")
    if dynamo is not None and not hasattr(dynamo._callback_from_stance, "_isobit"):
        dynamo._callback_from_stance = _refusing(dynamo._callback_from_stance, lambda callback: callback is not None)


# ---- autocast: what it makes of float32 has no formulas in the contract


def _refuse_autocast() -> None:
    if not hasattr(torch.autocast.__enter__, "_isobit"):
        torch.autocast.__enter__ = _refusing(  # type: ignore[method-assign]
            torch.autocast.__enter__, lambda context: context._enabled, "torch.autocast",
            "train in float32 (torch.autocast(..., enabled=False) passes): the contract has no 16-bit arithmetic yet")


def _refuse_scaling() -> None:
    if not hasattr(torch.amp.GradScaler.scale, "_isobit"):
        torch.amp.GradScaler.scale = _refusing(  # type: ignore[method-assign]
            torch.amp.GradScaler.scale, lambda scaler, _outputs: scaler.is_enabled(), "torch.amp.GradScaler",
            "leave it out (GradScaler(enabled=False) passes): it serves 16-bit gradients, and training is in float32 here")


# ---- TorchScript: its interpreter makes a RuntimeError of whatever an operator throws, with the text of it within


def _with_refusals(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; where its RuntimeError has the text of a refusal in it, that is a RefusedError."""

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except RuntimeError as error:
            if type(error) is not RuntimeError or not carries_refusal(str(error)):
                raise
            raise RefusedError(str(error)).with_traceback(error.__traceback__) from None

    call._isobit = True  # type: ignore[attr-defined]
    return call
