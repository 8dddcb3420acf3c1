"""Where a record's program is within an epoch, so that it can go on from there: run.epochs(n), run.batches(loader).

A DataLoader's order is repeated, not stored: the generators are set back to where they were when the loop began, the sampler
runs through what was loaded before (no data is read), then the generators are set to where they were at the save. In workers,
each batch brings the state of its worker's generators along where it has changed. What can not be repeated so raises
RuntimeError, at the loop's beginning where that can be seen, else when it goes on: a digest of all indices that
were asked for must come out the same.
"""

import copy
import hashlib
import pickle
import weakref
from typing import NamedTuple

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from isobit import _generators

_WATCHED = range(1, 4)  # indices at which it is seen whether a sampler draws from the process' generators


class Progress:
    """Of one record. `pending`: the loop that goes on, from run.load() until run.batches() reaches it."""

    def __init__(self, run):
        self._run = run
        self.pending = None
        self.batch = 0
        self._next_epoch, self._epoch_begin, self._in_epoch = 1, None, False
        self._loops, self._seen = [], None
        self._clones, self._loaders = weakref.WeakKeyDictionary(), []  # _loaders: as saved, for those that come again

    # ---- what a checkpoint holds

    def saved(self):
        loop = None
        if len(self._loops) > 1:
            raise RuntimeError(f"isobit.record: run.save within {len(self._loops)} loops over run.batches: only one can be gone on with; "
                               "write the others without run.batches, or save outside of them")
        if self._loops:
            loop = self._loops[0].saved()
        following = int(self._run.epoch) + (loop is None) if self._in_epoch else self._next_epoch
        self._seen = self._trace()
        looping = [loop_._clone for loop_ in self._loops]  # the loop itself is saved above
        loaders = [clone.saved(clone in looping) for clone in self._clones.values()]
        return {"next_epoch": following, "epoch_begin": self._epoch_begin if self._in_epoch else None, "loop": loop, "loaders": loaders}

    def load(self, saved):
        self._next_epoch, self._epoch_begin, self.pending = saved["next_epoch"], saved["epoch_begin"], saved["loop"]
        self._loaders = saved["loaders"]

    def body_ended(self, what, remedy):
        """Nothing may come after a save that would be left out when the program goes on."""
        seen, self._seen = self._seen, None
        if seen is None:
            return
        came = [name for name, value in self._trace().items() if value != seen[name]]
        if came:
            raise RuntimeError(f"isobit.record: {', '.join(came)} came after run.save, within {what}: going on from there would leave that "
                               f"out\n  do     {remedy}")

    def _trace(self):
        return {**self._run._trace(), "random numbers": _generators.states()}

    # ---- epochs

    def epochs(self, count):
        if self._run._must_load():
            raise RuntimeError(f"isobit.record: {self._run.path} goes on, but the script did not call run.load() before run.epochs()")
        for epoch in range(self._next_epoch, count + 1):
            self._run.epoch, self._in_epoch, self._seen = epoch, True, None
            if self.pending is not None and self._epoch_begin is not None:
                _generators.set_states(self._epoch_begin)  # what precedes the loop is done again
            else:
                self._epoch_begin = _generators.states()
            try:
                yield epoch
            finally:
                self._in_epoch = False
            self._next_epoch = epoch + 1
            if self.pending is not None:
                raise RuntimeError(f"isobit.record: {self._run.path} was saved within a loop over run.batches, which epoch {epoch} did not "
                                   "come to now")
            self.body_ended(f"epoch {epoch}", "call run.save last in the epoch, or within the loop over run.batches(loader)")

    # ---- batches

    def loop_begins(self):
        if self._in_epoch and self._seen is not None and not self._loops:
            raise RuntimeError(f"isobit.record: run.save in epoch {self._run.epoch} came before its loop over run.batches, which would be left "
                               "out when the program goes on\n  do     call run.save last in the epoch, or last in that loop's body")
        self._seen = None

    def take(self, loader):
        """What was saved within a loop over this loader, once."""
        pending, self.pending = self.pending, None
        if pending is None:
            return None
        if pending["epoch"] != int(self._run.epoch):
            raise RuntimeError(f"isobit.record: {self._run.path} goes on after batch {pending['batch']} of epoch {pending['epoch']}, but run.epoch "
                               f"is {self._run.epoch}\n  do     let `for epoch in run.epochs(n)` choose where to begin")
        if pending["loader"] != (now := _description(loader)):
            raise RuntimeError(f"isobit.record: {self._run.path} goes on within a loop over {pending['loader']}; this is one over {now}\n"
                               "  do     let the interrupted loop be the first one over run.batches after run.load()")
        return pending

    def clone(self, loader):
        """The loader with our sampler and workers in it; one for each, since persistent workers are its own."""
        if loader not in self._clones:
            self._clones[loader] = clone = _Clone(loader)
            if self._loaders:
                clone.go_on(self._loaders.pop(0))
        return self._clones[loader]


