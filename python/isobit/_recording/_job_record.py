"""The one record of a job: rank 0 writes it; the others do the same but for writing."""

import collections
import contextlib
import hashlib
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from isobit import _built
from isobit._base import _library
from isobit._base._errors import RecordError
from isobit._jobs import _job
from isobit._jobs._job import Job
from isobit._recording._record_files import RunFolder


def require_job(job: Job | None, what: str) -> None:
    """RecordError for what each process of a job would do as a whole. A program with a process group of its own shares its work
    itself."""
    if job is not None and job.own_group:
        raise RecordError(f"isobit.record: {what} is not shared in a job of {job.ranks} workers: each would do all of it\n"
                          "  do     write the loop as `for step in run.steps(samples, batch=..., grain=...)` (docs/python.md, "
                          "Grains), or start the script alone")


def open_together(job: Job, settings: Any, resumes: bool, open_folder: Callable[[], RunFolder]) -> RunFolder:
    """What open_folder() gives on rank 0, and its likeness elsewhere. Raises on all what it raises there.

    resumes: whether the program, started again, resumes the record."""
    folder: RunFolder | None = None
    opened: dict[str, Any] = {}
    problem: BaseException | None = None
    if job.rank == 0:
        try:
            folder = open_folder()
            opened = {"id": folder.id, "path": str(folder.path.absolute()), "checkpoint": _described(folder)}
        except BaseException as error:
            problem = error
    text = json.dumps([settings, _built.__version__, _library.contract_in_force(), str(torch.__version__)])
    try:
        reports = job.agree("the beginning of a record", {"program": text, "opened": opened}, error=problem)
        job.require_equal(reports, "program", "script, arguments, settings of isobit.record, isobit or torch",
                          "start all workers with the same command, from copies of one program")
    except BaseException as error:
        if folder is not None:
            folder.fail(f"{type(error).__name__}: {error}".partition("\n")[0])
        raise
    if folder is not None:
        found = folder.checkpoint()
        _job.tell(opened=opened["path"], resumes=resumes, step=0 if found is None else found[1])
        return folder
    return OpenedElsewhere(reports[0].data["opened"])


def _described(folder: RunFolder) -> list[Any] | None:
    """(file, step, SHA-256) of the checkpoint that an interrupted run resumes from."""
    found = folder.checkpoint()
    return None if found is None else [str(found[0].absolute()), found[1], _sha256(found[0])]


def _sha256(file: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while piece := opened.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def end_together(job: Job, steps: int, state: str, weights: Callable[[], str]) -> BaseException | None:
    """What another worker of the job fails with, or that they have come apart."""
    try:
        data = {"steps": steps, "state": state, "weights": weights()}
        reports = job.agree("the end of the block", data)
        for name, what in (("steps", "the steps done"), ("state", "weights or optimizers"), ("weights", "the final weights")):
            job.require_equal(reports, name, what, "let nothing that the script computes depend on the process")
    except BaseException as error:
        return error
    return None


class OpenedElsewhere(RunFolder):
    """The record that rank 0 writes. Its checkpoint is read from the same file."""

    def __init__(self, opened: Mapping[str, Any]) -> None:
        self._record = None
        self.id, self.path = opened["id"], pathlib.Path(opened["path"])
        self._found = opened["checkpoint"]
        self._lines: collections.Counter[str] = collections.Counter()

    def checkpoint(self) -> tuple[pathlib.Path, int] | None:
        return None if self._found is None else (pathlib.Path(self._found[0]), self._found[1])

    def require_readable(self, checkpoint: pathlib.Path) -> None:
        with contextlib.suppress(OSError):
            if _sha256(checkpoint) == self._found[2]:
                return
        raise RecordError(f"isobit.record: {checkpoint} is not the file that worker 0 resumes from\n"
                          "  do     keep the records in a folder that all workers share")

    def size(self, log: str) -> int:
        return self._lines[log]

    def step(self, step: int, epoch: int, loss: int, batch: str, weights: str = "", optimizer: str = "",
             gradients: str = "") -> None:
        self._lines["steps.jsonl"] += 1

    def metrics(self, step: int, epoch: int, part: str, values: Mapping[str, float]) -> None:
        self._lines["metrics.jsonl"] += 1

    def evaluation(self, step: int, epoch: int, tensors: int, batches: str) -> None:
        self._lines["evaluations.jsonl"] += 1

    def predictions(self, step: int, epoch: int, part: str, classes: Sequence[int], targets: Sequence[int]) -> None:
        self._lines["predictions.jsonl"] += 1

    def outside(self, after: int, until: int, place: str, call: str) -> None:
        pass

    def save(self, content: bytes, sha256: str, segments: int) -> None:
        pass

    def part(self, name: str, content: bytes) -> None:
        pass

    def replace(self, name: str, content: bytes) -> None:
        pass

    def finish(self, weights: str, sha256: str) -> None:
        pass

    def fail(self, reason: str) -> None:
        pass
