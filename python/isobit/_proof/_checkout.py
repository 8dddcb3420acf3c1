"""A recorded program written out: its commit, its uncommitted changes, its sources. What a record says is not trusted.

Of the user's repository objects are read, and nothing else: no hook, filter, attribute or setting of a record, of the
commit or of the user plays a part, so that files are as they were committed.
"""

import hashlib
import os
import pathlib
import re
import resource
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from typing import IO

from isobit._recording._provenance import LARGEST_FILE

MOST_FILES = 1_000_000  # of a commit
LONGEST_NAME = 1 << 16
PIECE = 1 << 20  # bytes of a file that are held at once
_LFS = b"version https://git-lfs.github.com/spec/"


class CannotJudge(Exception):
    """What `isobit verify` says, with exit code 2."""


def checked_path(text: object, what: str) -> str:
    """A path below a folder; "" is the folder. CannotJudge for any other, and for what could be taken for an option."""
    if not isinstance(text, str):
        raise CannotJudge(f"{what} is no path")
    if text.startswith("-") or any(ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000 for c in text):
        raise CannotJudge(f"{what} names no file that can be: {text}")
    return _stays_below(text, what)


def _stays_below(text: str, what: str) -> str:
    parts = text.split("/") if text else []
    if any(part in ("", ".", "..") or part.lower() == ".git" for part in parts) or "\0" in text or len(text) > 4000:
        raise CannotJudge(f"{what} names a file outside its folder: {text}")
    return text


