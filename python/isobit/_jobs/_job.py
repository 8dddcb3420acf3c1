"""The processes that train one job together: who they are, what they agree on, how bytes travel between them.

torchrun and `python -m isobit launch` start them, with RANK and WORLD_SIZE in the environment; a program may have made
torch.distributed's default process group itself. Whatever a job does together begins with an agreement: all processes come to the
same one, or all raise the same error. One thread.
"""

import builtins
import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import torch

from isobit._base import _check_mode, _generators
from isobit._base._errors import RecordError, RefusedError
from isobit._base._sums import ExactSum, Exchange

RERUN = "ISOBIT_RERUN"  # set by isobit verify, which runs a program in one process
STUDY = "ISOBIT_STUDY"  # and by isobit study

LAUNCH = "ISOBIT_LAUNCH"  # set by isobit launch: the file in which a record tells how far it is
NO_GRAIN = 1 << 62  # a failure between grains, which counts behind those of grains
_LONGEST_TRACE = 6000

_own_group = False  # the library made the process group


def called_for() -> dict[str, Any] | None:
    """What another program wants of this one's record: "runs" (the archive), "threads", of a study "ending" (of its id), of a
    trace "trace"; of a segment that is verified "resume" (the id of the record that it goes on from) and "until" (the step at
    whose checkpoint it ends)."""
    told = os.environ.get(RERUN) or os.environ.get(STUDY)
    return None if told is None else dict(json.loads(told))


class Failure(NamedTuple):
    """What ended a process' part; with its grain, the lowest of which counts. `leaving`: it agrees on nothing more."""

    grain: int
    kind: str
    text: str
    trace: str
    leaving: bool


class Report(NamedTuple):
    """What a process brings to an agreement."""

    where: str
    data: dict[str, Any]
    failure: Failure | None
    payload: memoryview


def join() -> "Job | None":
    """The job that this process belongs to; None where it is alone. Waits for the others."""
    global _own_group
    distributed = torch.distributed
    if _check_mode.on or RERUN in os.environ or not distributed.is_available():
        return None
    if not distributed.is_initialized():
        if "RANK" not in os.environ or os.environ.get("WORLD_SIZE", "1") == "1":
            return None
        _make_group()
        _own_group = True
    if distributed.get_world_size() < 2:
        return None
    return Job(_own_group)