class Batches:
    """for batch in run.batches(loader): the loader's batches; where the run goes on within this loop, those that are left."""

    def __init__(self, progress, loader):
        _require_repeatable(loader)
        self._progress, self._loader = progress, loader

    def __len__(self):
        return len(self._loader)

    def __iter__(self):
        return self._run_through(_Loop(self._progress, self._loader))

    def _run_through(self, loop):
        progress = self._progress
        progress.loop_begins()
        progress._loops.append(loop)
        try:
            for batch in loop:
                progress.batch = loop.number
                yield batch
                progress.body_ended(f"the body of the loop over run.batches (batch {loop.number})",
                                    "call run.save last in the body")
        finally:
            progress._loops.remove(loop)


class _Loop:
    """One run through a loader."""

    def __init__(self, progress, loader):
        self._progress, self._loader = progress, loader
        saved = progress.take(loader)
        self.number, self.workers = 0, {}
        self._clone = progress.clone(loader)
        self._reused = self._clone.is_used()
        if saved is None:
            self._begin = self._states()
            self._iterator = self._clone.begin()
            self.workers = self._clone.kept_workers()
        else:
            self._go_on(saved)

    def _states(self):
        return {"process": _generators.states(), "own": _generators.states_of(self._clone.own)}

    def _set(self, states):
        _generators.set_states(states["process"])
        self._clone.set_own(states["own"])

    def _go_on(self, saved):
        self._begin, self.number, self.workers, self._reused = saved["begin"], saved["batch"], dict(saved["workers"]), saved["reused"]
        self._set(self._begin)
        if self._reused:
            self._clone.start_workers(self.workers)
        self._iterator = self._clone.begin(self.number, self.workers)
        if self._clone.order.asked() != (saved["asked"], saved["digest"]):
            raise RuntimeError(f"isobit.record: {_description(self._loader)} gave another order than before: its sampler or its data have "
                               "changed, or it draws from generators that other code draws from, too\n"
                               "  do     give the sampler a torch.Generator of its own, or save between epochs")
        self._set(saved["now"])
        self._progress._run._loop_reached()

    def saved(self):
        asked, digest = self._clone.order.asked()
        if self.workers is None:
            raise RuntimeError("isobit.record: run.save: persistent workers whose last loop was left by a break stand where nobody knows\n"
                               "  do     save between epochs, leave no loop by break, or set persistent_workers=False")
        return {"batch": self.number, "reused": self._reused, "epoch": int(self._progress._run.epoch), "loader": _description(self._loader), "begin": self._begin,
                "now": self._states(), "workers": _unpacked(self.workers), "asked": asked, "digest": digest}

    def __iter__(self):
        workers = self._loader.num_workers
        self._clone.keep_workers(None)  # should the loop be left by a break
        for loaded in self._iterator:
            if workers > 0:
                if loaded.states is not None and self.workers is not None:
                    self.workers[self.number % workers] = _generators.bytes_of(loaded.states)
                loaded = loaded.data
            self.number += 1
            yield loaded
        self._clone.keep_workers(self.workers)


