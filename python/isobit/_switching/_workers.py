"""DataLoader workers compute as the process that made them, forked or spawned.

A forked worker inherits the switch with the process's memory; a spawned one turns it on before anything else.
PyTorch itself seeds its own, Python's and NumPy's generators in each worker, from a number that it draws (under the
switch by the contract) when an iteration begins.
"""

import functools
import pathlib
from typing import TYPE_CHECKING, Any

from torch.utils.data._utils import worker

if TYPE_CHECKING:
    from isobit._switching._switch import Isa, Products

from isobit._base import _check_mode

_stock_loop = worker._worker_loop


def install(isa: "Isa", products: "Products") -> None:
    worker._worker_loop = functools.partial(worker_loop, isa, products, _check_mode.notes_file())


def remove() -> None:
    worker._worker_loop = _stock_loop


def worker_loop(isa: "Isa", products: "Products", notes: pathlib.Path | None, *arguments: Any, **keywords: Any) -> Any:
    from isobit._switching import _switch

    if notes is not None and not _check_mode.on:  # spawned: what isobit check does, it does in workers, too
        _check_mode.begin(notes, worker=True)
    if not _switch.is_enabled():
        _switch.enable(isa, products)
    return _stock_loop(*arguments, **keywords)
