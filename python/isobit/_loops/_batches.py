"""Where a record's program is within an epoch, so that it can resume there: run.epochs(n), run.batches(loader).

A DataLoader's order is repeated, not stored: the generators are set back to where they were when the loop began, the sampler
runs through what was loaded before (no data is read), then the generators are set to where they were at the save. In workers,
each batch brings the state of its worker's generators along where it has changed. What cannot be repeated so raises
RecordError, at the loop's beginning where that can be seen, else when it resumes: a digest of all indices that
were asked for must come out the same.

What a loop leaves for the next one over the same loader (persistent workers, the loader's own generators) is given to the
corresponding loader when the program runs again. Which that is follows from where it was made: before the epochs, in an epoch,
or in the body of a loop. What is made again in each epoch or body begins anew, as in an unbroken run; what is made there once
and used in later ones is refused.
"""

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from torch.utils.data import DataLoader

from isobit._base import _generators
from isobit._base._errors import RecordError
from isobit._loops._loaders import Clone, Sent, description, require_repeatable, unpacked
from isobit._loops._run import Run

if TYPE_CHECKING:
    from isobit._loops._grains import Step
    from isobit._loops._steps import Steps


class _Location(NamedTuple):
    """Where in the program: the epoch, None before there is one; of each loop over run.batches around it, the body's number."""

    epoch: int | None = None
    bodies: tuple[int, ...] = ()

    def holds(self, other: "_Location") -> bool:
        """Whether what is made here is still the same there."""
        return self.epoch in (None, other.epoch) and self.bodies == other.bodies[:len(self.bodies)]

    def kind(self) -> tuple[bool, bool]:
        """Before the epochs, in an epoch, in a body."""
        return self.epoch is None, bool(self.bodies)

    def __str__(self) -> str:
        return "in the body of a loop over run.batches" if self.bodies else f"in epoch {self.epoch}"


_BEFORE_EPOCHS = _Location()


