"""python -m isobit ops: the operators that this PyTorch has registered, their classes, and the contract's section or the reason.

Tables and JSON are those of `isobit ops`. Python registers some operators more than libtorch does; they are listed, too.
"""

import argparse
import json
import os
import sys

from isobit import _library

CLASSES = ("certified", "exact", "composite", "refused")  # what can be used comes first


def select(search, kind):
    found = [entry for entry in _library.operators() if search in _full_name(entry) and kind in (None, entry[0])]
    return sorted(found, key=lambda entry: CLASSES.index(entry[0]))  # stable: by name within a class


def _full_name(entry):
    _, name, overload, _ = entry
    return f"{name}.{overload}" if overload else name


def as_json(found):
    counts = {kind: sum(entry[0] == kind for entry in found) for kind in CLASSES}
    operators = [dict(zip(("name", "overload", "class", "reason"), (name, overload, kind, reason)))
                 for kind, name, overload, reason in found]
    return {"contract": _library.contract_version, "counts": counts, "operators": operators}


def as_text(found):
    width = max((len(_full_name(entry)) for entry in found), default=0)
    lines = [f"{entry[0]:<9}  {_full_name(entry):<{width}}  {entry[3]}" for entry in found]
    counts = ", ".join(f"{number} {kind}" for kind, number in as_json(found)["counts"].items())
    return "\n".join([*lines, f"{len(found)} operators under {_library.contract_version}: {counts}"])


def declare(commands):
    command = commands.add_parser(
        "ops", help="list PyTorch's operators: certified, exact, composite or refused", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python -m isobit ops --search conv\n  python -m isobit ops --class certified --json")
    command.add_argument("--search", default="", metavar="NAME", help="only operators whose name contains this")
    command.add_argument("--class", dest="kind", choices=CLASSES, help="only one class")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(call=call)


def call(options):
    found = select(options.search, options.kind)
    try:
        print(json.dumps(as_json(found), indent=2) if options.json else as_text(found), flush=True)
    except BrokenPipeError:  # `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
