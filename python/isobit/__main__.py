"""python -m isobit: what a wheel alone can do without a script."""

import argparse
import sys

from isobit import _ops, _verify


def main(words):
    parser = argparse.ArgumentParser(
        prog="python -m isobit", description="Records of Python programs, and what of PyTorch is covered.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python -m isobit verify last\n  python -m isobit ops --search conv")
    commands = parser.add_subparsers(dest="command", required=True)
    _verify.declare(commands)
    _ops.declare(commands)
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    options.arguments = words[end + 1:]
    if options.arguments and options.command != "verify":
        parser.error("only verify takes arguments after --")
    return options.call(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
