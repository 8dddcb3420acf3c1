"""What scripts/touched says a change needs: on made-up trees, and on this one."""

import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"])


def load():
    path = str(SOURCE / "scripts" / "touched")
    loader = importlib.machinery.SourceFileLoader("touched", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("touched", loader))
    loader.exec_module(module)
    return module


touched = load()
LONG = [f"kernels_long{i}" for i in range(8)] + ["slurm_local"]


def tree(folder, files):
    for name, text in files.items():
        path = pathlib.Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return pathlib.Path(folder)


class MadeUp(unittest.TestCase):
    """kernels <- train <- cli, and slurm <- cli; a component eeg that includes train."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = tree(folder.name, {
            "CMakeLists.txt": "isobit_component(ISOBIT_KNOWN eeg ${PROJECT_SOURCE_DIR}/apps/eeg)\n",
            "src/kernels/a.cpp": '#include "kernels/a.h"\n', "src/train/a.cpp": '#include "kernels/a.h"\n', "src/slurm/a.cpp": "",
            "src/cli/a.cpp": '#include "train/a.h"\n#include "slurm/a.h"\n', "apps/eeg/a.cpp": '#include "train/a.h"\n',
            "tests/kernels/a.cpp": "", "tests/python/a.py": "", "tests/long.txt": ""})

    def change(self, *files):
        return touched.Change(self.root, files)

    def runs(self, change, commits=0):
        tests = [(i, *test) for i, test in enumerate([("A.a", "kernels"), ("B.b", "train"), ("C.c", "slurm"), ("D.d", "cli"), ("E.e", "eeg"),
                 ("python_slurm_test", "python"), ("python_other_test", "python"), *((name, name.split("_")[0]) for name in LONG)], 1)]
        return {name for _, name, _ in touched.select(change, tests, LONG, commits)}

    def test_a_room_and_those_that_include_it(self):
        change = self.change("src/train/a.cpp")
        self.assertEqual((change.rooms, change.users), ({"train"}, {"cli", "eeg"}))
        self.assertLessEqual({"B.b", "E.e"}, self.runs(change))
        in_turn = [self.runs(change, commits) - {"B.b", "E.e"} for commits in range(8)]
        self.assertEqual(set().union(*in_turn), {"A.a", "C.c", "D.d", "python_slurm_test", "python_other_test", *LONG})  # all have their turn
        self.assertLess(max(map(len, in_turn)), 5)

    def test_long_tests_of_a_touched_room_run_whole(self):
        self.assertLessEqual(set(LONG[:8]), self.runs(self.change("src/kernels/a.cpp")))

    def test_slurm_brings_its_packages(self):
        change = self.change("src/slurm/a.cpp")
        self.assertEqual((change.setups(), change.components), (["slurm"], []))
        self.assertLessEqual({"C.c", "slurm_local", "python_slurm_test"}, self.runs(change))

    def test_components_are_built_where_they_are_touched(self):
        for file, built in (("src/slurm/a.cpp", []), ("docs/a.md", []), ("apps/eeg/a.cpp", ["eeg"]), ("src/kernels/a.cpp", ["eeg"])):
            self.assertEqual(self.change(file).components, built, file)

    def test_pages_run_few(self):
        change = self.change("docs/a.md", "README.md")
        self.assertEqual((change.rooms, change.unforeseen, change.setups()), (set(), [], []))
        self.assertLess(len(self.runs(change)), 6)

    def test_what_nobody_foresaw_runs_everything(self):
        for file in ("new/a.cpp", "CMakeLists.txt", "cmake/a.cmake", ".ci/run", "scripts/test", "scripts/touched", "tests/CMakeLists.txt"):
            change = self.change(file)
            self.assertEqual((change.unforeseen, change.setups(), change.components), ([file], ["pages", "slurm"], ["eeg"]), file)
            self.assertLessEqual({"A.a", "B.b", "C.c", "D.d", "E.e", "python_slurm_test", "python_other_test"}, self.runs(change), file)

    def test_a_room_that_was_removed_is_no_room(self):
        self.assertEqual(self.change("src/old/a.cpp").rooms, set())


class ThisTree(unittest.TestCase):
    def test_the_contract_touches_every_room(self):
        change = touched.Change(SOURCE, ["src/contract/chains.h"])
        rooms = {path.name for path in (SOURCE / "src").iterdir() if path.is_dir()} | {"python"}
        self.assertEqual(change.rooms | change.users, rooms)

    def test_arrows_run_one_way(self):
        graph = {room: set(uses) for room, uses in touched.includes(SOURCE).items()}
        while ground := {room for room, uses in graph.items() if not uses & graph.keys()}:
            graph = {room: uses for room, uses in graph.items() if room not in ground}
        self.assertEqual(graph, {})  # rooms that include each other in a circle, and those above them

    def test_a_base_that_is_none_is_refused(self):
        done = subprocess.run([SOURCE / "scripts" / "touched", "--base", "nothing-of-this-name"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing-of-this-name", done.stderr)


if __name__ == "__main__":
    unittest.main()
