"""What isobit raises of its own. Needs no torch."""

import re
import types
from typing import TYPE_CHECKING, Any

from isobit._base import _program_lines

if TYPE_CHECKING:
    from typing_extensions import Self

# "isobit: aten::linalg_eigh is not certified ...": the operator's name; a refusal that was wrapped ends with the original one.
_OPERATOR = re.compile(r"isobit: (?:backward of (?P<node>\S+)|(?P<name>torch\.[\w.]+|(?:\w+::)+[\w.]+))")


_REFUSAL = re.compile(r"isobit: .+ under isobit-\S+(?=\n  (?:at|in|for|do) +)")
_LINE = "\n  at     "


def carries_refusal(text: str) -> bool:
    """Whether a refusal of the library's stands in the text of another error."""
    return _REFUSAL.search(text) is not None


class RefusedError(RuntimeError):
    """Something cannot be computed by the contract, and stock arithmetic does not slip in.

    Raised by the operator itself, wherever it is called from: Python, a backward, another thread. The message says what
    was refused, at which line of the program, in which module, and what to do. Made of one text, so that it passes through
    pickle, and DataLoader can raise it again for a worker.
    """

    __module__ = "isobit"

    def __str__(self) -> str:
        """With the line of the program, looked up where the text is asked for: a refusal that is caught costs nothing."""
        text = super().__str__()
        headers = list(_REFUSAL.finditer(text))
        if not headers or _LINE in text:
            return text
        lines = _program_lines.of_traceback(self.__traceback__)
        place = _program_lines.users_line(lines)
        if place is None:
            return text
        backward = "backward of" in text or "(TorchScript" in text  # where the line calls something else
        called = "" if backward else _program_lines.written_as(self.operator, lines)
        position = headers[-1].end()
        return f"{text[:position]}{_LINE}{place[0]}:{place[1]}{called and ', ' + called}{text[position:]}"

    def with_traceback(self, tb: types.TracebackType | None, /) -> "Self":
        """What is known only from the traceback goes into the text before it is taken away (unittest's assertRaises does)."""
        if tb is None:
            self.args = (str(self),)
        return super().with_traceback(tb)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self),)  # the traceback stays behind

    @property
    def operator(self) -> str:
        """What was refused: "aten::linalg_eigh", "torch.compile", in backward a node's name; "" where it has no name."""
        found = list(_OPERATOR.finditer(super().__str__()))
        return (found[-1]["node"] or found[-1]["name"]) if found else ""


class RecordError(RuntimeError):
    """A record cannot be made, resumed or read: the message says which, where, and what to do.

    Errors of the file system stay OSError, those of arguments ValueError and TypeError.
    """

    __module__ = "isobit"
