"""What `isobit verify` calls to prepare a Python program's record: writes the program out, and says how to run it again.

    _verify FOLDER WORK --repository DIR [--trust] [--read PATH]... -- ARGUMENTS...

FOLDER is a record that is sound, which says nothing about who wrote it. The program as it was goes to WORK/program; one JSON
object on stdout says what it needs. Exit code 2 and the reason on stdout where it cannot be run again. No line of the
record is executed here. Needs no torch itself.
"""

import argparse
import io
import json
import os
import pathlib
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from isobit import _built
from isobit._base import _package
from isobit._base._package import torch_folder
from isobit._proof import _beside, _checkout, _reading
from isobit._proof._checkout import CannotJudge, checked_commit, checked_path
from isobit._recording import _provenance

# What a program may see of the environment; besides those that are recorded.
PASSED = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_NUMERIC", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHASHSEED",
          "PYTHONUTF8")
MOST_PROCESSES = 64
SEEDS = re.compile(r"\b(seed|seed_all|seed_everything|manual_seed|manual_seed_all|set_seed)\s*\(")


def printable(text: str) -> str:
    """In one line, with nothing that a terminal obeys."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}" for c in text)


def say(text: str) -> None:
    print(f"isobit: {printable(text)}", file=sys.stderr)


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:20])}{f' and {len(names) - 20} more' if len(names) > 20 else ''}"


def _text(record: pathlib.Path, name: str) -> str:
    """Of a file of the record; "" where it has none of that name."""
    path = record / name
    if path.exists() and path.stat().st_size > _provenance.LARGEST_FILE:
        raise CannotJudge(f"{name} is larger than {_provenance.LARGEST_FILE >> 20} MiB")
    return path.read_text(encoding="utf-8") if path.exists() else ""


class Program:
    """What the record says of it, checked."""

    def __init__(self, record: pathlib.Path) -> None:
        script = _provenance.read_toml(_text(record, "experiment.toml"))
        self.file = checked_path(script["file"], "experiment.toml: file")
        if not self.file:
            raise CannotJudge("recorded in an interactive session: there is no script to run again")
        folder = script["folder"]
        self.folder = "" if folder == "." else checked_path(folder, "experiment.toml: folder")
        self.commit = checked_commit(script.get("commit", ""))
        self.arguments: list[str] = script["arguments"]
        if not isinstance(self.arguments, list) or not all(isinstance(word, str) and "\0" not in word for word in self.arguments):
            raise CannotJudge("experiment.toml: arguments is no list of words")
        self.processes = script.get("processes", 1)
        if type(self.processes) is not int or not 1 <= self.processes <= MOST_PROCESSES:
            raise CannotJudge(f"recorded by {self.processes} processes that share a process group: at most {MOST_PROCESSES} are "
                              "started here")
        sources = json.loads(_text(record, "sources.json"))["files"]
        if not isinstance(sources, dict):
            raise CannotJudge("sources.json: files is no object")
        self.sources: dict[str, str] = sources
        exported = _text(record, "export.json")
        self.exported = bool(exported)
        self.changed = {entry["path"] for entry in json.loads(exported)["changed"]} if exported else set()
        patch = record / "dirty.patch"
        if patch.exists() and patch.stat().st_size > _provenance.LARGEST_FILE:
            raise CannotJudge("dirty.patch is larger than a recorded one can be")
        self.patch = patch.read_bytes() if patch.exists() else b""
        self.unused: list[str] = []  # what of the record plays no part, in words
        self.instead = ""  # what is executed in place of something recorded, in words
        self.of = "no commit"  # what runs

    def arguments_now(self, given: list[str]) -> list[str]:
        if given:
            self._note_arguments(given)
            return given
        if any(_provenance.LEFT_OUT in argument for argument in self.arguments):
            raise CannotJudge(f"arguments were left out of the record: {' '.join(self.arguments)}; give all after --")
        return self._recorded_arguments()

    def _recorded_arguments(self) -> list[str]:
        home = os.path.expanduser("~")
        return [home + argument[1:] if argument.startswith("~/") else argument.replace("=~/", f"={home}/")
                for argument in self.arguments]

    def _note_arguments(self, given: list[str]) -> None:
        if given == self._recorded_arguments():
            return
        now, recorded = shlex.join(given), shlex.join(self.arguments) or "none"
        self.instead = f"arguments {now} in place of the recorded: {recorded}"
        self.unused.append(f"the recorded arguments ({recorded}; it ran with {now})")

    def write(self, folder: pathlib.Path, repository: _checkout.Repository, named: str) -> None:
        folder.mkdir()
        if self.commit and repository.top is not None:
            self._check_out(folder, repository, named)
        elif self.commit:
            self._leave_out(f"{named} is no repository", patch=bool(self.patch))
        elif self.patch:
            self.unused.append("dirty.patch (the record names no commit)")
        self._note_unreadable(folder)
        _checkout.write_sources(folder, self.sources)
        if self.folder:  # a link of the commit could lead elsewhere
            _checkout.below(folder, self.folder, "experiment.toml: folder").mkdir(exist_ok=True)
        if not (folder / self.file).is_file():
            raise CannotJudge(f"the record has no source of {self.file}")

    def _check_out(self, folder: pathlib.Path, repository: _checkout.Repository, named: str) -> None:
        if not repository.has(self.commit):
            if not self.exported:
                raise CannotJudge(f"commit {self.commit[:12]} is not in {named}: fetch it, or name another --repository")
            say(f"commit {self.commit[:12]} is not in {named}: the sources in the file are used alone")
            self._leave_out(f"it is not in {named}", patch=bool(self.patch))
            return
        repository.write_out(self.commit, folder)
        self.of = f"commit {self.commit[:12]}{' with changes' if self.patch else ''}"
        if self.patch:
            self._apply_patch(folder)
        self._note_other_sources(folder)

    def _apply_patch(self, folder: pathlib.Path) -> None:
        if self.patch.startswith(b"# left out"):
            self.unused.append("dirty.patch (its changes were left out)")
            return
        reason = _checkout.apply_patch(folder, self.patch)
        if reason and "dirty.patch" not in self.changed:
            raise CannotJudge(f"dirty.patch does not apply to commit {self.commit[:12]}: {reason}")
        if reason:
            say("dirty.patch was changed by isobit export and does not apply: of changed files only those in "
                "sources.json are used")
            self.unused.append("dirty.patch (isobit export changed it)")

    def _note_other_sources(self, folder: pathlib.Path) -> None:
        """The sources are what runs: a commit that says something else is nobody's proof."""
        of = f"commit {self.commit[:12]}{' with dirty.patch' if self.patch else ''}"
        other = _checkout.differing(self.sources, folder)
        missing = [name for name in self.sources if not (folder / name).is_file()]
        for what, names in ((f"{of} (other text ran: ", other), (f"{of} (what ran is not in it: ", missing)):
            if names:
                self.unused.append(f"{what}{_listed(names)})")

    def _note_unreadable(self, folder: pathlib.Path) -> None:
        """What runs, and nobody who reads the record sees: `folder` holds what is not in the sources."""
        _beside.drop_caches(folder)
        unseen = sorted({*_reading.without_text(folder, self.sources), *({self.file} - self.sources.keys())})
        if unseen:
            self.unused.append(f"code that no source shows: {_listed(unseen)}")
        for name, text in self.sources.items():
            if why := _reading.deceives(text) if isinstance(text, str) else "":
                self.unused.append(f"whether {name} reads as it runs ({why})")

    def _leave_out(self, why: str, patch: bool) -> None:
        self.of = "its sources alone"
        self.unused.append(f"commit {self.commit[:12]}{' and dirty.patch' if patch else ''} ({why})")


