"""python -m isobit check: the first steps of a script, and all that isobit refuses in them, at once.

Where a refusal would end the script, stock PyTorch computes in its place, so that the next one is found, too. For that
reason nothing of it is certified: the process makes no record and no fingerprint (_check_mode.py).
"""

import argparse
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from isobit import _built
from isobit._base import _check_mode
from isobit._base._arguments import CommandParser, complain
from isobit._base._check_mode import Found
from isobit._base._errors import RefusedError
from isobit._views._script import Enough, become, parsed, run_steps


class _Steps:
    def __init__(self, most: int) -> None:
        self.most, self.done = most, 0

    def after_step(self, _optimizer: object, _arguments: object, _keywords: object) -> None:
        self.done += 1
        if self.done >= self.most:
            raise Enough


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog="python -m isobit check", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs the first steps of a script and lists all that isobit refuses in them, with the line, the module and "
                    "what to do.\nWhat is refused runs as stock PyTorch meanwhile: nothing is certified, and nothing recorded.",
        epilog="exit code: 0 nothing is refused, 1 something is, 2 the script cannot be judged\n\n"
               "example:\n  python -m isobit check train.py --epochs 1\n  python -m isobit check --steps 20 --json train.py")
    parser.add_argument("--steps", type=int, default=2, metavar="N", help="optimizer steps to run (2)")
    parser.add_argument("--json", action="store_true", help="as JSON on stdout; what the script prints goes to stderr")
    return parsed(parser, words, {"steps": 1})


def _run(options: argparse.Namespace, steps: _Steps) -> tuple[str, bool]:
    """How the script ended, and whether it did so of itself or by the number of steps."""
    become(options.script, options.arguments)
    try:
        if run_steps(options.script, steps.after_step):
            return f"ended after {_count(steps.done, 'step')}", True
    except KeyboardInterrupt:
        return f"interrupted after {_count(steps.done, 'step')}", False
    except SystemExit as error:
        if error.code not in (None, 0):
            return f"the script ended with exit code {error.code!r} after {_count(steps.done, 'step')}", False
    except RefusedError as error:  # of another process, or where nothing can stand in
        _check_mode.refuse_unless_known(error)
        return f"a refusal ended the script after {_count(steps.done, 'step')}", False
    except BaseException as error:
        _print_of_script(error)
        return f"the script failed after {_count(steps.done, 'step')}: {type(error).__name__}: {error}".partition("\n")[0], False
    return f"the script ended after {_count(steps.done, 'step')}", True


def _print_of_script(error: BaseException) -> None:
    """Its traceback as if it had been run alone."""
    trace = error.__traceback__
    above = (__name__, run_steps.__module__, "runpy")
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_globals.get("__name__") in above:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


@contextlib.contextmanager
def _on_stderr(applies: bool) -> Iterator[None]:
    """What the script prints, its children's prints too."""
    if not applies:
        yield
        return
    sys.stdout.flush()
    before = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(before, 1)
        os.close(before)


def as_json(script: str, ended: str, steps: int, found: Sequence[Found]) -> dict[str, Any]:
    refusals = [{"operator": one.operator, "called": one.called, "reason": one.reason, "count": one.count,
                 "line": next(iter(one.lines), ""), "lines": list(one.lines), "module": next(iter(one.places), ""),
                 "for": one.purpose, "do": one.remedy} for one in found]
    return {"format": "isobit-check-1", "contract": _check_mode.contract, "certified": False, "script": script,
            "steps": steps, "ended": ended, "refused": refusals}


def as_text(script: str, ended: str, found: Sequence[Found]) -> str:
    if not found:
        return f"isobit check {script}: nothing is refused ({ended})"
    lines = [f"isobit check {script}: {_count(len(found), 'refusal')} ({ended})",
             "Nothing of this run is certified: stock PyTorch computed what is refused.", ""]
    for one in found:
        title = one.operator if one.operator == one.reason else f"{one.operator} {one.reason}"
        lines.append(f"{title}{f' ({one.called})' if one.called else ''}, {_count(one.count, 'time')}")
        others = f" and {_count(len(one.lines) - 1, 'other line')}" if len(one.lines) > 1 else ""
        for name, value in (("at", f"{next(iter(one.lines), '')}{others}"), ("in", next(iter(one.places), "")),
                            ("for", one.purpose), ("do", one.remedy)):
            if value:
                lines.append(f"  {name:<6} {value}")
    return "\n".join(lines)


def _written(print_it: Callable[[], None]) -> bool:
    try:
        print_it()
    except BrokenPipeError:  # `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"isobit: stdout: cannot be written: {error.strerror}", file=sys.stderr)
        return False
    return True


def main(words: Sequence[str]) -> int:
    """The exit code."""
    options = _options(words)
    try:
        from isobit._switching import _switch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        complain(f"check needs PyTorch, which is not installed (pip install torch=={_built.torch_version})", options.json)
        return 2
    steps = _Steps(options.steps)
    with tempfile.TemporaryDirectory(prefix="isobit-check-") as folder:
        _switch.begin_check(pathlib.Path(folder) / "refusals.jsonl")
        with _on_stderr(options.json):
            _switch.enable()
            ended, judged = _run(options, steps)
        found = _check_mode.collect()

    def print_it() -> None:
        if options.json:
            print(json.dumps(as_json(options.script, ended, steps.done, found), indent=2), flush=True)
        else:
            print(as_text(options.script, ended, found), flush=True)

    if not _written(print_it):
        return 2
    return 1 if found else 0 if judged else 2
