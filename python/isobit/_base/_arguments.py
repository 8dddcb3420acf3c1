"""The command line of `python -m isobit COMMAND`: errors as the program prints them."""

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from typing import NoReturn


def complain(message: str, as_json: bool) -> None:
    """On stderr, and with --json as an object on stdout, too (src/cli/error_report.h)."""
    print(f"isobit: {message}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": message}, indent=2), flush=True)


class CommandParser(argparse.ArgumentParser):
    as_json = False

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """What stands behind a script's name is not this command's."""
        self.as_json = "--json" in itertools.takewhile(lambda word: not word.endswith(".py"), words)
        return self.parse_args(words)

    def error(self, message: str) -> NoReturn:
        complain(f"{message} (see {self.prog} --help)", self.as_json)
        sys.exit(2)
