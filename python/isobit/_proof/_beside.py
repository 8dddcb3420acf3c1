"""What lies beside a program that is verified: its data, and not code.

A record is the whole program: its sources, its commit, its changes. What Python could import from beside, and no record has,
would run in the place of what was recorded, `isobit` itself included; so it is hidden, unless the user names it by `--read`, and
then the verdict names it. Caches are hidden whatever is named: Python compiles the recorded text. Needs no torch.
"""

import importlib.machinery
import os
import pathlib
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from isobit._base import _package
from isobit._proof._checkout import CannotJudge

SUFFIXES = tuple(importlib.machinery.all_suffixes())
CACHE = "__pycache__"
MOST = 60_000  # files and folders that one sandbox hides
PYTHONPATH = "ISOBIT_PYTHONPATH"  # what the program gets; this process does without entries of it that are not absolute


class Beside(NamedTuple):
    """All by paths below the folder."""

    code: list[str]  # hidden: what Python could import, and caches
    dotted: list[str]  # hidden from a sandbox: what begins with a dot
    shown: list[str]  # code that the user named, which no record has


def own_folders(torch: str) -> list[str]:
    """What this program and the verified one have in common: the library, installed packages, torch and isobit. Without links."""
    named = (*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), torch, *_package.FOLDERS)
    return sorted({os.path.realpath(path) for path in named})


def lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class _Search:
    """In `folder`, without links: names that the program's own files have are the program's."""

    def __init__(self, folder: str, program: pathlib.Path, own: Sequence[str], read: Iterable[str]) -> None:
        self.found = Beside([], [], [])
        self._folder, self._program, self._own = folder, program, own
        self._read = [path for given in read for path in {os.path.abspath(given), os.path.realpath(given)}]

    def below(self, folder: str) -> bool:
        """Whether all that is in it is code that was hidden."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            return False  # closed to the program, too
        hidden = [self._look(entry) for entry in entries]
        return all(hidden)

    def _look(self, entry: "os.DirEntry[str]") -> bool:
        """Whether it was hidden as code."""
        path, name = entry.path, os.path.relpath(entry.path, self._folder)
        if entry.name.startswith(".") and not self._holds_own(path):
            if not any(lies_in(read, path) for read in self._read):
                self.found.dotted.append(name)
            return False
        if entry.is_symlink():
            return self._link(path, name)
        if entry.is_dir(follow_symlinks=False):
            return self._subfolder(path, name)
        return _is_code(path) and not (self._program / name).is_file() and self._hide(path, name)

    def _holds_own(self, path: str) -> bool:
        return any(lies_in(own, path) for own in self._own)

    def _subfolder(self, path: str, name: str) -> bool:
        if path in self._own:
            return False
        if os.path.basename(path) == CACHE or (_is_environment(path) and not self._holds_own(path)):
            return self._hide(path, name)
        before = len(self.found.code)
        if not self.below(path):
            return False
        if _is_package(path):  # one name for all of it
            self.found.code[before:] = [name]
        return True

    def _link(self, path: str, name: str) -> bool:
        """To what lies in the folder, it shows what is shown of that."""
        target = os.path.realpath(path)
        if _is_code(path):
            return not (self._program / name).is_file() and self._hide(path, name)
        if lies_in(target, self._folder) or not os.path.isdir(target) or not _holds_code(target):
            return False
        return self._hide(path, name, target)

    def _hide(self, path: str, name: str, target: str = "") -> bool:
        if os.path.basename(path) != CACHE and any(lies_in(each, read) for each in (path, target) for read in self._read):
            self.found.shown.append(name)
            return False
        self.found.code.append(name)
        return True


def _is_environment(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in ("pyvenv.cfg", "conda-meta"))


def _is_package(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, f"__init__{suffix}")) for suffix in SUFFIXES)


def _is_code(path: str) -> bool:
    """By its name. Of what an installed package says of itself, that which has something called where torch is imported."""
    folder, name = os.path.split(path)
    return name.endswith(SUFFIXES) or (name == "entry_points.txt" and folder.endswith((".dist-info", ".egg-info")))


def _holds_code(folder: str) -> bool:
    return any(_is_code(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


def look(folder: pathlib.Path, program: pathlib.Path, own: Sequence[str], read: Iterable[str]) -> Beside:
    """folder: the one whose files the program sees beside its own, which lie in `program`. own: own_folders. read: what the
    user shows."""
    search = _Search(os.path.realpath(folder), program, own, read)
    search.below(os.path.realpath(folder))
    found = search.found
    if (count := len(found.code) + len(found.dotted)) > MOST:
        raise CannotJudge(f"{folder} has {count} names that are not shown to a program (code that is not in the record, names "
                          f"that begin with a dot), above {MOST}: call this where the program's data lie, or name that with "
                          "--repository")
    return found


def drop_caches(program: pathlib.Path) -> None:
    """A commit may bring some; what Python made of the recorded text is made here."""
    for folder, folders, _ in os.walk(program):
        if CACHE in folders and not os.path.islink(cache := os.path.join(folder, CACHE)):
            folders.remove(CACHE)
            shutil.rmtree(cache)


def require_our_isobit(program: pathlib.Path, script: str, folder: pathlib.Path | None, own: Sequence[str],
                       shown: Iterable[str]) -> None:
    """CannotJudge where the program would import an isobit of its own."""
    top = os.path.realpath(folder) if folder else ""
    given = os.environ.get(PYTHONPATH)
    paths = [*filter(None, sys.path), *(given.split(os.pathsep) if given else ())]
    inside = [os.path.relpath(path, top) for path in map(os.path.realpath, paths) if top and lies_in(path, top)]
    for where in (os.path.dirname(script), *inside):
        package = os.path.normpath(os.path.join(where, "isobit"))
        if os.path.join(top, package) in own and where in inside:
            continue  # this one, whatever the program has there
        for place in (f"{package}{middle}{suffix}" for middle in ("", "/__init__") for suffix in SUFFIXES):
            if (program / place).exists() or {place, package} & {*shown}:
                raise CannotJudge(f"the program would import an isobit of its own ({place}), which can say what it likes: verify "
                                  "takes this program's package alone")


def link(source: pathlib.Path, target: pathlib.Path, code: Iterable[str]) -> None:
    """With --trust: links in `target` to what lies in `source` and is not hidden. What the program has stays its own."""
    top = os.path.realpath(source)
    hidden = {os.path.join(top, name) for name in code}
    around = {str(folder) for path in hidden for folder in pathlib.Path(path).parents}  # which are made anew
    pairs = [(top, target)]
    while pairs:
        folder, copies = pairs.pop()
        copies.mkdir(parents=True, exist_ok=True)
        for name in os.listdir(folder):
            path, copy = os.path.join(folder, name), copies / name
            real = os.path.realpath(path)
            if name == ".git" or {path, real} & hidden or copy.is_symlink():
                continue
            if os.path.islink(path) and lies_in(real, top):
                if not copy.exists():
                    copy.symlink_to(target / os.path.relpath(real, top))
            elif os.path.isdir(path) and (copy.is_dir() or real in around):
                pairs.append((path, copy))
            elif not copy.exists():
                copy.symlink_to(real)
