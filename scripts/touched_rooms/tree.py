"""Reads the repository: which commits are new, what they changed, which rooms include which, what uses a file of tests/."""

import json
import pathlib
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator

from touched_rooms.rules import ROOM, TEST_FILE, TEST_FOLDER

EIGHT_HOURS = 8 * 3600
CODE = (".py", ".cpp", ".h", ".cu", ".c", ".transcript")


def git(root: pathlib.Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, text=True).stdout


def base_of(root: pathlib.Path, given: str) -> str | None:
    """The commit before the submission; None where that cannot be told.

    Where HEAD is ahead of origin/main, their merge base. Else, as in CI, whose clone has the submission as its main, the newest
    commit after which all are of the last eight hours: a submission is the work of three at most, and a wrong guess runs more.
    """
    if given:
        return git(root, "rev-parse", "--verify", given + "^{commit}").strip()
    head = git(root, "rev-parse", "HEAD").strip()
    words = ["git", "-C", str(root), "merge-base", "HEAD", "origin/main"]
    upstream = subprocess.run(words, check=False, capture_output=True, text=True).stdout.strip()
    if upstream not in ("", head):
        return upstream
    lines = map(str.split, git(root, "log", "--first-parent", "--format=%H %ct").splitlines())
    return before_the_last_hours([(commit, int(date)) for commit, date in lines], time.time())


def before_the_last_hours(commits: list[tuple[str, int]], now: float) -> str | None:
    """Of (commit, its time), the newest first. HEAD's clock may have been ahead, and an old time may follow a new one."""
    since = min(commits[0][1], now) - EIGHT_HOURS
    last = max((i for i, (_, date) in enumerate(commits) if date >= since), default=0)
    return commits[last + 1][0] if last + 1 < len(commits) else None


def changed_files(root: pathlib.Path, base: str) -> list[str]:
    return sorted({*git(root, "diff", "--name-only", "--no-renames", base).split("\n"),
                   *git(root, "ls-files", "--others", "--exclude-standard").split("\n")} - {""})


def room_of(path: str) -> str | None:
    """The room of a source file; None for anything else."""
    found = ROOM.match(path)
    return found[1] if found else "python" if path.startswith("python/") else None


def named_rooms(text: str) -> set[str]:
    return set(re.findall(r'^#include "([a-z_]+)/', text, re.M))


def includes(root: pathlib.Path) -> dict[str, set[str]]:
    """By room, the rooms that its sources include."""
    graph: dict[str, set[str]] = {}
    for path in [*root.glob("src/*/**/*"), *root.glob("apps/*/**/*")]:
        room = room_of(path.relative_to(root).as_posix())
        if room and path.suffix in (".cpp", ".h", ".cu") and path.is_file():
            graph.setdefault(room, set()).update(named_rooms(path.read_text(encoding="utf-8")) - {room})
    graph.setdefault("python", set()).add("extension")
    return graph


def dependents(graph: dict[str, set[str]], rooms: Iterable[str]) -> set[str]:
    """The rooms that include one of these, directly or not; without these."""
    rooms = set(rooms)
    found, more = set(rooms), True
    while more:
        new = {room for room, uses in graph.items() if room not in found and uses & found}
        found |= new
        more = bool(new)
    return found - rooms


def components(root: pathlib.Path) -> dict[str, str]:
    """By name, the folder (CMakeLists.txt)."""
    text = (root / "CMakeLists.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^isobit_component\(ISOBIT_KNOWN ([a-z_-]+) \S*?((?:apps|src)/[a-z_]+)\)", text, re.M))