def _require_repeatable(loader):
    problem, remedy = None, "write the loop over the loader itself, and save between epochs"
    if not isinstance(loader, DataLoader):
        problem = f"is no torch.utils.data.DataLoader, but a {type(loader).__name__}: how far it came can not be known"
    elif isinstance(loader.dataset, IterableDataset):
        problem = (f"has an iterable dataset ({type(loader.dataset).__name__}), whose own state can not be known: it can not be gone on with "
                   "within an epoch")
    elif type(loader).__iter__ is not DataLoader.__iter__:
        problem = f"({type(loader).__name__}) makes its batches in a way of its own, which can not be repeated from outside"
    elif not loader.in_order and loader.num_workers > 0:
        problem, remedy = "has in_order=False: its order is of chance", "leave in_order at True"
    elif loader.batch_sampler is None and loader.num_workers > 0:
        problem = "has workers and batch_size=None"
    if problem:
        raise RuntimeError(f"isobit.record: run.batches: the loader {problem}\n  do     {remedy}")


def _description(loader):
    sampler = getattr(loader.batch_sampler, "sampler", None) or loader.batch_sampler or loader.sampler
    return (f"{len(loader.dataset)} samples, batch_size={loader.batch_size}, drop_last={loader.drop_last}, {type(sampler).__name__}, "
            f"num_workers={loader.num_workers}")


# ---- a loader that can begin in the middle


class _Clone:
    def __init__(self, loader):
        self._loader = copy.copy(loader)
        self.own = _generators.own_generators(loader)
        self._name = _description(loader)
        self.order = _Order(loader.batch_sampler if loader.batch_sampler is not None else loader.sampler)
        own = self._loader.__dict__  # past DataLoader.__setattr__, which forbids this
        own["sampler" if loader.batch_sampler is None else "batch_sampler"] = self.order
        own["_iterator"] = None
        if loader.num_workers > 0:
            own["collate_fn"] = self._worker = _Worker(loader.collate_fn, loader.worker_init_fn)
            own["worker_init_fn"] = self._worker.start
        self._kept = {}  # worker -> states, of persistent ones

    def is_used(self):
        """Whether there are persistent workers already."""
        return self._loader._iterator is not None

    def saved(self, looping):
        return {"loader": self._name, "own": _generators.states_of(self.own), "used": self.is_used() and not looping,
                "workers": None if looping or self._kept is None else _unpacked(self._kept)}

    def go_on(self, saved):
        """What an epoch leaves for the next one: generators of its own, and persistent workers."""
        if saved["loader"] != self._name:
            raise RuntimeError(f"isobit.record: run.batches had {saved['loader']} when it was saved; this is {self._name}\n"
                               "  do     loop over the same loaders, in the same order")
        self.set_own(saved["own"])
        if saved["used"]:
            if saved["workers"] is None:
                raise RuntimeError("isobit.record: persistent workers whose loop was left by a break can not be gone on with\n"
                                   "  do     set persistent_workers=False")
            self.start_workers(saved["workers"])
            self._kept = saved["workers"]

    def set_own(self, states):
        try:
            _generators.set_states_of(self.own, states)
        except ValueError as error:
            raise RuntimeError(f"isobit.record: the loader ({self._name}) holds {error}, as when it was saved") from None

    def start_workers(self, workers):
        """Persistent ones, with nothing to do yet; the generators stay as they are."""
        if self.is_used():
            return
        process, own = _generators.states(), _generators.states_of(self.own)
        self.order.empty = True
        self._with_states(workers, lambda: iter(self._loader))
        self.order.empty = False
        _generators.set_states(process)
        self.set_own(own)

    def begin(self, skip=0, workers=None):
        """An iterator over what comes after the first `skip` batches; its workers' generators in these states."""
        # Batch i is worker i % n's: empty batches fill the first round up to the worker whose turn it is.
        count = self._loader.num_workers
        self.order.skip, self.order.fill = skip, skip % count if count > 0 else 0
        iterator = self._with_states(workers, lambda: iter(self._loader))
        if skip:
            self.order.walk.forward()
        for _ in range(self.order.fill):
            next(iterator)
        self.order.skip = self.order.fill = 0
        return iterator

    def _with_states(self, workers, call):
        if workers:
            self._worker.states = _unpacked(workers)
        try:
            return call()
        finally:
            if workers:
                self._worker.states = {}

    def keep_workers(self, workers):
        """Persistent workers go on with their generators in the next epoch; None: nobody knows how these stand."""
        self._kept = workers if self._loader.persistent_workers else {}

    def kept_workers(self):
        return None if self._kept is None else dict(self._kept)


