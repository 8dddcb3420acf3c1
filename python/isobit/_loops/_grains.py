"""One optimizer step of several grains, as a program computes it (contract, section 7).

Between two grains nothing is added up in binary32: each grain's gradients are taken from the parameters and summed exactly, batch
norm's running statistics are kept aside, and the generators are seeded by step and grain. So the grains may be computed in any
order. Where something fails, the parameters, buffers and optimizer are as before the step.
"""

import math
import random
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from isobit._base import _check_mode, _library, _sums
from isobit._base._errors import RecordError, RefusedError
from isobit._base._sums import ExactSum, GrainStatistics
from isobit._loops import _coupling, _shared_steps
from isobit._loops._run import Run

if TYPE_CHECKING:
    from isobit._loops._steps import Steps

_NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm")
_RUNNING = ("running_mean", "running_var", "num_batches_tracked")


def binary32(x: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", x))[0])


class Parameter:
    """A parameter and its gradient of the step: one grain's as it is, several grains' as their exact sum."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.sum: ExactSum | None = None
        self.only: torch.Tensor | None = None  # in a step of one grain
        self.shared: torch.Tensor | None = None  # what the workers of a job summed

    def given(self) -> bool:
        return self.only is not None or self.shared is not None or (self.sum is not None and self.sum.grains > 0)


class Step:
    """Of a loop over run.steps: `for x, y in step.grains(): ...; step.backward(loss_sum)`, then `step.finish(optimizer)`.

    `number` and `epoch` count from 1; `samples`: the numbers of the step's samples, in order; `weight`: what the losses' sum is
    divided by; `ends_epoch`; `loss`: of the step, once its grains are computed.

    RecordError where the calls do not follow each other, RefusedError where grains cannot be added up, RuntimeError where a
    gradient or loss is not finite: what the step had changed is taken back then. One thread.
    """

    def __init__(self, loop: "Steps", number: int, epoch: int, samples: list[int], weight: float, ends_epoch: bool) -> None:
        self.number, self.epoch, self.samples, self.weight, self.ends_epoch = number, epoch, samples, weight, ends_epoch
        self.loss = math.nan
        self._loop, self._run = loop, loop._run
        self._grains: dict[int, _Grain] = {}  # computed
        self._current: _Grain | None = None
        self._order: list[int] | None = None  # None before grains()
        self._loss_sum: ExactSum | None = None
        self._buffers: dict[int, _Buffers] = {}  # of modules that this step called
        self._before = len(self._run._batch), len(self._run._evaluated)
        self._state = "open"  # summed, finished, failed
        self._shared = loop._share(self)  # with the other workers of a job; None where there are none

    @property
    def grain_count(self) -> int:
        return -(-len(self.samples) // self._loop._grain)

    def __len__(self) -> int:
        return len(self.samples)

    # ---- grain by grain

    def grains(self, order: Sequence[int] | None = None) -> Iterator[Any]:
        """Each grain's samples, collated, with the generators seeded for it. `order`: the grains' numbers from 0 in another
        order; the bits are the same."""
        chosen = list(range(self.grain_count)) if order is None else list(order)
        if sorted(chosen) != list(range(self.grain_count)):
            raise ValueError(f"step.grains: order is {chosen}; the step's grains are 0 ... {self.grain_count - 1}, each once")
        if self._order is not None:
            raise RecordError(f"isobit.record: step.grains was called before in step {self.number}\n  do     loop over it once")
        self._order = chosen
        return self._compute()

    def _compute(self) -> Iterator[Any]:
        assert self._order is not None
        outer = _generators()
        claims = ((index, False) for index in self._order) if self._shared is None else self._shared.claims(self._order)
        try:
            while (claim := self._claimed(claims)) is not None:
                self._require("open", "step.grains")
                index, dropped = claim
                first = index * self._loop._grain
                samples = self.samples[first:first + self._loop._grain]
                batch = self._loop._reader.read(samples, self.epoch)
                seed_generators(_sums.derive_key(self._loop._seed, _sums.GRAIN, self.number, index))
                self._current = _Grain(index, len(samples), self.grain_count > 1, dropped)
                yield batch
                self._end_grain()
        finally:
            if self._current is not None:
                self._current.end()
            _set_generators(outer)

    def _claimed(self, claims: Iterator[tuple[int, bool]]) -> tuple[int, bool] | None:
        try:
            return next(claims, None)
        except BaseException as error:
            self._fail(error)

    def _end_grain(self) -> None:
        if self._state == "failed":
            self._require("open", "step.grains")
        grain = self._current
        assert grain is not None
        if not grain.backward_done:
            self._fail(RecordError(f"isobit.record: grain {grain.index} of step {self.number} ended without step.backward\n"
                                   "  do     call step.backward(loss_sum) once in each grain"))
        grain.end()
        grain.take_records(self._run, *self._before)
        self._current = None
        if grain.dropped:
            for buffers in self._buffers.values():
                buffers.restore(to_grain=True)
        else:
            self._grains[grain.index] = grain
            if self._shared is not None and self.grain_count > 1:
                for buffers in self._buffers.values():
                    buffers.keep()

    def _entered(self, module: torch.nn.Module) -> None:
        """A module that the program calls is about to run, with gradients."""
        if id(module) not in self._buffers:
            self._buffers[id(module)] = _Buffers(module, alone=self.grain_count == 1, shared=self._shared is not None)

    def backward(self, loss: torch.Tensor, mean: bool = False) -> None:
        """Of the grain's loss: the sum over its samples, of weights and all, not divided by anything.

        mean: the loss is the step's own, as a loop without grains has it; in steps of one grain alone.
        """
        grain = self._current
        if grain is None or grain.backward_done or self._state != "open":
            raise RecordError(f"isobit.record: step.backward is called once in each grain (step {self.number})\n"
                              "  do     call it in the body of `for ... in step.grains():`, with the whole loss")
        grain.backward_done = True
        try:
            self._backward(grain, loss, mean)
        except BaseException as error:
            self._fail(error)

    def _backward(self, grain: "_Grain", loss: torch.Tensor, mean: bool) -> None:
        alone = self.grain_count == 1
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.dtype != torch.float32 or not loss.requires_grad:
            raise ValueError("step.backward takes a loss: a float32 tensor of one element that has a graph")
        if mean and not alone:
            _check_mode.refuse(RefusedError(f"isobit: backward of {_name(loss)} as the mean of a step of {self.grain_count} "
                                            f"grains is not certified under {_library.contract_in_force()}\n"
                                            "  do     give the sum over the grain's samples, or let the batch be one grain"))
        if not mean:
            _coupling.require_sum(loss, grain.samples, alone)
        found = self._parameters(loss)
        for tensor in found:
            self._loop._require_no_gradient(tensor, self)
        value = float(loss.detach())
        start = 1.0 if mean else binary32(1.0 / self.weight)
        loss.backward(torch.full_like(loss, start, requires_grad=False))
        for tensor in found:
            if tensor.grad is not None:
                self._take(grain, tensor, value)
        if not math.isfinite(value):
            raise RuntimeError(f"the loss is not finite in step {self.number}, grain {grain.index}")
        grain.loss = value
        if alone:
            self.loss = value if mean else binary32(value / self.weight)
        elif self._shared is None:
            self._add_loss(value)
        for buffers in self._buffers.values():
            buffers.require_unchanged()

    def _add_loss(self, value: float) -> None:
        self._loss_sum = self._loss_sum or ExactSum(torch.zeros((), dtype=torch.float32))
        self._loss_sum.add(torch.tensor(value, dtype=torch.float32))

    def _parameters(self, loss: torch.Tensor) -> list[torch.Tensor]:
        """Those in the graph, and those of the modules that were called. Gradients of other tensors stay the program's."""
        found = {id(parameter): parameter for buffers in self._buffers.values() for parameter in buffers.parameters}
        open_nodes, met = [loss.grad_fn], {loss.grad_fn}
        while open_nodes:
            node = open_nodes.pop()
            if node is None:
                continue
            variable = getattr(node, "variable", None)
            if isinstance(variable, torch.nn.Parameter):
                found[id(variable)] = variable
            for below, _ in node.next_functions:
                if below is not None and below not in met:
                    met.add(below)
                    open_nodes.append(below)
        return list(found.values())

    def _take(self, grain: "_Grain", tensor: torch.Tensor, loss: float) -> None:
        gradient, tensor.grad = tensor.grad, None
        assert gradient is not None
        name = self._loop._name_of(tensor)
        if gradient.dtype != torch.float32 or gradient.layout != torch.strided:
            kind = "sparse" if gradient.layout != torch.strided else str(gradient.dtype).removeprefix("torch.")
            _check_mode.refuse(RefusedError(f"isobit: backward of {name} gives a gradient that grains cannot add up ({kind}) "
                                            f"under {_library.contract_in_force()}\n"
                                            "  do     keep parameters in float32 and dense"))
        parameter = self._loop._parameters.setdefault(id(tensor), Parameter(tensor))
        if self.grain_count == 1 or grain.dropped:
            parameter.only = None if grain.dropped else gradient
            finite = _sums.is_finite(gradient)
        else:
            parameter.sum = parameter.sum or ExactSum(gradient)
            finite = parameter.sum.add(gradient)
        if not finite:
            raise RuntimeError(f"the gradient of {name} is not finite in step {self.number}, grain {grain.index} (loss {loss})")

    # ---- the step as a whole

    def gradients(self) -> list[torch.Tensor]:
        """Sums the grains into the parameters' .grad, for clipping; those that have one, in the modules' order."""
        if self._state == "open":
            self._require_all_grains()
            try:
                self._sum()
            except BaseException as error:
                self._fail(error)
            self._state = "summed"
        self._require("summed", "step.gradients")
        # In an order that neither grains nor workers nor resuming change: a norm over all of them depends on it.
        order = {id(tensor): number for number, tensor in enumerate(self._loop._known_parameters())}
        given = sorted(self._given(), key=lambda parameter: order.get(id(parameter.tensor), len(order)))
        return [parameter.tensor for parameter in given]

    def _given(self) -> list[Parameter]:
        return [parameter for parameter in self._loop._parameters.values()
                if parameter.given()]

    def _sum(self) -> None:
        if self._shared is not None and self.grain_count > 1:
            for tensor, gradient in self._shared.sum_gradients():
                self._loop._parameters.setdefault(id(tensor), Parameter(tensor)).shared = gradient
        for parameter in self._given():
            self._loop._require_no_gradient(parameter.tensor, self)
            if parameter.only is not None:
                parameter.tensor.grad = parameter.only
                continue
            if parameter.shared is not None:
                result = parameter.shared
                finite = _sums.is_finite(result)
            else:
                assert parameter.sum is not None
                result = torch.empty_like(parameter.tensor, requires_grad=False, memory_format=torch.contiguous_format)
                finite = parameter.sum.result(result)
            if not finite:
                name = self._loop._name_of(parameter.tensor)
                raise RuntimeError(f"the gradient of {name} is not finite in step {self.number}: "
                                   "the sum of its grains exceeds float32's range")
            parameter.tensor.grad = result
        if self._loss_sum is not None:
            total = torch.zeros((), dtype=torch.float32)
            self._loss_sum.result(total)
            self.loss = binary32(float(total) / self.weight)

    # What another worker of a job computed of this step.

    def _receive_losses(self, losses: Sequence[float]) -> None:
        for value in losses:
            self._add_loss(value)

    def _receive_grain(self, index: int, batch: list[str], evaluated: list[str], statistics: GrainStatistics) -> None:
        grain = self._grains[index] = _Grain(index, 0, several=False)
        grain.batch, grain.evaluated, grain.statistics = batch, evaluated, statistics

    def finish(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer's step, with gradients() before it where that was not called; the gradients go afterwards."""
        self.gradients()
        try:
            self._require_own_gradients(optimizer)
            self._apply_statistics()
        except BaseException as error:
            self._fail(error)
        run = self._run
        run._loss = struct.unpack("<I", struct.pack("<f", self.loss))[0]
        for index in range(self.grain_count):
            run._batch += self._grains[index].batch
            run._evaluated += self._grains[index].evaluated
        self._state = "finished"
        optimizer.step()
        self._clear()

    def _apply_statistics(self) -> None:
        grains = [self._grains[index].statistics for index in range(self.grain_count)]
        collected = [one for one in grains if one is not None]
        if collected:
            assert self._order is not None
            _sums.apply_statistics(collected, ascending=self._shared is None and self._order == sorted(self._order))
        if self._shared is not None:
            self._shared.count()

    def _require_own_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        own = {id(parameter.tensor) for parameter in self._given()}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and id(parameter) not in own:
                    raise RecordError(f"isobit.record: step {self.number}: {self._loop._name_of(parameter)} has a gradient that "
                                      "no grain gave by step.backward\n"
                                      "  do     let it be a torch.nn.Parameter, and call no backward but step.backward")

    def _require_all_grains(self) -> None:
        missing = self.grain_count - len(self._grains)
        if missing or self._current is not None:
            raise RecordError(f"isobit.record: step {self.number} has {self.grain_count} grains, and {missing} of them were not "
                              "computed\n  do     loop over step.grains() to its end, then finish the step")

    def _require(self, state: str, call: str) -> None:
        if self._state != state:
            raise RecordError(f"isobit.record: {call} in step {self.number}, which has {self._state}\n"
                              "  do     begin the next step")

    def _fail(self, error: BaseException) -> NoReturn:
        """Takes back what the step has changed, and raises; in a job, what the worker with the lowest grain does."""
        self._state = "failed"
        if self._shared is not None and not self._shared.agreed:
            error = self._shared.failed(error)
        if self._current is not None:
            self._current.end()
        for buffers in self._buffers.values():
            buffers.restore()
        for parameter in self._given():
            parameter.tensor.grad = None
        self._clear()
        raise error

    def _clear(self) -> None:
        for parameter in self._loop._parameters.values():
            if parameter.given():
                parameter.tensor.grad = None
            parameter.only = parameter.shared = None
            if parameter.sum is not None:
                parameter.sum.clear()
        for grain in self._grains.values():
            grain.forget()


class _Grain:
    """One that is being computed, or has been."""

    def __init__(self, index: int, samples: int, several: bool, dropped: bool = False) -> None:
        self.index, self.samples, self.dropped = index, samples, dropped
        self.backward_done, self.loss = False, math.nan
        self.batch: list[str] = []  # fingerprints of what entered models in it
        self.evaluated: list[str] = []
        self.statistics = GrainStatistics() if several else None

    def end(self) -> None:
        if self.statistics is not None:
            self.statistics.end()

    def forget(self) -> None:
        self.statistics = None

    def take_records(self, run: Run, batch: int, evaluated: int) -> None:
        """In a step's line the grains come in their order, whatever order they were computed in."""
        self.batch, run._batch[batch:] = run._batch[batch:], []
        self.evaluated, run._evaluated[evaluated:] = run._evaluated[evaluated:], []


class _Buffers:
    """A module's parameters, and its buffers as they were when the step called it first."""

    def __init__(self, module: torch.nn.Module, alone: bool, shared: bool) -> None:
        self.parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self._watched: list[tuple[torch.nn.Module, str, str, torch.Tensor, int]] = []
        self._copies: list[tuple[torch.nn.Module, str, torch.Tensor, torch.Tensor]] = []
        for prefix, part in module.named_modules():
            norm = type(part).__name__ in _NORMS or getattr(part, "original_name", "") in _NORMS \
                or isinstance(part, torch.nn.modules.batchnorm._BatchNorm)
            if norm and shared and not alone:
                _shared_steps.require_shareable_norm(part)
            for name, buffer in part.named_buffers(recurse=False):
                collected = norm and name in _RUNNING
                if not alone and not collected:
                    self._watched.append((part, f"{prefix}.{name}" if prefix else name, name, buffer, buffer._version))
                elif alone or not buffer.is_floating_point():
                    self._copies.append((part, name, buffer, buffer.detach().clone()))
        self._kept = [before for _, _, _, before in self._copies]

    def require_unchanged(self) -> None:
        for part, full, name, buffer, version in self._watched:
            now = getattr(part, name)
            if now is not buffer or now._version != version:
                _check_mode.refuse(RefusedError(
                    f"isobit: {type(part).__module__}.{type(part).__name__}'s buffer {full} is written in the forward pass, so "
                    f"that grains depend on each other, which is not certified under {_library.contract_in_force()}\n"
                    "  do     let the batch be one grain (grain=batch), or write the buffer after step.finish"))

    def keep(self) -> None:
        """A grain that is kept has ended."""
        self._kept = [buffer.detach().clone() for _, _, buffer, _ in self._copies]

    def grown(self) -> list[tuple[torch.Tensor, int]]:
        """Buffers that count, and by how much in this step."""
        return [(buffer, int(buffer) - int(before)) for _, _, buffer, before in self._copies if buffer.numel() == 1]

    @torch.no_grad()
    def restore(self, to_grain: bool = False) -> None:
        """As before the step; to_grain: as the last grain that is kept left it."""
        for (part, name, buffer, before), kept in zip(self._copies, self._kept, strict=True):
            if getattr(part, name) is not buffer:
                setattr(part, name, buffer)
            buffer.copy_(kept if to_grain else before)


def _name(loss: torch.Tensor) -> str:
    return "the loss" if loss.grad_fn is None else str(loss.grad_fn.name())


# ---- generators: the process' default ones, of PyTorch, Python and, where it is loaded, NumPy


def seed_generators(key: int) -> None:
    torch.default_generator.manual_seed(key)
    random.seed(key)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(key % 2**32)


def _generators() -> tuple[Any, ...]:
    numpy = sys.modules.get("numpy")
    return torch.get_rng_state(), random.getstate(), None if numpy is None else numpy.random.get_state()


def _set_generators(states: tuple[Any, ...]) -> None:
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    if states[2] is not None:
        sys.modules["numpy"].random.set_state(states[2])
