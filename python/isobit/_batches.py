"""Where a record's program is within an epoch, so that it can go on from there: run.epochs(n), run.batches(loader).

A DataLoader's order is repeated, not stored: the generators are set back to where they were when the loop began, the sampler
runs through what was loaded before (no data is read), then the generators are set to where they were at the save. In workers,
each batch brings the state of its worker's generators along where it has changed. What can not be repeated so raises
RuntimeError, at the loop's beginning where that can be seen, else when it goes on: a digest of all indices that
were asked for must come out the same.
"""

import weakref

from isobit import _generators
from isobit._loaders import Clone, description, require_repeatable, unpacked


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
        if pending["loader"] != (now := description(loader)):
            raise RuntimeError(f"isobit.record: {self._run.path} goes on within a loop over {pending['loader']}; this is one over {now}\n"
                               "  do     let the interrupted loop be the first one over run.batches after run.load()")
        return pending

    def clone(self, loader):
        """The loader with our sampler and workers in it; one for each, since persistent workers are its own."""
        if loader not in self._clones:
            self._clones[loader] = clone = Clone(loader)
            if self._loaders:
                clone.go_on(self._loaders.pop(0))
        return self._clones[loader]


class Batches:
    """for batch in run.batches(loader): the loader's batches; where the run goes on within this loop, those that are left."""

    def __init__(self, progress, loader):
        require_repeatable(loader)
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
            raise RuntimeError(f"isobit.record: {description(self._loader)} gave another order than before: its sampler or its data have "
                               "changed, or it draws from generators that other code draws from, too\n"
                               "  do     give the sampler a torch.Generator of its own, or save between epochs")
        self._set(saved["now"])
        self._progress._run._loop_reached()

    def saved(self):
        asked, digest = self._clone.order.asked()
        if self.workers is None:
            raise RuntimeError("isobit.record: run.save: persistent workers whose last loop was left by a break stand where nobody knows\n"
                               "  do     save between epochs, leave no loop by break, or set persistent_workers=False")
        return {"batch": self.number, "reused": self._reused, "epoch": int(self._progress._run.epoch), "loader": description(self._loader), "begin": self._begin,
                "now": self._states(), "workers": unpacked(self.workers), "asked": asked, "digest": digest}

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
