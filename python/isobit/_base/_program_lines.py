"""Where in the user's program something happened, and what he called there: for messages. Needs no torch.

His line is the innermost one outside of torch, isobit, Python's library and installed packages. Looked up only when a
message is made.
"""

import functools
import itertools
import linecache
import os
import sys
import sysconfig
import types
from collections.abc import Iterator

from isobit._base import _package

Line = tuple[types.FrameType, int]  # and the number of its line

# Functions of these modules have the names that users write; other Python code of torch's lies behind them.
_PUBLIC = {"torch.nn.functional": "torch.nn.functional", "torch.functional": "torch", "torch._tensor": "Tensor",
           "torch.nn.init": "torch.nn.init", "torch.nn.utils.clip_grad": "torch.nn.utils",
           "torch.nn.utils.rnn": "torch.nn.utils.rnn"}
# Beginnings of names in aten, and the modules that have the function without them.
_SPACES = {"special_": "torch.special", "linalg_": "torch.linalg", "fft_": "torch.fft"}


def of_traceback(trace: types.TracebackType | None) -> list[Line]:
    """Innermost first; after the frames of the traceback those that called the function that caught it."""
    if trace is None:
        return []
    outer = _callers(trace.tb_frame.f_back)
    inner = []
    step: types.TracebackType | None = trace
    while step is not None:
        inner.append((step.tb_frame, step.tb_lineno))
        step = step.tb_next
    return [*reversed(inner), *outer]


def of_stack(frame: types.FrameType | None) -> list[Line]:
    return list(_callers(frame))


def _callers(frame: types.FrameType | None) -> Iterator[Line]:
    while frame is not None:
        yield frame, frame.f_lineno
        frame = frame.f_back


@functools.cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({os.path.join(folder, "") for folder in (paths["stdlib"], paths["platstdlib"], str(_package.FOLDER))})


@functools.lru_cache(4096)
def _is_installed(file: str) -> bool:
    if file.startswith("<frozen ") or file in ("", "<__array_function__ internals>"):
        return True
    parts = file.split(os.sep)
    return "site-packages" in parts or "dist-packages" in parts or file.startswith(_library_folders())


def is_users(frame: types.FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return module not in ("torch", "isobit") and not _is_installed(frame.f_code.co_filename)


def users_line(lines: list[Line]) -> tuple[str, int] | None:
    """(file, line), the file as seen from the working folder where it lies below it."""
    for frame, number in lines:
        if is_users(frame):
            return _short(frame.f_code.co_filename), number
    return None


def _short(file: str) -> str:
    if file.startswith("<"):
        return file
    try:
        inside = os.path.relpath(file)
    except (OSError, ValueError):
        return file
    return file if inside.startswith(os.pardir) else inside


def written_as(operator: str, lines: list[Line]) -> str:
    """What the user called: "torch.nn.functional.interpolate" of "aten::upsample_bilinear2d"; "" where that is not known."""
    inner = list(itertools.takewhile(lambda line: not is_users(line[0]), lines))
    for frame, _ in reversed(inner):
        module, name = str(frame.f_globals.get("__name__", "")), frame.f_code.co_name
        if module in _PUBLIC and not name.startswith("_"):
            return f"{_PUBLIC[module]}.{name}"
    if not operator.startswith("aten::"):
        return ""
    name = operator.removeprefix("aten::").partition(".")[0]
    if len(inner) < len(lines) and not inner:  # called by the user's own line
        frame, number = lines[0]
        source = linecache.getline(frame.f_code.co_filename, number, frame.f_globals)
        if f".{name}" in source and f"torch.{name}" not in source and _has("Tensor", name):
            return f"Tensor.{name}"
    return _public_name(name)


def _public_name(name: str) -> str:
    for beginning, space in _SPACES.items():
        if name.startswith(beginning) and _has(space, name.removeprefix(beginning)):
            return f"{space}.{name.removeprefix(beginning)}"
    return next((f"{space}.{name}" for space in ("torch", "Tensor", "torch.nn.functional")
                 if not name.startswith("_") and _has(space, name)), "")


def _has(space: str, name: str) -> bool:
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return hasattr(torch.Tensor if space == "Tensor" else sys.modules.get(space), name)
