"""isobit.record: a record of an ordinary training loop, on disk as `isobit run` makes it (docs/formats/run.md)."""

import functools
import io
import json
import numbers
import os
import pathlib
import re
import struct
import threading

import torch
from torch.optim import optimizer as torch_optimizer
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader

from isobit import _generators, _hooks, _library, _provenance, _resume, _switch
from isobit._batches import Batches, Progress
from isobit._record_files import RunFolder, find_run, json_text, line_of, number

RERUN = "ISOBIT_RERUN"  # set by isobit verify: where the second record goes, with how many threads
FINGERPRINTED = (torch.float32, torch.int64, torch.uint8, torch.bool)
_current = None


class record:  # noqa: N801 (used like a function)
    """with isobit.record("runs/") as run: ...  makes a record of what is trained in the block.

    The switch is on in the block. A line is written for each optimizer step: the fingerprint of the batches that entered
    the model, the loss, and every `every` steps and at the end the fingerprints of weights and optimizer; one for the
    batches that were evaluated (without gradients) in between. At the end the
    record is sealed; where the block raises, it says so; where the process is killed, `isobit log` shows it as interrupted.

    runs: the archive. name: of the run, else the script's. `run.id`, `run.path`, `run.steps`; `run.epoch = n` goes into
    the lines that follow; `run.log("test", accuracy=0.9)` records what was measured. One record at a time; in forked
    workers it does nothing.

    resume: True goes on with the newest run of this script, name and arguments that was not finished, if there is one; a
    run's id with that one. What the script saved with `run.save(state)` `run.load()` gives back, or None in a new run; it also
    restores the generators of PyTorch, Python and NumPy. With `for epoch in run.epochs(n)` and, in it, `for batch in
    run.batches(loader)` the program goes on within an epoch, too: after the batch at whose end it saved.
    """

    def __init__(self, runs="runs", name=None, every=50, resume=None):
        if every < 1:
            raise ValueError(f"every is {every}: how many steps lie between fingerprints, at least 1")
        self._again = json.loads(os.environ[RERUN]) if RERUN in os.environ else None
        self._runs = pathlib.Path(self._again["runs"] if self._again else runs)
        self._name, self._every = name, every
        self._resume = None if self._again else resume  # verified is the whole, from its first step
        self._progress = None
        self.epoch, self.steps = 1, 0
        self.id = self.path = self._process = None

    def __enter__(self):
        global _current
        if _current is not None:
            raise RuntimeError(f"isobit.record: {_current.path} is being written already")
        if self._again:
            torch.set_num_threads(self._again["threads"])
        _switch.enable()
        try:
            self._open()
        except BaseException:
            _switch.disable()
            raise
        _current = self
        return self

    def __exit__(self, kind, error, _traceback):
        global _current
        if self._process != os.getpid():
            return
        _current = self._process = None
        self._unhook()
        try:
            if kind is None or kind is SystemExit and not error.code:
                self._finish()
            else:
                reason = _provenance.without_home(f"{kind.__name__}: {error}").partition("\n")[0]
                self._folder.fail(self.steps, reason[:500])
        finally:
            _switch.disable()

    def log(self, part="train", **values):
        """Records numbers measured now, after the last step: run.log("test", accuracy=0.91, loss=0.3)."""
        self._require_open("log")
        if part not in ("train", "test") or not values:
            raise ValueError("run.log takes 'train' or 'test', and numbers by name")
        if self._progress.pending is not None:  # what precedes the loop that goes on is done again
            return
        self._write_evaluation()
        values = {name_: value.item() if isinstance(value, torch.Tensor) else value for name_, value in values.items()}
        for name_, value in values.items():
            if not isinstance(value, numbers.Real) and not hasattr(value, "__float__"):
                raise ValueError(f"run.log: {name_}={value!r} is no number")
        inner = ",".join(f"{json.dumps(name)}:{number(values[name])}" for name in sorted(values))
        self._folder.append("metrics.jsonl", line_of([("step", self.steps), ("epoch", int(self.epoch)),
                                                      ("set", json.dumps(part)), ("values", "{" + inner + "}")]))

    @property
    def epoch(self):
        return self._epoch

    @epoch.setter
    def epoch(self, number_):
        self._epoch = number_
        if self._progress is not None:
            self._progress.epoch_told()

    @property
    def batch(self):
        """The number of the batch in the loop over run.batches, from 1; enumerate would begin anew where a run goes on."""
        return self._progress.batch

    def epochs(self, count):
        """for epoch in run.epochs(10): sets run.epoch; where a run goes on, begins with the epoch that it had come to."""
        self._require_open("epochs")
        return self._progress.epochs(count)

    def batches(self, loader):
        """for batch in run.batches(loader): a DataLoader's batches, as it gives them; where a run goes on, those that are left.

        RuntimeError where the loader can not be gone on with within an epoch: docs/python.md says which.
        """
        self._require_open("batches")
        return Batches(self._progress, loader)

    def save(self, state):
        """A checkpoint of what the script needs to go on from here, with the generators' states; the one before it goes.

        Last in an epoch, or last in the body of a loop over run.batches.
        """
        self._require_open("save")
        if self._process != os.getpid() or self._progress.pending is not None:
            return
        self._write_evaluation()
        with self._lock:
            progress = self._progress.saved()
            if progress["loop"] is not None:
                self._refuse_to_lose_gradients()
            inner = {"state": state, "generators": _generators.states(devices=True), "epoch": int(self.epoch), "progress": progress,
                     "batch": self._batch, "loss": self._loss, "weights": self._weights(), "models": list(map(_shape_of, self._models)),
                     "optimizers": len(self._optimizers)}
            buffer = io.BytesIO()
            torch.save(inner, buffer)
            self._folder.checkpoint(self.steps, buffer.getvalue())

    def load(self, weights_only=True):
        """What the newest save() was given, where an interrupted run goes on; None in a new one."""
        self._require_open("load")
        if self._checkpoint is None:
            return None
        inner = torch.load(self.path / self._checkpoint["file"], weights_only=weights_only)
        _generators.set_states(inner["generators"])
        self._epoch, self._batch, self._loss, self._resumed_weights = (inner[key] for key in ("epoch", "batch", "loss", "weights"))
        self._expected = inner["models"], inner["optimizers"]
        self._progress.load(inner["progress"])
        self._between = list(self._batch), self._loss
        self._loaded = True
        return inner["state"]

    def _require_open(self, method):
        if self._process is None:
            raise RuntimeError(f"isobit.record: run.{method} belongs into the block: with isobit.record(...) as run: ...")

    def _must_load(self):
        return self._checkpoint is not None and not self._loaded

    def _loop_reached(self):
        """The loop that goes on begins: what the script did on its way there is in the record already."""
        self._evaluated = []
        self._batch, self._loss = list(self._between[0]), self._between[1]

    def _refuse_to_lose_gradients(self):
        if self._accumulated and any(parameter.grad is not None and bool(parameter.grad.any()) for optimizer in self._optimizers
                                     for group in optimizer.param_groups for parameter in group["params"]):
            raise RuntimeError("isobit.record: run.save within an epoch would lose the gradients that were added up since the last step\n"
                               "  do     save right after optimizer.step(), or after optimizer.zero_grad()")

    def _trace(self):
        """What a save would leave out if it changed after it."""
        return {"optimizer steps": self.steps, "a run.log": self._folder.size("metrics.jsonl"),
                "evaluated batches": self._folder.size("evaluations.jsonl") + len(self._evaluated), "batches": len(self._batch)}

    # ---- begin and end

    def _open(self):
        script, self._root, patch = _provenance.describe_script()
        name = self._name or pathlib.Path(script["file"]).stem or "python"
        name = re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip(".")[:64] or "python"
        script["fingerprint_every"] = self._every
        self._recorded_sources = {}
        files = {
            "experiment.toml": _provenance.toml("script", script, "A Python program under isobit.record.").encode(),
            "environment.json": json_text(_provenance.environment()).encode(),
            "data.json": json_text({"format": "isobit-data-1", "files": [], "note": "steps.jsonl has what the model saw"}).encode(),
            "sources.json": self._sources()}
        if patch is not None:
            files["dirty.patch"] = patch
        self._checkpoint, self._replayed, self._resumed_weights, self._loaded = None, [], None, False
        self._process, self._lock = os.getpid(), threading.RLock()
        self._batch, self._loss, self._models, self._optimizers = [], 0x7FC00000, [], []
        self._accumulated, self._expected, self._progress = False, None, Progress(self)
        before = self._interrupted(script, name) if self._resume else None
        if before is not None:
            self._go_on(before)
        else:
            self._sources_written = files["sources.json"]
            self._folder = RunFolder(self._runs, name, _library.contract_version, files)
        self.id, self.path = self._folder.id, self._folder.path
        self._evaluated = []  # fingerprints of the batches that entered a model without gradients, since the last line
        self._depth = threading.local()
        self._hook()

    def _interrupted(self, script, name):
        """The folder of the run to go on with, or None."""
        if self._resume is True:
            folder = _resume.unfinished(self._runs, script, name)
        else:
            folder = find_run(self._runs, str(self._resume))
            if (folder / "manifest.json").exists():
                raise RuntimeError(f"isobit.record: {folder} is finished: there is nothing to go on with")
        if folder is not None:
            state = json.loads((folder / "state.json").read_bytes())
            if state["contract"] != _library.contract_version:
                raise RuntimeError(f"isobit.record: {folder} was recorded under {state['contract']}, this is {_library.contract_version}")
            every = _provenance.read_toml((folder / "experiment.toml").read_text(encoding="utf-8"))["fingerprint_every"]
            if every != self._every:
                raise RuntimeError(f"isobit.record: {folder} has every={every}, not {self._every}")
            writer = _resume.holder(self._runs / ".locks" / folder.name)
            if writer is not None:
                raise RuntimeError(f"isobit.record: {folder} is being written by {writer}")
        return folder

    def _go_on(self, folder):
        current = _provenance.local_sources(self._root) if self._root else {}
        self._recorded_sources = _resume.same_program(folder, current)
        self._sources_written = (folder / "sources.json").read_bytes()
        self._folder, self._checkpoint, self._replayed = RunFolder.resume(folder, _resume.take_lock, _resume.cut_back)
        if self._checkpoint is not None:
            self.steps = self._checkpoint["step"]

    def _sources(self):
        sources = _provenance.local_sources(self._root) if self._root else {}
        sources = dict(sorted({**self._recorded_sources, **sources}.items()))
        return json_text({"format": "isobit-sources-1", "files": sources}).encode()

    def _finish(self):
        self._evaluated += self._batch  # no step came after them
        self._write_evaluation()
        sources = self._sources()
        if sources != self._sources_written:  # modules imported meanwhile
            self._folder.replace("sources.json", sources)
        self._folder.finish(self.steps, f"{_library.contract_version}:{self._weights()}")

    # ---- what is watched

    def _hook(self):
        self._stock_call = torch.nn.Module.__call__
        recorder = self

        def call(module, *arguments, **keywords):
            with recorder._within() as outermost:
                if outermost:
                    recorder._enter(module, arguments, keywords)
                return recorder._stock_call(module, *arguments, **keywords)

        stock_init = self._stock_init = DataLoader.__init__

        @functools.wraps(stock_init)
        def init(loader, *arguments, **keywords):
            stock_init(loader, *arguments, **keywords)
            recorder._progress.loader_made(loader)

        torch.nn.Module.__call__ = call
        DataLoader.__init__ = init
        self._step_hook = torch_optimizer.register_optimizer_step_post_hook(self._after_step)
        _hooks.backward_watchers.append(self._backward)

    def _unhook(self):
        torch.nn.Module.__call__ = self._stock_call
        DataLoader.__init__ = self._stock_init
        self._step_hook.remove()
        _hooks.backward_watchers.remove(self._backward)

    def _within(self):
        return _Depth(self._depth)

    def _enter(self, module, arguments, keywords):
        """A batch is what enters an outermost module that has parameters; with gradients on it is trained on, else evaluated."""
        if os.getpid() != self._process or next(module.parameters(), None) is None:
            return
        with self._lock:
            training = torch.is_grad_enabled()
            if training and not any(module is known for known in self._models):
                self._models.append(module)
            tensors = [leaf for leaf in pytree.tree_leaves((arguments, keywords)) if isinstance(leaf, torch.Tensor)]
            fingerprints = [_fingerprint([("", tensor)]) for tensor in tensors]
            (self._batch if training else self._evaluated).extend(fingerprints)

    def _write_evaluation(self):
        """One line for what was evaluated since the last one."""
        with self._lock:
            if self._evaluated and self._progress.pending is None:
                self._folder.append("evaluations.jsonl", line_of([
                    ("step", self.steps), ("epoch", int(self.epoch)), ("tensors", len(self._evaluated)),
                    ("batches", f'"{_fingerprint_of_text("".join(self._evaluated))}"')]))
            self._evaluated = []

    def _backward(self, roots, accumulates):
        if os.getpid() == self._process:
            self._accumulated |= accumulates
        if os.getpid() == self._process and len(roots) == 1 and roots[0].numel() == 1 and roots[0].dtype == torch.float32:
            self._loss = struct.unpack("<I", struct.pack("<f", roots[0].item()))[0]

    def _after_step(self, optimizer, _arguments, _keywords):
        if os.getpid() != self._process:
            return
        if self._must_load():
            raise RuntimeError(f"isobit.record: {self.path} goes on after step {self.steps}, but the script did not call run.load() "
                               "before it trained")
        if self._progress.pending is not None:
            raise RuntimeError(f"isobit.record: {self.path} goes on after batch {self._progress.pending['batch']} of a loop over run.batches, but "
                               "a step came before that loop\n  do     write the loop as `for batch in run.batches(loader):`, as when it was saved")
        with self._lock:
            self._write_evaluation()
            self.steps += 1
            if not any(optimizer is known for known in self._optimizers):
                self._optimizers.append(optimizer)
            batch = _fingerprint_of_text("".join(self._batch)) if len(self._batch) != 1 else self._batch[0]
            line = [("step", self.steps), ("epoch", int(self.epoch)), ("loss", f'"{self._loss:08x}"'), ("batch", f'"{batch}"')]
            if self.steps % self._every == 0:
                line += [("weights", f'"{self._weights()}"'), ("optimizer", f'"{self._optimizer_state()}"')]
            line = line_of(line)
            if self._replayed and (before := self._replayed.pop(0)) != line:
                raise RuntimeError(f"isobit.record: step {self.steps} came out differently after resuming: {line.strip()} now, "
                                   f"{before.strip()} before; does the script restore all of its state?")
            self._folder.append("steps.jsonl", line)
            self._batch, self._loss, self._accumulated = [], 0x7FC00000, False

    def _weights(self):
        """Of the one model as isobit.fingerprint(model); of several with their numbers before the names."""
        if not self._models and self._resumed_weights is not None:  # no step since
            return self._resumed_weights
        self._require_all_parts()
        if len(self._models) == 1:
            return _fingerprint(list(self._models[0].state_dict().items()))
        return _fingerprint([(f"{number_}.{name}", tensor) for number_, model in enumerate(self._models)
                             for name, tensor in model.state_dict().items()])

    def _require_all_parts(self):
        """Fingerprints name models and optimizers by the order in which the program came to them."""
        if self._expected is None:
            return
        models, optimizers = self._expected
        if [*map(_shape_of, self._models)][:len(models)] != models or len(self._optimizers) < optimizers:
            raise RuntimeError(f"isobit.record: step {self.steps}: {self.path} had trained {len(models)} models with {optimizers} optimizers when it "
                               "was saved; since it goes on, not all of them were called, or in another order, so that their fingerprint can not be made\n"
                               "  do     save between epochs, or choose `every` so that all are called before the next fingerprint")
        self._expected = None

    def _optimizer_state(self):
        return _fingerprint([(f"{number_}.{parameter}.{name}", torch.as_tensor(value))
                             for number_, optimizer in enumerate(self._optimizers)
                             for parameter, state in optimizer.state_dict()["state"].items()
                             for name, value in state.items() if isinstance(value, (torch.Tensor, int, float))])


def _shape_of(model):
    return [f"{name} {list(tensor.shape)}" for name, tensor in model.state_dict().items()]


class _Depth:
    """Whether this is the outermost module's call on its thread."""

    def __init__(self, local):
        self._local = local

    def __enter__(self):
        self._local.value = getattr(self._local, "value", 0) + 1
        return self._local.value == 1

    def __exit__(self, *_):
        self._local.value -= 1


def _plain(tensor):
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        return torch.zeros(0)
    tensor = tensor.cpu()
    return tensor if tensor.dtype in FINGERPRINTED else tensor.contiguous().reshape(-1).view(torch.uint8)


def _fingerprint(pairs):
    pairs = [(name, _plain(tensor)) for name, tensor in pairs]
    return _library.fingerprint_list([name for name, _ in pairs], [tensor for _, tensor in pairs])


def _fingerprint_of_text(text):
    return _fingerprint([("", torch.tensor(list(text.encode()), dtype=torch.uint8))])
