"""What isobit raises of its own. Needs no torch."""

import re

# "isobit: aten::linalg_eigh is not certified ...": the operator's name; a refusal that was wrapped ends with the original one.
_OPERATOR = re.compile(r"isobit: (?:backward of (?P<node>\S+)|(?P<name>torch\.[\w.]+|(?:\w+::)+[\w.]+))")


_REFUSAL = re.compile(r"isobit: .+ under isobit-\S+\n  in     ")


def carries_refusal(text: str) -> bool:
    """Whether a refusal of the library's stands in the text of another error."""
    return _REFUSAL.search(text) is not None


class RefusedError(RuntimeError):
    """Something cannot be computed by the contract, and stock arithmetic does not slip in.

    Raised by the operator itself, wherever it is called from: Python, a backward, another thread. The message says what
    was refused, in which module, and what to do. Made of one text, so that it passes through pickle, and DataLoader can
    raise it again for a worker.
    """

    __module__ = "isobit"

    @property
    def operator(self) -> str:
        """What was refused: "aten::special_bessel_j0", "torch.compile", in backward a node's name; "" where it has no name."""
        found = list(_OPERATOR.finditer(str(self)))
        return (found[-1]["node"] or found[-1]["name"]) if found else ""


class RecordError(RuntimeError):
    """A record cannot be made, resumed or read: the message says which, where, and what to do.

    Errors of the file system stay OSError, those of arguments ValueError and TypeError.
    """

    __module__ = "isobit"
