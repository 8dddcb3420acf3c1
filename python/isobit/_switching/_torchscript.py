"""TorchScript, called from Python: its graphs are looked at before they run, and other interpreters stay out.

Scripts and traces, of this process or from a file, go through ScriptFunction or ScriptMethod (src/aten/torchscript_guard.h
has what is checked, and what asks again where something comes another way). What computes beside PyTorch's dispatcher
altogether is refused. From the first enable() on; without the switch nothing changes.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.jit._state import _python_cu

from isobit._base import _library
from isobit._switching import _bypasses, _hooks

_C: Any = torch._C

# Classes whose methods run a compiled model on their own: native functions called past the dispatcher.
_INTERPRETERS: dict[str, tuple[str, ...]] = {
    "StaticModule": ("__call__", "runAsync", "benchmark", "benchmark_individual_ops"),
    "LiteScriptModule": ("__call__", "forward", "run_method"),
    "_nativert.PyModelRunner": ("__init__", "__call__", "run"),
    "_aoti.AOTIModelPackageLoader": ("__init__", "run", "boxed_run"),
    "_aoti.AOTIModelContainerRunnerCpu": ("__init__", "run"),
    "_aoti.AOTIModelContainerRunnerCuda": ("__init__", "run"),
}


_on = False  # in Python, so that a call without the switch asks nobody
_running: list[None] = []  # one per script on the stack of any thread


def install() -> None:
    """Within enable(), which a script may have called: its plan is kept until it is through."""
    global _on
    _on = True
    for kind, is_method in ((_C.ScriptFunction, False), (_C.ScriptMethod, True)):
        if not hasattr(kind.__call__, "_isobit"):
            kind.__call__ = _hooks._with_refusals(_checked(kind.__call__, is_method))
    for name, kind, methods in _interpreters():
        for method in methods:
            stock = vars(kind).get(method)
            if stock is not None and not hasattr(stock, "_isobit"):
                setattr(kind, method, _bypasses.refusing(
                    stock, name=f"torch._C.{name}",
                    remedy="call the module that it was made of: this one computes past PyTorch's dispatcher"))
    # What was compiled before the package was there holds code that does not ask. Units of files follow with their
    # first call.
    _compile_again()


def remove() -> None:
    """Stock compiles again, and optimises, what ran meanwhile."""
    global _on
    _on = False
    _compile_again()


def _compile_again() -> None:
    _library.forget_plans(_python_cu)
    if not _running:
        _library.release_plans()


def _interpreters() -> Iterator[tuple[str, type, tuple[str, ...]]]:
    for name, methods in _INTERPRETERS.items():
        kind: Any = _C
        for part in name.split("."):
            kind = getattr(kind, part, None)
        if kind is not None:  # not every build of PyTorch has all of them
            yield name, kind, methods


def _checked(function: Callable[..., Any], is_method: bool) -> Callable[..., Any]:
    check = _library.check_script

    @functools.wraps(function)
    def call(script: Any, *arguments: Any, **keywords: Any) -> Any:
        if _on:
            check(script, is_method)
        _running.append(None)
        try:
            return function(script, *arguments, **keywords)
        finally:
            _running.pop()

    return call
