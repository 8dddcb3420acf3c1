"""Components' modules, isobit.NAME: what is known and not built says how to build it (CONTRIBUTING.md, "Adding a component")."""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence

from isobit import _built


def refusal(name: str) -> ImportError:
    return ImportError(f"isobit.{name} belongs to the component {name}, which this isobit was built without\n"
                       f"  do     scripts/build release {name}", name=f"isobit.{name}")


def is_left_out(name: str) -> bool:
    return not _built.components.get(name, True)


def built() -> set[str]:
    return {name for name, is_built in _built.components.items() if is_built}


class _LeftOut(importlib.abc.MetaPathFinder):
    """Comes last: what is in the package's folder is found before it."""

    def find_spec(self, fullname: str, path: Sequence[str] | None,
                  target: types.ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if package == "isobit" and is_left_out(name):
            raise refusal(name)
        return None


def install() -> None:
    if not any(isinstance(finder, _LeftOut) for finder in sys.meta_path):
        sys.meta_path.append(_LeftOut())
