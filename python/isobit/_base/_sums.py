"""What a step of several grains asks the library for (src/extension/grains.h): keys, orders, exact sums, running statistics."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from isobit._base import _library

_POINTER, _COUNT, _FLAG = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
_declare, _brief = _library._declare, _library._brief

_derive_key = _declare(_brief, "derive_key", ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint32,
                       result=ctypes.c_uint64)
_order = _declare(_brief, "order", ctypes.c_uint64, ctypes.c_uint64, _COUNT, _FLAG, _COUNT, _COUNT, ctypes.POINTER(_COUNT))
_create = _declare(_library._library, "sum_create", _POINTER, ctypes.POINTER(_POINTER))
_add = _declare(_library._library, "sum_add", _POINTER, _POINTER, ctypes.POINTER(_FLAG))
_merge = _declare(_library._library, "sum_merge", _POINTER, _POINTER)
_result = _declare(_library._library, "sum_result", _POINTER, _POINTER, ctypes.POINTER(_FLAG))
_clear = _declare(_library._library, "sum_clear", _POINTER, result=None)
_free = _declare(_brief, "sum_free", _POINTER, result=None)
_top = _declare(_brief, "sum_top", _POINTER, result=ctypes.c_int)
_is_finite = _declare(_library._library, "is_finite", _POINTER, ctypes.POINTER(_FLAG))
_top_limbs = _declare(_library._library, "top_limbs", _POINTER, ctypes.POINTER(_COUNT), _COUNT, ctypes.POINTER(_FLAG))
_sum_rows = _declare(_library._library, "sum_rows", _POINTER, ctypes.POINTER(_COUNT), ctypes.POINTER(_FLAG), _COUNT, _POINTER,
                     ctypes.POINTER(_FLAG))
_begin = _declare(_brief, "grain_begin", ctypes.POINTER(_POINTER))
_end = _declare(_brief, "grain_end", _POINTER)
_apply = _declare(_library._library, "grains_apply", ctypes.POINTER(_POINTER), _COUNT, _FLAG)
_free_grain = _declare(_brief, "grain_free", _POINTER, result=None)
_calls = _declare(_brief, "grain_calls", _POINTER, result=_COUNT)
_call = _declare(_brief, "grain_call", _POINTER, _COUNT, ctypes.POINTER(_POINTER), ctypes.POINTER(_POINTER),
                 ctypes.POINTER(ctypes.c_double))
_fresh = _declare(_library._library, "grain_fresh", _POINTER, _COUNT, _POINTER, _POINTER)
_received = _declare(_brief, "grain_received", ctypes.POINTER(_POINTER))
_add_call = _declare(_brief, "grain_add", _POINTER, _POINTER, _POINTER, ctypes.c_double, _POINTER, _POINTER)

GRAIN, AUGMENTATION = 0x6772616E, 0x6175676D  # purposes of keys (contract, section 5)
NO_LIMB = -4  # the top limb of zeros (src/kernels/exact_sum.h)


def derive_key(seed: int, purpose: int, a: int, b: int) -> int:
    return int(_derive_key(seed % 2**64, purpose, a, b % 2**32))


def order(seed: int, epoch: int, n: int, shuffled: bool, first: int, count: int) -> list[int]:
    """The samples at `count` positions of an epoch's order, from position `first` on."""
    samples = (_COUNT * count)()
    _library._raise(_order(seed % 2**64, epoch, n, shuffled, first, count, samples), ValueError)
    return list(samples)


class ExactSum:
    """Of tensors like this one: float32, of its shape, on its device. Whatever their order, the same bits.

    16 bytes for each element. TypeError for tensors that cannot be summed."""

    def __init__(self, like: torch.Tensor) -> None:
        self._handle = _POINTER()
        _library._raise(_create(like._cdata, ctypes.byref(self._handle)), TypeError)
        self.grains = 0

    def add(self, tensor: torch.Tensor) -> bool:
        """False, and nothing added, where an element is NaN or infinite."""
        finite = _FLAG()
        _library._raise(_add(self._handle, tensor._cdata, ctypes.byref(finite)), TypeError)
        self.grains += finite.value
        return bool(finite.value)

    def merge(self, other: "ExactSum") -> None:
        """Adds what was summed elsewhere."""
        _library._raise(_merge(self._handle, other._handle), TypeError)
        self.grains += other.grains

    def result(self, tensor: torch.Tensor) -> bool:
        """Into a contiguous tensor, rounded once; False where the sum exceeds binary32's range."""
        finite = _FLAG()
        _library._raise(_result(self._handle, tensor._cdata, ctypes.byref(finite)), TypeError)
        return bool(finite.value)

    def top(self) -> int:
        """The limb of the highest digit; NO_LIMB where all is zero."""
        return int(_top(self._handle))

    def clear(self) -> None:
        _clear(self._handle)
        self.grains = 0

    def __del__(self) -> None:
        if self._handle:
            _free(self._handle)


def is_finite(tensor: torch.Tensor) -> bool:
    finite = _FLAG()
    _library._raise(_is_finite(tensor._cdata, ctypes.byref(finite)), TypeError)
    return bool(finite.value)


