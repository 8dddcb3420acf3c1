"""isobit.record: a record of an ordinary training loop, on disk as `isobit run` makes it (docs/formats/run.md)."""

import json
import os
import pathlib
import re
import struct
import threading

import torch
from torch.optim import optimizer as torch_optimizer
from torch.utils import _pytree as pytree

from isobit import _hooks, _library, _provenance, _switch
from isobit._record_files import RunFolder, json_text, line_of, number

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
    """

    def __init__(self, runs="runs", name=None, every=50):
        if every < 1:
            raise ValueError(f"every is {every}: how many steps lie between fingerprints, at least 1")
        self._again = json.loads(os.environ[RERUN]) if RERUN in os.environ else None
        self._runs = pathlib.Path(self._again["runs"] if self._again else runs)
        self._name, self._every = name, every
        self.epoch, self.steps = 1, 0
        self.id = self.path = None

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
        _current = None
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
        if part not in ("train", "test") or not values:
            raise ValueError("run.log takes 'train' or 'test', and numbers by name")
        self._write_evaluation()
        inner = ",".join(f"{json.dumps(name)}:{number(values[name])}" for name in sorted(values))
        self._folder.append("metrics.jsonl", line_of([("step", self.steps), ("epoch", int(self.epoch)),
                                                      ("set", json.dumps(part)), ("values", "{" + inner + "}")]))

    # ---- begin and end

    def _open(self):
        script, self._root, patch = _provenance.describe_script()
        name = self._name or pathlib.Path(script["file"]).stem or "python"
        name = re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip(".")[:64] or "python"
        script["fingerprint_every"] = self._every
        files = {
            "experiment.toml": _provenance.toml("script", script, "A Python program under isobit.record.").encode(),
            "environment.json": json_text(_provenance.environment()).encode(),
            "data.json": json_text({"format": "isobit-data-1", "files": [], "note": "steps.jsonl has what the model saw"}).encode(),
            "sources.json": self._sources()}
        if patch is not None:
            files["dirty.patch"] = patch
        self._sources_written = files["sources.json"]
        self._folder = RunFolder(self._runs, name, _library.contract_version, files)
        self.id, self.path = self._folder.id, self._folder.path
        self._process, self._lock = os.getpid(), threading.RLock()
        self._batch, self._loss, self._models, self._optimizers = [], 0x7FC00000, [], []
        self._evaluated = []  # fingerprints of the batches that entered a model without gradients, since the last line
        self._depth = threading.local()
        self._hook()

    def _sources(self):
        sources = _provenance.local_sources(self._root) if self._root else {}
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

        torch.nn.Module.__call__ = call
        self._step_hook = torch_optimizer.register_optimizer_step_post_hook(self._after_step)
        _hooks.backward_watchers.append(self._backward)

    def _unhook(self):
        torch.nn.Module.__call__ = self._stock_call
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
            if self._evaluated:
                self._folder.append("evaluations.jsonl", line_of([
                    ("step", self.steps), ("epoch", int(self.epoch)), ("tensors", len(self._evaluated)),
                    ("batches", f'"{_fingerprint_of_text("".join(self._evaluated))}"')]))
            self._evaluated = []

    def _backward(self, roots):
        if os.getpid() == self._process and len(roots) == 1 and roots[0].numel() == 1 and roots[0].dtype == torch.float32:
            self._loss = struct.unpack("<I", struct.pack("<f", roots[0].item()))[0]

    def _after_step(self, optimizer, _arguments, _keywords):
        if os.getpid() != self._process:
            return
        with self._lock:
            self._write_evaluation()
            self.steps += 1
            if not any(optimizer is known for known in self._optimizers):
                self._optimizers.append(optimizer)
            batch = _fingerprint_of_text("".join(self._batch)) if len(self._batch) != 1 else self._batch[0]
            line = [("step", self.steps), ("epoch", int(self.epoch)), ("loss", f'"{self._loss:08x}"'), ("batch", f'"{batch}"')]
            if self.steps % self._every == 0:
                line += [("weights", f'"{self._weights()}"'), ("optimizer", f'"{self._optimizer_state()}"')]
            self._folder.append("steps.jsonl", line_of(line))
            self._batch, self._loss = [], 0x7FC00000

    def _weights(self):
        """Of the one model as isobit.fingerprint(model); of several with their numbers before the names."""
        if len(self._models) == 1:
            return _fingerprint(list(self._models[0].state_dict().items()))
        return _fingerprint([(f"{number_}.{name}", tensor) for number_, model in enumerate(self._models)
                             for name, tensor in model.state_dict().items()])

    def _optimizer_state(self):
        return _fingerprint([(f"{number_}.{parameter}.{name}", torch.as_tensor(value))
                             for number_, optimizer in enumerate(self._optimizers)
                             for parameter, state in optimizer.state_dict()["state"].items()
                             for name, value in state.items() if isinstance(value, (torch.Tensor, int, float))])


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