# ---- What a sandbox has to show

def _holds_home(path: pathlib.Path) -> bool:
    home = pathlib.Path(os.path.expanduser("~"))
    return any(path == part or path in part.parents for part in (home, home.resolve()))


def _editable() -> Iterator[str]:
    """Folders of packages that setuptools installed where they are developed."""
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):
            for path in getattr(module, "MAPPING", {}).values():
                yield str(path if os.path.isdir(path) else os.path.dirname(path))


def _torch() -> str:
    torch = torch_folder()
    if torch is None:
        raise CannotJudge(f"{sys.executable} has no torch: pip install torch=={_built.torch_version}, or set ISOBIT_PYTHON to a "
                          "Python that has it")
    return torch


def readable() -> list[str]:
    """Paths that the interpreter, its packages, isobit and torch need; none that holds the home."""
    libraries = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    wanted = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *sys.path, *libraries, *_editable(), _torch(),
              *_package.FOLDERS, os.path.realpath(sys.executable)}
    found = []
    for path in sorted(os.path.abspath(path) for path in wanted if path and os.path.exists(path)):
        if _holds_home(pathlib.Path(path)) or _holds_home(pathlib.Path(path).resolve()):
            say(f"{path} is on the module path and holds the home folder: it is not shown to the program (--read PATH shows "
                "parts)")
        else:
            found.append(path)
    return found


