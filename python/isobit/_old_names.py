"""The modules of the rooms by the names that they had when they lay side by side.

Pickles of before have those names, and what is public keeps them (`isobit.record.__module__` is "isobit._record"), so that what
is pickled here is read by any isobit. Where somebody imports isobit._record, it is isobit._recording._record, the same module.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence

# A module that came later is in none: nothing has named it otherwise.
ROOMS = {
    "_base": ("_arguments", "_check_mode", "_errors", "_generators", "_library", "_program_lines", "_sums"),
    "_jobs": ("_job", "_launch"),
    "_loops": ("_batches", "_coupling", "_grains", "_loaders", "_shared_steps", "_steps"),
    "_proof": ("_again", "_beside", "_checkout", "_reading", "_verify"),
    "_recording": ("_checkpoint", "_fingerprint", "_job_record", "_observed", "_provenance", "_record", "_record_files",
                   "_record_hooks", "_record_texts", "_resume", "_stock", "_trace"),
    "_switching": ("_bypasses", "_hooks", "_host_scalars", "_optimizers", "_registrations", "_routes", "_switch", "_torchscript",
                   "_workers"),
    "_views": ("_bench", "_bench_side", "_check", "_ops", "_script", "_show"),
}
MODULES = {f"isobit.{name}": f"isobit.{room}.{name}" for room, names in ROOMS.items() for name in names}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname: str, path: Sequence[str] | None,
                  target: types.ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(fullname, self) if fullname in MODULES else None

    def exec_module(self, module: types.ModuleType) -> None:
        """The import system takes what it finds under the name afterwards."""
        sys.modules[module.__name__] = importlib.import_module(MODULES[module.__name__])


def install() -> None:
    """Behind all other finders: only what none of them knows comes here."""
    if not any(type(finder).__module__ == __name__ for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