class Progress:
    """Of one record. `pending`: the loop that is resumed, from run.load() until run.batches() reaches it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.pending: dict[str, Any] | None = None
        self.batch = 0
        self._next_epoch, self._in_epoch = 1, False
        self._epoch_begin: dict[str, Any] | None = None
        self._loops: list[_Loop] = []
        self._seen: dict[str, Any] | None = None
        self._tells_epochs, self._bodies, self._loops_of_epoch = False, 0, 0
        self._steps: Steps | None = None  # the loop over run.steps
        self._step: Step | None = None
        self._steps_loops, self._steps_over = 0, 0  # how many began; how many were over when it was saved
        # Those that were made under this record.
        self._made: weakref.WeakKeyDictionary[DataLoader[Any], _Location] = weakref.WeakKeyDictionary()
        self._clones: weakref.WeakKeyDictionary[DataLoader[Any], Clone] = weakref.WeakKeyDictionary()
        # None or an epoch -> as saved, of the loaders made there, for those that come again
        self._again: dict[int | None, list[dict[str, Any]]] = {}
        # (description, kind of location) -> where, of loaders made there whose generators were drawn from
        self._unclear: dict[tuple[str, tuple[bool, bool]], _Location] = {}

    # ---- what a checkpoint holds

    def saved(self) -> dict[str, Any]:
        loop: dict[str, Any] | None = None
        loops = len(self._loops) + (self._steps is not None)
        if loops > 1:
            raise RecordError(f"isobit.record: run.save within {loops} loops over run.batches or run.steps: only one can be "
                              "resumed\n  do     write the others without run.batches, or save outside of them")
        if self._step is not None and self._step._state != "finished":
            raise RecordError(f"isobit.record: run.save within step {self._step.number} of the loop over run.steps\n"
                              "  do     save last in its body, after step.finish")
        if self._loops:
            loop = self._loops[0].saved()
            if self._in_epoch and self._loops_of_epoch > 1:
                raise RecordError(f"isobit.record: run.save within loop {self._loops_of_epoch} over run.batches of epoch "
                                  f"{self._run.epoch}: a resumed program would come to the first one\n"
                                  "  do     save in the first one, or last in the epoch")
        self._refuse_unclear(loop)
        following = int(self._run.epoch) + (loop is None) if self._in_epoch else self._next_epoch
        self._seen = self._trace()
        looping = [loop_._clone for loop_ in self._loops]  # the loop itself is saved above
        # Made again on the way to the save: those before the epochs, and within a loop those of its epoch.
        again = {epoch: [clone.saved(clone in looping) for clone in self._clones.values() if clone.location == _Location(epoch)]
                 for epoch in ([None, self._location().epoch] if loop else [None])}
        epoch_begin = _generators.kept(self._epoch_begin) if self._in_epoch and self._epoch_begin is not None else None
        return {"next_epoch": following, "epoch_begin": epoch_begin, "loop": loop,
                "loaders": again, "steps": self._steps_saved(), "steps_over": self._steps_loops - (self._steps is not None)}

    def load(self, saved: dict[str, Any]) -> None:
        self._next_epoch, self._epoch_begin, self.pending = saved["next_epoch"], saved["epoch_begin"], saved["loop"]
        self._again = saved["loaders"]
        self._steps_over = saved.get("steps_over", 0)
        if saved.get("steps") is not None:
            self.pending = {"steps": saved["steps"]}

    def body_ended(self, what: str, remedy: str) -> None:
        """Nothing may come after a save that would be left out when the program resumes."""
        seen, self._seen = self._seen, None
        if seen is None:
            return
        came = [name for name, value in self._trace().items() if value != seen[name]]
        if came:
            raise RecordError(f"isobit.record: {', '.join(came)} came after run.save, within {what}: a resumed program would "
                              f"leave that out\n  do     {remedy}")

    # ---- where loaders are made

    def epoch_told(self) -> None:
        """The script says which epoch it is in, from now on."""
        self._tells_epochs = True

    def loader_made(self, loader: DataLoader[Any]) -> None:
        self._made[loader] = self._location()

    def _location(self) -> _Location:
        return _Location(int(self._run.epoch) if self._tells_epochs else None, tuple(loop.body for loop in self._loops))

    def _require_same_location(self, clone: Clone) -> None:
        if clone.leaves_something() and not clone.location.holds(self._location()):
            raise RecordError(f"isobit.record: run.batches: the loader ({clone.name}) was made {clone.location} and is used "
                              "beyond it, with persistent workers or its own generators: a resumed program would make it anew\n"
                              "  do     make the loader before run.epochs")

    def _note_unclear(self, clone: Clone) -> None:
        """A loop ended. Whether generators were made with their loader, or before and shared by all, is not known."""
        if (not self._tells_epochs and clone.leaves_something()) or (clone.location != _BEFORE_EPOCHS and clone.has_drawn()):
            self._unclear[clone.name, clone.location.kind()] = clone.location

    def _refuse_unclear(self, loop: dict[str, Any] | None) -> None:
        for (name, kind), location in self._unclear.items():
            with_loop = loop is not None and (name, kind) == (loop["loader"], self._loops[0].location.kind())
            with_epoch = loop is not None and location == _Location(self._location().epoch)
            if with_loop or with_epoch:  # saved with the loop, or with the loaders of its epoch
                continue
            if location == _BEFORE_EPOCHS:
                problem = "leaves workers or generators for the next loop, but the script does not say what its epochs are"
                remedy = "write `for epoch in run.epochs(n)`"
            else:
                problem = (f"was made {location} and holds generators that were drawn from: whether the next one makes them "
                           "anew cannot be known")
                remedy = "make the loader before run.epochs, or save last in the body of its loop"
            raise RecordError(f"isobit.record: run.save: the loader ({name}) {problem}\n  do     {remedy}")

    def _trace(self) -> dict[str, Any]:
        return {**self._run._trace(), "random numbers": _generators.states()}

    # ---- epochs

    def epochs(self, count: int) -> Iterator[int]:
        if self._run._must_load():
            raise RecordError(f"isobit.record: {self._run.path} is resumed, but the script did not call run.load() before "
                              "run.epochs()\n  do     call run.load() first, and start from what it returns")
        for epoch in range(self._next_epoch, count + 1):
            self._run.epoch, self._in_epoch, self._seen, self._loops_of_epoch = epoch, True, None, 0
            if self.pending is not None and self._epoch_begin is not None:
                _generators.set_states(self._epoch_begin)  # what precedes the loop is done again
            else:
                self._epoch_begin = _generators.states(devices=True)
            try:
                yield epoch
            finally:
                self._in_epoch = False
            self._next_epoch = epoch + 1
            if self.pending is not None:
                raise RecordError(f"isobit.record: {self._run.path} was saved within a loop over run.batches, which epoch "
                                  f"{epoch} did not reach this time\n"
                                  "  do     write the loop as `for batch in run.batches(loader):`, as when it was saved")
            self.body_ended(f"epoch {epoch}", "call run.save last in the epoch, or within the loop over run.batches(loader)")

    # ---- steps of grains

    def _steps_saved(self) -> dict[str, Any] | None:
        if self._steps is None:
            return None
        return {"after": 0 if self._step is None else self._step.number, "loop": self._steps.describe(),
                "now": _generators.kept(_generators.states(devices=True))}

    def steps_begin(self, steps: "Steps") -> int:
        """The number of the step that the loop begins with: beyond its last where a resumed run has done it."""
        if self._steps is not None or self._loops or self._in_epoch:
            raise RecordError("isobit.record: run.steps within another loop over run.steps, run.batches or run.epochs\n"
                              "  do     give run.steps its epochs, and call it outside of other loops")
        if self._run._must_load():
            raise RecordError(f"isobit.record: {self._run.path} is resumed, but the script did not call run.load() before "
                              "run.steps()\n  do     call run.load() first, and start from what it returns")
        self._steps_loops += 1
        first = 1
        if self._steps_loops <= self._steps_over:
            first = len(steps) + 1
        elif self.pending is not None:
            first = self._steps_resumed(self.pending, steps) + 1
        self._steps, self._step, self._seen = steps, None, None
        return first

    def _steps_resumed(self, pending: dict[str, Any], steps: "Steps") -> int:
        saved = pending.get("steps")
        if saved is None:
            raise RecordError(f"isobit.record: {self._run.path} was saved within a loop over run.batches, and comes to one over "
                              "run.steps first\n  do     let the interrupted loop be the first one after run.load()")
        if saved["loop"] != steps.describe():
            raise RecordError(f"isobit.record: {self._run.path} resumes within a loop over run.steps of {saved['loop']}; this is "
                              f"one of {steps.describe()}\n  do     let the loop be as when it was saved")
        self.pending = None
        _generators.set_states(saved["now"])
        self._run._loop_reached()
        return int(saved["after"])

    def step_begins(self, step: "Step") -> None:
        self._step, self._seen = step, None

    def steps_end(self) -> None:
        self._steps = self._step = None

    # ---- batches

    def loop_begins(self) -> None:
        if self._in_epoch and self._seen is not None and not self._loops:
            raise RecordError(f"isobit.record: run.save in epoch {self._run.epoch} came before its loop over run.batches, which "
                              "a resumed program would leave out\n"
                              "  do     call run.save last in the epoch, or last in that loop's body")
        self._seen = None

    def take(self, loader: DataLoader[Any]) -> dict[str, Any] | None:
        """What was saved within a loop over this loader, once."""
        pending, self.pending = self.pending, None
        if pending is None:
            return None
        if "steps" in pending:
            raise RecordError(f"isobit.record: {self._run.path} was saved within a loop over run.steps, and comes to one over "
                              "run.batches first\n  do     let the interrupted loop be the first one after run.load()")
        if pending["epoch"] != int(self._run.epoch):
            raise RecordError(f"isobit.record: {self._run.path} resumes after batch {pending['batch']} of epoch "
                              f"{pending['epoch']}, but run.epoch is {self._run.epoch}\n"
                              "  do     let `for epoch in run.epochs(n)` choose where to begin")
        if pending["loader"] != (now := description(loader)):
            raise RecordError(f"isobit.record: {self._run.path} resumes within a loop over {pending['loader']}; this is one over "
                              f"{now}\n  do     let the interrupted loop be the first one over run.batches after run.load()")
        return pending

    def clone(self, loader: DataLoader[Any]) -> Clone:
        """The loader with our sampler and workers in it; one for each, since persistent workers are its own."""
        if loader not in self._clones:
            location = self._made.get(loader, _BEFORE_EPOCHS)
            self._clones[loader] = clone = Clone(loader, location)
            again = None if location.bodies else self._again.get(location.epoch)
            if again:
                clone.resume(again.pop(0))
        self._require_same_location(self._clones[loader])
        return self._clones[loader]


class Batches:
    """for batch in run.batches(loader): the loader's batches; where the run resumes within this loop, those that are left."""

    def __init__(self, progress: Progress, loader: DataLoader[Any]) -> None:
        require_repeatable(loader)
        self._progress, self._loader = progress, loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        return self._run_through(_Loop(self._progress, self._loader))

    def _run_through(self, loop: "_Loop") -> Iterator[Any]:
        progress = self._progress
        progress.loop_begins()
        progress._loops_of_epoch += not progress._loops
        progress._loops.append(loop)
        try:
            for batch in loop:
                progress.batch = loop.number
                progress._bodies += 1
                loop.body = progress._bodies
                yield batch
                progress.body_ended(f"the body of the loop over run.batches (batch {loop.number})",
                                    "call run.save last in the body")
        finally:
            progress._loops.remove(loop)
            progress._note_unclear(loop._clone)


