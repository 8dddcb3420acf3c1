"""The switch: enable, disable, enabled, disabled; counted, and one for the whole process."""

import contextlib
import functools
import inspect
import json
import os
import pathlib
import random
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal, ParamSpec, TypeVar, cast

import torch

from isobit._base import _check_mode, _library
from isobit._base._errors import RefusedError
from isobit._switching import _bypasses, _hooks, _host_scalars, _optimizers, _routes, _torchscript, _workers

Isa = Literal["auto", "reference", "avx2", "avx512", "lanes16", "avx512vnni", "amx"]
ISAS: tuple[Isa, ...] = ("auto", "reference", "avx2", "avx512", "lanes16", "avx512vnni", "amx")
Products = Literal["ordered", "exact3"]
PRODUCTS: tuple[Products, ...] = ("ordered", "exact3")

# isobit verify runs a script again on an instruction set of its own choice, whatever the script says.
_FORCED_ISA: Isa | None = json.loads(os.environ["ISOBIT_RERUN"])["isa"] if "ISOBIT_RERUN" in os.environ else None

_Parameters = ParamSpec("_Parameters")
_Function = TypeVar("_Function", bound=Callable[..., Any])

_lock = threading.RLock()
_places: list[str] = []  # "module:line" of each enable() that holds; their number is the depth
# Called with whether the switch is on now, the function that turned it and the place in the program (isobit.record).
watchers: list[Callable[[bool, str, str], None]] = []
_stays_off = False


def stay_off() -> None:
    """For good: enable() and disable() are counted and turn nothing. For the stock side of `isobit bench` alone."""
    global _stays_off
    _stays_off = True
    _places.append("isobit bench")  # as its other side has


def enable(isa: Isa = "auto", products: Products | None = None) -> None:
    """From here PyTorch computes by the contract in every thread of the process, and refuses what it does not cover.

    isa: which kernels run, "auto", "avx512", "avx2" or "reference" (and, for exact3, "avx512vnni" or "amx"); it changes no
    bit. products: how products are summed, "ordered" (the default) or "exact3" (docs/contract.md, section 17); the two give
    different bits, and fingerprints of different names. Calls are counted: as many disable() bring stock PyTorch back.
    Within another enable, isa is "auto" or what is in force already, and so are products, None standing for that.

    ValueError for an isa that is unknown or that this CPU lacks, or unknown products; RefusedError within torch.autocast;
    RuntimeError for another isa, or other products, than those in force. From then on what is not covered raises
    RefusedError.
    Thread-safe against itself and disable(); no other thread may run operators meanwhile.
    """
    if isa not in ISAS:
        raise ValueError(f"unknown isa {isa!r}: one of {', '.join(ISAS)}")
    if products not in (None, *PRODUCTS):
        raise ValueError(f"unknown products {products!r}: one of {', '.join(PRODUCTS)}")
    isa = _FORCED_ISA or isa
    with _lock:
        if _stays_off:
            _places.append(_place())
            return
        if not _places:
            _refuse_within_autocast()
            _host_scalars.prepare()
            _library.set_isa(isa)
        elif isa not in ("auto", _library.isa()):
            raise RuntimeError(f"isobit is on with isa {_library.isa()!r} already: it cannot be {isa!r} within")
        elif products not in (None, _library.products()):
            if is_on_by_script():
                raise RuntimeError(f"isobit is on with products {_library.products()!r} already: they cannot be {products!r} "
                                   "within")
            _change_products(products)
        _library.enable((products or "ordered") if not _places else _library.products())
        _places.append(_place())
        if len(_places) == 1:
            _hooks.install()
            _bypasses.install(disabled)
            _torchscript.install()
            _host_scalars.install()  # before what replaces functions
            _optimizers.install()
            _routes.install()
            _workers.install(_in_workers())
            _tell(True, "enable")
        _check_mode.script_enabled |= is_on_by_script()


def _change_products(products: Products) -> None:
    """Of a check, which turned the switch on before the script said which."""
    _library.disable()
    _library.enable(products)
    _check_mode.contract = _library.contract_in_force()
    _workers.remove()
    _workers.install(_in_workers())


def _in_workers() -> Callable[[], None]:
    return functools.partial(enable_in_worker, _isa_in_force(), products_in_force(), _check_mode.notes_file())


def enable_in_worker(isa: Isa, products: Products, notes: pathlib.Path | None) -> None:
    """notes: where isobit check collects what it finds; None outside of it."""
    if notes is not None and not _check_mode.on:  # spawned: what isobit check does, it does in workers, too
        begin_check(notes, worker=True)
    if not is_enabled():
        enable(isa, products)


def begin_check(file: pathlib.Path, *, worker: bool = False) -> None:
    """isobit check's mode (_check_mode.py), for good. RuntimeError where the switch is or was on.

    file: where other processes leave what they find. worker: this is one of them, started where the script's own switch stood as
    it stands here.
    """
    _check_mode.begin(file, _library.begin_check, is_enabled if worker else is_on_by_script, worker)


def _refuse_within_autocast() -> None:
    if torch.is_autocast_enabled("cuda"):
        raise RefusedError(f"isobit: enable() within torch.autocast(\"cuda\") is not certified under "
                           f"{_library.contract_in_force()}\n"
                           "  do     leave autocast first: 16-bit floats are computed with on the CPU alone")


def disable() -> None:
    """Undoes one enable(). RuntimeError where there was none; RefusedError, with the switch off, where a library had replaced
    an operator's kernel meanwhile. Thread-safe as enable() is.

    For a part of a program that isobit cannot compute, use disabled(): it says where the part ends.
    """
    with _lock:
        _undo_one("disable")


