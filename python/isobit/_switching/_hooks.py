"""What PyTorch's Python part does beside the dispatcher, and how the switch reaches it.

While the switch is on: names of modules and numbers of steps for refusals. From the first enable() on: the check of
graphs before each backward (which does nothing where nothing is wrong).
"""

import functools
import os
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.variable import Variable
from torch.optim import optimizer as torch_optimizer

from isobit._base import _check_mode, _library
from isobit._base._errors import RecordError, RefusedError, carries_refusal
from isobit._switching import _shared_memory

_handles: list[Any] = []
_launched = False  # one of several processes of `isobit launch`
current_record: Any = None  # the isobit.record in whose block the program is
_module_watchers = 0  # those who want to know where in a model the program is: the switch, a trace


def install() -> None:
    global _steps, _launched
    _steps, _launched = 0, "ISOBIT_LAUNCH" in os.environ
    _check_graphs()
    watch_modules()
    _handles.append(torch_optimizer.register_optimizer_step_pre_hook(_shared_memory.before_step))
    _handles.append(torch_optimizer.register_optimizer_step_post_hook(_after_step))


def remove() -> None:
    if _handles:
        unwatch_modules()
    while _handles:
        _handles.pop().remove()
    _library.begin_step(-1)


# ---- names of modules


def watch_modules() -> None:
    """From here the library knows the modules that each thread is within, until as many unwatch_modules().

    Every call of a module passes here: torch's hooks for all modules would take several times as long as what is noted.
    """
    global _in_place, _inner_call, _module_watchers
    _module_watchers += 1
    dropped = torch.nn.Module._call_impl in (_inner_call, _torchs_call)  # by one who put back what was before ours
    if _module_watchers == 1 and (not _in_place or dropped):
        _inner_call = torch.nn.Module._call_impl  # torch's, or another's around it
        torch.nn.Module._call_impl = _call  # type: ignore[method-assign]
        _in_place = True


def unwatch_modules() -> None:
    global _in_place, _module_watchers
    _module_watchers -= 1
    if _module_watchers == 0 and torch.nn.Module._call_impl is _call:  # else another's is around ours, which does nothing then
        torch.nn.Module._call_impl = _inner_call  # type: ignore[method-assign]
        _in_place = False


_torchs_call = _inner_call = torch.nn.Module._call_impl
_in_place = False  # whether calls of modules come to _call


def _call(self: torch.nn.Module, *arguments: Any, **keywords: Any) -> Any:
    if torch.compiler.is_compiling() or not _module_watchers:
        return _inner_call(self, *arguments, **keywords)
    depth = _library.enter_module(id(self)) or _enter_new(self)
    try:
        return _inner_call(self, *arguments, **keywords)
    finally:
        _library.leave_module(depth)


# id of a module that was entered -> it, while it lives; and {id of a module within: its name there}
_modules: dict[int, weakref.ref[torch.nn.Module]] = {}
_names: dict[int, dict[int, str]] = {}


def _enter_new(module: torch.nn.Module) -> int:
    """Its first call from where the thread is. Where that is by now no call of a module (Ctrl-C in a notebook may come before a
    call can promise to leave), the thread goes back to the calls that run."""
    running: list[torch.nn.Module] = []  # innermost first
    frame: types.FrameType | None = sys._getframe(2)  # behind _call
    while frame is not None:
        if frame.f_code is _call.__code__:
            running.append(frame.f_locals["self"])
        frame = frame.f_back
    _library.leave_module(len(running) + 1)
    key = id(module)
    if depth := _library.enter_module(key):
        return depth
    if key not in _modules:
        _modules[key] = weakref.ref(module, lambda _: _forget(key))
    return _library.enter_new_module(key, (_name_within(running[0], module) if running else "") or type(module).__name__)


def _forget(module: int) -> None:
    _modules.pop(module, None)
    _names.pop(module, None)
    _library.forget_module(module)


def _name_within(parent: torch.nn.Module, module: torch.nn.Module) -> str:
    """"" for a module that is none of its parts."""
    name = _names.get(id(parent), {}).get(id(module), "")
    try:
        if name and parent.get_submodule(name) is module:  # and no dead one's, whose number it has
            return name
    except AttributeError:
        pass
    names = _names[id(parent)] = {id(part): name for name, part in parent.named_modules()}
    return names.get(id(module), "")


# ---- numbers of steps: one per optimizer step since enable()

_steps = 0


def _after_step(_optimizer: object, _arguments: object, _keywords: object) -> None:
    global _steps
    if _launched and current_record is None:
        raise RecordError("isobit: an optimizer's step outside of isobit.record is not shared in a job of several workers: each "
                          "would do all of it\n"
                          "  do     write the loop as `for step in run.steps(samples, batch=..., grain=...)` within\n"
                          "         `with isobit.record(...) as run:` (docs/python.md, Grains), or start the script alone")
    _steps += 1
    _library.begin_step(_steps + 1)


# ---- graphs: recorded and run under the same setting of the switch

# Called with the roots of each backward, and whether it adds to .grad (isobit.record).
backward_watchers: list[Callable[[Sequence[torch.Tensor], bool], None]] = []


_TENSOR = frozenset({torch.Tensor})


class _CheckingEngine:
    """Stands for torch's engine: looks at the graph, then leaves the work to it."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._run_backward = engine.run_backward

    def run_backward(self, roots: Sequence[torch.Tensor], *arguments: Any, **keywords: Any) -> Any:
        if _TENSOR.issuperset(map(type, roots)) or all(map(torch.is_tensor, roots)):
            _library.check_graph(roots)
            for watcher in backward_watchers:
                watcher(roots, bool(keywords.get("accumulate_grad")))
        else:
            _check_mode.refuse(RefusedError(
                "isobit: a backward from a GradientEdge is not certified under "
                f"{_library.contract_in_force()}\n  do     give the tensor itself: its graph can be checked"))
        try:
            return self._run_backward(roots, *arguments, **keywords)
        except RuntimeError as error:
            _raise_refusal(error)
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def _check_graphs() -> None:
    if not isinstance(Variable._execution_engine, _CheckingEngine):
        Variable._execution_engine = _CheckingEngine(Variable._execution_engine)  # type: ignore[assignment]


# ---- TorchScript: its interpreter makes a RuntimeError of whatever an operator throws, with the text of it within


def _raise_refusal(error: RuntimeError) -> None:
    """Where the text of a refusal is in it: that, as a RefusedError."""
    if type(error) is RuntimeError and carries_refusal(str(error)):
        raise RefusedError(str(error)).with_traceback(error.__traceback__) from None


def _with_refusals(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; where its RuntimeError has the text of a refusal in it, that is a RefusedError."""

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except RuntimeError as error:
            _raise_refusal(error)
            raise

    call._isobit = True  # type: ignore[attr-defined]
    return call