def links() -> list[tuple[str, str]]:
    """The links through which the interpreter is called: (where, to what)."""
    found: list[tuple[str, str]] = []
    path = os.path.abspath(sys.executable)
    while os.path.islink(path) and len(found) < 40:
        found.append((path, os.readlink(path)))
        path = os.path.join(os.path.dirname(path), found[-1][1])
    return found


def environment() -> dict[str, str]:
    names = {*PASSED, *_provenance.VARIABLES}
    given = os.environ.get(_beside.PYTHONPATH)
    variables = {**os.environ, **({} if given is None else {"PYTHONPATH": given})}
    passed = {name: value for name, value in variables.items() if name in names}
    return {**passed, "USER": "verify", "LOGNAME": "verify", "TMPDIR": "/tmp", "PYTHONUNBUFFERED": "1",
            "PATH": f"{os.path.dirname(os.path.abspath(sys.executable))}:/usr/local/bin:/usr/bin:/bin"}


def _folder_beside(top: pathlib.Path | None, named: str) -> pathlib.Path | None:
    """The folder whose files the program sees next to its own."""
    folder = top or pathlib.Path(named).resolve()
    if not folder.is_dir():
        raise CannotJudge(f"--repository {named}: no such folder")
    if _holds_home(folder):
        say(f"{folder} holds the home folder: nothing in it is shown to the program (call this where the program's data lie)")
        return None
    return folder


def _look_beside(program: Program, copy: pathlib.Path, folder: pathlib.Path | None, own: list[str],
                 options: argparse.Namespace) -> _beside.Beside:
    """What of that folder the program does not see."""
    _beside.drop_caches(copy)
    found = _beside.look(folder, copy, own, options.read) if folder else _beside.Beside([], [], [])
    _beside.require_our_isobit(copy, program.file, folder, own, found.shown)
    if found.shown:
        program.unused.append(f"code beside that the record does not have and --read shows: {_listed(sorted(found.shown))}")
    return found


def _tell(program: Program, options: argparse.Namespace, beside: pathlib.Path | None) -> None:
    call = " ".join([program.file, *(options.arguments or program.arguments)])
    where = "without a sandbox, with all your rights" if options.trust else "in a sandbox without network"
    count = f" in {program.processes} processes" if program.processes > 1 else ""
    say(f"running {call}{count} {where} ({program.of}; {', '.join(sorted(program.sources)[:20])}; {sys.executable})")
    for name in _checkout.differing(program.sources, beside)[:5] if beside and not program.changed else ():
        say(f"note: {name} in {options.repository} is no longer what was recorded; the recorded text is what runs")


def plan(record: pathlib.Path, work: pathlib.Path, options: argparse.Namespace) -> dict[str, Any]:
    program = Program(record)
    arguments = program.arguments_now(options.arguments)
    repository = _checkout.Repository(options.repository)
    beside = _folder_beside(repository.top, options.repository)
    copy = work / "program"
    program.write(copy, repository, options.repository)
    own = _beside.own_folders(_torch())
    found = _look_beside(program, copy, beside, own, options)
    if options.trust and beside:
        _beside.link(beside, copy, found.code)
    _tell(program, options, beside)
    hidden = [str(beside / name) for name in (*found.code, *found.dotted)] if beside else []
    return {"python": sys.executable, "processes": program.processes, "file": program.file, "folder": program.folder,
            "arguments": arguments, "instead": program.instead, "unused": program.unused,
            "readable": [] if options.trust else readable(), "links": links(), "beside": str(beside or ""), "hidden": hidden,
            "own": [path for path in own if beside and _beside.lies_in(path, str(beside))],
            "environment": environment(), "seeded": any(SEEDS.search(text) for text in program.sources.values())}


def _parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="isobit._proof._verify", description=__doc__)
    parser.add_argument("record", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--repository", default=".")
    parser.add_argument("--trust", action="store_true")
    parser.add_argument("--read", action="append", default=[])
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    options.arguments = words[end + 1:]
    return options


def prepare(words: list[str]) -> Mapping[str, Any] | str:
    """The plan, or why there is none."""
    options = _parse(words)
    try:
        return plan(options.record, options.work, options)
    except (CannotJudge, OSError) as error:
        return str(error)
    except RecursionError:
        return "not the record of a Python program: its JSON is nested too deep"
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"not the record of a Python program: {error!r}"


def main(words: list[str]) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    result = prepare(words)
    print(result if isinstance(result, str) else json.dumps(result))
    return 2 if isinstance(result, str) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