def is_on_by_script() -> bool:
    """Within isobit check, which turns the switch on itself; else as is_enabled."""
    return len(_places) > _check_mode.on


def _undo_one(call: str) -> None:
    if not _places or (call == "disable" and not is_on_by_script()):
        raise RuntimeError("isobit.disable() without isobit.enable()")
    _places.pop()
    if _stays_off:
        return
    replaced = replaced_kernel() if not _places else None
    try:
        if not _places:
            _workers.remove()
            _routes.remove()
            _optimizers.remove()
            _host_scalars.remove()
            _torchscript.remove()
            _hooks.remove()
    finally:  # whatever could not be undone: the switch goes off
        _library.disable()
    if not _places:
        _tell(False, call)
    if replaced is not None:
        raise replaced


# The last refusal of a replaced kernel, which a program may have caught: no record over it is sealed.
last_replaced: RefusedError | None = None


def replaced_kernel() -> RefusedError | None:
    """The refusal where a library has replaced a kernel since the switch went on."""
    global last_replaced
    try:
        _library.check_kernels()
    except RefusedError as error:
        last_replaced = error
        return error
    return None


def replaced_since(before: RefusedError | None) -> RefusedError | None:
    """The same, or one that was found, and perhaps caught, since last_replaced was `before`."""
    return replaced_kernel() or (last_replaced if last_replaced is not before else None)


def disable_after_look() -> None:
    """disable() where replaced_kernel() has said what it would raise."""
    with contextlib.suppress(RefusedError):
        disable()


def _tell(on: bool, call: str) -> None:
    for watcher in watchers:
        watcher(on, call, _place())


def _place() -> str:
    """The line of the program that called: the first outside of this package and of contextlib."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name != "contextlib" and name.partition(".")[0] != "isobit":
            break
        frame = frame.f_back
    return f"{frame.f_globals.get('__name__', '')}:{frame.f_lineno}"


class _Block(contextlib.ContextDecorator, contextlib.AbstractContextManager[None]):
    """A context manager that decorates functions, but not those whose bodies run after they have returned."""

    def __init__(self, name: str, make: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        self._name, self._make = name, make
        self._entered: list[contextlib.AbstractContextManager[None]] = []

    def _recreate_cm(self) -> "_Block":
        return type(self)(self._name, self._make)

    def __enter__(self) -> None:
        context = self._make()
        context.__enter__()
        self._entered.append(context)

    def __exit__(self, *error: Any) -> bool | None:
        return self._entered.pop().__exit__(*error)

    def __call__(self, function: _Function) -> _Function:
        body: Any = getattr(function, "__func__", function)
        if not inspect.isroutine(body) and not isinstance(body, functools.partial):
            body = type(body).__call__
        if inspect.isgeneratorfunction(body) or inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body):
            name = getattr(function, "__qualname__", function)
            raise TypeError(f"@isobit.{self._name}() does not reach the body of {name}, a generator or coroutine, which runs "
                            f"later: use `with isobit.{self._name}():` within it")
        return super().__call__(function)


def _block(manager: Callable[_Parameters, contextlib.AbstractContextManager[None]]) -> Callable[_Parameters, _Block]:
    @functools.wraps(manager)
    def make(*arguments: _Parameters.args, **keywords: _Parameters.kwargs) -> _Block:
        return _Block(manager.__name__, functools.partial(manager, *arguments, **keywords))

    return make


@_block
@contextlib.contextmanager
def enabled(isa: Isa = "auto", products: Products | None = None) -> Iterator[None]:
    """enable() within a block, or within a function that it decorates. Arguments, errors and threads as there."""
    enable(isa, products)
    try:
        yield
    finally:
        disable()


@_block
@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Stock PyTorch within a block, or within a function that it decorates; afterwards the switch is as it was before.

    Nothing in the block is certified: isobit.record notes which steps ran in one, and isobit verify names them in its
    verdict. Within no enable() it does nothing. RefusedError, with the switch still on, where a library has replaced an
    operator's kernel. Threads as for enable().
    """
    with _lock:
        _library.check_kernels()
        depth, isa, products = len(_places), _isa_in_force(), products_in_force()
        for _ in range(depth):
            _undo_one("disabled")
    try:
        yield
    finally:
        for _ in range(depth):
            enable(isa, products)


def release_memory() -> int:
    """Gives the memory of freed tensors that waits for the next ones back to the system. Returns its bytes.

    Freed tensors' memory is kept while the switch is on, never more than an eighth (or 32 MiB) above the peak in use.
    Callable at any time, from any thread.
    """
    return _library.release_memory()


def is_enabled() -> bool:
    """Whether PyTorch computes by the contract now, in every thread of the process."""
    return _library.is_on()


def _isa_in_force() -> Isa:
    return cast(Isa, _library.isa())


def products_in_force() -> Products:
    return cast(Products, _library.products())


def isa() -> str:
    """The instruction set of the kernels: "avx512", "avx2", "lanes16" or "reference"."""
    return _library.isa()


last_seed: int | None = None  # that seed() was given


def seed(number: int) -> None:
    """Seeds the generators of PyTorch, Python's random and, where it is loaded, NumPy (number modulo 2^32).

    DataLoader workers get seeds of their own from PyTorch's generator, for all three. Call it before the model is made:
    initial weights are drawn, too. The generators are the process's: no other thread may draw from them meanwhile.
    """
    global last_seed
    last_seed = number
    torch.manual_seed(number)
    random.seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number % 2**32)


for _public in (enable, disable, enabled, disabled, release_memory, is_enabled, isa, seed):
    _public.__module__ = "isobit._switch"  # as _old_names.py has it
