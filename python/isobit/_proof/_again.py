"""What `isobit verify` calls where a recorded program runs again: in its sandbox, or with --trust outside.

    _again RUNS (tar|stay) PROCESSES FOLDER WORDS...

WORDS run in FOLDER with what they print on this process's stdout and stderr; several PROCESSES as torchrun starts them on one
machine, of which the first leaves the record and prints. Of a segment, RUNS first gets the record that it goes on from.
Descriptor 3 gets lines, `step N` while they run, `ended CODE` and `records N`; with `tar`, then `record` and the one record in
RUNS as a tar file, since nothing that is written in the sandbox outlives it. `isobit verify` trusts none of that: it is said by
the program that it judges.
Needs no torch.
"""

import json
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from typing import BinaryIO

REPORTS = 3
EVERY = 0.3  # seconds
RERUN = "ISOBIT_RERUN"  # _job.py, which needs torch
GRACE = 20.0  # seconds for the others to end by themselves where one has failed


def _open(path: pathlib.Path) -> BinaryIO:
    """A regular file alone: not what a link names, not a pipe to wait for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise OSError(f"{path}: not a regular file")
    return file


def records(runs: pathlib.Path) -> list[pathlib.Path]:
    try:
        return sorted(path for path in runs.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


class _Steps:
    """Counts lines as they come."""

    def __init__(self, runs: pathlib.Path) -> None:
        self._runs, self._at, self.count = runs, 0, 0

    def look(self) -> int:
        found = records(self._runs)
        if len(found) == 1:
            try:
                with _open(found[0] / "steps.jsonl") as file:
                    file.seek(self._at)
                    while piece := file.read(1 << 16):
                        self._at += len(piece)
                        self.count += piece.count(b"\n")
            except OSError:
                pass
        return self.count


def _files(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _files(path)
        else:
            yield path


def _pack(record: pathlib.Path, out: BinaryIO) -> None:
    """With what `isobit trace` asked for (_trace.of_record), which isobit takes out again."""
    traced = record.parent / ".trace"
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for folder, path in [*((record, path) for path in _files(record)),
                             *((traced, path) for path in (_files(traced) if traced.is_dir() else ()))]:
            with _open(path) as file:
                member = tarfile.TarInfo(f"{record.name}/{path.relative_to(folder)}")
                member.size = os.fstat(file.fileno()).st_size
                tar.addfile(member, file)


class _Processes:
    """The program's, which end together."""

    def __init__(self, command: list[str], here: str, count: int, scratch: str) -> None:
        self._until = float("inf")
        self._started = []
        common = _group_variables(count) if count > 1 else {}
        for rank in range(count):
            variables = {**os.environ, **common}
            if count > 1:
                variables.update(RANK=str(rank), LOCAL_RANK=str(rank))
            if rank > 0:  # each makes a record, of which the first one's is judged
                variables[RERUN] = json.dumps({**json.loads(os.environ[RERUN]), "runs": f"{scratch}/{rank}"})
            self._started.append(subprocess.Popen(command, cwd=here, env=variables, stdin=subprocess.DEVNULL,
                                                  stdout=subprocess.DEVNULL if rank > 0 else None))

    def wait(self, seconds: float) -> int | None:
        """The exit code, once none runs: the first one's, or of one that failed where that did not."""
        end = time.monotonic() + seconds
        while True:
            codes = [process.poll() for process in self._started]
            if None not in codes:
                return codes[0] or next((code for code in codes if code), 0)
            now = time.monotonic()
            if any(codes):
                self._until = min(self._until, now + GRACE)
            if now > self._until:
                for process in self._started:
                    process.kill()
            if now > end:
                return None
            time.sleep(0.02)


def _group_variables(count: int) -> dict[str, str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo"}


def main(words: list[str]) -> int:
    runs, how, count, here, *command = words
    os.set_inheritable(REPORTS, False)
    if start := json.loads(os.environ[RERUN]).get("start"):
        shutil.copytree(start, pathlib.Path(runs) / json.loads(os.environ[RERUN])["resume"])
    with os.fdopen(REPORTS, "wb", buffering=0) as reports, tempfile.TemporaryDirectory(prefix="isobit-again-") as scratch:
        processes = _Processes(command, here, int(count), scratch)
        steps = _Steps(pathlib.Path(runs))
        while (code := processes.wait(EVERY)) is None:
            reports.write(b"step %d\n" % steps.look())
        found = records(pathlib.Path(runs))
        reports.write(b"step %d\nended %d\nrecords %d\n" % (steps.look(), code, len(found)))
        if how == "tar" and len(found) == 1:
            reports.write(b"record\n")
            _pack(found[0], reports)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