def checked_commit(text: object) -> str:
    if not isinstance(text, str) or (text and not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", text)):
        raise CannotJudge(f"experiment.toml: commit is none: {text}")
    return text


def absolute_path() -> dict[str, str]:
    """The environment, without folders of PATH that are not absolute: a record may have come with programs of these names."""
    path = os.environ.get("PATH", os.defpath)
    return {**os.environ, "PATH": os.pathsep.join(filter(os.path.isabs, path.split(os.pathsep)))}


def _environment(ceiling: pathlib.Path | None = None) -> dict[str, str]:
    kept = {name: value for name, value in absolute_path().items() if not name.startswith("GIT_")}
    return {**kept, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ATTR_NOSYSTEM": "1", "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_ALLOW_PROTOCOL": "",  # git before 2.45.1 fetches what is missing from where the repository's settings say
            **({"GIT_CEILING_DIRECTORIES": str(ceiling)} if ceiling else {})}


def _output(words: list[str], environment: Mapping[str, str]) -> bytes | None:
    try:
        done = subprocess.run(words, capture_output=True, check=False, env=environment, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def _around(folder: pathlib.Path) -> pathlib.Path | None:
    """The nearest folder that says of itself that it is a repository's."""
    return next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)


class Repository:
    """The user's, around a folder; `top` is None where there is none."""

    def __init__(self, folder: str) -> None:
        safe = _output(["git", "config", "--global", "--get-all", "safe.directory"], absolute_path())
        self._words = ["git", "-C", folder, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
                       "-c", "protocol.allow=never"]
        for directory in (safe or b"").decode(errors="replace").splitlines():
            self._words += ["-c", f"safe.directory={directory}"]
        top = self._run("rev-parse", "--show-toplevel")
        named = pathlib.Path(os.fsdecode(top.rstrip(b"\n"))).resolve() if top else None
        # The repository's own settings can name any folder, whose files a program would then be shown.
        self.top = named if named == _around(pathlib.Path(folder).resolve()) else None

    def _run(self, *words: str) -> bytes | None:
        return _output([*self._words, *words], _environment())

    def has(self, commit: str) -> bool:
        return self._run("cat-file", "-e", f"{commit}^{{commit}}") is not None

    def write_out(self, commit: str, folder: pathlib.Path) -> None:
        """The commit's files. What git-lfs keeps elsewhere is left out: it is taken from beside, as data is."""
        room = _Room(folder)
        with subprocess.Popen([*self._words, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env=_environment()) as objects:
            assert objects.stdin is not None and objects.stdout is not None
            for line in self._listed(commit):
                about, _, name = line.partition(b"\t")
                mode, kind, digest = about.split(b" ")
                if kind != b"blob":
                    continue  # a submodule
                objects.stdin.write(digest + b"\n")
                objects.stdin.flush()
                size = objects.stdout.readline().rstrip(b"\n").split(b" ")[-1]
                if not size.isdigit():
                    raise CannotJudge(f"commit {commit[:12]} cannot be read: {os.fsdecode(name)} is missing (git fetch gets what "
                                      "a partial clone left out)")
                room.take(int(size))
                _write(folder, os.fsdecode(name), mode, objects.stdout, int(size))
                objects.stdout.read(1)

    def _listed(self, commit: str) -> Iterator[bytes]:
        """Its files, one by one: a few trees that name each other can stand for more than any disk holds."""
        with subprocess.Popen([*self._words, "ls-tree", "-r", "-z", "--full-tree", commit, "--"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env=_environment()) as listing:
            assert listing.stdout is not None
            try:
                rest, count = b"", 0
                while piece := listing.stdout.read(1 << 16):
                    *lines, rest = (rest + piece).split(b"\0")
                    count += len(lines)
                    if count > MOST_FILES or len(rest) > LONGEST_NAME:
                        raise CannotJudge(f"commit {commit[:12]} has more than {MOST_FILES} files, or names that none can have")
                    yield from lines
                if listing.wait() != 0:
                    raise CannotJudge(f"commit {commit[:12]} cannot be read: run git fsck")
            finally:
                listing.kill()


class _Room:
    """On the disk for a program that is written out: what is free, but for a tenth, so that others can still work."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._left = shutil.disk_usage(folder).free // 10 * 9

    def take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise CannotJudge("the commit's files need more than the disk that is free for temporary files (set TMPDIR)")


def _write(folder: pathlib.Path, name: str, mode: bytes, content: IO[bytes], size: int) -> None:
    target = below(folder, name, "the commit")
    first = content.read(min(size, PIECE))
    if mode == b"120000":
        if len(first) != size:
            raise CannotJudge(f"the commit has a link that leads nowhere: {name}")
        target.symlink_to(os.fsdecode(first))
        return
    left_out = first.startswith(_LFS)
    with open(os.devnull if left_out else target, "wb") as file:
        file.write(first)
        left = size - len(first)
        while left and (piece := content.read(min(left, PIECE))):
            file.write(piece)
            left -= len(piece)
    if not left_out:
        target.chmod(0o755 if mode == b"100755" else 0o644)


def below(folder: pathlib.Path, name: str, what: str) -> pathlib.Path:
    """Where a file of that name goes, its folders made. CannotJudge where a link leads out."""
    target = folder / _stays_below(name, what)
    if not name or folder.resolve() not in target.resolve().parents:
        raise CannotJudge(f"{what} names a file outside its folder: {name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _leaving(folder: pathlib.Path) -> Iterator[str]:
    """Links that lead out."""
    top = folder.resolve()
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = pathlib.Path(here, name)
            if path.is_symlink() and top not in (*(path.resolve()).parents, path.resolve()):
                yield str(path.relative_to(folder))


def _half_of_memory() -> int:
    """Of what is free now, in bytes."""
    with open("/proc/meminfo", encoding="ascii") as file:
        free = next((int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:")), 8 << 30)
    return max(1 << 30, free // 2)


def apply_patch(folder: pathlib.Path, patch: bytes) -> str:
    """Why it does not apply; "" where it did. CannotJudge where it makes a link that leads out of the folder."""
    before = set(_leaving(folder))
    # git holds all files that a patch makes in memory before it writes one; packed, a megabyte can stand for a gigabyte.
    most = _half_of_memory()
    done = subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=patch, cwd=folder, check=False, capture_output=True,
                          env=_environment(folder.parent),
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))
    for link in _leaving(folder):
        if link not in before:
            raise CannotJudge(f"dirty.patch makes a link that leads out of the program's folder: {link}")
    return done.stderr.decode(errors="replace").strip() if done.returncode != 0 else ""


def write_sources(folder: pathlib.Path, sources: Mapping[str, str]) -> None:
    for name, text in sources.items():
        target = below(folder, checked_path(name, "sources.json"), "sources.json")
        if not isinstance(text, str):
            raise CannotJudge(f"sources.json: {name} is no text")
        target.write_text(text, encoding="utf-8")


def content_of(path: pathlib.Path) -> bytes | None:
    """Of a regular file that is not too large; None of anything else, which a link may lead to: nothing is waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            content = file.read(LARGEST_FILE + 1)
    except OSError:
        return None
    return content if content is not None and len(content) <= LARGEST_FILE else None


def differing(sources: Mapping[str, str], beside: pathlib.Path) -> list[str]:
    """Recorded sources that are other ones on disk now."""
    found = []
    for name, text in sources.items():
        content = content_of(beside / name)
        try:
            if content is not None and digest(content) != digest(text.encode()):
                found.append(name)
        except UnicodeEncodeError:
            continue
    return found


def digest(content: bytes) -> str:
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()
