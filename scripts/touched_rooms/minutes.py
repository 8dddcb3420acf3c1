"""Where the minutes of a test run went, by room, and what was skipped and why."""

import collections
import re
import xml.etree.ElementTree
from collections.abc import Iterator, Mapping

# What a test says of why it is skipped: its own line, GoogleTest's after the place, unittest's.
REASON = re.compile(r"^skipped: (.*)|^\S*: Skipped\n(.*)|(.* is not installed.*)|skipped ['\"](.*)['\"]", re.M)


def lines(cases: xml.etree.ElementTree.ElementTree, rooms: Mapping[str, str]) -> Iterator[str]:
    """`cases`: what ctest --output-junit wrote, which knows no labels; `rooms`: by name of a test."""
    seconds: dict[str, float] = collections.defaultdict(float)
    counts: collections.Counter[str] = collections.Counter()
    skipped = collections.defaultdict(list)
    for case in cases.iter("testcase"):
        name = case.get("name", "")
        if case.get("status") == "notrun" or case.find("skipped") is not None:
            said = (part for parts in REASON.findall(case.findtext("system-out") or "") for part in parts if part)
            skipped[next(said, "no reason given").strip()].append(name)
            continue
        room = rooms.get(name) or "others"
        seconds[room] += float(case.get("time", 0))
        counts[room] += 1
    yield "minutes by room (tests beside each other: the sum is above the wall's)"
    for room, time in sorted(seconds.items(), key=lambda item: -item[1]):
        yield f"  {time / 60:6.1f}  {room} ({counts[room]} tests)"
    for reason, names in sorted(skipped.items()):
        yield f"skipped: {reason[:160]}: {', '.join(names[:4])}{f' and {len(names) - 4} more' if len(names) > 4 else ''}"
