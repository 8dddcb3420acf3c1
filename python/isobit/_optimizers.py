"""One sequence of operations for each optimizer (contract, section 8).

For some optimizers PyTorch's foreach form does other operations than its single-tensor form, or in another order. While
the switch is on those take the single-tensor form, whatever `foreach` says.
"""

import importlib

NAMES = ("adafactor", "adagrad", "asgd", "nadam", "radam")
_stock = {}


def _module(name):
    return importlib.import_module("torch.optim." + ("_adafactor" if name == "adafactor" else name))


def install():
    for name in NAMES:
        module = _module(name)
        _stock[name] = getattr(module, f"_multi_tensor_{name}")
        setattr(module, f"_multi_tensor_{name}", getattr(module, f"_single_tensor_{name}"))


def remove():
    for name, function in _stock.items():
        setattr(_module(name), f"_multi_tensor_{name}", function)
    _stock.clear()
