"""The elementwise functions that the kernels' own list names (src/kernels/wide_functions_list.h)."""

import pathlib
import re

LIST = pathlib.Path(__file__).resolve().parent.parent / "src/kernels/wide_functions_list.h"
LINE = re.compile(r"^  f\(.*, +\w+, +(\w+), +(?:in_place|no_in_place|by_hand), ")


def listed_functions() -> dict[str, int]:
    """PyTorch's names, as in torch or torch.special (with special_ before), and how many tensors each takes.

    Every line of the list is read or refused: one that is passed over would be checked and measured by nobody.
    """
    unary, binary = LIST.read_text().split("#define ISOBIT_WIDE_UNARY(f)")[1].split("#define ISOBIT_WIDE_BINARY(f)")
    arguments = {}
    for part, count in (unary, 1), (binary.split("#define")[0], 2):
        for line in part.splitlines():
            if not line.startswith("  f("):
                continue
            found = LINE.match(line)
            if not found:
                raise ValueError(f"{LIST}: not a line of the list: {line.strip()}")
            arguments.setdefault(found[1], count)  # polygamma stands there with its order and, as trigamma, without
    return arguments
