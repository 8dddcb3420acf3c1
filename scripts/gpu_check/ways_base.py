"""What the lists of ways are made of: a Way, and the inputs and contexts that several of them need.

A way's call gets the place that it computes on, "cpu" or "cuda:0", and makes its tensors there. It runs on both under the
switch; what it gives on the device must then be the CPU's to the last bit, or a refusal.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch

from gpu_check.data import Inputs


class Unavailable(Exception):
    """This machine or this PyTorch lacks what the way needs."""


@dataclasses.dataclass
class Way:
    name: str
    call: Callable[..., Any]
    outside: str = ""  # what docs/guard.md says of it, where isobit does not claim to see it
    before: Callable[..., Any] | None = None  # with the switch off; what it returns is the call's second argument
    after: Callable[..., Any] | None = None  # with the switch off again, of what `before` returned
    reference: Callable[..., Any] | None = None  # the CPU's side, where the call has none
    stock: bool = True  # whether it may run with the switch off, to know what a leak would look like
    products: str = "ordered"
    environment: tuple[tuple[str, str], ...] = ()  # of a process of its own
    together: bool = False  # with its neighbours, in one block of the switch: it changes nothing but its own tensors
    seconds: float = 30  # for all of it; then its process is stopped


def on_device(place):
    return place.startswith("cuda")


def real(place):
    """Whether there is a device with streams, events and memory of its own."""
    return on_device(place) and torch.version.cuda is not None and torch.cuda.is_available()


def need_real(place):
    if on_device(place) and not real(place):
        raise Unavailable("needs a GPU")


def wide(place, *shape, name="wide"):
    """Magnitudes over 40 powers of two: another order of additions gives other bits."""
    return Inputs(f"{name} {shape}").wide(*shape).to(place, copy=True)


def normal(place, *shape, name="normal"):
    return Inputs(f"{name} {shape}").normal(*shape).to(place, copy=True)


def paired(place, *shape):
    """Complex, by a view: making one of two tensors is refused."""
    return torch.view_as_complex(wide(place, *shape, 2))


def positive(place, *shape):
    return (Inputs(f"positive {shape}").unit(*shape) + 2.0**-10).to(place)


def labels(place, classes, *shape):
    return Inputs(f"labels {shape}").labels(classes, *shape).to(place)


@contextlib.contextmanager
def flags(*settings):
    """Each (object, attribute, value), as it was before on leaving. Unknown ones are unavailable."""
    with contextlib.ExitStack() as stack:
        for holder, name, value in settings:
            try:
                stack.callback(setattr, holder, name, getattr(holder, name))
                setattr(holder, name, value)
            except (AttributeError, AssertionError) as error:
                raise Unavailable(f"{name}: {error}") from None
        yield


@contextlib.contextmanager
def deterministic(fill=True):
    before = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = fill
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.utils.deterministic.fill_uninitialized_memory = before[1]


@contextlib.contextmanager
def side_stream(place):
    if not real(place):
        yield None
        return
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        yield stream


def wait(place):
    if real(place):
        torch.cuda.synchronize()


def slow(place):
    """Keeps the current stream busy for some 20 ms: what does not wait for it overtakes it."""
    if real(place):
        torch.cuda._sleep(40_000_000)


@functools.lru_cache(64)
def _seed(place, shape):
    """Kept, since moving it to a device would wait for what the stream still does."""
    return normal(place, *shape, name="seed")


def gradients(function, *inputs):
    """The result and all gradients, with a seed that is not all ones."""
    inputs = [x.detach().clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    output = function(*inputs)
    seed = _seed(str(output.device), output.shape).to(output.dtype)
    return output, *torch.autograd.grad(output, [x for x in inputs if x.requires_grad], seed, allow_unused=True)


@contextlib.contextmanager
def kernel_from_python(name, key, function, library="aten"):
    """A kernel of a library in Python for an operator that there is already."""
    own = torch.library.Library(library, "IMPL")
    try:
        own.impl(name, function, key)
        yield
    finally:
        own._destroy()
