"""A DataLoader that can begin in the middle of its order: which can, a copy of it with our sampler, and its workers' part.

Batch i is worker i % n's, as in PyTorch; each worker tells how its generators stand after each batch, where that has changed.
"""

import copy
import hashlib
import pickle
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from isobit._base import _generators
from isobit._base._errors import RecordError

_WATCHED = range(1, 4)  # indices at which it is seen whether a sampler draws from the process' generators


def require_repeatable(loader: object) -> None:
    problem, remedy = None, "write the loop over the loader itself, and save between epochs"
    if not isinstance(loader, DataLoader):
        problem = f"is not a torch.utils.data.DataLoader but a {type(loader).__name__}: its progress cannot be known"
    elif isinstance(loader.dataset, IterableDataset):
        problem = (f"has an iterable dataset ({type(loader.dataset).__name__}), whose own state cannot be known: it cannot be "
                   "resumed within an epoch")
    elif type(loader).__iter__ is not DataLoader.__iter__:
        problem = f"({type(loader).__name__}) overrides DataLoader.__iter__: its batches cannot be repeated from outside"
    elif not loader.in_order and loader.num_workers > 0:
        problem, remedy = "has in_order=False: its batches come in the order in which workers finish", "leave in_order at True"
    elif loader.batch_sampler is None and loader.num_workers > 0:
        problem = "has workers and batch_size=None: its workers' states cannot be recorded"
    if problem:
        raise RecordError(f"isobit.record: run.batches: the loader {problem}\n  do     {remedy}")


def description(loader: DataLoader[Any]) -> str:
    sampler = getattr(loader.batch_sampler, "sampler", None) or loader.batch_sampler or loader.sampler
    return (f"{len(loader.dataset)} samples, batch_size={loader.batch_size}, drop_last={loader.drop_last}, "  # type: ignore[arg-type]
            f"{type(sampler).__name__}, num_workers={loader.num_workers}")


# ---- the copy


class Clone:
    """`location`: where in the program the loader was made (_batches.py)."""

    def __init__(self, loader: DataLoader[Any], location: Any) -> None:
        self._loader, self.location = copy.copy(loader), location
        self.own = _generators.own_generators(loader)
        self._first = _generators.states_of(self.own)
        self.name = description(loader)
        self.order = _Order(loader.batch_sampler if loader.batch_sampler is not None else loader.sampler)
        own = self._loader.__dict__  # past DataLoader.__setattr__, which forbids this
        own["sampler" if loader.batch_sampler is None else "batch_sampler"] = self.order
        own["_iterator"] = None
        if loader.num_workers > 0:
            own["collate_fn"] = self._worker = _Worker(loader.collate_fn, loader.worker_init_fn)
            own["worker_init_fn"] = self._worker.start
        self._kept: dict[int, Any] | None = {}  # worker -> states, of persistent ones

    def is_used(self) -> bool:
        """Whether there are persistent workers already."""
        return self._loader._iterator is not None

    def has_drawn(self) -> bool:
        """Whether its own generators have moved since it was made."""
        return _generators.states_of(self.own) != self._first

    def leaves_something(self) -> bool:
        """Whether the next loop over it continues from something that this process holds."""
        return self.is_used() or self.has_drawn()

    def saved(self, looping: bool) -> dict[str, Any]:
        return {"loader": self.name, "own": _generators.states_of(self.own), "used": self.is_used() and not looping,
                "workers": None if looping or self._kept is None else unpacked(self._kept)}

    def resume(self, saved: dict[str, Any]) -> None:
        """What an epoch leaves for the next one: generators of its own, and persistent workers."""
        if saved["loader"] != self.name:
            raise RecordError(f"isobit.record: run.batches had {saved['loader']} when it was saved; this is {self.name}\n"
                              "  do     loop over the same loaders, in the same order")
        self.set_own(saved["own"])
        if saved["used"]:
            if saved["workers"] is None:
                raise RecordError("isobit.record: persistent workers whose loop was left by a break cannot be resumed\n"
                                  "  do     set persistent_workers=False")
            self.start_workers(saved["workers"])
            self._kept = saved["workers"]

    def set_own(self, states: list[Any]) -> None:
        try:
            _generators.set_states_of(self.own, states)
        except ValueError as error:
            raise RecordError(f"isobit.record: the loader ({self.name}) holds {error}, as when it was saved\n"
                              "  do     make the loader and its dataset as when it was saved") from None

    def start_workers(self, workers: dict[int, Any]) -> None:
        """Persistent ones, with nothing to do yet; the generators stay as they are."""
        if self.is_used():
            return
        process, own = _generators.states(), _generators.states_of(self.own)
        self.order.empty = True
        self._with_states(workers, lambda: iter(self._loader))
        self.order.empty = False
        _generators.set_states(process)
        self.set_own(own)

    def begin(self, skip: int = 0, workers: dict[int, Any] | None = None) -> Iterator[Any]:
        """An iterator over what comes after the first `skip` batches; its workers' generators in these states."""
        # Batch i is worker i % n's: empty batches fill the first round up to the worker whose turn it is.
        count = self._loader.num_workers
        self.order.skip, self.order.fill = skip, skip % count if count > 0 else 0
        iterator: Iterator[Any] = self._with_states(workers, lambda: iter(self._loader))
        if skip:
            self.order.walk.forward()
        for _ in range(self.order.fill):
            next(iterator)
        self.order.skip = self.order.fill = 0
        return iterator

    def _with_states(self, workers: dict[int, Any] | None, call: Callable[[], Any]) -> Any:
        if workers:
            self._worker.states = unpacked(workers)
        try:
            return call()
        finally:
            if workers:
                self._worker.states = {}

    def keep_workers(self, workers: dict[int, Any] | None) -> None:
        """Persistent workers keep their generators for the next epoch; None: their states are unknown."""
        self._kept = workers if self._loader.persistent_workers else {}

    def kept_workers(self) -> dict[int, Any] | None:
        return None if self._kept is None else dict(self._kept)


