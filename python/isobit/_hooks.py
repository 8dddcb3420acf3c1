"""What PyTorch's Python part does beside the dispatcher, and how the switch reaches it.

While the switch is on: names of modules and numbers of steps for refusals. From the first enable() on: the check of
graphs before each backward, and the refusals of _bypasses.py (both do nothing where nothing is wrong).
"""

import collections
import functools
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.variable import Variable
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from isobit import _bypasses, _check_mode, _library
from isobit._errors import RecordError, RefusedError, carries_refusal

_handles: list[Any] = []
_module_handles: list[Any] = []
_module_watchers = 0  # those who want to know where in a model the program is: the switch, a trace
_generation = 0  # counts install() and where watching begins: what a thread noted before is stale


def install() -> None:
    global _generation, _steps
    _generation += 1
    _steps = 0
    _check_graphs()
    _bypasses.install()
    watch_modules()
    _handles.append(torch_optimizer.register_optimizer_step_post_hook(_after_step))


def remove() -> None:
    if _handles:
        unwatch_modules()
    while _handles:
        _handles.pop().remove()
    _library.begin_step(-1)


# ---- names of modules


def watch_modules() -> None:
    """From here the library knows the modules that each thread is within, until as many unwatch_modules()."""
    global _generation, _module_watchers
    _module_watchers += 1
    if _module_watchers == 1:
        _generation += 1
        _module_handles.append(torch_module.register_module_forward_pre_hook(_enter))
        _module_handles.append(torch_module.register_module_forward_hook(_leave, always_call=True))


def unwatch_modules() -> None:
    global _module_watchers
    _module_watchers -= 1
    while _module_watchers == 0 and _module_handles:
        _module_handles.pop().remove()



class _Location(threading.local):
    def __init__(self) -> None:
        self.generation = 0
        self.modules: list[torch.nn.Module] = []


_location = _Location()
_CALL = torch.nn.Module._call_impl.__code__
# module -> {id of a module within: its name there}
_names: weakref.WeakKeyDictionary[torch.nn.Module, dict[int, str]] = weakref.WeakKeyDictionary()


def _name_within(parent: torch.nn.Module, module: torch.nn.Module) -> str:
    """"" for a module that is none of its parts."""
    names = _names.get(parent)
    if names is None or id(module) not in names:
        names = {id(part): name for name, part in parent.named_modules()}
        _names[parent] = names
    return names.get(id(module), "")


def _enter(module: torch.nn.Module, _arguments: object) -> None:
    if torch.compiler.is_compiling():  # PyTorch calls no _leave where such a forward fails
        return
    open_modules = _location.modules
    if _location.generation != _generation:  # the switch was turned within a forward
        while open_modules:
            open_modules.pop()
            _library.leave_module()
        _location.generation = _generation
    name = _name_within(open_modules[-1], module) if open_modules else ""
    if not name and open_modules:
        _forget_ended()
        name = _name_within(open_modules[-1], module) if open_modules else ""
    _library.enter_module(name or type(module).__name__)
    open_modules.append(module)


def _forget_ended() -> None:
    """Leaves modules whose forward was ended by what is no Exception (Ctrl-C in a notebook): _leave was not called."""
    running: list[int] = []  # innermost first
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _CALL:
            running.append(id(frame.f_locals["self"]))
        frame = frame.f_back
    around = collections.Counter(running[1:])  # the first is being entered
    open_modules = _location.modules
    still_open = 0
    while still_open < len(open_modules) and around[id(open_modules[still_open])] > 0:
        around[id(open_modules[still_open])] -= 1
        still_open += 1
    while len(open_modules) > still_open:
        open_modules.pop()
        _library.leave_module()


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
    if "ISOBIT_LAUNCH" in os.environ and getattr(sys.modules.get("isobit._record"), "_current", None) is None:
        raise RecordError("isobit: an optimizer's step outside of isobit.record is not shared in a job of several workers: each "
                          "would do all of it\n"
                          "  do     write the loop as `for step in run.steps(samples, batch=..., grain=...)` within\n"
                          "         `with isobit.record(...) as run:` (docs/python.md, Grains), or start the script alone")
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
            _check_mode.refuse(RefusedError(
                "isobit: a backward from a GradientEdge is not certified under "
                f"{_library.contract_in_force()}\n  do     give the tensor itself: its graph can be checked"))
            return self._run_backward(roots, *arguments, **keywords)
        _library.check_graph(roots)
        for watcher in backward_watchers:
            watcher(roots, bool(keywords.get("accumulate_grad")))
        return self._run_backward(roots, *arguments, **keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def _check_graphs() -> None:
    if not isinstance(Variable._execution_engine, _CheckingEngine):
        Variable._execution_engine = _CheckingEngine(Variable._execution_engine)  # type: ignore[assignment]


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
