"""Which interrupted record a program resumes (docs/formats/run.md, "Resuming"), and whether it is still the same program.

What a user can mend is RecordError; what the file system cannot read is OSError, and never taken for a run that is not there.
"""

import json
import os
import pathlib
import shlex
import socket
import stat
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from isobit._base._errors import RecordError
from isobit._recording import _provenance

LARGEST = 1 << 20  # bytes of experiment.toml and state.json
STACK = 6  # from here to the program's `with`, where it is alone


class Program(NamedTuple):
    """What runs now: [script] of experiment.toml, the run's name, the sources by path, the interval of fingerprints, and of a
    study's run how its id ends."""

    script: Mapping[str, Any]
    name: str
    sources: Mapping[str, str]
    every: int
    ending: str = ""


def _content(file: pathlib.Path, largest: int) -> bytes:
    """ValueError for what can be read and is no file of a record: a pipe, a device, one that is too large."""
    about = file.stat()
    if (not stat.S_ISREG(about.st_mode) and not stat.S_ISDIR(about.st_mode)) or about.st_size > largest:
        raise ValueError(f"{file} is no file of a record")
    return file.read_bytes()


def _recorded(folder: pathlib.Path) -> dict[str, Any] | None:
    """[script] of a run's experiment.toml; None for what is no record of a program."""
    try:
        recorded = _provenance.read_toml(_content(folder / "experiment.toml", LARGEST).decode())
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None
    return recorded if "file" in recorded else None


def _unfinished(runs: pathlib.Path, program: Program) -> list[pathlib.Path]:
    """The runs of this script and name, with whatever arguments, that were not finished, the newest first."""
    found: list[tuple[Any, pathlib.Path]] = []
    for folder in runs.iterdir() if runs.is_dir() else ():
        if folder.name.startswith(".") or not folder.name.endswith(program.ending):
            continue
        recorded = _recorded(folder)
        if recorded is None or any(recorded.get(key) != program.script.get(key) for key in ("file", "folder")):
            continue
        if (folder / "manifest.json").exists():
            continue
        try:
            state = json.loads(_content(folder / "state.json", LARGEST))
            created, name = str(state["created"]), state["name"]
        except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
            warnings.warn(f"isobit.record: {folder} is a run of this script, but its state.json is damaged: it is not resumed",
                          stacklevel=STACK + 1)
            continue
        if name == program.name:
            found.append((created, folder))
    return [folder for _, folder in sorted(found, reverse=True)]


class Change(NamedTuple):
    """What of the program is not as when the run began, in words, and the remedy."""

    what: str
    do: str


def what_changed(folder: pathlib.Path, program: Program) -> Change | None:
    try:
        sources = recorded_sources(folder)
    except RecordError:
        return _damaged(folder)
    changed = [path for path, text in sources.items() if program.sources.get(path, text) != text]
    if changed:
        return Change(f"{', '.join(changed)} {'has' if len(changed) == 1 else 'have'} changed since {folder.name} began, which "
                      "could then not be verified", "put it back, or begin a new run (without resume)")
    recorded = _recorded(folder) or {}
    arithmetic, now = recorded.get("arithmetic", "isobit"), program.script.get("arithmetic", "isobit")
    if arithmetic != now:
        return Change(f"{folder.name} has arithmetic=\"{arithmetic}\", not \"{now}\"",
                      f"resume with arithmetic=\"{arithmetic}\", or begin a new run (without resume)")
    products, now = recorded.get("products", "ordered"), program.script.get("products", "ordered")
    if products != now:
        return Change(f"{folder.name} has products=\"{products}\", not \"{now}\"",
                      f"resume with isobit.enable(products=\"{products}\"), or begin a new run (without resume)")
    keeps, now = bool(recorded.get("predictions")), bool(program.script.get("predictions"))
    if keeps != now:
        return Change(f"{folder.name} has predictions={keeps}, not {now}",
                      f"resume with predictions={keeps}, or begin a new run (without resume)")
    gradients, now = recorded.get("fingerprint_gradients", 0), program.script.get("fingerprint_gradients", 0)
    if gradients != now:
        return Change(f"{folder.name} has gradients={gradients}, not {now}",
                      f"resume with gradients={gradients}, or begin a new run (without resume)")
    every = recorded.get("fingerprint_every")
    if every == program.every:
        return None
    return Change(f"{folder.name} has every={every}, not {program.every}",
                  f"resume with every={every}, or begin a new run (without resume)")


def other_arguments(folder: pathlib.Path, program: Program) -> Change | None:
    began, now = ((_recorded(folder) or {}).get("arguments"), program.script.get("arguments"))
    if began == now:
        return None
    return Change(f"{folder.name} began with {_in_words(began)}, not with {_in_words(now)}",
                  f"resume it with {_in_words(began)}, or begin a new run (without resume)")


def _in_words(arguments: Any) -> str:
    words = [str(word) for word in arguments] if isinstance(arguments, list) else []
    text = shlex.join(words)
    return f"the arguments {text if len(text) <= 200 else text[:197] + '...'}" if words else "no arguments"


def _may_be_written(folder: pathlib.Path) -> bool:
    """By a process that lives, or of another machine: one of several runs that go on beside each other."""
    try:
        lock = json.loads(_content(folder.parent / ".locks" / folder.name, LARGEST))
        return lock["host"] != socket.gethostname() or os.path.exists(f"/proc/{int(lock['pid'])}")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def choose(runs: pathlib.Path, program: Program, strict: bool) -> pathlib.Path | None:
    """The newest unfinished run of this program. Where there are some of this script, but of another version of it: None with
    a warning, or RecordError where strict. With other arguments it is another program, which nothing refuses beside this one: a
    warning where nobody writes that run."""
    newest: tuple[pathlib.Path, Change] | None = None
    other: tuple[pathlib.Path, Change] | None = None
    for folder in _unfinished(runs, program):
        if (change := other_arguments(folder, program)) is not None:
            other = other or (None if _may_be_written(folder) else (folder, change))
            continue
        change = what_changed(folder, program)
        if change is None:
            return folder
        newest = newest or (folder, change)
        if strict:
            raise refused(change)
    if newest is not None:
        folder, change = newest
        warnings.warn(f"isobit.record: {change.what}: {folder} is not resumed, a new run begins "
                      "(resume=\"strict\" refuses instead)", stacklevel=STACK)
    elif other is not None:
        folder, change = other
        warnings.warn(f"isobit.record: {change.what}: {folder} is not resumed, a new run begins (to resume that one, call the "
                      "script with its arguments)", stacklevel=STACK)
    return None


def refused(change: Change) -> RecordError:
    return RecordError(f"isobit.record: {change.what}\n  do     {change.do}")


def _damaged(folder: pathlib.Path) -> Change:
    return Change(f"{folder.name}: sources.json is damaged",
                  "restore the run's folder from a copy, or begin a new run (without resume)")


def recorded_sources(folder: pathlib.Path) -> dict[str, str]:
    """RecordError where the record holds none."""
    try:
        sources = json.loads(_content(folder / "sources.json", _provenance.LARGEST_FILE))["files"]
        if isinstance(sources, dict) and all(isinstance(text, str) for text in sources.values()):
            return sources
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise refused(_damaged(folder))
