"""Deep learning that gives the same answer twice, from PyTorch.

    import isobit
    isobit.enable()          # from here PyTorch computes by isobit's arithmetic contract, or stops

Every result is then defined to the last bit: the same on every run, thread count and instruction set. An operator
that is not covered raises isobit.RefusedError; stock floating-point arithmetic never slips in. docs/python.md says more.

The import itself is cheap: torch is loaded with the first function that needs it.
"""

import importlib
from typing import TYPE_CHECKING

from isobit import _components, _old_names
from isobit._base._errors import RecordError, RefusedError
from isobit._built import __version__, contract_version, torch_version

if TYPE_CHECKING:
    from isobit import distributed as distributed
    from isobit import lightning as lightning
    from isobit import math as math
    from isobit import transformers as transformers
    from isobit._recording._fingerprint import fingerprint
    from isobit._recording._record import record
    from isobit._recording._trace import trace
    from isobit._switching._switch import disable, disabled, enable, enabled, is_enabled, isa, release_memory, seed
    from isobit._views._show import show, tables

__all__ = ["RecordError", "RefusedError", "__version__", "contract_version", "disable", "disabled", "enable", "enabled",
           "fingerprint", "is_enabled", "isa", "record", "release_memory", "seed", "show", "tables", "trace"]

_SUBMODULES = ("distributed", "lightning", "math", "transformers")
_MODULES = {"fingerprint": "_recording._fingerprint", "record": "_recording._record", "show": "_views._show",
            "tables": "_views._show", "trace": "_recording._trace",
            **{name: name for name in _SUBMODULES},
            **dict.fromkeys(("disable", "disabled", "enable", "enabled", "is_enabled", "isa", "release_memory", "seed"),
                            "_switching._switch")}

_components.install()
_old_names.install()


def _load(name: str) -> object:
    """An attribute that is asked for the first time."""
    if _components.is_left_out(name):
        raise _components.refusal(name)
    if name in _components.built():
        return importlib.import_module(f"isobit.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'isobit' has no attribute {name!r}")
    try:
        module = importlib.import_module(f"isobit.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"isobit.{name} needs PyTorch, which is not installed (pip install torch=={torch_version})",
                          name="torch") from None
    value = module if name in _SUBMODULES else getattr(module, name)
    if name not in _SUBMODULES:
        importlib.import_module(value.__module__)  # its old name: there inspect looks for the source
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # to a type checker a module with __getattr__ has every attribute
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
