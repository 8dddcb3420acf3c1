"""libisobit_torch.so: its C functions (src/extension/extension.h), loaded beside the torch that it was built for.

What a function returns as a message becomes an exception: RefusedError for a refusal, else the kind named beside it.
Thread-safe as the C functions are.
"""

import ctypes
import operator
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, cast

import torch

from isobit._base import _check_mode
from isobit._base._errors import RefusedError
from isobit._base._package import LIBRARY
from isobit._built import torch_version


def _load() -> ctypes.CDLL:
    present = torch.__version__.split("+")[0]
    if present != torch_version:
        raise ImportError(f"isobit was built for torch {torch_version}, but torch {present} is installed: install that "
                          "torch, or build isobit again beside this one (pip install --force-reinstall <isobit's sources>)")
    try:
        return ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise ImportError(f"isobit's library does not load: {error}") from error


_library = _load()
# The same library; its functions are called with the interpreter's lock held, which is faster where they are short.
_brief = ctypes.PyDLL(str(LIBRARY))

_POINTER, _COUNT, _TEXT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p


def _declare(library: ctypes.CDLL, name: str, *arguments: Any, result: Any = _TEXT) -> Callable[..., Any]:
    function = getattr(library, f"isobit_{name}")
    function.argtypes = arguments
    function.restype = result
    return cast(Callable[..., Any], function)


_enable = _declare(_library, "enable", _TEXT)
_disable = _declare(_library, "disable")
_set_isa = _declare(_library, "set_isa", _TEXT)
_isa = _declare(_library, "isa")
_products = _declare(_library, "products")
_contract_in_force = _declare(_library, "contract_in_force")
_is_on = _declare(_brief, "is_on", result=ctypes.c_int)
_check_graph = _declare(_library, "check_graph", _POINTER, _COUNT)
_adam_in_one_pass = _declare(_library, "adam_in_one_pass", _POINTER, _COUNT, _POINTER, ctypes.c_int, ctypes.c_int)
_sgd_in_one_pass = _declare(_library, "sgd_in_one_pass", _POINTER, _COUNT, ctypes.c_int, _POINTER, ctypes.c_int, ctypes.c_int)
_operators_observed = _declare(_brief, "operators_observed", result=ctypes.c_int)
_fingerprint = _declare(_library, "fingerprint", _POINTER, _TEXT)
_fingerprint_list = _declare(_library, "fingerprint_list", ctypes.POINTER(_POINTER), ctypes.POINTER(_TEXT), _COUNT, _TEXT)
# Around every call of a module: nothing of Python's own around them.
enter_module: Callable[[int], int] = _declare(_brief, "enter_module", ctypes.c_uint64, result=ctypes.c_int)
leave_module: Callable[[int], None] = _declare(_brief, "leave_module", ctypes.c_int, result=None)
forget_module: Callable[[int], None] = _declare(_brief, "forget_module", ctypes.c_uint64, result=None)
_enter_new_module: Callable[[int, bytes], int] = _declare(_brief, "enter_new_module", ctypes.c_uint64, _TEXT, result=ctypes.c_int)
_release_memory = _declare(_library, "release_memory", result=_COUNT)
_begin_step = _declare(_brief, "begin_step", _COUNT)
_check_kernels = _declare(_brief, "check_kernels")
_guard_scripts = _declare(_library, "guard_scripts")
_check_script = _declare(_brief, "check_script", _POINTER, _COUNT, ctypes.c_int)
_forget_plans = _declare(_library, "forget_plans", _POINTER, _COUNT)
_release_plans = _declare(_library, "release_plans")
_operators = _declare(_library, "operators", ctypes.POINTER(_TEXT))
_set_ops_command = _declare(_library, "set_ops_command", _TEXT)
_is_refusal = _declare(_brief, "is_refusal", result=ctypes.c_int)
_begin_check = _declare(_library, "begin_check", _POINTER)
# The position of a function's name in scalar_functions(), a float; two floats.
scalar_function: Callable[[int, float], float] = _declare(_brief, "scalar_function", ctypes.c_int, ctypes.c_double,
                                                          result=ctypes.c_double)
scalar_power: Callable[[float, float], float] = _declare(_brief, "scalar_power", ctypes.c_double, ctypes.c_double,
                                                         result=ctypes.c_double)
scalar_angle: Callable[[float, float], float] = _declare(_brief, "scalar_angle", ctypes.c_double, ctypes.c_double,
                                                         result=ctypes.c_double)

contract_version: str = _declare(_library, "contract_version")().decode()
_declare(_library, "threads_from_torch", result=None)()
# What PyTorch raises for refusals. Referenced for good: a thread may be refused while the interpreter ends.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(RefusedError))
_declare(_library, "set_refusal_type", _POINTER, result=None)(id(RefusedError))