class _Order:
    """Stands for a loader's (batch) sampler."""

    def __init__(self, sampler):
        self._sampler = sampler
        self.skip, self.fill, self.empty = 0, 0, False
        self.walk = None

    def __len__(self):
        return len(self._sampler)

    def __iter__(self):
        inner = iter(()) if self.empty else iter(self._sampler)
        self.walk = _Walk(inner, type(getattr(self._sampler, "sampler", self._sampler)).__name__, self.skip, self.fill)
        return self.walk

    def asked(self):
        """How many indices were asked for, and their digest."""
        return self.walk.asked, self.walk.digest.hexdigest()


class _Walk:
    """One run through the sampler: leaves out the first `skip` indices, begins with `fill` empty ones, and keeps a digest of all."""

    def __init__(self, inner, name, skip, fill):
        self._inner, self._name, self._skip, self._fill = inner, name, skip, fill
        self.asked, self.digest = 0, hashlib.sha256()

    def __iter__(self):
        return self

    def __next__(self):
        self.forward()
        if self._fill:
            self._fill -= 1
            return []
        return self._ask()

    def forward(self):
        while self._skip:
            self._skip -= 1
            try:
                self._ask()
            except StopIteration:
                self._skip = 0

    def _ask(self):
        before = _generators.states() if self.asked in _WATCHED else None
        index = next(self._inner)
        if before is not None and before != _generators.states():
            raise RuntimeError(f"isobit.record: run.batches: {self._name} draws from the process' generators for each batch, between the "
                               "draws of the training: its order can not be repeated\n"
                               "  do     give it a generator of its own, or write the loop over the loader itself and save between epochs")
        self.asked += 1
        self.digest.update(repr(index).encode())
        return index


# ---- in the workers


class _Loaded(NamedTuple):
    data: object
    # Of the worker's generators after this batch; None where they have not changed since the last one. A tensor goes through shared
    # memory: what fills the queue's pipe would hold workers back when the main process is killed.
    states: object


def _unpacked(workers):
    """worker -> states, from what the workers sent or a checkpoint held."""
    return {worker: pickle.loads(states) if isinstance(states, bytes) else states for worker, states in workers.items()}


class _Worker:
    """Collates in a worker, and tells how its generators stand; sets them before the first batch."""

    def __init__(self, collate, init):
        self._collate, self._init = collate, init
        self.states = {}  # worker -> states to begin with
        self._told, self._own = None, []

    def start(self, worker):
        if self._init is not None:
            self._init(worker)
        self._own = _generators.own_generators(get_worker_info().dataset, self._collate)
        if worker in self.states:
            _generators.set_states(self.states[worker]["process"])
            _generators.set_states_of(self._own, self.states[worker]["own"])
        self._told = None  # the first batch tells

    def _now(self):
        return {"process": _generators.states(), "own": _generators.states_of(self._own)}

    def __call__(self, samples):
        nothing = isinstance(samples, (list, tuple)) and not samples  # an empty batch of _Walk
        data = None if nothing else self._collate(samples)
        now = self._now()
        told, self._told = self._told, now
        return _Loaded(data, None if now == told else torch.frombuffer(bytearray(pickle.dumps(now)), dtype=torch.uint8))
