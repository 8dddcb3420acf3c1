"""python -m isobit ops: the operators that this PyTorch has registered, their classes, and the contract's section or the reason.

Tables and JSON are those of `isobit ops` (its --coverage is the program's alone). Python registers some operators more than
libtorch does; they are listed, too.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from isobit._base import _library
from isobit._base._arguments import CommandParser

CLASSES = ("certified", "exact", "composite", "refused")  # what can be used comes first
Entry = tuple[str, ...]  # class, name, overload, reason


def select(search: str, kind: str | None) -> list[Entry]:
    found = [entry for entry in _library.operators() if search in _full_name(entry) and kind in (None, entry[0])]
    return sorted(found, key=lambda entry: CLASSES.index(entry[0]))  # stable: by name within a class


def _full_name(entry: Entry) -> str:
    _, name, overload, _ = entry
    return f"{name}.{overload}" if overload else name


def as_json(found: Sequence[Entry]) -> dict[str, Any]:
    counts = {kind: sum(entry[0] == kind for entry in found) for kind in CLASSES}
    operators = [{"name": name, "overload": overload, "class": kind, "reason": reason}
                 for kind, name, overload, reason in found]
    return {"contract": _library.contract_version, "counts": counts, "operators": operators}


def as_text(found: Sequence[Entry]) -> str:
    width = max((len(_full_name(entry)) for entry in found), default=0)
    lines = [f"{entry[0]:<9}  {_full_name(entry):<{width}}  {entry[3]}" for entry in found]
    counts = ", ".join(f"{number} {kind}" for kind, number in as_json(found)["counts"].items())
    return "\n".join([*lines, f"{len(found)} operators under {_library.contract_version}: {counts}"])


def main(words: Sequence[str]) -> int:
    """The exit code."""
    parser = CommandParser(
        prog="python -m isobit ops", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python -m isobit ops --search conv\n  python -m isobit ops --class certified --json")
    parser.add_argument("--search", default="", metavar="NAME", help="only operators whose name contains this")
    parser.add_argument("--class", dest="kind", choices=CLASSES, help="only one class")
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.read(words)
    found = select(options.search, options.kind)
    try:
        print(json.dumps(as_json(found), indent=2) if options.json else as_text(found), flush=True)
    except BrokenPipeError:  # `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"isobit: stdout: cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    return 0
