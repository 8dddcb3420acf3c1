"""python -m isobit, and the script `isobit`: the program that lies in this package (docs/cli.md), with this Python and its torch.

Records are read without torch, which this imports nowhere. The Python package answers `ops`, since torch registers
operators of its own where it is imported, `check`, which runs a script in this process, `launch`, which starts it in several,
and `bench` of a script.
"""

import os
import sys
from collections.abc import Sequence

from isobit._base._package import PROGRAM, torch_folder


def main(words: Sequence[str]) -> int:
    """Ends in the program, which replaces this process; the exit code where it is not called."""
    if words[:1] == ["ops"] and "--coverage" not in words:
        from isobit._views import _ops
        return _ops.main(words[1:])
    if words[:1] == ["check"]:
        from isobit._views import _check
        return _check.main(words[1:])
    if words[:1] == ["bench"]:
        from isobit._views import _bench
        if _bench.is_of_a_script(words[1:]):
            return _bench.main(words[1:])
    if words[:1] == ["launch"]:
        from isobit._jobs import _launch
        return _launch.main(words[1:])
    environment = {**os.environ, "ISOBIT_PYTHON": sys.executable}
    if (torch := torch_folder()) is not None:
        environment["ISOBIT_TORCH_DIR"] = torch
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(PROGRAM, ["isobit", *words], environment)
    except OSError as error:
        print(f"isobit: {PROGRAM}: {(error.strerror or '').lower()} (this build has only the operators, or its installation is "
              "incomplete: install isobit again)", file=sys.stderr)
        return 2


def program() -> None:
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:  # before the program took this process's place
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    program()
