"""What looks like a secret, and home paths, in texts about to be given away: as src/archive/secret_scan.h, by the same rules.

Texts are bytes. Guesses: they find the usual accidents, not what is hidden.
"""

import pathlib
import re
from typing import NamedTuple

LEFT_OUT = b"(left out)"
LEAST_LENGTH = 8  # shorter values of variables stand in any text
# Every name in the rules holds one of these: most lines need no closer look.
_NAMES = re.compile(rb"(?i:secret|token|passw|passphrase|credential|key|_pat)")


class _Rule(NamedTuple):
    pattern: re.Pattern
    what: str  # "" where the name says it
    mixed: bool  # only values of letters and digits
    named: bool


def _read_rules():
    rules, single, name = [], {}, ""
    for line in pathlib.Path(__file__).with_name("secret_rules.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        kind, pattern, *what = line.split("\t")
        pattern = pattern.replace("{NAME}", name)
        name = pattern if kind == "name" else name
        if kind in ("shape", "named", "unquoted"):
            rules.append(_Rule(re.compile(pattern.encode()), "".join(what), kind == "unquoted", kind != "shape"))
        else:
            single[kind] = re.compile(pattern.encode())
    return rules, single


class SecretScan:
    """allowed: lines that hold one of these pass. variables: the environment's, as bytes. home: the user's folder, or b""."""

    def __init__(self, allowed, variables, home):
        self._rules, self._single = _read_rules()
        self._allowed = [text for text in allowed if text]
        self._variables = [(name, value) for name, value in sorted(variables.items())
                           if len(value) >= LEAST_LENGTH and value[:1] != b"/" and self._single["variable"].fullmatch(name)]
        homes = rb"/home/[A-Za-z0-9._-]+|/Users/[A-Za-z0-9._-]+"
        home = home.rstrip(b"/")
        if home:
            homes = re.escape(home) + b"|" + homes
        self._homes = re.compile(rb"(^|[^A-Za-z0-9._~/-])(?:" + homes + rb")([^A-Za-z0-9._-]|\Z)")

    def is_secret_file(self, path):
        return not any(text in path for text in self._allowed) and self._single["file"].fullmatch(path) is not None

    def without_home(self, text):
        for _ in range(2):  # neighbours share the character between them
            text = self._homes.sub(rb"\1~\2", text)
        return text

    def find(self, name, text):
        """[(place, what)], the place as "name:line"."""
        return [(f"{name}:{number}", what) for number, line in enumerate(text.split(b"\n"), 1)
                for _, _, what in self._hits(line)]

    def redacted(self, text):
        """The text with "(left out)" in the place of each value that was found."""
        return b"\n".join(map(self._redacted_line, text.split(b"\n")))

    def _redacted_line(self, line):
        for begin, end, _ in reversed(self._hits(line)):
            line = line[:begin] + LEFT_OUT + line[end:]
        return line

    def _hits(self, line):
        """[(begin, end, what)] in order; of those that overlap, the first, as long as all of them."""
        if any(text in line for text in self._allowed):
            return []
        found = [(at.start(), at.end(), f"the value of the environment variable {_text(name)}")
                 for name, value in self._variables for at in re.finditer(re.escape(value), line)]
        named = _NAMES.search(line) is not None
        for rule in self._rules:
            if named or not rule.named:
                found += _hits_of(rule, line)
        apart = []
        for begin, end, what in sorted(found, key=lambda hit: hit[0]):
            if not apart or begin >= apart[-1][1]:
                apart.append((begin, end, what))
            elif end > apart[-1][1]:
                apart[-1] = (apart[-1][0], end, apart[-1][2])
        return apart


def _hits_of(rule, line):
    at = 0
    while at < len(line) and (match := rule.pattern.search(line, at)):
        group = "value" if rule.named else 1
        begin, end = match.span(group)
        at = max(end, begin + 1)
        value = match[group]
        if rule.mixed and (not re.search(rb"[0-9]", value) or not re.search(rb"[A-Za-z]", value) or value[:1] == b"-"):
            continue
        yield begin, end, f"a value of {_text(match['name'])}" if rule.named else rule.what


def _text(content):
    return content.decode(errors="replace")
