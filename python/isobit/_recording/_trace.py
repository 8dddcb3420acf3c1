"""isobit.trace: every operator of some steps of a program, stock or isobit's, as fingerprints (docs/formats/trace.md)."""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from torch.optim import optimizer as torch_optimizer

from isobit._base import _library
from isobit._base._errors import RecordError
from isobit._switching import _hooks

AVAILABLE = hasattr(_library._library, "isobit_trace_begin")  # not where the library has only the operators
MOST_SAMPLES = 4096

_TEXT, _COUNT = ctypes.c_char_p, ctypes.c_int64


def _declare(name: str, *arguments: Any, result: Any = _TEXT) -> Callable[..., Any]:
    return _library._declare(_library._library, f"trace_{name}", *arguments, result=result)


if AVAILABLE:
    _begin = _declare("begin", _TEXT, _COUNT, _COUNT, _COUNT, ctypes.c_int, _TEXT)
    _begin_step = _declare("begin_step", _COUNT)
    _end_step = _declare("end_step")
    _optimizer = _declare("optimizer", ctypes.c_int)
    _size = _declare("size", ctypes.POINTER(_COUNT), ctypes.POINTER(_COUNT))
    _finish = _declare("finish")
    _drop = _declare("drop", result=None)


def _raise(message: bytes | None) -> None:
    if message is not None:
        raise RecordError(f"isobit.trace: {message.decode(errors='replace')}")


def _window(steps: range | tuple[int, int]) -> tuple[int, int]:
    """First step and count."""
    if isinstance(steps, range):
        first, count = steps.start, len(steps)
        fits = steps.step == 1
    else:
        first, count = steps
        fits = True
    if not fits or first < 1 or count < 1:
        raise ValueError(f"isobit.trace: steps={steps!r} names no steps\n"
                         "  do     give a range or (first, count); the first step is 1: steps=range(100, 103), steps=(100, 3)")
    return int(first), int(count)


class trace:
    """Within it, every outermost operator of these steps is written to `path`, with fingerprints of all it got and gave.

        with isobit.trace("here.trace", steps=(100, 3)):
            train()

    A step ends with an optimizer's step(); the first is 1, counted from where the block begins. Stock PyTorch is traced as
    it is, isobit where it is enabled before the block begins. samples: so many values of each tensor, at the same indices
    on every machine. statistics: minimum, maximum, mean, NaN and infinite values. values: also keep all output values of
    one operator ("100/forward/LeNet5.fc1/aten::linear/1") or of "all", in `path`.values.safetensors.

    The file appears when the block ends, and not where the block ends by an exception. What is traced is the thread of the
    block. No bit of what it computes changes. `isobit diff` and `isobit bisect` compare traces.
    """

    __module__ = "isobit._trace"  # as _old_names.py has it

    def __init__(self, path: str | os.PathLike[str], steps: range | tuple[int, int], samples: int = 0, statistics: bool = False,
                 values: str = "") -> None:
        self.path = os.fspath(path)
        self.first, self.count = _window(steps)
        if not 0 <= samples <= MOST_SAMPLES:
            raise ValueError(f"isobit.trace: samples={samples} is not within 0 to {MOST_SAMPLES}")
        self._samples, self._statistics, self._values = samples, statistics, values
        self._steps = 0  # done since the block began
        self._open = False
        self._handles: list[Any] = []
        self._began = 0.0

    def __enter__(self) -> "trace":
        if not AVAILABLE:
            raise RecordError("isobit.trace: this build of isobit has only the operators\n"
                              "  do     install the whole of isobit (docs/python.md)")
        _raise(_begin(self.path.encode(), self.first, self.count, self._samples, int(self._statistics), self._values.encode()))
        self._open = True
        _hooks.watch_modules()
        self._handles = [torch_optimizer.register_optimizer_step_pre_hook(self._before_step),
                         torch_optimizer.register_optimizer_step_post_hook(self._after_step)]
        if sys.stderr.isatty():
            print(f"isobit: tracing {self.count} steps from step {self.first} on; their size is known after the first",
                  file=sys.stderr)
        self._begin_if_due()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None) -> None:
        try:
            if kind is None and self._open:
                self._end()
        finally:
            self._close()

    def _end(self) -> None:
        if self._steps < self.first:
            raise RecordError(f"isobit.trace: {self.path}: the block made {self._steps} steps, the window begins with step "
                              f"{self.first}; nothing was written\n  do     choose steps that the program makes")
        _raise(_finish())
        last = self.first + self.count - 1
        if self._steps < last:
            print(f"isobit: {self.path}: the block made {self._steps} steps; the trace lacks steps {self._steps + 1} to {last}",
                  file=sys.stderr)

    def _close(self) -> None:
        if not self._open:
            return
        self._open = False
        for handle in self._handles:
            handle.remove()
        _hooks.unwatch_modules()
        _drop()

    def _within(self, step: int) -> bool:
        return self.first <= step < self.first + self.count

    def _begin_if_due(self) -> None:
        self._began = time.perf_counter()
        if self._within(self._steps + 1):
            _raise(_begin_step(self._steps + 1))

    def _before_step(self, *_: object) -> None:
        _raise(_optimizer(1))

    def _after_step(self, *_: object) -> None:
        _raise(_optimizer(0))
        self._steps += 1
        if self._within(self._steps):
            _raise(_end_step())
            if self._steps == self.first:
                self._tell_size()
        self._begin_if_due()

    def _tell_size(self) -> None:
        if not sys.stderr.isatty():
            return
        operators, size = _COUNT(), _COUNT()
        _raise(_size(ctypes.byref(operators), ctypes.byref(size)))
        print(f"isobit: step {self.first}: {operators.value} operators, {size.value / 1e6:.2f} MB, "
              f"{time.perf_counter() - self._began:.2f} s; by this step, all {self.count} take about "
              f"{size.value * self.count / 1e6:.2f} MB", file=sys.stderr)


def of_record(folder: os.PathLike[str], told: Mapping[str, Any] | None) -> trace | None:
    """What `isobit trace` asks of a program that it executes again: a trace beside the record, where no list of runs sees it."""
    if told is None or "trace" not in told:
        return None
    asked, beside = told["trace"], os.path.join(os.path.dirname(folder), ".trace")
    os.makedirs(beside, exist_ok=True)
    tracing = trace(os.path.join(beside, "trace"), (asked["first"], asked["count"]), asked["samples"], asked["statistics"],
                    asked["values"])
    return tracing.__enter__()


def end(tracing: trace | None, error: BaseException | None) -> None:
    if tracing is not None:
        tracing.__exit__(None if error is None else type(error), error, None)
