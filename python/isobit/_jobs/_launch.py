"""python -m isobit launch: a script in several processes of this machine that share the grains of its steps.

Needs no torch: the workers load it. This process starts them, waits, and starts them again where one was killed.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import IO, Protocol

from isobit._base._arguments import CommandParser

_GRACE = 20.0  # seconds for the others to end by themselves where one has failed
_STOP = 5.0  # and after they were asked to
_DIES_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG


class Worker(Protocol):
    """What is started: subprocess.Popen is one."""

    def poll(self) -> int | None: ...

    def send_signal(self, sig: int) -> None: ...


Start = Callable[[int, Mapping[str, str], IO[bytes] | None], Worker]


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog="python -m isobit launch", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs a script in several processes of this machine, which share the grains of each step of its loop\n"
                    "over run.steps. The weights and the record are those of the script alone, bit for bit. Where a worker is\n"
                    "killed, all resume from the record's newest checkpoint. What worker 0 prints is shown,\n"
                    "and of the others what they fail with.",
        epilog="exit code: the script's; 2 where it cannot be shared, 128 + a signal that ended it, 130 interrupted\n\n"
               "example:\n  python -m isobit launch --workers 2 examples/python/grains.py --batch 64 --grain 16 --steps 100")
    parser.add_argument("--workers", type=int, required=True, metavar="N", help="processes")
    parser.add_argument("--restarts", type=int, default=3, metavar="K",
                        help="times that all are started again without a new checkpoint in between (3)")
    parser.add_argument("script", help="a Python script whose training is a loop over run.steps")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")
    options = parser.read(words)
    if options.workers < 1:
        parser.error(f"--workers is {options.workers}: at least 1")
    if options.restarts < 0:
        parser.error(f"--restarts is {options.restarts}: at least 0")
    if not pathlib.Path(options.script).is_file():
        parser.error(f"{options.script}: no such file")
    return options


def main(words: Sequence[str], start: Start | None = None) -> int:
    """start: makes the processes; by default Python with the script."""
    options = _options(words)

    def start_python(rank: int, environment: Mapping[str, str], output: IO[bytes] | None) -> Worker:
        # A session of its own: Ctrl-C reaches the workers through this process alone.
        return subprocess.Popen([sys.executable, options.script, *options.arguments], env=environment, start_new_session=True,
                                preexec_fn=_die_with_parent,  # noqa: PLW1509  (no thread here)
                                stdin=None if rank == 0 else subprocess.DEVNULL,
                                stdout=None if rank == 0 else subprocess.DEVNULL, stderr=output)

    with tempfile.TemporaryDirectory(prefix="isobit-launch-") as folder:
        return _Launch(pathlib.Path(folder), options.workers, options.restarts, start or start_python).run()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGTERM)


class _Launch:
    def __init__(self, folder: pathlib.Path, workers: int, restarts: int, start: Start) -> None:
        self._folder, self._count, self._restarts, self._start = folder, workers, restarts, start
        self._told = folder / "told"  # by worker 0's record (_job.tell)
        self._workers: list[Worker] = []
        self._ended: list[int] = []  # in the order in which they ended
        self._stopped: set[int] = set()  # ended by this process
        self._signal = 0

    def run(self) -> int:
        before = {number: signal.signal(number, self._stop_all) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            return self._run()
        finally:
            self._end_all()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run(self) -> int:
        left, reached = self._restarts, 0
        while True:
            codes = self._attempt()
            if self._signal:
                return 128 + self._signal
            killed = [rank for rank in self._ended if codes[rank] < 0 and rank not in self._stopped]
            if not killed:
                return self._judge(codes)
            step, resumes = self._saved(reached)
            left, reached = (self._restarts, step) if step > reached else (left, reached)
            name = signal.Signals(-codes[killed[0]]).name
            print(f"isobit launch: worker {killed[0]} of {self._count} was ended by {name}", file=sys.stderr, end="")
            if left == 0:
                tried = f", and {self._restarts} restarts brought no new checkpoint" if self._restarts else ""
                print(f"{tried}: start it again to resume", file=sys.stderr)
                return 128 - codes[killed[0]]
            left -= 1
            where = f"all resume after step {step}" if step > 0 and resumes else "all begin again from step 1"
            print(f": {where}{'' if resumes else ' (isobit.record without resume=True)'}", file=sys.stderr, flush=True)

    def _judge(self, codes: Sequence[int]) -> int:
        if not any(codes):
            if self._count > 1 and not self._told.exists():
                print("isobit: the script made no record, so that nothing was shared: each worker did all of it (write its loop "
                      "with run.steps in isobit.record: docs/python.md, Grains)", file=sys.stderr)
                return 2
            return 0
        first = next(rank for rank in self._ended if codes[rank] != 0)
        if codes[0] == 0 or first != 0:
            self._show_what_failed(first, codes[0] == 0)
        return codes[first]

    def _show_what_failed(self, rank: int, whole: bool) -> None:
        """Worker 0 has told what failed where it failed with it."""
        print(f"isobit launch: worker {rank} of {self._count} failed", file=sys.stderr)
        if whole:
            sys.stderr.write(self._errors(rank).read_text(errors="replace"))

    def _saved(self, before: int) -> tuple[int, bool]:
        """The step of the newest checkpoint, and whether the script resumes from it, as the record told; `before`, where it was
        not reached this time."""
        step, resumes = before, True
        with contextlib.suppress(OSError):
            for line in self._told.read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(ValueError):
                    told = json.loads(line)
                    step, resumes = int(told.get("saved", told.get("step", step))), bool(told.get("resumes", resumes))
        return step, resumes

    # ---- processes

    def _attempt(self) -> list[int]:
        """Starts all, and waits until none runs; their exit codes, negative for signals."""
        self._told.unlink(missing_ok=True)
        self._workers, self._ended, self._stopped = [], [], set()
        variables = self._environment()
        for rank in range(self._count):
            environment = {**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            with contextlib.ExitStack() as files:
                output = files.enter_context(self._errors(rank).open("wb")) if rank else None
                self._workers.append(self._start(rank, environment, output))
        return self._wait()

    def _environment(self) -> dict[str, str]:
        """For a script alone, as it is."""
        if self._count == 1:
            return dict(os.environ)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        threads = max(1, len(os.sched_getaffinity(0)) // self._count)
        return {"OMP_NUM_THREADS": str(threads), **os.environ, "ISOBIT_LAUNCH": str(self._told), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port), "WORLD_SIZE": str(self._count), "LOCAL_WORLD_SIZE": str(self._count),
                "GLOO_SOCKET_IFNAME": "lo"}

    def _errors(self, rank: int) -> pathlib.Path:
        return self._folder / f"stderr-{rank}"

    def _wait(self) -> list[int]:
        codes: dict[int, int] = {}
        until = float("inf")  # when the rest is stopped
        while len(codes) < self._count:
            for rank, worker in enumerate(self._workers):
                code = None if rank in codes else worker.poll()
                if code is None:
                    continue
                codes[rank] = code
                self._ended.append(rank)
                if code < 0 and not self._signal:
                    self._end_all()
                elif code != 0:
                    until = min(until, time.monotonic() + _GRACE)
            if time.monotonic() > until:
                self._end_all()
            time.sleep(0.02)
        return [codes[rank] for rank in range(self._count)]

    def _end_all(self) -> None:
        """Asks those that still run to end, and ends them."""
        for number, seconds in ((signal.SIGTERM, _STOP), (signal.SIGKILL, _STOP)):
            running = [worker for worker in self._workers if worker.poll() is None]
            for rank, worker in enumerate(self._workers):
                if worker in running:
                    self._stopped.add(rank)
                    worker.send_signal(number)
            end = time.monotonic() + seconds
            while any(worker.poll() is None for worker in running) and time.monotonic() < end:
                time.sleep(0.02)

    def _stop_all(self, number: int, _frame: FrameType | None) -> None:
        """Ctrl-C: once, the workers end as a script alone would; twice, at once."""
        for worker in self._workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGKILL if self._signal else number)
        self._signal = number