def processes() -> int:
    """How many processes a launcher started for a program that made its process group itself, and whose results may depend on
    that number; 1 for any other program."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized() or _own_group or "RANK" not in os.environ:
        return 1
    return int(distributed.get_world_size())


def _make_group() -> None:
    distributed: Any = torch.distributed
    store, rank, ranks = next(distributed.rendezvous("env://"))
    # torchrun's own store outlives the processes that it starts again, and with it what those of before have written. Where
    # several agents have part in it, each counts for itself.
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]:
        store = distributed.PrefixStore(f"isobit/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)


class Job:
    """`rank` of `ranks`; `own_group`: the program makes no use of torch.distributed but through this.

    A method that waits for the others raises RecordError where one of them has ended; `over` then: nothing is agreed on any more.
    """

    def __init__(self, own_group: bool) -> None:
        distributed = torch.distributed
        self.rank, self.ranks, self.own_group = distributed.get_rank(), distributed.get_world_size(), own_group
        # Digits and reports lie in the host's memory: where the program's group is of another kind, beside it.
        self._group = None if distributed.get_backend() == "gloo" else distributed.new_group(backend="gloo")
        self._store = distributed.distributed_c10d._get_default_store()
        self._exchange: Exchange | None = None
        self.over = False
        self._busy = False  # within a collective, or left in the midst of one
        self.grain_seconds = 0.0  # that the last one took here
        self.exchanging = False  # all have agreed on a step, whose gradients are not summed yet
        self.open_grain: Callable[[], int] = lambda: NO_GRAIN  # of a step that is not agreed on yet
        # Nobody else's claims, whatever the store has been used for before.
        self._prefix = f"isobit/{self._gather(os.urandom(8))[0].hex()}"

    # ---- agreements

    def agree(self, where: str, data: dict[str, Any], payload: bytes = b"", error: BaseException | None = None,
              grain: int = NO_GRAIN, leaving: bool = False) -> list[Report]:
        """Everybody's report, by rank. Raises the failure of the lowest grain, on every process.

        where: what the program has come to, in words; RecordError on all where it differs. error: that this process failed.
        """
        if self.over:
            raise RecordError(f"isobit.record: a worker has left this job of {self.ranks} before {where}\n"
                              "  do     start the script again: it resumes where it saved")
        failure = None if error is None else _failure(error, grain, leaving)
        text = json.dumps([where, data, failure]).encode(errors="replace")
        reports = [_report(part) for part in self._gather(len(text).to_bytes(8, "little") + text + payload)]
        self.over = any(report.failure is not None and report.failure.leaving for report in reports)
        failed = [(report.failure.grain, rank, report.failure) for rank, report in enumerate(reports)
                  if report.failure is not None]
        if failed:
            _, rank, first = min(failed)
            if failure is not None and failure[:3] == first[:3]:
                assert error is not None
                raise error
            raise self._rebuilt(rank, first) from error
        for rank, report in enumerate(reports):
            if report.where != reports[0].where:
                self.over = True
                raise RecordError(f"isobit.record: the workers came apart: worker 0 is at {reports[0].where}, worker {rank} at "
                                  f"{report.where}\n  do     let nothing that the script decides depend on the process")
        return reports

    def require_equal(self, reports: Sequence[Report], name: str, what: str, remedy: str) -> None:
        """RecordError on all processes where what they report under this name differs."""
        for rank, report in enumerate(reports):
            if report.data[name] != reports[0].data[name]:
                raise RecordError(f"isobit.record: {what} differ between worker 0 and worker {rank} of {self.ranks} at "
                                  f"{report.where}\n  do     {remedy}")

    @property
    def in_step(self) -> bool:
        """Whether the others come to the agreement that this process comes to: not where it was interrupted in what they do
        together, which they leave only when this process is gone."""
        return not (self.over or self._busy or self.exchanging)

    def leave(self, error: BaseException) -> BaseException:
        """That this process ends with an error: what all end with, where the others still listen."""
        if not self.in_step:
            self.over = True
            return error
        try:
            self.agree("the end of the block", {}, error=error, grain=self.open_grain(), leaving=True)
        except BaseException as agreed:
            # Where the others cannot be reached, this error is the one to tell.
            return error if isinstance(agreed, Lost) else agreed
        return error

    def _rebuilt(self, rank: int, failure: Failure) -> BaseException:
        """Another process' exception, as near to what it was as its text allows."""
        known: Any = {"RefusedError": RefusedError, "RecordError": RecordError}.get(failure.kind) \
            or getattr(builtins, failure.kind, None)
        error: BaseException | None = None
        if isinstance(known, type) and issubclass(known, (Exception, KeyboardInterrupt)):
            with contextlib.suppress(Exception):
                error = known(failure.text)
        if error is None or str(error) != failure.text:
            error = RuntimeError(f"{failure.kind}: {failure.text}")
        if hasattr(error, "add_note"):  # Python 3.11
            error.add_note(f"on worker {rank} of {self.ranks}:\n{failure.trace}")
        return error

    # ---- what travels

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        self._busy = True
        try:
            yield
        except RuntimeError as error:  # torch.distributed's own, where a process or its store is gone
            self.over, self._busy = True, False
            raise Lost(f"isobit.record: another worker of this job of {self.ranks} has ended, or cannot be reached\n"
                        "  do     start the script again: it resumes where it saved") from error
        self._busy = False

    def _gather(self, content: bytes) -> list[bytes]:
        with self._waiting():
            sizes = torch.zeros(self.ranks, dtype=torch.int64)
            _all_gather(sizes, torch.tensor([len(content)]), self._group)
            lengths = sizes.tolist()
            largest = max(lengths)
            own = torch.zeros(largest, dtype=torch.uint8)
            own[:len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
            everything = torch.zeros(self.ranks * largest, dtype=torch.uint8)
            _all_gather(everything, own, self._group)
            received = _generators.bytes_of(everything)
        return [received[rank * largest:rank * largest + length] for rank, length in enumerate(lengths)]

    def sum(self, elements: Sequence[int], tops: Sequence[int], grains: Sequence[int], sums: Sequence[ExactSum | None],
            singles: Sequence[torch.Tensor]) -> torch.Tensor:
        """As _sums.Exchange has it."""
        with self._waiting():
            if self._exchange is None:
                group: Any = self._group or torch.distributed.distributed_c10d._get_default_group()
                self._exchange = Exchange(group.group_name)
            return self._exchange.sum(elements, tops, grains, sums, singles)

    # ---- who computes what

    def claim(self, step: str, count: int) -> int:
        """The first of `count` numbers, counted from 0, that nobody has got before, on any process."""
        with self._waiting():
            return int(self._store.add(f"{self._prefix}/{step}", count)) - count

    def stop_claims(self, step: str) -> None:
        with self._waiting():
            self._store.add(f"{self._prefix}/{step}", 1 << 40)

    def forget_claims(self, step: str) -> None:
        if self.rank == 0:
            with self._waiting():
                self._store.delete_key(f"{self._prefix}/{step}")


class Lost(RecordError):
    """The others cannot be reached."""

    __module__ = "isobit"
    __qualname__ = "RecordError"


def _all_gather(everything: torch.Tensor, own: torch.Tensor, group: Any) -> None:
    distributed: Any = torch.distributed
    call = distributed.all_gather_single if hasattr(distributed, "all_gather_single") else distributed.all_gather_into_tensor
    call(everything, own, group=group)


def _failure(error: BaseException, grain: int, leaving: bool) -> Failure:
    trace = "".join(traceback.format_exception(error))[-_LONGEST_TRACE:].rstrip()
    text = "" if isinstance(error, SystemExit) and error.code is None else str(error)
    return Failure(grain, type(error).__name__, text, trace, leaving)


def _report(content: bytes) -> Report:
    size = int.from_bytes(content[:8], "little")
    where, data, failure = json.loads(content[8:8 + size])
    return Report(where, data, None if failure is None else Failure(*failure), memoryview(content)[8 + size:])


def end_segment() -> NoReturn:
    """What follows the checkpoint that was just written is another process's to verify. Nothing of the program runs any more."""
    for stream in sys.stdout, sys.stderr:
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)


def tell(**what: Any) -> None:
    """isobit launch, where that started this process, how far the record is."""
    if LAUNCH in os.environ:
        with contextlib.suppress(OSError), open(os.environ[LAUNCH], "a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")
