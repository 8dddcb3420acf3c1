"""scripts/touched reads names and includes; what a test really stands on says build.ninja. None of them may be forgotten."""

import os
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["ISOBIT_PROGRAM"]).parent
sys.path.insert(0, str(SOURCE / "scripts"))
from touched_rooms.choice import Change, select  # noqa: E402
from touched_rooms.tree import known_to_ctest, room_of, tests_of  # noqa: E402

LIBRARY = "python/isobit/libisobit_torch.so"


class Links:
    """By file of the build folder, the rooms that it is made of."""

    def __init__(self):
        self.inputs, self.known = {}, {}
        text = (BUILD / "build.ninja").read_text(encoding="utf-8").replace("$\n", " ")
        for outputs, inputs in re.findall(r"^build ([^:]+): \S+(.*)$", text, re.M):
            for output in outputs.replace(" | ", " ").split():
                self.inputs[output] = inputs.split("||")[0].replace("|", " ").split()  # after || stands what need only be there

    def rooms(self, output):
        if output not in self.known:
            self.known[output] = set()  # a circle ends here
            for entry in self.inputs.get(output, ()):
                self.known[output] |= self.rooms(entry) if entry in self.inputs else self.rooms_of_source(BUILD / entry)
            if output == "isobit":  # opens the library
                self.known[output] |= self.rooms(LIBRARY)
        return self.known[output]

    def rooms_of_source(self, path):
        if path.is_relative_to(BUILD) and path.name.startswith("together_"):  # several files as one unit
            included = re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.M)
            return {room for name in included if (room := room_of(f"src/{name}"))}
        return {room} if path.is_relative_to(SOURCE) and (room := room_of(path.relative_to(SOURCE).as_posix())) else set()


def rooms_by_test(links):
    """Of every test that ctest knows, the rooms of what its command and its environment name in the build folder."""
    rooms = {}
    for test in known_to_ctest(str(BUILD))["tests"]:
        environment = [value for entry in test.get("properties", []) if entry["name"] == "ENVIRONMENT" for value in entry["value"]]
        named = [part for word in [*test.get("command", []), *environment] for part in re.split("[=:]", word) if part.startswith(f"{BUILD}/")]
        outputs = {os.path.relpath(os.path.normpath(part), BUILD) for part in named}
        if f"{BUILD}/python" in named:
            outputs.add(LIBRARY)
        rooms[test["name"]] = set().union(*map(links.rooms, outputs))
    return rooms


@unittest.skipUnless((BUILD / "build.ninja").exists(), "this build folder is no Ninja's")
class Touched(unittest.TestCase):
    def test_a_room_runs_every_short_test_that_is_made_of_it(self):
        links = Links()
        made_of, tests = rooms_by_test(links), list(tests_of(SOURCE, str(BUILD)))
        self.assertLessEqual({"aten", "cli", "extension", "kernels"}, links.rooms("isobit"))
        text = (SOURCE / "tests/long.txt").read_text(encoding="utf-8")
        long = [line for line in text.splitlines() if line and line[0] != "#"]
        short = {test.name for test in tests if not any(re.fullmatch(pattern, test.name) for pattern in long)}
        self.assertGreater(len(short), 300)
        for room in sorted(set().union(*made_of.values())):
            with self.subTest(room=room):
                source = next(path for path in sorted((SOURCE / "src" / room).rglob("*")) if path.suffix in (".cpp", ".h"))
                change = Change(SOURCE, [source.relative_to(SOURCE).as_posix()])
                self.assertEqual(change.rooms, {room})
                whoever = set.intersection(*({test.name for test in select(change, tests, long, turn)} for turn in range(2)))
                self.assertEqual({name for name in short if room in made_of[name]} - whoever, set())


if __name__ == "__main__":
    unittest.main()