def _raise(message: bytes | None, kind: type[Exception] = RuntimeError) -> None:
    if message is not None:
        raise (RefusedError if _is_refusal() else kind)(message.decode())


_raise(_set_ops_command(b"python -m isobit ops"))
_raise(_guard_scripts())
_HEADER = object.__basicsize__


def enable(products: str) -> None:
    _raise(_enable(products.encode()))


def disable() -> None:
    _raise(_disable())


def is_on() -> bool:
    return bool(_is_on())


def release_memory() -> int:
    return int(_release_memory())


def begin_check(note: Any) -> None:
    """note: a ctypes callback that takes a text, kept by the caller for good. Only _switch.begin_check gives this away."""
    _raise(_begin_check(ctypes.cast(note, _POINTER)))


def set_isa(name: str) -> None:
    _raise(_set_isa(name.encode()), ValueError)


def products() -> str:
    """The tier of products in force; "ordered" while the switch is off."""
    return str(_products().decode())


def contract_in_force() -> str:
    """contract_version with that tier: "isobit-0.1", "isobit-0.1-exact3"."""
    return str(_contract_in_force().decode())


def isa() -> str:
    return str(_isa().decode())


def _pointers(tensors: Sequence[torch.Tensor]) -> ctypes.Array[ctypes.c_void_p]:
    return (_POINTER * len(tensors))(*[tensor._cdata for tensor in tensors])


# Arrays at every step: they take a fraction of the time of ctypes' own.
_cdata = operator.attrgetter("_cdata")


def check_graph(tensors: Sequence[torch.Tensor]) -> None:
    pointers = array("Q", map(_cdata, tensors))
    message = _check_graph(pointers.buffer_info()[0], len(tensors))
    if message is not None:
        _raise(message)


_Lists = Sequence[Sequence[torch.Tensor]]


def adam_in_one_pass(lists: _Lists, scalars: Iterable[float], decoupled: bool, together: bool) -> bool:
    """lists: parameters, gradients, both averages, steps, of one length (src/extension/extension.h); together: in place of the
    foreach form. False: nothing has changed, and torch's sequence has to run."""
    pointers, numbers = array("Q", map(_cdata, chain.from_iterable(lists))), array("d", scalars)
    return _taken(_adam_in_one_pass(pointers.buffer_info()[0], len(lists[0]), numbers.buffer_info()[0], decoupled, together))


def sgd_in_one_pass(lists: _Lists, scalars: Iterable[float], nesterov: bool, together: bool) -> bool:
    """lists: parameters, gradients, buffers where there is momentum. As adam_in_one_pass."""
    pointers, numbers = array("Q", map(_cdata, chain.from_iterable(lists))), array("d", scalars)
    return _taken(_sgd_in_one_pass(pointers.buffer_info()[0], len(lists[0]), len(lists) > 2, numbers.buffer_info()[0], nesterov,
                                   together))


def _taken(message: bytes | None) -> bool:
    if message:
        _raise(message)
    return message is None


def operators_observed() -> bool:
    """Whether every operator's call is noted for check_graph (src/aten/graph_check.h): 0.2 us each."""
    return bool(_operators_observed())


def check_script(script: Any, method: bool) -> None:
    message = _check_script(id(script), _HEADER, method)
    if message is not None:
        _raise(message)


def forget_plans(unit: Any) -> None:
    _raise(_forget_plans(id(unit), _HEADER))


def release_plans() -> None:
    _raise(_release_plans())


def fingerprint(tensor: torch.Tensor) -> str:
    digits = ctypes.create_string_buffer(33)
    if not _check_mode.on:
        _raise(_fingerprint(tensor._cdata, digits), TypeError)
    return digits.value.decode()


def fingerprint_list(names: Sequence[str], tensors: Sequence[torch.Tensor]) -> str:
    digits = ctypes.create_string_buffer(33)
    texts = (_TEXT * len(names))(*[name.encode() for name in names])
    if not _check_mode.on:
        _raise(_fingerprint_list(_pointers(tensors), texts, len(tensors), digits), TypeError)
    return digits.value.decode()


def operators() -> list[tuple[str, ...]]:
    """[(class, name, overload, reason)] of every operator registered by now, sorted by name."""
    lines = _TEXT()
    _raise(_operators(ctypes.byref(lines)))
    return [tuple(line.split("\t")) for line in (lines.value or b"").decode().splitlines()]


def enter_new_module(module: int, name: str) -> int:
    return _enter_new_module(module, name.encode())


def scalar_functions() -> list[str]:
    return str(_declare(_brief, "scalar_functions")().decode()).split()


def begin_step(step: int) -> None:
    message = _begin_step(step)
    if message is not None:
        _raise(message)


def check_kernels() -> None:
    """RefusedError where a library has replaced an allowed operator's kernel while the switch is on."""
    _raise(_check_kernels())
