"""DataLoader workers compute as the process that made them, forked or spawned.

A forked worker inherits the switch with the process's memory; a spawned one turns it on before anything else.
PyTorch itself seeds its own, Python's and NumPy's generators in each worker, from a number that it draws (under the
switch by the contract) when an iteration begins.
"""

import functools
from collections.abc import Callable
from typing import Any

from torch.utils.data._utils import worker

_stock_loop = worker._worker_loop


def install(prepare: Callable[[], None]) -> None:
    """prepare: called in each worker before anything else; a spawned one gets it through pickle."""
    worker._worker_loop = functools.partial(worker_loop, prepare)


def remove() -> None:
    worker._worker_loop = _stock_loop


def worker_loop(prepare: Callable[[], None], *arguments: Any, **keywords: Any) -> Any:
    prepare()
    return _stock_loop(*arguments, **keywords)
