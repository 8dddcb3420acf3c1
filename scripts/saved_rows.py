"""Rows of what a script measured, in the format of `isobit bench --save` (src/bench/saved_rows.h; docs/performance.md).

    saved = SavedRows(path, what="operator", command="scripts/bench-operators conv3d", peers={"torch": torch.__version__})
    wait = CoreWait()
    ... measure ...
    saved.append({"model": "conv3d", "threads": 1, "stock_ms": 3.1, "isobit_ms": 3.4, "ratio": 1.09, "rounds": 7}, wait.share())

A file that is there and is none of such rows is refused with SavedRowsError, before minutes are spent.
"""

import datetime
import fcntl
import functools
import json
import os
import pathlib
import platform
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORMAT = "isobit-bench-saved-1"
REMEDY = "rows go to a file of their own: --save bench/results/NAME.jsonl"


class SavedRowsError(Exception):
    """Place, problem and remedy."""


def read(path):
    """The rows of a file, oldest first."""
    rows = []
    text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if not line.endswith("\n"):
            raise SavedRowsError(f"{path}:{number}: the line has no end ({REMEDY})")
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or row.get("format") != FORMAT:
            raise SavedRowsError(f'{path}:{number}: no row that isobit bench saved ("format": "{FORMAT}") ({REMEDY})')
        rows.append(row)
    return rows


def _listed(name):
    """The words of a list in the program's source, so that it exists once."""
    source = (ROOT / "src/archive/environment.cpp").read_text(encoding="utf-8")
    return re.findall(r'"([^"]+)"', re.search(rf"\b{name}\b[^=]*= \{{(.*?)\}};", source, re.DOTALL)[1])


def _processor(key):
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


@functools.cache
def machine():
    """What the rows say of this machine."""
    known = set(_listed("kFeatures"))
    memory = re.search(r"^MemTotal:\s*(.*)$", pathlib.Path("/proc/meminfo").read_text(encoding="utf-8"), re.MULTILINE)
    found = {"architecture": platform.machine(), "cpu": _processor("model name"),
             "features": [word for word in _processor("flags").split() if word in known], "cores": os.cpu_count(),
             "cores_allowed": len(os.sched_getaffinity(0)), "memory": memory[1] if memory else ""}
    if int(_processor("cpu family") or 0) > 0:
        found |= {"cpu_family": int(_processor("cpu family")), "cpu_model": int(_processor("model"))}
    return found


def variables():
    """Those of the environment that change how something is executed; a path may name a person."""
    return {name: os.environ[name] if "/" not in os.environ[name] else "(a path)"
            for name in _listed("kVariables") if name in os.environ}


def commit():
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
                          capture_output=True, text=True, check=False)
    return f"isobit ({done.stdout.strip() or 'unknown'})"


class CoreWait:
    """How long this thread was ready to run while others had the cores, from here on (src/bench/core_wait.h)."""

    def __init__(self):
        self._start = self._count()

    @staticmethod
    def _count():
        try:
            words = pathlib.Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()
            return int(words[0]), int(words[1])
        except (OSError, ValueError, IndexError):
            return None

    def share(self):
        now = self._count()
        if self._start is None or now is None:
            return None
        ran, waited = now[0] - self._start[0], now[1] - self._start[1]
        return waited / (ran + waited) if ran + waited > 0 else None


def keep(path, rows):
    """Appends rows as they are, each line whole or not at all."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        read(path)
        for row in rows:
            line = (json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n").encode()
            size = os.fstat(descriptor).st_size
            if os.write(descriptor, line) != len(line):  # a full disk: no half of a line stays
                os.ftruncate(descriptor, size)
                raise SavedRowsError(f"{path}: no space is left for the row")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class SavedRows:
    def __init__(self, path, what, command, peers):
        self.path = pathlib.Path(path)
        if self.path.is_dir():
            raise SavedRowsError(f"{path}: is a folder ({REMEDY})")
        if not self.path.absolute().parent.is_dir():
            raise SavedRowsError(f"{self.path.absolute().parent}: no such folder (make it, or save the rows in another one)")
        if self.path.exists():
            read(self.path)
        self._shared = {"what": what, "command": command}
        self._peers = dict(peers)

    def append(self, figures, waited):
        """figures: the row's own keys, with units in their names. waited: CoreWait's share, or None."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        row = {"format": FORMAT, **self._shared, "date_utc": now,
               "commit": commit(), "peers": self._peers, "machine": machine(), "variables": variables(), "waited": waited}
        if twice := row.keys() & figures.keys():
            raise ValueError(f"a row's own key has the name of one that all rows have: {twice}")
        keep(self.path, [{**row, **figures}])