class _Loop:
    """One run through a loader."""

    def __init__(self, progress: Progress, loader: DataLoader[Any]) -> None:
        self._progress, self._loader = progress, loader
        saved = progress.take(loader)
        self.number, self.body = 0, 0
        self.workers: dict[int, Any] | None = {}
        self._clone = progress.clone(loader)
        self.location = self._clone.location
        self._reused = self._clone.is_used()
        if saved is None:
            self._begin = self._states()
            self._iterator = self._clone.begin()
            self.workers = self._clone.kept_workers()
        else:
            self._resume(saved)

    def _states(self) -> dict[str, Any]:
        return {"process": _generators.states(devices=True), "own": _generators.states_of(self._clone.own)}

    @staticmethod
    def _kept(states: dict[str, Any]) -> dict[str, Any]:
        return {**states, "process": _generators.kept(states["process"])}

    def _set(self, states: dict[str, Any]) -> None:
        _generators.set_states(states["process"])
        self._clone.set_own(states["own"])

    def _resume(self, saved: dict[str, Any]) -> None:
        self._begin, self.number, self._reused = saved["begin"], saved["batch"], saved["reused"]
        self.workers = dict(saved["workers"])
        self._set(self._begin)
        if self._reused:
            self._clone.start_workers(self.workers)
        self._iterator = self._clone.begin(self.number, self.workers)
        if self._clone.order.asked() != (saved["asked"], saved["digest"]):
            raise RecordError(f"isobit.record: {description(self._loader)} gave another order than before: its sampler or its "
                              "data have changed, or it draws from generators that other code draws from, too\n"
                              "  do     give the sampler a torch.Generator of its own, or save between epochs")
        self._set(saved["now"])
        self._progress._run._loop_reached()

    def saved(self) -> dict[str, Any]:
        asked, digest = self._clone.order.asked()
        if self.workers is None:
            raise RecordError("isobit.record: run.save: a break left the last loop over persistent workers: their state "
                              "is unknown\n"
                              "  do     save between epochs, leave no loop by break, or set persistent_workers=False")
        return {"batch": self.number, "reused": self._reused, "epoch": int(self._progress._run.epoch),
                "loader": description(self._loader), "begin": self._kept(self._begin), "now": self._kept(self._states()),
                "workers": unpacked(self.workers), "asked": asked, "digest": digest}

    def __iter__(self) -> Iterator[Any]:
        workers = self._loader.num_workers
        self._clone.keep_workers(None)  # should the loop be left by a break
        for loaded in self._iterator:
            if workers > 0:
                if loaded.states is not None and self.workers is not None:
                    self.workers[self.number % workers] = Sent(_generators.bytes_of(loaded.states))
                loaded = loaded.data
            self.number += 1
            yield loaded
        self._clone.keep_workers(self.workers)
