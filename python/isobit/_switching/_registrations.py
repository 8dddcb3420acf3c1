"""Kernels that Python registers while the switch is on, of which the dispatcher tells nobody: refused before they are there, and
looked for at the lowest door that Python has.

Installed with the first enable(); they pass everything on while the switch is off.
"""

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from isobit._base import _check_mode, _library
from isobit._base._errors import RefusedError


def install() -> None:
    _refuse_registrations()
    _watch_registrations()


_IN_FRONT = ("AutogradCPU", "AutogradCUDA", "BackendSelect", "ADInplaceOrView")  # of the kernels that refuse


@functools.cache
def _listed() -> frozenset[str]:
    """Operators, with their overloads, of the namespaces in which some may run."""
    operators = [(kind, name, overload) for kind, name, overload, *_ in _library.operators()]
    namespaces = {name.partition("::")[0] for kind, name, _ in operators if kind != "refused"}
    return frozenset(f"{name}.{overload}".rstrip(".") for _, name, overload in operators if name.partition("::")[0] in namespaces)


def _refuse_registrations() -> None:
    """Before there is a kernel, so that a refusal that the program catches leaves none; for keys, too, that the look at all
    kernels does not see."""
    library: Any = torch.library.Library
    for name in ("impl", "_impl_with_aoti_compile"):
        register = getattr(library, name, None)
        if register is not None and not hasattr(register, "_isobit"):
            setattr(library, name, _asked_before(register))
    overload: Any = torch._ops.OpOverload
    if not hasattr(overload.py_impl, "_isobit"):
        overload.py_impl = _refusing_python_kernels(overload.py_impl)


def _asked_before(register: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(register)

    @functools.wraps(register)
    def registers(library: Any, *arguments: Any, **keywords: Any) -> Any:
        if _library.is_on():
            given = signature.bind(library, *arguments, **keywords).arguments
            operator, key = given["op_name"], given.get("dispatch_key") or library.dispatch_key
            name = operator.name() if isinstance(operator, torch._ops.OpOverload) else str(operator)
            name = name if "::" in name else f"{library.ns}::{name}"
            if key != "Meta" and name in _listed() and name not in library._op_defs:
                _refuse_kernel(name, key or "CompositeImplicitAutograd")
            elif key in _IN_FRONT and not _by_torch("torch.library"):
                _check_mode.refuse(RefusedError(
                    f"isobit: {name} with a kernel in front of isobit's ({key}) is not certified under "
                    f"{_library.contract_in_force()}\n  do     register it for CPU, CUDA or Autograd"))
        return register(library, *arguments, **keywords)

    registers._isobit = True  # type: ignore[attr-defined]
    return registers


def _refusing_python_kernels(py_impl: Callable[..., Any]) -> Callable[..., Any]:
    """Those of keys and transforms: those of a subclass or a mode belong to it."""

    @functools.wraps(py_impl)
    def asks(operator: Any, key: Any) -> Any:
        register = py_impl(operator, key)

        def registers(function: Any) -> Any:
            if _library.is_on() and not inspect.isclass(key) and operator.name() in _listed():
                _refuse_kernel(operator.name(), getattr(key, "name", str(key)))
            return register(function)

        return registers

    asks._isobit = True  # type: ignore[attr-defined]
    return asks


def _refuse_kernel(name: str, key: str) -> None:
    if not _by_torch("torch.library", "torch._library"):
        _check_mode.refuse(RefusedError(
            f"isobit: {name} with a kernel of another library's ({key}) is not certified under {_library.contract_in_force()}\n"
            "  do     leave the operator as it is, and call a function of your own in its place"))


def _by_torch(*between: str) -> bool:
    """Whether torch registers for itself, as its modules do when they are loaded: the first caller that is none of those
    between and of isobit."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not any(name == one or name.startswith(one + ".") for one in (*between, "isobit")):
            return name.partition(".")[0] == "torch"
        frame = frame.f_back
    return False


def _watch_registrations() -> None:
    module = torch._C._DispatchModule  # torch.library.Library and all that is built on it register through one
    for name in ("impl", "impl_t_t", "impl_with_aoti_compile", "fallback", "fallback_fallthrough"):
        register = getattr(module, name, None)
        if register is not None and not hasattr(register, "_isobit"):
            setattr(module, name, _looked_at(register))


def _looked_at(register: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(register)
    def registers(*arguments: Any, **keywords: Any) -> Any:
        result = register(*arguments, **keywords)
        if _library.is_on() and "Meta" not in arguments:  # values of shapes only; hundreds where torch._decomp is loaded
            _library.check_kernels()
        return result

    registers._isobit = True  # type: ignore[attr-defined]
    return registers
