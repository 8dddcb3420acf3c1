"""isobit.record: a record of an ordinary training loop, on disk as `isobit run` makes it (docs/formats/run.md)."""

import io
import os
import pathlib
import struct
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from typing import Any, SupportsFloat

import torch
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader

from isobit._base import _check_mode, _generators, _library
from isobit._base._errors import RecordError
from isobit._jobs import _job
from isobit._jobs._job import Lost
from isobit._loops._batches import Batches, Progress
from isobit._loops._grains import Step
from isobit._loops._steps import StepCount
from isobit._recording import _beginning, _provenance, _record_files, _record_texts, _resume, _stock, _trace
from isobit._recording._checkpoint import PARTS, canonical, shape_of
from isobit._recording._job_record import OpenedElsewhere, end_together, open_together, require_job
from isobit._recording._observed import fingerprint_of, fingerprint_of_text, named_gradients, named_weights, optimizer_state
from isobit._recording._record_files import RunFolder, weights_sha256
from isobit._recording._record_hooks import RecordHooks
from isobit._switching import _hooks, _switch


class record:
    """with isobit.record("runs/") as run: ...  makes a record of what is trained in the block.

    The switch is on in the block. A line is written for each optimizer step: the fingerprint of the batches that entered
    the model, the loss, and every `every` steps and at the end the fingerprints of weights and optimizer; one for the
    batches that were evaluated (without gradients) in between. At the end the
    record is sealed; where the block raises, it says so; where the process is killed, `isobit log` shows it as interrupted.

    runs: the archive. name: of the run, else the script's. `run.id`, `run.path`, `run.steps`; `run.epoch = n` goes into
    the lines that follow; `run.log("test", accuracy=0.9)` records what was measured. One record at a time; in forked
    workers it does nothing.

    resume: True resumes the newest unfinished run of this script, name and arguments, if there is one; where the script
    has changed since, or `every` is another, a new run begins with a warning, and "strict" refuses. A run's id resumes that
    one, or refuses. What the script saved with `run.save(state)` `run.load()` gives back, or None in a new run; it also
    restores the generators of PyTorch, Python and NumPy. With `for epoch in run.epochs(n)` and, in it, `for batch in
    run.batches(loader)` the program resumes within an epoch, too: after the batch at whose end it saved.

    arithmetic: "stock" records what PyTorch computes as it comes: the switch stays off, nothing is certified, and verifying
    the record says how a repeat compares, never that it holds.

    predictions: whether the record keeps what run.predictions is given.

    gradients: every so many steps the line has the fingerprint of the gradients that the optimizer's step used, by the names of
    the parameters; 0: none. Each costs what one of the weights does.

    segments: of what run.save was given the two newest checkpoints stay, and besides between `segments` and 2 * segments - 1
    spread over the run, from which `isobit verify --workers` executes parts side by side; 1: none besides.

    ValueError for an argument that makes no sense. From entering the block on: RecordError where no record can be made,
    resumed or written that would hold, OSError where the file system says no; in the block operators raise RefusedError.
    Models may run in several threads; steps, and the methods here, belong to one.
    """

    __module__ = "isobit._record"  # as _old_names.py has it
    id: str  # None before the block, as is path
    path: pathlib.Path
    _steps_done: int
    # Set where the block begins.
    _process: int | None  # that writes the record; None before and after the block
    _progress: Progress
    _job: _job.Job | None  # the processes that this one trains with; rank 0's record is the job's
    _state_agreed: str  # fingerprints of the last step that had some, until the workers of the job compared them
    _folder: RunFolder
    _checkpoint: tuple[pathlib.Path, int] | None  # file and step that an interrupted run resumes from
    _loaded: bool
    _resumed_weights: str | None
    _resumed_sha256: str
    _expected: tuple[list[list[str]], int] | None  # models and optimizers that were saved with
    _between: tuple[list[str], int]  # batches and loss when it was saved
    _recorded_sources: dict[str, str]
    _models: list[torch.nn.Module]
    _optimizers: list[torch.optim.Optimizer]
    _batch: list[str]  # fingerprints of what entered models with gradients, since the last step
    _evaluated: list[str]  # and without gradients, since the last line
    _loss: int  # its bits
    _accumulated: bool
    _step: Step | None  # of a loop over run.steps
    _depth_before: int  # enable() calls that hold where the block begins
    _off: tuple[int, str, str] | None  # since when, by what and where the switch is off
    _tracked: dict[str, torch.nn.Module]  # by name, as run.track was told; empty: what the program calls
    _state: str  # not begun, running, finished, failed
    _final: str | None  # the fingerprint of the weights that the record ended with

    def __init__(self, runs: str | os.PathLike[str] = "runs", name: str | None = None, every: int = 50,
                 resume: bool | str | None = None, arithmetic: _stock.Arithmetic = "isobit", predictions: bool = False,
                 gradients: int = 0, segments: int = 4) -> None:
        _record_files.require()
        _stock.check(arithmetic)
        if every < 1:
            raise ValueError(f"every is {every}: how many steps lie between fingerprints, at least 1")
        if isinstance(gradients, bool) or gradients < 0:
            raise ValueError(f"gradients is {gradients}: how many steps lie between fingerprints of gradients, or 0 for none")
        if isinstance(segments, bool) or segments < 1:
            raise ValueError(f"segments is {segments}: in how many parts the run can be verified side by side, at least 1")
        self._again = _job.called_for()
        self._runs = pathlib.Path(self._again["runs"] if self._again else runs)
        self._name, self._every, self._is_stock = name, every, arithmetic == "stock"
        self._keeps_predictions, self._gradients_every, self._segments = predictions, gradients, segments
        self._ending = (self._again or {}).get("ending", "")
        self._contract = _stock.CONTRACT  # else what is in force where the block begins
        # Verified is the whole, from its first step, or, of a program that resumes, a segment.
        self._resume = resume and (self._again or {}).get("resume") if _job.RERUN in os.environ else resume
        self._until = (self._again or {}).get("until")
        self._progress, self._job = None, None  # type: ignore[assignment]
        self.epoch, self._steps_done = 1, 0
        self.id = self.path = None  # type: ignore[assignment]
        self._process = None
        self._state, self._final = "not begun", None
        self._tracked = {}

    def __enter__(self) -> "record":
        if (other := _hooks.current_record) is not None:
            raise RecordError(f"isobit.record: {other.path} is already being written\n  do     end its block first")
        if self._again:
            torch.set_num_threads(self._again["threads"])
        if self._is_stock:
            _stock.require_off()
            self._open()
        else:
            _switch.enable()
            self._contract = _library.contract_in_force()
            try:
                self._open()
            except BaseException:
                _switch.disable()
                raise
        self._tracing = _trace.of_record(self.path, self._again)
        self._state = "running"
        self._depth_before, self._off, self._replaced_before = len(_switch._places), None, _switch.last_replaced
        _switch.watchers.append(self._switched)
        _hooks.current_record = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 _traceback: types.TracebackType | None) -> None:
        if self._process != os.getpid():
            return
        _hooks.current_record = None
        try:
            _switch.watchers.remove(self._switched)
            self._hooks.remove()
            _trace.end(self._tracing, error)
            self._note_outside_at_end()
            self._process = None
            self._state = "failed"
            over = error if kind is not None and not (isinstance(error, SystemExit) and not error.code) else None
            over = over or _switch.replaced_since(self._replaced_before)  # in steps after the last look, or caught
            if self._job is None:
                ended = over
            else:
                ended = self._job.leave(over) if over is not None else \
                    end_together(self._job, self.steps, self._state_agreed, self._weights)
            if ended is None:
                self._finish()
            else:
                reason = _provenance.without_home(f"{type(ended).__name__}: {ended}").partition("\n")[0]
                self._folder.fail(reason[:500])
                if ended is not error:  # another worker's, or a kernel's
                    raise ended from error
        finally:
            self._process = None
            if not self._is_stock and len(_switch._places) >= self._depth_before:  # else the program has undone it already
                _switch.disable_after_look()

    def log(self, part: str = "train", **values: SupportsFloat | torch.Tensor) -> None:
        """Records numbers measured now, after the last step: run.log("test", accuracy=0.91, loss=0.3).

        part: what they were measured on, "train", "test", "val" ... Names, of parts and of values (`**{"top-5": 0.99}`), are 1 to
        100 ASCII letters, digits and _ . - / : @ % + = ( ) [ ] #, with spaces between.

        ValueError for other names, no numbers, or what is none; RecordError outside of the block.
        """
        self._require_open("log")
        _record_texts.check_name(part)
        if not values:
            raise ValueError("run.log takes numbers by name: run.log('test', accuracy=0.9)")
        plain = _record_texts.plain_values(values)
        # What precedes the loop that is resumed is done again.
        if self._process != os.getpid() or self._progress.pending is not None:
            return
        self._write_evaluation()
        self._folder.metrics(self.steps, int(self.epoch), part, plain)

    def predictions(self, part: str, classes: torch.Tensor | Sequence[int], targets: torch.Tensor | Sequence[int]) -> None:
        """Keeps what the model said of each sample, after the last step: run.predictions("test", scores.argmax(1), labels).

        Of a record that was begun with predictions=True. classes, targets: a whole number per sample, 0 or more, in the same
        order each time; of the targets a digest is kept, by which two runs' predictions are known to be of the same samples.
        `isobit verify` compares them; `isobit drift` and `isobit report` read them. ValueError for what are no classes, or not
        as many of both; RecordError outside of the block, and where the record keeps none.
        """
        self._require_open("predictions")
        _record_texts.check_name(part)
        if not self._keeps_predictions:
            raise RecordError("isobit.record: run.predictions in a record that keeps none\n"
                              "  do     begin it with isobit.record(..., predictions=True)")
        said, own = _record_texts.plain_predictions(classes, targets)
        if self._process != os.getpid() or self._progress.pending is not None:
            return
        self._write_evaluation()
        self._folder.predictions(self.steps, int(self.epoch), part, said, own)

    def part(self, name_: str, value: dict[str, Any]) -> None:
        """Adds part-NAME.json to the record, sealed with it: run.part("machine", {"format": "machine-1", "cores": 8}).

        name_: 1 to 32 of a-z, 0-9 and -. value: what JSON can say, with a text "format". Called again with that name, it takes
        the place of what was there. `isobit verify` has a part judged by the component that knows it, and exits with 2 where
        none that is built does. ValueError for other names and values; RecordError outside of the block.
        """
        self._require_open("part")
        text = _record_texts.part_text(name_, value)
        if self._process != os.getpid() or self._progress.pending is not None:
            return
        self._folder.part(name_, text.encode())

    def track(self, model: torch.nn.Module | None = None, **models: torch.nn.Module) -> None:
        """Says whose weights the record's fingerprint covers: run.track(model), or run.track(generator=g, critic=c).

        The record then has what isobit.fingerprint(model), or isobit.fingerprint({"generator": g, "critic": c}), gives. Without
        it, it covers the modules that the program calls: one as it is, several by their numbers in that order ("0", "1"). Before
        the first step.

        ValueError for no module or what is none, and for names that no record takes; RecordError outside of the block and after
        a step.
        """
        self._require_open("track")
        tracked: dict[str, torch.nn.Module] = {**({} if model is None else {"": model}), **models}
        if not tracked or (model is not None and models) or not all(isinstance(one, torch.nn.Module) for one in tracked.values()):
            raise ValueError("run.track takes one module, or several by name: run.track(generator=g, critic=c)")
        for name_ in models:
            _record_texts.check_name(name_)
        if self.steps and not self._must_load():
            raise RecordError(f"isobit.record: run.track after step {self.steps}\n  do     call it before the first step")
        self._tracked = tracked

    def __repr__(self) -> str:
        return _record_texts.as_text(self)

    def _repr_html_(self) -> str:
        """In a notebook."""
        return _record_texts.as_html(self)

    @property
    def epoch(self) -> int:
        """The epoch that lines are written for, from 1; run.epochs sets it, and so may the script."""
        return self._epoch

    @epoch.setter
    def epoch(self, number_: int) -> None:
        self._epoch = number_
        if self._progress is not None:
            self._progress.epoch_told()

    @property
    def steps(self) -> StepCount:
        """How many steps were done. Called, a loop over steps that are cut into grains: see StepCount.__call__."""
        return StepCount(self._steps_done, self)

    @property
    def batch(self) -> int:
        """The number of the batch in the loop over run.batches, from 1; enumerate would begin anew where a run resumes."""
        return self._progress.batch

    def epochs(self, count: int) -> Iterator[int]:
        """for epoch in run.epochs(10): sets run.epoch; where a run resumes, begins with the epoch that it had reached.

        RecordError outside of the block, and where a loop cannot be repeated from what was saved.
        """
        self._require_open("epochs")
        require_job(self._job, "run.epochs")
        return self._progress.epochs(count)

    def batches(self, loader: DataLoader[Any]) -> Batches:
        """for batch in run.batches(loader): a DataLoader's batches, as it gives them; where a run resumes, those that are left.

        RecordError outside of the block, and where the loader cannot be resumed within an epoch: docs/python.md says which.
        """
        self._require_open("batches")
        require_job(self._job, "run.batches")
        return Batches(self._progress, loader)

    def save(self, state: object) -> None:
        """A checkpoint of what the script needs to resume here, with the generators' states; the one before it goes.

        state: what torch.save takes. Last in an epoch, or last in the body of a loop over run.batches; RecordError where
        the program could not resume there.
        """
        self._require_open("save")
        if self._process != os.getpid() or self._progress.pending is not None:
            return
        self._write_evaluation()
        with self._lock:
            progress = self._progress.saved()
            if progress["loop"] is not None or progress["steps"] is not None:
                self._refuse_to_lose_gradients()
            if isinstance(self._folder, OpenedElsewhere):
                return
            sha256 = self._sha256()
            inner = {"state": state, "generators": _generators.kept(_generators.states(devices=True)), "epoch": int(self.epoch),
                     "progress": progress, "batch": self._batch, "loss": self._loss,
                     "weights": self._weights(), "sha256": sha256,
                     "models": list(map(shape_of, self._models)), "optimizers": len(self._optimizers)}
            buffer = io.BytesIO()
            torch.save(canonical(inner), buffer)
            self._folder.save(buffer.getvalue(), sha256, self._segments)
            _job.tell(saved=int(self.steps))
            if self.steps == self._until:
                _job.end_segment()

    def load(self, weights_only: bool = True) -> Any:
        """What the newest save() was given, where an interrupted run is resumed; None in a new one.

        weights_only: as torch.load has it; False runs code of the checkpoint. RecordError where it cannot be read.
        """
        self._require_open("load")
        if self._checkpoint is None:
            return None
        self._folder.require_readable(self._checkpoint[0])
        with self._checkpoint[0].open("rb") as file:
            try:
                return self._restore(torch.load(file, weights_only=weights_only))
            except Exception as error:  # whatever torch.load, and what takes its result, make of a damaged file
                what = (str(error).strip().splitlines() or [""])[0]
                raise RecordError(f"isobit.record: {self._checkpoint[0]} cannot be read: {type(error).__name__}: {what}\n"
                                  "  do     where run.save was given objects of the program's own classes, call "
                                  "run.load(weights_only=False); else begin a new run") from error

    def _restore(self, inner: Any) -> Any:
        for name, kinds in PARTS.items():
            if not isinstance(inner[name], kinds):
                raise TypeError(f"{name} is no {kinds[0].__name__}")
        _generators.set_states(inner["generators"])
        self._epoch, self._batch = inner["epoch"], inner["batch"]
        self._loss, self._resumed_weights, self._resumed_sha256 = inner["loss"], inner["weights"], inner.get("sha256", "")
        self._expected = inner["models"], inner["optimizers"]
        self._progress.load(inner["progress"])
        self._between = list(self._batch), self._loss
        self._loaded = True
        return inner["state"]

    def _require_open(self, method: str) -> None:
        if self._process is None:
            raise RecordError(f"isobit.record: call run.{method} in the block: with isobit.record(...) as run: ...")

    def _require_grains(self) -> None:
        self._require_open("steps")
        if self._is_stock:
            _stock.refuse_steps()

    def _must_load(self) -> bool:
        return self._checkpoint is not None and not self._loaded

    def _loop_reached(self) -> None:
        """The resumed loop begins: what the script did on its way there is in the record already."""
        self._evaluated = []
        self._batch, self._loss = list(self._between[0]), self._between[1]

    def _refuse_to_lose_gradients(self) -> None:
        if self._accumulated and any(parameter.grad is not None and bool(parameter.grad.any()) for optimizer in self._optimizers
                                     for group in optimizer.param_groups for parameter in group["params"]):
            raise RecordError("isobit.record: run.save within an epoch would lose the gradients that were added up since the "
                              "last step\n  do     save right after optimizer.step(), or after optimizer.zero_grad()")

    def _trace(self) -> dict[str, int]:
        """What a save would leave out if it changed after it."""
        return {"optimizer steps": self.steps, "a run.log": self._folder.size("metrics.jsonl"),
                "run.predictions": self._folder.size("predictions.jsonl") if self._keeps_predictions else 0,
                "evaluated batches": self._folder.size("evaluations.jsonl") + len(self._evaluated),
                "batches": len(self._batch)}

    # ---- begin and end

    def _open(self) -> None:
        script, self._root, patch = _provenance.describe_script()
        name = _beginning.run_name(self._name, script)
        script |= _beginning.settings(self._every, self._is_stock, self._keeps_predictions, self._gradients_every)
        self._recorded_sources = {}
        sources = _beginning.sources(self._root, {})
        files = _beginning.first_files(script, sources, patch, self._is_stock)
        self._checkpoint, self._resumed_weights, self._resumed_sha256, self._loaded = None, None, "", False
        self._process, self._lock = os.getpid(), threading.RLock()
        self._batch, self._loss, self._models, self._optimizers = [], 0x7FC00000, [], []
        self._accumulated, self._expected, self._progress, self._step = False, None, Progress(self), None
        self._state_agreed = ""
        self._job = _job.join()
        if self._is_stock and self._job is not None:
            raise RecordError("isobit.record(arithmetic=\"stock\"): this process is one of several that train together\n"
                              "  do     start the script alone, or record with arithmetic=\"isobit\"")

        def open_folder() -> RunFolder:
            before = None
            if self._resume and not _check_mode.on:
                now = _provenance.local_sources(self._root) if self._root else {}
                program = _resume.Program(script, name, now, self._every, self._ending)
                before = _beginning.run_to_resume(self._resume, self._runs, program)
            if before is not None:
                return self._resume_run(before)
            return _record_files.NoFolder() if _check_mode.on else \
                RunFolder(self._runs, name, files, self._contract, self._ending)

        self._sources_written = sources
        if self._job is None:
            self._folder = open_folder()
        else:
            settings = [script, name, str(self._runs), self._every, str(self._resume)]
            self._folder = open_together(self._job, settings, bool(self._resume), open_folder)
        self._checkpoint = self._folder.checkpoint() if self._resume else None
        if self._checkpoint is not None:
            self._steps_done = self._checkpoint[1]
        self.id, self.path = self._folder.id, self._folder.path
        self._evaluated = []
        self._hooks = RecordHooks(self._enter, self._progress.loader_made, self._after_step, self._backward, self._is_stock)

    def _resume_run(self, folder: pathlib.Path) -> RunFolder:
        self._recorded_sources = _resume.recorded_sources(folder)
        self._sources_written = (folder / "sources.json").read_bytes()
        resumed = RunFolder.resume(folder, _beginning.environment(self._is_stock), self._contract)
        if resumed.checkpoint() is None:
            print(f"isobit.record: {folder} has no checkpoint yet: it starts again from step 1", file=sys.stderr)
        return resumed

    def _finish(self) -> None:
        if self._job is None:
            self._seal()
            return
        problem: BaseException | None = None
        try:
            self._seal()
        except BaseException as error:
            problem = error
        try:
            self._job.agree("the seal of the record", {}, error=problem, leaving=True)
        except Lost:
            if problem is not None or self._job.rank != 0:
                raise problem or RecordError(f"isobit.record: {self.path} may not be finished: worker 0 has ended") from None

    def _seal(self) -> None:
        self._evaluated += self._batch  # no step came after them
        self._write_evaluation()
        sources = _beginning.sources(self._root, self._recorded_sources)
        if sources != self._sources_written:  # modules imported meanwhile
            self._folder.replace("sources.json", sources)
        weights = _check_mode.NO_FINGERPRINT if _check_mode.on else f"{self._contract}:{self._weights()}"
        self._folder.finish(weights, "" if isinstance(self._folder, OpenedElsewhere) else self._sha256())
        self._state, self._final = ("not recorded" if _check_mode.on else "finished"), weights

    # ---- what is watched

    def _switched(self, on: bool, call: str, place: str) -> None:
        """Notes each stretch in which the switch is off: what runs there is not certified."""
        if self._process != os.getpid():
            return
        if self._is_stock:
            if on:
                _stock.refuse_enable(place)
            return
        if on and _library.is_on() and _library.contract_in_force() != self._contract:
            products = _library.products()
            _switch.disable()
            raise RecordError(f"isobit.record: {place} computes with products {products!r}, the record is of {self._contract}\n"
                              "  do     record what each tier of products computes in a record of its own")
        if not on:
            self._off = self.steps, call, place
        elif self._off is not None:
            (after, began, where), self._off = self._off, None
            if not self._must_load() and self._progress.pending is None:  # what is done again is in the record already
                self._folder.outside(after, self.steps, where, began)

    def _note_outside_at_end(self) -> None:
        """A disable() too many leaves the switch off, one too few leaves it on: both are in the record."""
        if self._is_stock:
            return
        self._switched(True, "", "")
        if len(_switch._places) > self._depth_before:
            self._folder.outside(self.steps, self.steps, _switch._places[self._depth_before], "enable")

    def _enter(self, module: torch.nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """A batch is what enters an outermost module that has parameters: trained on with gradients on, else evaluated."""
        if os.getpid() != self._process or next(module.parameters(), None) is None:
            return
        with self._lock:
            training = torch.is_grad_enabled()
            if training and self._tracked:
                self._models = list(self._tracked.values())
            elif training and not any(module is known for known in self._models):
                self._models.append(module)
            if training and self._step is not None:
                self._step._entered(module)
            tensors = [leaf for leaf in pytree.tree_leaves((arguments, keywords)) if isinstance(leaf, torch.Tensor)]
            fingerprints = [fingerprint_of([("", tensor)]) for tensor in tensors]
            (self._batch if training else self._evaluated).extend(fingerprints)

    def _write_evaluation(self) -> None:
        """One line for what was evaluated since the last one."""
        with self._lock:
            if self._evaluated and self._progress.pending is None:
                self._folder.evaluation(self.steps, int(self.epoch), len(self._evaluated),
                                        fingerprint_of_text("".join(self._evaluated)))
            self._evaluated = []

    def _backward(self, roots: Sequence[torch.Tensor], accumulates: bool) -> None:
        if os.getpid() == self._process:
            self._accumulated |= accumulates
        if os.getpid() == self._process and len(roots) == 1 and roots[0].numel() == 1 and roots[0].dtype == torch.float32:
            self._loss = struct.unpack("<I", struct.pack("<f", roots[0].item()))[0]

    def _after_step(self, optimizer: torch.optim.Optimizer, _arguments: object, _keywords: object) -> None:
        if os.getpid() != self._process:
            return
        if self._must_load():
            raise RecordError(f"isobit.record: {self.path} resumes after step {self.steps}, but the script did not call "
                              "run.load() before it trained\n  do     call run.load() first, and start from what it returns")
        if self._step is None:
            require_job(self._job, "an optimizer's step outside of run.steps")
        if (pending := self._progress.pending) is not None:
            where = f"after batch {pending['batch']} of a loop over run.batches" if "batch" in pending else \
                f"after step {pending['steps']['after']} of a loop over run.steps"
            raise RecordError(f"isobit.record: {self.path} resumes {where}, but a step came before that loop\n"
                              "  do     write the loop as when it was saved, and no step before it")
        with self._lock:
            self._write_evaluation()
            self._steps_done += 1
            if not any(optimizer is known for known in self._optimizers):
                self._optimizers.append(optimizer)
            batch = fingerprint_of_text("".join(self._batch)) if len(self._batch) != 1 else self._batch[0]
            weights = optimizer_values = ""
            if self.steps % self._every == 0:
                weights, optimizer_values = self._weights(), fingerprint_of(optimizer_state(self._optimizers))
                self._state_agreed = f"{weights} {optimizer_values}"
            due = self._gradients_every and self.steps % self._gradients_every == 0
            gradients = fingerprint_of(named_gradients(self._tracked, self._models, optimizer)) if due else ""
            self._folder.step(self.steps, int(self.epoch), self._loss, batch, weights, optimizer_values, gradients)
            self._batch, self._loss, self._accumulated = [], 0x7FC00000, False

    def _weights(self) -> str:
        """Of the one model as isobit.fingerprint(model); of several with their names, or numbers, before the names."""
        if not self._models and self._resumed_weights is not None:  # no step since
            return self._resumed_weights
        self._require_all_parts()
        return fingerprint_of(named_weights(self._tracked, self._models))

    def _sha256(self) -> str:
        if not self._models and self._resumed_weights is not None:
            return self._resumed_sha256
        return weights_sha256(named_weights(self._tracked, self._models))

    def _require_all_parts(self) -> None:
        """Fingerprints name models and optimizers by the order in which the program came to them."""
        if self._expected is None:
            return
        models, optimizers = self._expected
        if [*map(shape_of, self._models)][:len(models)] != models or len(self._optimizers) < optimizers:
            raise RecordError(f"isobit.record: step {self.steps}: {self.path} had trained {len(models)} models with {optimizers} "
                              "optimizers when it was saved; since it resumed, not all of them were called, or in another order, "
                              "so that their fingerprint cannot be made\n"
                              "  do     save between epochs, or choose `every` so that all are called before the next "
                              "fingerprint")
        self._expected = None
