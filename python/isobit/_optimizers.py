"""One sequence of operations for each optimizer (contract, section 8).

For some optimizers PyTorch's foreach form does other operations than its single-tensor form, or in another order. While
the switch is on those take the single-tensor form, whatever `foreach` says; Adam and AdamW where they are capturable.
"""

import importlib
import types
from collections.abc import Callable
from typing import Any

NAMES = ("adafactor", "adagrad", "asgd", "nadam", "radam")
IF_CAPTURABLE = ("adam",)
_Step = Callable[..., None]
_stock: dict[str, _Step] = {}


def _module(name: str) -> types.ModuleType:
    return importlib.import_module("torch.optim." + ("_adafactor" if name == "adafactor" else name))


def _single_if_capturable(multi: _Step, single: _Step) -> _Step:
    def step(*lists: Any, capturable: bool, **options: Any) -> None:
        (single if capturable else multi)(*lists, capturable=capturable, **options)

    return step


def install() -> None:
    for name in (*NAMES, *IF_CAPTURABLE):
        module = _module(name)
        multi, single = getattr(module, f"_multi_tensor_{name}"), getattr(module, f"_single_tensor_{name}")
        _stock[name] = multi
        setattr(module, f"_multi_tensor_{name}", _single_if_capturable(multi, single) if name in IF_CAPTURABLE else single)


def remove() -> None:
    for name, function in _stock.items():
        setattr(_module(name), f"_multi_tensor_{name}", function)
    _stock.clear()
