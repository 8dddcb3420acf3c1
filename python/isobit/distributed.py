"""Scripts that train with DistributedDataParallel: means of gradients that are the same bits however they travel.

    ddp = isobit.distributed.exact(DistributedDataParallel(model))

The ranks' gradients of a parameter are summed exactly (contract, section 7), rounded once to binary32 and divided by the
number of ranks: transport, buckets and the order of ranks change no bit. How many ranks there are does: docs/distributed.md.
"""

import dataclasses
import datetime
import hashlib
import json
import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from isobit._base import _library, _sums
from isobit._base._errors import RefusedError
from isobit._built import __version__

if not torch.distributed.is_available():
    raise ImportError("isobit.distributed needs a PyTorch that has torch.distributed", name="torch.distributed")

from torch.nn.parallel import DistributedDataParallel

_calls: dict[int, int] = {}  # how many exact() there were, by process group's id


def exact(ddp: DistributedDataParallel, timeout: float = 300.0) -> DistributedDataParallel:
    """Registers a communication hook that makes the means of gradients exact. Returns `ddp`.

    Every rank calls it, in the same order, after it made the DistributedDataParallel and before its first backward; it waits
    for the others, at most `timeout` seconds. In each backward a gradient that is not finite on some rank, or whose sum
    exceeds float32's range, stops every rank with the same RuntimeError. Memory: one more copy of the gradients.

    RefusedError where gradients cannot be summed exactly (float32 and dense they have to be) or the model is sharded;
    RuntimeError where a rank did not call it in time, or differs in model, isobit or switch; ValueError where a hook is
    registered already. Warns of batch norm and dropout, whose results depend on how many ranks there are. One thread.
    """
    _require_supported(ddp)
    group = ddp.process_group
    reduction = _Reduction(ddp)
    _agree(ddp, group, timeout)
    ddp.register_comm_hook(reduction, _hook)
    if reduction.ranks > 1 and reduction.rank == 0:
        _warn_of_ranks(ddp.module)
    return ddp


def _hook(reduction: "_Reduction",
          bucket: torch.distributed.GradBucket,  # type: ignore[name-defined, unused-ignore]
          ) -> torch.futures.Future[torch.Tensor]:  # DDP compares these annotations
    return reduction.take(bucket)


# ---- what can be summed


def _refuse(what: str, remedy: str) -> None:
    raise RefusedError(f"isobit: {what} is not certified under {_library.contract_in_force()}\n  do     {remedy}")


def _require_supported(ddp: Any) -> None:
    kinds = {kind.__name__ for kind in type(ddp).__mro__}
    if kinds & {"FullyShardedDataParallel", "FSDPModule"}:
        _refuse(f"torch.distributed.fsdp.{type(ddp).__name__}", "wrap the model in DistributedDataParallel")
    if not isinstance(ddp, DistributedDataParallel):
        raise TypeError(f"isobit.distributed.exact takes a DistributedDataParallel, not {type(ddp).__name__}")
    if ddp._comm_hooks:
        raise ValueError("isobit.distributed.exact: this DistributedDataParallel has a communication hook already")
    if ddp.mixed_precision is not None:
        _refuse("DistributedDataParallel(mixed_precision=...)", "train in float32: sums over workers are of float32")
    if ddp._delay_all_reduce_params:
        _refuse("DistributedDataParallel(delay_all_reduce_named_params=...)", "leave it out")
    for name, parameter in _parameters(ddp):
        if parameter.dtype != torch.float32:
            kind = str(parameter.dtype).removeprefix("torch.")
            _refuse(f"an exact sum of the gradients of {name} ({kind})", "keep parameters in float32")
    for name, module in ddp.module.named_modules():
        if getattr(module, "sparse", False) is True:
            _refuse(f"an exact sum of the sparse gradients of {name or type(module).__name__}", "make it with sparse=False")
        if isinstance(module, torch.nn.SyncBatchNorm) and _library.is_on():
            _refuse(f"SyncBatchNorm over several ranks ({name or 'the model'})",
                    "use BatchNorm, whose statistics are of each rank's own samples")


def _parameters(ddp: DistributedDataParallel) -> list[tuple[str, torch.nn.Parameter]]:
    return [(name, parameter) for name, parameter in ddp.module.named_parameters()
            if parameter.requires_grad and name not in ddp.parameters_to_ignore]


