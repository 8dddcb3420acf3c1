"""The first optimizer steps of a script, as `check` and `bench` execute them. Imports torch only where a script runs."""

import argparse
import pathlib
import runpy
import sys
from collections.abc import Callable, Sequence

from isobit._base._arguments import CommandParser


class Enough(BaseException):
    """The steps are done: no Exception, so that the script does not catch it. An after_step raises it."""


def parsed(parser: CommandParser, words: Sequence[str], least: dict[str, int]) -> argparse.Namespace:
    """The options with the script and its arguments, each number of `least` (by destination) at least that; exits with 2 else."""
    parser.add_argument("script", help="a Python script, without isobit or with it")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")
    options = parser.read(words)
    for name, smallest in least.items():
        if getattr(options, name) < smallest:
            parser.error(f"--{name.replace('_', '-')} is {getattr(options, name)}: at least {smallest}")
    if not pathlib.Path(options.script).is_file():
        parser.error(f"{options.script}: no such file")
    return options


def become(script: str, arguments: Sequence[str]) -> None:
    """This process's arguments and first place for modules are those of `python script arguments`."""
    sys.argv = [script, *arguments]
    sys.path[0] = str(pathlib.Path(script).resolve().parent)


def run_steps(script: str, after_step: Callable[[object, object, object], None]) -> bool:
    """Whether after_step, called after each step of an optimizer, ended the script by Enough. What the script raises leaves
    this, SystemExit too."""
    from torch.optim import optimizer as torch_optimizer

    hook = torch_optimizer.register_optimizer_step_post_hook(after_step)
    try:
        runpy.run_path(script, run_name="__main__")
    except Enough:
        return True
    finally:
        hook.remove()
    return False