class TestFiles:
    """The sources of tests/, and which of them name which."""

    def __init__(self, root: pathlib.Path):
        self.texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8", errors="replace")
                      for path in root.glob("tests/*/**/*")
                      if (path.suffix in CODE or path.name == "CMakeLists.txt") and path.is_file()}
        self.rooms: dict[str, set[str]] = {}  # by folder, the rooms that its tests include
        self.tested = set()  # folders with tests of their own
        for path, text in self.texts.items():
            folder = path.split("/")[1]
            self.rooms.setdefault(folder, set()).update(named_rooms(text))
            if TEST_FILE.search(path):
                self.tested.add(folder)

    def rooms_of(self, files: Iterable[str]) -> set[str]:
        """The rooms that these include."""
        return set().union(*(named_rooms(self.texts[file]) for file in files if file in self.texts))

    def users(self, file: str) -> set[str]:
        """Files that name this one: by its stem where they lie beside it or link what it is compiled to, else by its path."""
        folder, name = file.split("/")[1], pathlib.PurePath(file).name
        stem = re.compile(rf"\b{re.escape(pathlib.PurePath(file).stem)}\b") if file.endswith(CODE) else None
        is_test = bool(TEST_FILE.search(file))  # which its folder names to run it; nobody links it

        def uses(path: str, text: str) -> bool:
            beside, builds = path.split("/")[1] == folder, path.endswith("CMakeLists.txt")
            if builds and is_test:
                return False
            if stem and (beside or (builds and file.endswith(".cpp"))) and stem.search(text):
                return True
            return f"{folder}/{name}" in text

        return {path for path, text in self.texts.items() if path != file and uses(path, text)}

    def reached(self, files: Iterable[str]) -> tuple[set[str], set[str]]:
        """Folders of which every test may change its result, and files of tests that may."""
        whole: set[str] = set()
        seen: set[str] = set()
        left = list(files)
        while left:
            file = left.pop()
            if file in seen:
                continue
            seen.add(file)
            folder = file.split("/")[1]
            users = set() if file.endswith("CMakeLists.txt") else self.users(file)
            left += users
            if file.endswith("CMakeLists.txt") or not file.endswith(CODE) or not (users or TEST_FILE.search(file)):
                if folder not in whole and folder not in self.tested:  # a library of tests, such as tests/golden
                    named = re.compile(rf"\b{folder}/|\bisobit_{folder}_")
                    left += [path for path, text in self.texts.items() if named.search(text) and path.split("/")[1] != folder]
                whole.add(folder)
        return whole, {file for file in seen if file in self.texts}


class Test:
    """A test as ctest knows it: its number, its name, its folder in tests/, the sources that it runs."""

    def __init__(self, number: int, name: str, folder: str, sources: Iterable[str] = ()):
        self.number, self.name, self.folder, self.sources = number, name, folder, set(sources)


def known_to_ctest(build: str) -> dict:
    """Asked from a folder of its own: in the build's ctest would write over the log of a run that is under way."""
    with tempfile.TemporaryDirectory() as folder:
        below = f'subdirs("{pathlib.Path(build).resolve()}")\n'
        (pathlib.Path(folder) / "CTestTestfile.cmake").write_text(below, encoding="utf-8")
        words = ["ctest", "--test-dir", folder, "--show-only=json-v1"]
        return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def tests_of(root: pathlib.Path, build: str) -> Iterator[Test]:
    given = known_to_ctest(build)
    graph = given["backtraceGraph"]
    built = pathlib.Path(build).resolve()

    def inside(path: str) -> str:
        for above in (built, root):
            if path.startswith(f"{above}/"):
                return path[len(str(above)) + 1:]
        return ""

    for number, test in enumerate(given["tests"], 1):
        labels = [value for entry in test.get("properties", []) if entry["name"] == "LABELS" for value in entry["value"]]
        command = test.get("command", [])
        places = [graph["files"][graph["nodes"][test["backtrace"]]["file"]]] if "backtrace" in test else []
        found = next((m[1] for place in [*places, *command[:1]] if (m := TEST_FOLDER.match(inside(place)))), None)
        folder = found or (labels[0] if labels else "")
        sources = {inside(word) for word in command} & {path for path in map(inside, command) if path and (root / path).is_file()}
        if program := TEST_FOLDER.match(inside(command[0]) if command else ""):
            own = f"tests/{folder}/{pathlib.PurePath(command[0]).name.removeprefix(program[1] + '_')}.cpp"
            sources |= {own} if (root / own).is_file() else {
                path.relative_to(root).as_posix() for path in root.glob(f"tests/{folder}/*_test.cpp")}
        yield Test(number, test["name"], folder, sources)