def _warn_of_ranks(model: torch.nn.Module) -> None:
    found: dict[str, list[str]] = {}
    for name, module in model.named_modules():
        kind = type(module).__name__
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            found.setdefault("normalises by each rank's own samples", []).append(f"{name or 'the model'} ({kind})")
        drops = getattr(module, "p", 0) if isinstance(module, torch.nn.modules.dropout._DropoutNd) else \
            getattr(module, "dropout", 0)
        if isinstance(drops, int | float) and drops > 0:
            found.setdefault("draws from each rank's own generator", []).append(f"{name or 'the model'} ({kind})")
    for what, names in found.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        warnings.warn(f"isobit.distributed.exact: {', '.join(names[:3])}{more} {what}: another number of ranks, or other samples "
                      "on a rank, give other results", stacklevel=3)


# ---- all ranks, or none


def _agree(ddp: DistributedDataParallel, group: Any, timeout: float) -> None:
    """That every rank of the group calls exact() on the same model under the same contract and setting of the switch."""
    _, store = torch.distributed.distributed_c10d._world.pg_map[group]
    _calls[id(group)] = call = _calls.get(id(group), 0) + 1
    model = hashlib.sha256(json.dumps([[name, list(parameter.shape)] for name, parameter in _parameters(ddp)]).encode())
    mine = {"isobit": f"{__version__}, {_library.contract_in_force()}", "torch": str(torch.__version__),
            "switch": "on" if _library.is_on() else "off", "parameters": model.hexdigest()}
    rank, ranks = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
    store.set(f"isobit.exact/{call}/{rank}", json.dumps(mine))
    end = time.monotonic() + timeout
    for other in range(ranks):
        key = f"isobit.exact/{call}/{other}"
        try:
            store.wait([key], datetime.timedelta(seconds=max(end - time.monotonic(), 0.001)))
        except RuntimeError:  # c10d's DistStoreError is one
            raise RuntimeError(f"isobit.distributed.exact: rank {other} of {ranks} has not called it within {timeout:g} s\n"
                               "  do     call it on every rank, after DistributedDataParallel(...)") from None
        theirs = json.loads(store.get(key))
        for what in mine:
            if theirs.get(what) != mine[what]:
                raise RuntimeError(f"isobit.distributed.exact: {what} is {mine[what]!r} on rank {rank}, {theirs.get(what)!r} on "
                                   f"rank {other}\n  do     let every rank have the same")


# ---- buckets


@dataclasses.dataclass
class _Part:
    """A bucket whose slices travel."""

    buffer: torch.Tensor
    names: list[str]
    lengths: list[int]
    headers: torch.Tensor  # [ranks, 2 + parameters]: what it is, the step, top limbs
    rows: torch.Tensor  # [ranks, chunk]: every rank's contribution to this rank's slice, then the mean
    works: list[Any]
    done: "torch.futures.Future[torch.Tensor]"
    limbs: list[int] = dataclasses.field(default_factory=list)


