"""The mode of `python -m isobit check` in this process: refusals are noted, and what was refused is computed by stock.

Only that command begins it (and the DataLoader's spawned workers of such a process), before the switch was ever on, and for
good. The library then gives no fingerprint and makes no record (src/aten/check_mode.h); here what asks for one gets a text
that is none, and a record that is not written.
"""

import collections
import ctypes
import dataclasses
import json
import os
import pathlib
import re
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from isobit import _built
from isobit._base import _program_lines
from isobit._base._errors import RefusedError

CHILD_OF_CHECK = "ISOBIT_CHECK"  # in the environment of processes that a checked one starts: it only forbids records
NO_FINGERPRINT = "none-within-isobit-check"
_HEADER = re.compile(r"isobit: (.+) under isobit-\S+")
_LINE = re.compile(r"^  (at|in|for|do) +(.*)$", re.MULTILINE)

on = False
script_enabled = False  # the script turned the switch on by itself: then what runs outside of that is its own business
_inside: Any = None  # whether the switch is on by the script's own doing now
contract = _built.contract_version  # with the tier of products that the script enabled last
_file: pathlib.Path | None = None  # where other processes leave their refusals
_process = 0
_lock = threading.RLock()
_callback: Any = None


@dataclasses.dataclass
class Found:
    """An operator, or another thing, that is refused for one reason."""

    operator: str
    reason: str
    purpose: str
    remedy: str
    count: int = 0
    called: str = ""  # as the script calls it
    lines: "collections.Counter[str]" = dataclasses.field(default_factory=collections.Counter)  # in the order of their coming
    places: "collections.Counter[str]" = dataclasses.field(default_factory=collections.Counter)


found: dict[tuple[str, str, bool], Found] = {}


def begin(file: pathlib.Path, tell: Callable[[Any], None], inside: Callable[[], bool], worker: bool) -> None:
    """From now on, and for good; _switch.begin_check calls this.

    file: where other processes leave what they find. worker: this is one of them. tell: lets the library call back where it
    refuses. inside: whether the switch is on by the script's own doing.
    """
    global on, _file, _process, _callback, _inside
    _callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(_noted)
    tell(_callback)
    os.environ[CHILD_OF_CHECK] = "1"
    on, _file, _process, _inside = True, file, 0 if worker else os.getpid(), inside


def refuse(error: RefusedError) -> None:
    """Raises it; in a check it is noted, and the caller goes on as stock would."""
    if not on:
        raise error
    _note(str(error), sys._getframe(1))


def refuse_unless_known(error: RefusedError) -> None:
    """One that ended the script: noted where it was not before it was raised."""
    text = str(error)
    with _lock:
        known = any(one.operator == error.operator for one in found.values())
    if not known:
        _note(text, None)


def notes_file() -> pathlib.Path | None:
    """For workers that are spawned; None outside of a check."""
    return _file if on else None


def _noted(message: bytes) -> None:
    """The library's: on the thread that met the refusal, whose Python stack is below this call."""
    _note(message.decode(errors="replace"), sys._getframe(1))


def _note(text: str, frame: types.FrameType | None) -> None:
    header = _HEADER.search(text)
    parts = {name: value.strip() for name, value in _LINE.findall(text)}
    operator = RefusedError(text).operator
    reason = header[1].removeprefix(operator).strip() if header else text.partition("\n")[0]
    lines = _program_lines.of_stack(frame)
    place = _program_lines.users_line(lines)
    in_backward = "backward of" in parts.get("in", "")
    entry = {"operator": operator or reason, "reason": reason, "purpose": parts.get("for", ""), "remedy": parts.get("do", ""),
             "called": "" if in_backward else _program_lines.written_as(operator, lines),
             "line": f"{place[0]}:{place[1]}" if place else "", "place": parts.get("in", ""), "inside": bool(_inside())}
    if os.getpid() != _process:
        _leave(entry)
    else:
        add(entry)


def _leave(entry: dict[str, Any]) -> None:
    """Of a child: the process that began the check reads it at the end. One write, so that lines of several do not mix."""
    if _file is not None:
        with open(_file, "ab", buffering=0) as file:
            file.write(json.dumps(entry).encode() + b"\n")


def add(entry: dict[str, Any]) -> None:
    with _lock:
        key = entry["operator"], entry["reason"], entry["inside"]
        one = found.setdefault(key, Found(entry["operator"], entry["reason"], entry["purpose"], entry["remedy"]))
        one.count += 1
        one.called = one.called or entry["called"]
        if entry["line"]:
            one.lines[entry["line"]] += 1
        if entry["place"]:
            one.places[re.sub(r"step \d+(, )?|\(\)", "", entry["place"]).strip()] += 1


def collect() -> list[Found]:
    """All, those of other processes too, in the order in which the program met them."""
    if _file is not None and _file.exists():
        for line in _file.read_text().splitlines():
            add(json.loads(line))
        _file.unlink()
    merged: dict[tuple[str, str], Found] = {}
    for (operator, reason, inside), one in found.items():
        if not inside and script_enabled:
            continue
        before = merged.setdefault((operator, reason), one)
        if before is not one:  # met inside and outside
            before.count += one.count
            before.lines += one.lines
            before.places += one.places
    return list(merged.values())
