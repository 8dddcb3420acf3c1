"""Whether the code of a program can be read as it runs. A record is believed because its text can be read, so what has no text,
or another meaning than its looks, is named in the verdict. Needs no torch."""

import importlib.machinery
import os
import pathlib
import re
from collections.abc import Iterator, Mapping

from isobit._proof._beside import SUFFIXES
from isobit._proof._checkout import content_of

_COMPILED = tuple(suffix for suffix in SUFFIXES if suffix not in importlib.machinery.SOURCE_SUFFIXES)
# What Python looks for in a text's first two lines (PEP 263).
_ENCODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
# By their names alone: looking an encoding up runs its code. In the first kind ASCII is ASCII.
_OF_BYTES = re.compile(r"(us-)?ascii|l(atin-?)?1|iso-?8859-?\d+|(cp|windows-)125\d|koi8-[ru]")
_UTF8 = re.compile(r"utf-?8(-sig)?|u8")
# Turns the direction of writing, or is a letter of a name that nobody sees.
_DECEIVING = re.compile("[\u202a-\u202e\u2066-\u2069\u061c\u200e\u200f\u115f\u1160\u3164\uffa0]")
# Ends a line for Python, or moves a terminal's cursor, and shows as nothing in an editor.
_CONTROL = re.compile("\r(?!\n)|[\0-\x08\x0b\x0e-\x1f\x7f-\x9f]")


def _other_encoding(text: str) -> str:
    for line in re.split("\r\n|\r|\n", text[:4096].removeprefix("\ufeff"), maxsplit=2)[:2]:
        if found := _ENCODING.match(line):
            name = found[1].lower().replace("_", "-")
            same = _UTF8.fullmatch(name) or (text.isascii() and _OF_BYTES.fullmatch(name))
            return "" if same else found[1]
        if not re.fullmatch(r"[ \t\f]*(#.*)?", line):
            break
    return ""


def deceives(text: str) -> str:
    """Why the text of a source is not what Python reads in it; "" where it is."""
    if encoding := _other_encoding(text):
        return f"it declares the encoding {encoding}"
    if found := _CONTROL.search(text) or _DECEIVING.search(text):
        return f"it has the character U+{ord(found[0][0]):04X}, which does not show"
    return ""


def without_text(program: pathlib.Path, sources: Mapping[str, str]) -> Iterator[str]:
    """Files of the program, by paths, that Python can import and `sources` cannot show: compiled code, text that is no UTF-8."""
    for folder, _, names in os.walk(program):
        for name in names:
            path = pathlib.Path(folder, name)
            if name.endswith(_COMPILED) or (name.endswith(SUFFIXES) and not _is_text(path)):
                relative = str(path.relative_to(program))
                if relative not in sources:
                    yield relative


def _is_text(path: pathlib.Path) -> bool:
    """Or what no program imports: a link that leads nowhere, or out of its folder."""
    content = content_of(path)
    try:
        if content is not None:
            content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