class _Order:
    """Stands for a loader's (batch) sampler."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self.skip, self.fill, self.empty = 0, 0, False
        self.walk = _Walk(iter(()), "", 0, 0)  # of the last run

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> "_Walk":
        inner = iter(()) if self.empty else iter(self._sampler)
        name = type(getattr(self._sampler, "sampler", self._sampler)).__name__
        self.walk = _Walk(inner, name, self.skip, self.fill)
        return self.walk

    def asked(self) -> tuple[int, str]:
        """How many indices were asked for, and their digest."""
        return self.walk.asked, self.walk.digest.hexdigest()


class _Walk:
    """One run through the sampler: leaves out the first `skip` indices, begins with `fill` empty ones, keeps a digest of all."""

    def __init__(self, inner: Iterator[Any], name: str, skip: int, fill: int) -> None:
        self._inner, self._name, self._skip, self._fill = inner, name, skip, fill
        self.asked, self.digest = 0, hashlib.sha256()

    def __iter__(self) -> "_Walk":
        return self

    def __next__(self) -> Any:
        self.forward()
        if self._fill:
            self._fill -= 1
            return []
        return self._ask()

    def forward(self) -> None:
        while self._skip:
            self._skip -= 1
            try:
                self._ask()
            except StopIteration:
                self._skip = 0

    def _ask(self) -> Any:
        before = _generators.states() if self.asked in _WATCHED else None
        index = next(self._inner)
        if before is not None and before != _generators.states():
            raise RecordError(f"isobit.record: run.batches: {self._name} draws from the process' generators for each batch, "
                              "between the draws of the training: its order cannot be repeated\n"
                              "  do     give it a generator of its own, or write the loop over the loader itself and save "
                              "between epochs")
        self.asked += 1
        self.digest.update(repr(index).encode())
        return index


# ---- in the workers


class _Loaded(NamedTuple):
    data: object
    # Of the worker's generators after this batch; None where they have not changed since the last one. A tensor goes through
    # shared memory: what fills the queue's pipe would hold workers back when the main process is killed.
    states: torch.Tensor | None


class Sent(bytes):
    """A worker's states as it sent them: pickled. Bytes that a checkpoint holds are never of this type, and not unpickled."""


def unpacked(workers: dict[int, Any]) -> dict[int, Any]:
    """worker -> states, from what the workers sent or a checkpoint held."""
    plain = {worker: pickle.loads(states) if isinstance(states, Sent) else states for worker, states in workers.items()}
    if not all(isinstance(states, dict) for states in plain.values()):
        raise RecordError("isobit.record: run.batches: the checkpoint is damaged: it holds no states of the loader's workers\n"
                          "  do     restore the run's folder from a copy, or begin a new run (without resume)")
    return plain


class _Worker:
    """Collates in a worker, and tells how its generators stand; sets them before the first batch."""

    def __init__(self, collate: Callable[[Any], Any], init: Callable[[int], None] | None) -> None:
        self._collate, self._init = collate, init
        self.states: dict[int, Any] = {}  # worker -> states to begin with
        self._told: dict[str, Any] | None = None
        self._own: list[Any] = []

    def start(self, worker: int) -> None:
        if self._init is not None:
            self._init(worker)
        info = get_worker_info()
        self._own = _generators.own_generators(None if info is None else info.dataset, self._collate)
        if worker in self.states:
            _generators.set_states(self.states[worker]["process"])
            _generators.set_states_of(self._own, self.states[worker]["own"])
        self._told = None  # the first batch tells

    def _now(self) -> dict[str, Any]:
        return {"process": _generators.states(), "own": _generators.states_of(self._own)}

    def __call__(self, samples: Any) -> _Loaded:
        nothing = isinstance(samples, (list, tuple)) and not samples  # an empty batch of _Walk
        data = None if nothing else self._collate(samples)
        now = self._now()
        told, self._told = self._told, now
        return _Loaded(data, None if now == told else torch.frombuffer(bytearray(pickle.dumps(now)), dtype=torch.uint8))