class _Reduction:
    """What the hook keeps between buckets and steps.

    A rank owns the n-th of equal slices of each bucket: all-to-all brings every rank's contribution there, and the rounded
    means are gathered. Each bucket departs as soon as it is full; slices are summed once the last has departed, so that all
    ranks call collectives in the order of the buckets. The top limb is a parameter's over all ranks, never a bucket's.
    """

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.group = ddp.process_group
        self.rank, self.ranks = torch.distributed.get_rank(self.group), torch.distributed.get_world_size(self.group)
        self._name_of = {parameter: name for name, parameter in _parameters(ddp)}
        self._position = {name: position for position, name in enumerate(self._name_of.values())}
        self._parts: list[_Part] = []
        self._rows: dict[int, torch.Tensor] = {}  # by bucket, kept from step to step
        self._step = 1

    @torch.no_grad()
    def take(self, bucket: Any) -> "torch.futures.Future[torch.Tensor]":
        buffer = bucket.buffer()
        names, lengths = self._layout(bucket, buffer)
        limbs = _sums.top_limbs(buffer, lengths)
        part = self._depart(bucket.index(), buffer, names, lengths, limbs)
        self._parts.append(part)
        if bucket.is_last():
            parts, self._parts = self._parts, []
            self._arrive(parts)
            self._step += 1
        return part.done

    def _layout(self, bucket: Any, buffer: torch.Tensor) -> tuple[list[str], list[int]]:
        names = [self._name_of.get(parameter, "a parameter") for parameter in bucket.parameters()]
        if buffer.layout != torch.strided or buffer.dtype != torch.float32:
            _refuse(f"an exact sum of the gradients of {names[0]} ({buffer.layout}, {buffer.dtype})",
                    "keep parameters in float32 and gradients dense")
        lengths = [gradient.numel() for gradient in bucket.gradients()]
        expected = buffer.data_ptr()
        for name, gradient in zip(names, bucket.gradients(), strict=True):
            if gradient.data_ptr() != expected:
                raise RuntimeError(f"isobit.distributed.exact: the gradient of {name} does not lie where its bucket has it")
            expected += 4 * gradient.numel()
        return names, lengths

    def _depart(self, index: int, buffer: torch.Tensor, names: list[str], lengths: list[int], limbs: list[int]) -> _Part:
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=[buffer.device] if buffer.is_cuda else None)
        count = 2 + len(limbs)
        own = torch.tensor([_digest(index, names, lengths), self._step, *limbs], device=buffer.device)
        headers = torch.zeros(self.ranks, count, dtype=torch.int64, device=buffer.device)
        chunk = -(-buffer.numel() // self.ranks)
        rows = self._rows.get(index)
        if rows is None or rows.shape[1] != chunk:
            rows = self._rows[index] = torch.zeros(self.ranks, chunk, device=buffer.device)
        splits = [self._slice(buffer.numel(), chunk, rank)[1] for rank in range(self.ranks)]
        received = rows.view(-1)[:self.ranks * splits[self.rank]]
        works = [] if self.ranks == 1 else [
            torch.distributed.all_gather_single(headers.view(-1), own, group=self.group, async_op=True),
            torch.distributed.all_to_all_single(received, buffer, [splits[self.rank]] * self.ranks, splits, group=self.group,
                                                async_op=True)]
        if self.ranks == 1:
            headers[0] = own
        return _Part(buffer, names, lengths, headers, rows, works, done)

    @staticmethod
    def _slice(size: int, chunk: int, rank: int) -> tuple[int, int]:
        """First element and number of elements of a rank's slice."""
        first = min(rank * chunk, size)
        return first, min(chunk, size - first)

    def _arrive(self, parts: Sequence[_Part]) -> None:
        for part in parts:
            for work in part.works:
                work.wait()
        self._require_same_and_finite(parts)
        gathered = [self._sum(part) for part in parts] if self.ranks > 1 else []
        for part, work in zip(parts, gathered, strict=False):
            work.wait()
            part.buffer.copy_(part.rows.view(-1)[:part.buffer.numel()])
            self._require_sums_finite(part)
        for part in parts:  # all of them are right
            part.done.set_result(part.buffer)

    def _require_same_and_finite(self, parts: Sequence[_Part]) -> None:
        infinite: list[tuple[int, int, str]] = []
        for part in parts:
            headers = part.headers.tolist()
            for rank, header in enumerate(headers):
                if header[:2] != headers[0][:2]:
                    raise RuntimeError(f"isobit.distributed.exact: rank {rank} is at step {header[1]} and rank 0 at step "
                                       f"{headers[0][1]}, or their buckets differ\n"
                                       "  do     call the same backwards, with the same model, on every rank")
            part.limbs = [max(column) for column in zip(*(header[2:] for header in headers), strict=True)]
            infinite += [(self._position.get(name, 0), rank, name) for rank, header in enumerate(headers)
                         for name, limb in zip(part.names, header[2:], strict=True) if limb == _sums.NOT_FINITE]
        if infinite:  # the same one however they lie in buckets
            _, rank, name = min(infinite)
            raise RuntimeError(f"the gradient of {name} is not finite on rank {rank} of {self.ranks} in step {self._step}")

    def _sum(self, part: _Part) -> Any:
        """This rank's slice of the means, sent to the others."""
        size, chunk = part.buffer.numel(), part.rows.shape[1]
        first, count = self._slice(size, chunk, self.rank)
        lengths = []
        end = 0
        for length in part.lengths:
            begin, end = end, end + length
            lengths.append(max(0, min(end, first + count) - max(begin, first)))
        mean = torch.zeros(chunk, device=part.buffer.device)
        if not _sums.sum_rows(part.rows.view(-1)[:self.ranks * count].view(self.ranks, count), lengths, part.limbs, mean[:count]):
            raise RuntimeError("isobit.distributed.exact: gradients have changed on their way, or while they were sent")
        mean.div_(self.ranks)
        return torch.distributed.all_gather_single(part.rows.view(-1), mean, group=self.group, async_op=True)

    def _require_sums_finite(self, part: _Part) -> None:
        # The sum of numbers below half the highest limb's weight, 2^113, stays in range for 2^14 ranks.
        if max(part.limbs) < _sums.HIGHEST_LIMB and self.ranks <= 2**14:
            return
        for name, limb in zip(part.names, _sums.top_limbs(part.buffer, part.lengths), strict=True):
            if limb == _sums.NOT_FINITE:
                raise RuntimeError(f"the gradient of {name} is not finite in step {self._step}: the sum over {self.ranks} ranks "
                                   "exceeds float32's range")


def _digest(index: int, names: Sequence[str], lengths: Sequence[int]) -> int:
    text = json.dumps([index, list(names), list(lengths)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little", signed=True)
