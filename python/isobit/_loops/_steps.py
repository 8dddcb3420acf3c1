"""run.steps: a loop over the steps of a training whose batches are cut into grains (contract, sections 5 to 7)."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import TensorDataset, default_collate

from isobit._base import _sums
from isobit._base._errors import RecordError
from isobit._loops._grains import Parameter, Step, binary32, seed_generators
from isobit._loops._run import Run
from isobit._loops._shared_steps import SharedStep, require_shareable
from isobit._switching import _switch


class StepCount(int):
    """How many steps a run has done; called, a loop: `for step in run.steps(samples, batch=256, grain=32)`."""

    _run: Run

    def __new__(cls, count: int, run: Run) -> "StepCount":
        number = super().__new__(cls, count)
        number._run = run
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)

    def __call__(self, samples: Any, *, batch: int, grain: int | None = None, epochs: int = 1, steps: int | None = None,
                 shuffle: bool = True, seed: int | None = None, weights: Any = None,
                 collate_fn: Callable[[list[Any]], Any] | None = None) -> "Steps":
        """for step in run.steps(samples, batch=256, grain=32, epochs=3): steps whose grains any machine computes alike.

        samples: what has __len__ and __getitem__ (a map-style Dataset, a list), or a tuple of tensors with a row per sample;
        collated by collate_fn, else as DataLoader does. Each epoch's order follows from `seed` (else isobit.seed's);
        shuffle=False: 0, 1, 2 ... `steps`: how many in all, instead of whole epochs. `grain`: samples in a grain, else the whole
        batch; the last step of an epoch and the last grain of a step may have fewer. weights: what each sample counts in the
        mean (its tokens, its boxes): numbers by sample, or a function of the sample's number; without them, 1. Sets run.epoch.

        In a job of several workers (docs/python.md, "Several workers") they share the grains of each step.

        A run resumes after the step in whose body, after step.finish, it saved. ValueError for arguments that make no sense;
        RecordError outside of the block, without a seed, and where the loop is not the one that was saved in.
        """
        self._run._require_grains()
        return Steps(self._run, samples, batch, batch if grain is None else grain, epochs, steps, shuffle, seed, weights,
                     collate_fn)


class Steps:
    """The loop; `len()` of it is the number of its steps."""

    def __init__(self, run: Run, samples: Any, batch: int, grain: int, epochs: int, steps: int | None, shuffle: bool,
                 seed: int | None, weights: Any, collate_fn: Callable[[list[Any]], Any] | None) -> None:
        self._run, self._batch, self._grain, self._shuffle = run, batch, grain, shuffle
        self._seed = _seed_of(seed)
        self._reader = Reader(samples, collate_fn, self._seed)
        self._weights = Weights(weights, self._reader.count)
        for name, value in (("batch", batch), ("grain", grain), ("epochs", epochs), ("steps", 1 if steps is None else steps)):
            if value < 1:
                raise ValueError(f"run.steps: {name} is {value}, at least 1")
        if -(-batch // grain) > 2**17:
            raise ValueError(f"run.steps: a batch of {batch} in grains of {grain} has more than 131072 grains")
        if self._reader.count == 0:
            raise ValueError("run.steps: there are no samples")
        self._steps_per_epoch = -(-self._reader.count // batch)
        self._count = epochs * self._steps_per_epoch if steps is None else steps
        self._parameters: dict[int, Parameter] = {}  # by id, in the order in which gradients came
        self._shared_before = False  # with the workers of a job
        if run._job is not None:
            largest = min(batch, self._reader.count)
            require_shareable(run._job, -(-largest // grain), largest)

    def __len__(self) -> int:
        return self._count

    def describe(self) -> str:
        """What a resumed loop must have in common with the saved one."""
        return (f"{self._reader.count} samples, batch={self._batch}, grain={self._grain}, seed={self._seed}, "
                f"shuffle={self._shuffle}")

    def __iter__(self) -> Iterator[Step]:
        progress, run = self._run._progress, self._run
        first = progress.steps_begin(self)
        try:
            for number in range(first, self._count + 1):
                step = self._step(number)
                run.epoch = step.epoch
                progress.step_begins(step)
                run._step = step
                try:
                    yield step
                finally:
                    run._step = None
                if step._state != "finished":
                    raise RecordError(f"isobit.record: step {number} of the loop over run.steps was not finished\n"
                                      "  do     call step.finish(optimizer) at the end of its body")
                progress.body_ended(f"the body of the loop over run.steps (step {number})", "call run.save last in the body")
        finally:
            progress.steps_end()

    def _step(self, number: int) -> Step:
        epoch, within = (number - 1) // self._steps_per_epoch + 1, (number - 1) % self._steps_per_epoch
        first = within * self._batch
        count = min(self._batch, self._reader.count - first)
        samples = _sums.order(self._seed, epoch, self._reader.count, self._shuffle, first, count)
        return Step(self, number, epoch, samples, self._weights.of(samples, number), within == self._steps_per_epoch - 1)

    def _share(self, step: Step) -> SharedStep | None:
        if self._run._job is None:
            return None
        first, self._shared_before = not self._shared_before, True
        return SharedStep(self._run._job, step, self._run._progress._steps_loops, first)

    def _known_parameters(self) -> list[torch.Tensor]:
        """Of the modules that the program tracks, or calls; each once, in their order."""
        models = self._run._tracked.values() or self._run._models
        return list({id(parameter): parameter for model in models for parameter in model.parameters()}.values())

    def _name_of(self, tensor: torch.Tensor) -> str:
        for model in self._run._tracked.values() or self._run._models:
            for name, parameter in model.named_parameters():
                if parameter is tensor:
                    return name
        return f"a parameter of sizes {list(tensor.shape)}"

    def _require_no_gradient(self, tensor: torch.Tensor, step: Step) -> None:
        if tensor.grad is not None and bool(tensor.grad.any()):
            raise RecordError(f"isobit.record: step {step.number}: {self._name_of(tensor)} has a gradient from elsewhere\n"
                              "  do     call optimizer.zero_grad() before the loop, and no backward but step.backward in it")
        tensor.grad = None


def _seed_of(seed: int | None) -> int:
    chosen = _switch.last_seed if seed is None else seed
    if chosen is None:
        raise RecordError("isobit.record: run.steps has no seed\n"
                          "  do     call isobit.seed(n) before the model is made, or give run.steps(..., seed=n)")
    return chosen


class Reader:
    """Samples by number. Random numbers that a dataset draws for a sample follow from seed, epoch and sample alone."""

    def __init__(self, samples: Any, collate_fn: Callable[[list[Any]], Any] | None, seed: int) -> None:
        self._samples, self._collate, self._seed = samples, collate_fn, seed
        self._columns: Sequence[torch.Tensor] | None = None
        tensors = isinstance(samples, tuple) and bool(samples) and all(isinstance(one, torch.Tensor) for one in samples)
        if collate_fn is None and tensors:
            self._columns = samples
        elif collate_fn is None and type(samples) is TensorDataset:
            self._columns = samples.tensors
        if self._columns is not None:
            counts = {len(column) for column in self._columns}
            if len(counts) != 1:
                raise ValueError(f"run.steps: the tensors have different numbers of samples: {sorted(counts)}")
        elif not (hasattr(samples, "__len__") and hasattr(samples, "__getitem__")):
            raise ValueError("run.steps takes samples with __len__ and __getitem__, or a tuple of tensors, not "
                             f"{type(samples).__name__}")
        self.count = len(samples if self._columns is None else self._columns[0])

    def read(self, numbers: Sequence[int], epoch: int) -> Any:
        """The generators of the process are left as they come."""
        if self._columns is not None:
            index = torch.tensor(numbers)
            rows = [column.index_select(0, index.to(column.device)) for column in self._columns]
            return tuple(rows) if isinstance(self._samples, tuple) else rows
        read = []
        for number in numbers:
            seed_generators(_sums.derive_key(self._seed, _sums.AUGMENTATION, epoch, number))
            read.append(self._samples[number])
        return (self._collate or default_collate)(read)


class Weights:
    """What a step's loss is divided by, known before any of its samples is read."""

    def __init__(self, weights: Any, count: int) -> None:
        self._weights = weights
        if weights is not None and not callable(weights) and len(weights) != count:
            raise ValueError(f"run.steps: {len(weights)} weights for {count} samples")

    def of(self, samples: Sequence[int], step: int) -> float:
        """Their sum, rounded to binary32."""
        if self._weights is None:
            return binary32(len(samples))
        weigh = self._weights if callable(self._weights) else self._weights.__getitem__
        values = [float(weigh(sample)) for sample in samples]
        total = math.fsum(values)
        if not all(0 <= value < math.inf for value in values) or total == 0:
            raise ValueError(f"run.steps: the samples of step {step} weigh {total}: weights are finite, not negative, and not "
                             "all 0")
        return binary32(total)
