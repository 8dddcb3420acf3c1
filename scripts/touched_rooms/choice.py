"""Decides: what a change touches, and so which tests, packages and components it needs."""

import pathlib
import re
from collections.abc import Iterable

from touched_rooms import rules
from touched_rooms.tree import Test, TestFiles, components, dependents, includes, room_of

# Why a test runs, as scripts/touched counts them.
EVERYTHING, TOUCHED, INCLUDES = "everything runs", "touched", "of rooms that include them"
NAMES, IN_TURN = "name what changed", "in turn"


def scripts_of(root: pathlib.Path, name: str) -> set[str]:
    """A script, or a module of scripts and the scripts that import it."""
    users = {path.name for path in (root / "scripts").glob("*") if path.is_file() and path.suffix != ".txt" and "_" in name
             and re.search(rf"\b{name}\b", path.read_text(encoding="utf-8"))}
    return {name, *(pathlib.PurePath(user).stem for user in users)}


class Change:
    def __init__(self, root: pathlib.Path, files: Iterable[str]):
        self.root = root
        self.graph = includes(root)
        self.files = TestFiles(root)
        self.rooms: set[str] = set()
        self.pages: set[str] = set()
        self.scripts: set[str] = set()
        self.unforeseen: list[str] = []
        packages, in_tests = set(), set()
        for file in files:
            room, test = room_of(file), rules.TEST_FOLDER.match(file)
            if room:
                # A room that is gone was included by nobody who was not changed, too.
                if room in self.graph or (root / file).exists():
                    self.rooms.add(room)
                if file.startswith("python/"):
                    packages.add(file.split("/")[2] if file.count("/") > 2 else "")
            elif test and (root / "tests" / test[1]).is_dir():
                in_tests.add(file)
            elif rules.PAGE.match(file):
                self.pages.add(file)
            elif script := rules.SCRIPT.match(file):
                self.scripts |= scripts_of(root, script[1])
            else:
                self.unforeseen.append(file)
        self.users = dependents(self.graph, self.rooms)
        self.tests, self.test_files = self.files.reached(in_tests)
        self.test_folders = self.tests | {file.split("/")[1] for file in in_tests}
        self.components = self.components_to_build()
        about = [room + ("|" + rules.ABOUT[room] if room in rules.ABOUT else "") for room in sorted(self.rooms - {"python"})]
        about += [rules.ABOUT_PACKAGE.get(package, "^python_") for package in sorted(packages)]
        self.about = re.compile("|".join(about)) if about else None
        named = [re.escape(pathlib.PurePath(page).name) for page in self.pages if "/" in page or page.endswith(".md")]
        named += [re.escape(page.rpartition("/")[0]) for page in self.pages if page.count("/") > 1]  # such as bench/results
        named += [rf"{'' if '_' in script else 'scripts/'}\b{re.escape(script)}\b" for script in self.scripts]
        self.named = re.compile("|".join(named)) if named else None

    def components_to_build(self) -> list[str]:
        """Those touched and those that include one of them; a commit that touches none pays for none."""
        folders = components(self.root)
        rooms = {name: pathlib.PurePath(folder).name for name, folder in folders.items()}
        touched = {room for name, room in rooms.items() if room in self.rooms or {name, room} & self.test_folders}
        touched |= dependents(self.graph, touched)
        return sorted(name for name, room in rooms.items() if self.unforeseen or room in touched)

    def setups(self) -> list[str]:
        """Options of scripts/setup, without their dashes."""
        if self.unforeseen:
            return sorted(set(rules.SETUPS.values()))
        return sorted({rules.SETUPS[what] for what in self.rooms | self.test_folders | self.scripts if what in rules.SETUPS})

    def architectures(self) -> list[str]:
        """Those on which the golden values are to be compared (scripts/test-architectures)."""
        return ["aarch64", "ppc64le"] if "qemu" in self.setups() else []

    def text_of(self, test: Test) -> str:
        texts = []
        for source in test.sources:
            if source not in self.files.texts:
                self.files.texts[source] = (self.root / source).read_text(encoding="utf-8", errors="replace")
            texts.append(self.files.texts[source])
        return "\n".join([test.name, *sorted(test.sources), *texts])

    def names(self, test: Test) -> bool:
        """Whether a test names a page or a script that changed, or walks over all such pages."""
        if any(script.replace("-", "_") in test.name for script in self.scripts):
            return True
        if not self.named:
            return False
        text = self.text_of(test)
        folders = {page.split("/")[0] for page in self.pages}
        return bool(self.named.search(text)) or any(match[1] in folders for match in rules.WALKS.finditer(text))

    def reason(self, test: Test, long: bool, in_turn: bool) -> str:
        """Why a test runs; nothing where it does not."""
        if self.unforeseen and not long:
            return EVERYTHING
        if test.folder in self.tests or test.sources & self.test_files:
            return TOUCHED
        if self.scripts or self.pages:
            if self.names(test):
                return NAMES
        about = bool(self.about and self.about.search(test.name))
        program = test.folder == "python" or any(source.endswith(".py") for source in test.sources)  # of the whole one
        if about and program:
            return TOUCHED
        own = {test.folder} if test.folder in self.graph else self.files.rooms.get(test.folder, set())
        if test.folder != "python" and own & self.rooms:
            return TOUCHED
        if (about or not long) and self.reaches(test, program):
            return INCLUDES
        return IN_TURN if in_turn else ""

    def reaches(self, test: Test, program: bool) -> bool:
        """Whether what a test includes or calls includes what was touched."""
        reached = self.rooms | self.users
        if test.folder in self.graph:
            rooms = self.files.rooms_of(test.sources) | {test.folder}
        elif test.folder in self.files.rooms:
            rooms = set(self.files.rooms[test.folder])
        else:  # of bench/, or of a place that nobody foresaw
            return bool(reached) or any(re.match(r"bench/[^/]+$", page) for page in self.pages)
        if program or test.folder in rules.WHOLE_PROGRAM:
            rooms |= {"cli", "extension"}
        return bool(rooms & reached)


def select(change: Change, tests: Iterable[Test], long: list[str], commits: int) -> dict[Test, str]:
    """The tests that run, and why. `long`: patterns of names in the order of tests/long.txt; `commits`: whose turn it is."""
    patterns = [re.compile(pattern) for pattern in long]
    chosen = {}
    for test in tests:
        place = next((i for i, pattern in enumerate(patterns) if pattern.fullmatch(test.name)), None)
        turn = test.number if place is None else place
        if why := change.reason(test, place is not None, (turn - commits) % rules.PARTS == 0):
            chosen[test] = why
    return chosen
