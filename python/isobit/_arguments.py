"""The command line of `python -m isobit COMMAND`: errors as the program prints them."""

import argparse
import sys
from typing import NoReturn


class CommandParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"isobit: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)
