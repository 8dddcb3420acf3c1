"""Models in memory that processes share: only the process that made that memory trains them.

Processes that step one model at once (Hogwild, A3C) write over each other's weights in an order that the machine decides: other
weights in each run, and nothing in any one process shows it. Memory is shared by Module.share_memory(), and by passing a model to
another process. Its name has the number of the process that made it.
"""

import os
import pathlib
import re
import weakref
from typing import Any

import torch

from isobit._base import _check_mode, _library
from isobit._base._errors import RefusedError

_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) .*/torch_(\d+)_\d+_\d+")
_REMEDY = ("let the processes add up one step's gradients in one order (python -m isobit launch with run.steps, or "
           "DistributedDataParallel), or train a copy of this process's own: model = copy.deepcopy(model)")
# optimizer -> the process and how many groups of parameters it had when they were looked at: memory seldom changes hands
_looked_at: weakref.WeakKeyDictionary[torch.optim.Optimizer, tuple[int, int]] = weakref.WeakKeyDictionary()


def before_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """A hook of all optimizers: RefusedError where one steps parameters in another process's memory."""
    seen = os.getpid(), len(optimizer.param_groups)
    if _looked_at.get(optimizer) == seen:
        return
    for group in optimizer.param_groups:
        if maker := next(filter(None, map(_maker, group["params"])), 0):
            _check_mode.refuse(RefusedError(
                f"isobit: torch.optim.Optimizer.step of {type(optimizer).__name__} on a model in shared memory of process "
                f"{maker} (processes that train it at once give other weights in each run) is not certified under "
                f"{_library.contract_in_force()}\n  do     {_REMEDY}"))
            break
    _looked_at[optimizer] = seen


def _maker(parameter: torch.Tensor) -> int:
    """The other process that made the memory it lies in; 0 for this process's own."""
    if type(parameter) not in _PLAIN or parameter.device.type != "cpu" or not parameter.numel() or not parameter.is_shared():
        return 0
    address = parameter.data_ptr()
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        mapping = _MAPPING.match(line)
        if mapping and int(mapping[1], 16) <= address < int(mapping[2], 16):
            return int(mapping[3]) if int(mapping[3]) != os.getpid() else 0
    return 0
