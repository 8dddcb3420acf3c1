"""python -m isobit: what a wheel alone can do without a script."""

import argparse
import os
import sys

from isobit import _export, _ops, _verify
from isobit._problem import Problem, line_of_error
from isobit._record_files import DamagedRecord


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"isobit: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)


def main(words):
    parser = _Parser(
        prog="python -m isobit", description="Records of Python programs, and what of PyTorch is covered.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python -m isobit verify last\n  python -m isobit export last -o run.tar\n  python -m isobit ops --search conv")
    commands = parser.add_subparsers(dest="command", required=True)
    _verify.declare(commands)
    _export.declare(commands)
    _ops.declare(commands)
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    options.arguments = words[end + 1:]
    if options.arguments and options.command != "verify":
        parser.error("only verify takes arguments after --")
    try:
        code = options.call(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Problem, DamagedRecord, OSError) as error:
        print(line_of_error(error), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("isobit: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