NO_LIMB, HIGHEST_LIMB, NOT_FINITE = -4, 3, 1 << 20  # src/kernels/exact_sum.h


def top_limbs(tensor: torch.Tensor, lengths: Sequence[int]) -> list[int]:
    """Of each of the consecutive pieces of a contiguous float32 tensor; NOT_FINITE where one has a NaN or infinity."""
    limbs = (_FLAG * len(lengths))()
    _library._raise(_top_limbs(tensor._cdata, (_COUNT * len(lengths))(*lengths), len(lengths), limbs), TypeError)
    return list(limbs)


def sum_rows(rows: torch.Tensor, lengths: Sequence[int], limbs: Sequence[int], out: torch.Tensor) -> bool:
    """Exact sums of rows [ranks, n] into out [n], rounded once; segments of these lengths have these top limbs over all ranks.

    False, and out of no use, where a row exceeds its segment's limb."""
    fits = _FLAG()
    _library._raise(_sum_rows(rows._cdata, (_COUNT * len(lengths))(*lengths), (_FLAG * len(limbs))(*limbs), len(lengths),
                              out._cdata, ctypes.byref(fits)), TypeError)
    return bool(fits.value)


class Exchange:
    """Sums that the processes of a job make together; the same calls in all of them."""

    def __init__(self, process_group: str) -> None:
        """process_group: as torch.distributed names it. RuntimeError, here and below: another process cannot be reached."""
        self._handle = _POINTER()
        create = _declare(_library._library, "exchange_create", ctypes.c_char_p, ctypes.POINTER(_POINTER))
        self._free = _declare(_brief, "exchange_free", _POINTER, result=None)
        numbers, flags, pointers = ctypes.POINTER(_COUNT), ctypes.POINTER(_FLAG), ctypes.POINTER(_POINTER)
        self._sum = _declare(_library._library, "exchange_sum", _POINTER, _COUNT, numbers, flags, numbers, pointers, pointers,
                             _POINTER)
        _library._raise(create(process_group.encode(), ctypes.byref(self._handle)), RuntimeError)

    def sum(self, elements: Sequence[int], tops: Sequence[int], grains: Sequence[int], sums: Sequence[ExactSum | None],
            singles: Sequence[torch.Tensor]) -> torch.Tensor:
        """The parameters' sums over all processes, rounded once, one after the other. tops: their top limbs over all. grains: by
        rank, how many it has; of this one: where that is 1, singles, its gradients; where it is more, sums."""
        count, results = len(elements), torch.empty(0)
        handles, tensors = (_POINTER * count)(), (_POINTER * count)()
        for number, one in enumerate(sums):
            if one is not None:
                handles[number] = one._handle
        for number, single in enumerate(singles):
            tensors[number] = single._cdata
        _library._raise(self._sum(self._handle, count, (_COUNT * count)(*elements), (_FLAG * count)(*tops),
                                  (_COUNT * len(grains))(*grains), handles, tensors, results._cdata), RuntimeError)
        return results

    def __del__(self) -> None:
        if self._handle:
            self._free(self._handle)


class GrainStatistics:
    """While it is open, batch norms on this thread leave their running tensors alone; what they would have done is kept.

    received: of a grain that was computed elsewhere."""

    def __init__(self, received: bool = False) -> None:
        self._handle = _POINTER()
        _library._raise((_received if received else _begin)(ctypes.byref(self._handle)))

    def add(self, running: Sequence[torch.Tensor | None], momentum: float, fresh: Sequence[torch.Tensor | None]) -> None:
        """The next call's mean and variance: those that it updates, and its own."""
        pointers = [None if tensor is None else tensor._cdata for tensor in (*running, *fresh)]
        _library._raise(_add_call(self._handle, pointers[0], pointers[1], momentum, pointers[2], pointers[3]))

    def end(self) -> None:
        """On the same thread. More than once does nothing."""
        _library._raise(_end(self._handle))

    def __del__(self) -> None:
        if self._handle:
            _free_grain(self._handle)


def apply_statistics(grains: Sequence[GrainStatistics], ascending: bool) -> None:
    """Of ended grains, in grain order; `ascending`: they were computed in that order, too."""
    handles = (_POINTER * len(grains))(*[grain._handle for grain in grains])
    _library._raise(_apply(handles, len(grains), ascending))


def kept_statistics(grain: GrainStatistics, like: Callable[[int], torch.Tensor | None]) -> Iterator[tuple[Any, ...]]:
    """(TensorImpl of the running mean, of the variance, momentum, (fresh mean, fresh variance)) of an ended grain's calls, None
    where there is none. `like` makes a tensor for what is fresh beside a running one."""
    for call in range(int(_calls(grain._handle))):
        mean, variance, momentum = _POINTER(), _POINTER(), ctypes.c_double()
        _library._raise(_call(grain._handle, call, ctypes.byref(mean), ctypes.byref(variance), ctypes.byref(momentum)))
        fresh = [None if running.value is None else like(running.value) for running in (mean, variance)]
        pointers = [None if tensor is None else tensor._cdata for tensor in fresh]
        _library._raise(_fresh(grain._handle, call, *pointers))
        yield mean.value, variance.value, momentum.value, tuple(fresh)
