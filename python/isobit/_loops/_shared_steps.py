"""A step of several grains that the processes of a job compute together (contract, section 7), with the bits of one process.

Whoever is free claims the next grains. When none is left, the processes agree on what each has computed, and exchange: each sums
and rounds a slice of all gradients, and the rounded slices are gathered, as `isobit run --workers` does
(src/scale/exact_reduce.h): what travels to who sums is 8 bytes an element of a process' several grains, 4 of one. What else a
grain leaves (losses, batch digests, running statistics) travels with the agreement. Nothing of a step changes a parameter,
optimizer or record before all have agreed.

A process knows a parameter by the number of the module that the program calls, and its name there. Where one has met fewer
modules than another, since it computed no grain or others, it computes one more grain, whose result it drops.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from isobit._base import _check_mode, _generators, _library, _sums
from isobit._base._errors import RecordError, RefusedError
from isobit._base._sums import ExactSum, GrainStatistics
from isobit._jobs._job import NO_GRAIN, Job, Report

if TYPE_CHECKING:
    from isobit._loops._grains import Step

_CLAIM_SECONDS = 0.02
_TRACK = "say which modules train: run.track(model), or run.track(a=one, b=other), before the first step"


def require_shareable(job: Job, grains: int, batch: int) -> None:
    """RecordError where the steps of a loop are one grain each."""
    if grains < 2:
        advice = "give run.steps a larger batch, of several grains"
        if batch > 1:
            grain = -(-batch // max(2, min(batch, 2 * job.ranks)))
            advice = (f"give run.steps a grain, for example grain={grain} (a setting of the experiment: the script alone gives "
                      "the same bits with the same grain)")
        raise RecordError(f"isobit.record: run.steps with steps of one grain leaves nothing to share among {job.ranks} workers\n"
                          f"  do     {advice}")


def share(left: int, ranks: int, seconds: float) -> int:
    """How many of the grains that nobody has claimed one process claims at once: as many as take 20 ms where one takes
    `seconds` (0: not known), at most half of an even share, so that the last ones go to whoever is free."""
    fitting = int(_CLAIM_SECONDS / seconds) if seconds > 0 else 1
    return max(1, min(fitting, left // (2 * ranks)))


class SharedStep:
    """Of one step, in one process."""

    def __init__(self, job: Job, step: "Step", loop: int, first: bool) -> None:
        self._job, self._step = job, step
        self._key, self._first = f"{loop}/{step.number}", first
        self.where = f"step {step.number} of loop {loop} over run.steps of {step._loop.describe()}, {step._loop._count} steps"
        self.agreed = False
        self._tops: dict[int, int] = {}  # of the parameters that any grain of the step reached, by number
        self._counted: list[tuple[torch.Tensor, int]] = []  # by how much buffers that count grow elsewhere
        self._counts: list[int] = []  # by rank, of grains
        job.open_grain = self._open_grain

    def _open_grain(self) -> int:
        current = self._step._current
        return NO_GRAIN if current is None else current.index

    # ---- claims

    def claims(self, order: Sequence[int]) -> Iterator[tuple[int, bool]]:
        """Grains for this process, and whether their results are dropped. The step is agreed on when it ends.

        A step of one grain is computed by every process: no less is waited for, and nothing travels.
        """
        if len(order) == 1:
            yield order[0], False
        else:
            yield from ((grain, False) for grain in self._claimed(order))
        tried = 0
        while True:
            reports = self._agree()
            counts = [report.data["models"] for report in reports]
            fullest = counts.index(max(counts))
            grains = sorted(map(int, reports[fullest].data["grains"]))
            if min(counts) == max(counts):
                break
            if tried == len(grains):
                raise RecordError(f"isobit.record: in {self.where}, workers called different modules\n  do     {_TRACK}")
            if counts[self._job.rank] < max(counts):
                yield grains[tried], True
            tried += 1
        self._require_equal(reports)
        self.agreed = True
        self._job.open_grain = lambda: NO_GRAIN
        if len(order) > 1:
            self._job.exchanging = True  # until sum_gradients has come to its end
            self._merge(reports)
            self._job.forget_claims(self._key)

    def _claimed(self, order: Sequence[int]) -> Iterator[int]:
        """Several at once where they are small: a claim waits for the launcher. All that precede a grain are claimed before it,
        and computed to the end, so that the lowest one that fails is found whoever has it."""
        job, left = self._job, len(order)
        while True:
            count = share(left, job.ranks, job.grain_seconds)
            first = job.claim(self._key, count)
            if first >= len(order):
                return
            for grain in order[first:first + count]:
                began = time.monotonic()
                yield grain
                job.grain_seconds = time.monotonic() - began
            left = max(1, len(order) - first - count)

    def failed(self, error: BaseException) -> BaseException:
        """What all processes raise where this one fails before the step is agreed on."""
        grain = self._open_grain()
        self.agreed = True
        self._job.open_grain = lambda: NO_GRAIN
        if not self._job.in_step:
            self._job.over = True
            return error
        try:
            self._job.stop_claims(self._key)
            self._job.agree(self.where, {}, error=error, grain=grain)
        except BaseException as agreed:
            return agreed
        return error

    # ---- what this process tells

    def _agree(self) -> list[Report]:
        run = self._step._run
        if run._tracked:
            run._models = list(run._tracked.values())
        table, buffers = self._step._loop._known_parameters(), self._buffers()
        self._table = table
        statistics, payload = self._own_statistics(buffers)
        grains = {index: [grain.batch, grain.evaluated, grain.loss.hex()] for index, grain in self._step._grains.items()}
        data = {"grains": grains, "models": len(run._models), "shapes": _digest([_shapes(model) for model in run._models]),
                "parameters": self._own_tops(table), "statistics": statistics, "counted": self._own_counts(buffers),
                "weights": _fingerprint(table) if self._first else "", "state": run._state_agreed}
        return self._job.agree(self.where, data, payload)

    def _buffers(self) -> dict[int, str]:
        """TensorImpl -> name."""
        return {buffer._cdata: f"{number}.{name}" for number, model in enumerate(self._step._run._models)
                for name, buffer in model.named_buffers()}

    def _own_tops(self, table: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
        numbers = {id(tensor): number for number, tensor in enumerate(table)}
        tops = []
        for parameter in self._step._given():
            if id(parameter.tensor) not in numbers:
                sizes = list(parameter.tensor.shape)
                raise RecordError(f"isobit.record: {self.where} trains a parameter of sizes {sizes} that belongs to no module "
                                  f"which the program calls, so that the other workers cannot know it\n  do     {_TRACK}")
            if parameter.sum is not None:
                tops.append((numbers[id(parameter.tensor)], parameter.sum.top()))
        return tops

    def _own_counts(self, buffers: dict[int, str]) -> list[tuple[str, int]]:
        """How much buffers that count have grown by this process' grains."""
        if self._step.grain_count == 1:
            return []
        counts: dict[str, int] = {}
        for kept in self._step._buffers.values():
            for buffer, grown in kept.grown():
                if buffer._cdata in buffers:  # within two modules that were called, from the first call on
                    name = buffers[buffer._cdata]
                    counts[name] = max(grown, counts.get(name, 0))
        return list(counts.items())

    def _own_statistics(self, buffers: dict[int, str]) -> tuple[list[Any], bytes]:
        found, payload = [], b""
        for index, grain in self._step._grains.items():
            calls = []
            kept = _sums.kept_statistics(grain.statistics, self._like) if grain.statistics else ()
            for mean, variance, momentum, fresh in kept:
                if any(tensor is not None and tensor not in buffers for tensor in (mean, variance)):
                    raise RecordError(f"isobit.record: in {self.where}, a batch norm's running tensors belong to no module that "
                                      f"the program calls, so that the other workers cannot know them\n  do     {_TRACK}")
                calls.append([mean and buffers[mean], variance and buffers[variance], momentum.hex()])
                payload += b"".join(_generators.bytes_of(one.view(torch.uint8)) for one in fresh if one is not None)
            found.append([index, calls])
        return found, payload

    def _like(self, pointer: int) -> torch.Tensor | None:
        """An empty tensor on the host, like the buffer of this TensorImpl."""
        for model in self._step._run._models:
            for buffer in model.buffers():
                if buffer._cdata == pointer:
                    return torch.zeros(buffer.shape, dtype=buffer.dtype)
        return None

    # ---- what all told

    def _require_equal(self, reports: Sequence[Report]) -> None:
        job, step = self._job, self._step
        job.require_equal(reports, "shapes", "the modules that were called", _TRACK)
        remedy = "call isobit.seed(n) before the model is made, and let nothing that it learns from depend on the process"
        job.require_equal(reports, "weights", "the weights", remedy)
        job.require_equal(reports, "state", "weights or optimizers after an earlier step", remedy)
        step._run._state_agreed = ""
        if step.grain_count == 1:
            return
        indices = [int(index) for report in reports for index in report.data["grains"]]
        if sorted(indices) != list(range(step.grain_count)):
            raise RecordError(f"isobit.record: in {self.where}, grains were computed twice or not at all\n"
                              "  do     give step.grains the same order on every worker, and loop over it to its end")

    def _merge(self, reports: Sequence[Report]) -> None:
        step = self._step
        self._counts = [len(report.data["grains"]) for report in reports]
        step._receive_losses([float.fromhex(loss) for report in reports for _, _, loss in report.data["grains"].values()])
        buffers = {f"{number}.{name}": buffer for number, model in enumerate(step._run._models)
                   for name, buffer in model.named_buffers()}
        for rank, report in enumerate(reports):
            for number, top in report.data["parameters"]:
                self._tops[number] = max(top, self._tops.get(number, top))
            if rank == self._job.rank:
                continue
            self._counted += [(buffers[name], grown) for name, grown in report.data["counted"]]
            received = _received_statistics(report, buffers)
            for index, (batch, evaluated, _) in report.data["grains"].items():
                step._receive_grain(int(index), batch, evaluated, received[int(index)])

    def sum_gradients(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """(parameter, its gradient), of all that a grain reached. Every process gets the same bits."""
        numbers = sorted(self._tops)
        tensors = [self._table[number] for number in numbers]
        own = {id(parameter.tensor): parameter.sum for parameter in self._step._given()}
        sums = [own.get(id(tensor)) for tensor in tensors]
        single = self._counts[self._job.rank] == 1
        singles = [_only(one, tensor) for one, tensor in zip(sums, tensors, strict=True)] if single else []
        elements = [tensor.numel() for tensor in tensors]
        flat = self._job.sum(elements, [self._tops[number] for number in numbers], self._counts, sums, singles)
        self._job.exchanging = False
        return [(tensor, part.view(tensor.shape).to(tensor.device))
                for tensor, part in zip(tensors, flat.split(elements), strict=True)]

    @torch.no_grad()
    def count(self) -> None:
        """Buffers that count grow by what they grew elsewhere."""
        for buffer, grown in self._counted:
            buffer.add_(grown)


def _only(own: ExactSum | None, like: torch.Tensor) -> torch.Tensor:
    """The gradient of a process' one grain, on the host."""
    if own is None:
        return torch.zeros(like.shape, dtype=torch.float32)
    only = torch.empty_like(like, requires_grad=False, memory_format=torch.contiguous_format)
    own.result(only)
    return only.cpu()


def _received_statistics(report: Report, buffers: dict[str, torch.Tensor]) -> dict[int, GrainStatistics]:
    received, position = {}, 0

    def take(name: str | None) -> torch.Tensor | None:
        nonlocal position
        if name is None:
            return None
        like = buffers[name]
        size = like.numel() * like.element_size()
        content = bytearray(report.payload[position:position + size])
        position += size
        fresh = torch.frombuffer(content, dtype=like.dtype) if content else torch.zeros(0, dtype=like.dtype)
        return fresh.view(like.shape).to(like.device)

    for index, calls in report.data["statistics"]:
        received[index] = statistics = GrainStatistics(received=True)
        for mean, variance, momentum in calls:
            running = tuple(None if name is None else buffers[name] for name in (mean, variance))
            statistics.add(running, float.fromhex(momentum), (take(mean), take(variance)))
    return received


def require_shareable_norm(part: torch.nn.Module) -> None:
    """Batch norm whose momentum counts the calls so far depends on the order of grains."""
    if getattr(part, "momentum", 0.1) is None and getattr(part, "running_mean", None) is not None:
        _check_mode.refuse(RefusedError(
            f"isobit: {type(part).__module__}.{type(part).__name__} with momentum=None, whose momentum counts the "
            f"grains computed before, is not certified in a job of several workers under {_library.contract_in_force()}\n"
            "  do     give the layer a momentum"))


def _shapes(model: torch.nn.Module) -> list[Any]:
    named = [*model.named_parameters(), *model.named_buffers()]
    return [[name, list(tensor.shape), str(tensor.dtype), tensor.requires_grad] for name, tensor in named]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _fingerprint(tensors: Sequence[torch.Tensor]) -> str:
    names = [f"{number:08}" for number in range(len(tensors))]
    plain = [tensor.detach().cpu() for tensor in tensors]
    return _library.fingerprint_list(names, [tensor if tensor.dtype == torch.float32 else
                                             tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in plain])
