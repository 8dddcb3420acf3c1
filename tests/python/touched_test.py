"""What scripts/touched says a change needs: on made-up trees, and on this one."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

SOURCE = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "scripts"))
from touched_rooms import minutes  # noqa: E402
from touched_rooms.choice import Change, select  # noqa: E402
from touched_rooms.tree import Test, base_of, before_the_last_hours, includes  # noqa: E402

LONG = ["kernels_long[0-9]", "train_command", "slurm_local", "python_record_test"]
HOUR = 3600


def tree(folder, files):
    for name, text in files.items():
        path = pathlib.Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return pathlib.Path(folder)


class MadeUp(unittest.TestCase):
    """kernels <- train <- cli, and slurm <- cli; a component eeg that includes train; tests/fuzz, no room, reads what train does."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = tree(folder.name, {
            "CMakeLists.txt": "isobit_component(ISOBIT_KNOWN eeg ${PROJECT_SOURCE_DIR}/apps/eeg)\nisobit_component(ISOBIT_KNOWN slide apps/slide)\n",
            "src/kernels/a.cpp": '#include "kernels/a.h"\n', "src/train/a.cpp": '#include "kernels/a.h"\n', "src/slurm/a.cpp": "",
            "src/cli/a.cpp": '#include "train/a.h"\n#include "slurm/a.h"\n', "apps/eeg/a.cpp": '#include "train/a.h"\n',
            "apps/slide/a.cpp": '#include "eeg/a.h"\n', "python/isobit/_proof/a.py": "", "python/isobit/_base/a.py": "",
            "tests/kernels/a_test.cpp": '#include "golden/values.h"\n', "tests/train/a_test.cpp": '#include "helper.h"\n',
            "tests/train/b_test.cpp": '#include "slurm/a.h"\n', "tests/train/CMakeLists.txt": "a_test b_test", "tests/train/helper.h": "", "tests/golden/values.h": "", "tests/golden/values.txt": "",
            "tests/fuzz/a_test.cpp": '#include "train/a.h"\n', "tests/python/slurm_test.py": "", "tests/python/other_test.py": "import cases\n",
            "tests/python/cases.py": "", "tests/python/record_test.py": '["run", "train"]', "tests/long.txt": "",
            "tests/python/pages_test.py": 'open("docs/page.md")', "tests/python/rows_test.py": "bench/results", "scripts/small-check": "", "scripts/instructions": "",
            "tests/python/check_test.py": "scripts/small-check"})
        named = [("Kernels.A", "kernels", "tests/kernels/a_test.cpp"), ("Train.A", "train", "tests/train/a_test.cpp"),
                 ("Train.B", "train", "tests/train/b_test.cpp"), ("Slurm.A", "slurm", ""), ("Cli.A", "cli", ""), ("Eeg.A", "eeg", ""),
                 ("Fuzz.A", "fuzz", "tests/fuzz/a_test.cpp"), ("kernels_long1", "kernels", ""), ("train_command", "train", ""),
                 ("slurm_local", "slurm", ""), ("instructions", "", "scripts/instructions")]
        named += [(f"python_{path.stem}", "python", f"tests/python/{path.name}") for path in sorted(self.root.glob("tests/python/*_test.py"))]
        self.python = {name for name, folder, _ in named if folder == "python"} - set(LONG)
        self.all = [Test(i, name, room, [source] if source else []) for i, (name, room, source) in enumerate(named, 1)]

    def change(self, *files):
        return Change(self.root, files)

    def runs(self, *files, commits=None):
        """What runs whoever's turn it is; with a number of commits, what runs then."""
        change = self.change(*files)
        turns = range(8) if commits is None else [commits]
        return set.intersection(*({test.name for test in select(change, self.all, LONG, turn)} for turn in turns))

    def test_a_room_and_those_that_include_it(self):
        change = self.change("src/train/a.cpp")
        self.assertEqual((change.rooms, change.users), ({"train"}, {"cli", "eeg", "slide"}))
        self.assertEqual(self.runs("src/train/a.cpp"), {"Train.A", "Train.B", "train_command", "Cli.A", "Eeg.A", "Fuzz.A", "instructions"} | self.python)

    def test_of_the_longest_those_of_the_room_itself(self):
        self.assertEqual(self.runs("src/kernels/a.cpp"), {test.name for test in self.all} - {
            "Slurm.A", "slurm_local", "train_command", "python_record_test"})

    def test_all_others_have_their_turn(self):
        turns = [self.runs("docs/other.md", commits=commits) for commits in range(8)]
        self.assertEqual(set().union(*turns), {test.name for test in self.all})
        self.assertLess(max(map(len, turns)), 5)

    def test_slurm_brings_its_packages(self):
        change = self.change("src/slurm/a.cpp")
        self.assertEqual((change.setups(), change.components, change.architectures()), (["slurm"], [], []))
        self.assertEqual(self.runs("src/slurm/a.cpp"), {"Slurm.A", "slurm_local", "Cli.A", "Train.B", "instructions"} | self.python)

    def test_packages_of_rooms_scripts_and_tests(self):
        for file, setups in (("src/kernels/a.cpp", ["qemu"]), ("tests/golden/values.txt", ["qemu"]), ("scripts/slurm-local", ["slurm"]),
                             ("src/train/a.cpp", []), ("docs/page.md", [])):
            self.assertEqual(self.change(file).setups(), setups, file)
            self.assertEqual(self.change(file).architectures(), ["aarch64", "ppc64le"] if "qemu" in setups else [], file)
        self.assertTrue(self.change("cmake/CompilerSettings.cmake").architectures())

    def test_components_are_built_where_one_is_touched(self):
        both = ["eeg", "slide"]
        for file, built in (("src/slurm/a.cpp", []), ("src/kernels/a.cpp", []), ("docs/a.md", []), ("apps/slide/a.cpp", ["slide"]),
                            ("apps/eeg/a.cpp", both), ("apps/eeg/CMakeLists.txt", both), ("cmake/a.cmake", both)):
            self.assertEqual(self.change(file).components, built, file)
        self.assertIn("Eeg.A", self.runs("apps/eeg/a.cpp"))

    def test_a_file_of_tests_runs_what_uses_it(self):
        for file, runs in (("tests/train/a_test.cpp", {"Train.A"}), ("tests/train/helper.h", {"Train.A"}),
                           ("tests/golden/values.h", {"Kernels.A"}), ("tests/golden/values.txt", {"Kernels.A"}), ("tests/python/cases.py", {"python_other_test"}),
                           ("tests/python/record_test.py", {"python_record_test"}),
                           ("tests/train/CMakeLists.txt", {"Train.A", "Train.B", "train_command"}),
                           ("tests/fuzz/corpus/one", {"Fuzz.A"})):
            self.assertEqual(self.runs(file), runs, file)

    def test_a_package_of_the_python_package(self):
        python = {test.name for test in self.all if test.folder == "python"}
        self.assertEqual(self.runs("python/isobit/_proof/a.py") & python, python - {"python_record_test"})
        self.assertEqual(self.runs("python/isobit/_base/a.py") & python, python)

    def test_pages_and_scripts_run_what_reads_them(self):
        self.assertEqual(self.runs("docs/page.md"), {"python_pages_test"})
        self.assertEqual(self.runs("bench/instructions.cpp"), {"instructions"})
        self.assertEqual(self.runs("docs/other.md", "README.md"), set())
        self.assertEqual(self.runs("bench/results/a.jsonl"), {"python_rows_test"})
        self.assertEqual(self.runs("scripts/small-check"), {"python_check_test"})

    def test_what_nobody_foresaw_runs_everything(self):
        short = {test.name for test in self.all} - {"kernels_long1", "train_command", "slurm_local", "python_record_test"}
        for file in ("new/a.cpp", "CMakeLists.txt", "cmake/a.cmake", ".ci/run", "scripts/test", "scripts/touched", "scripts/touched_rooms/a.py",
                     "tests/CMakeLists.txt", "src/CMakeLists.txt", "tests/gone/a.cpp", "pyproject.toml"):
            change = self.change(file)
            self.assertEqual((change.unforeseen, change.setups()), ([file], ["pages", "qemu", "slurm"]), file)
            self.assertEqual(self.runs(file), short, file)


class Bases(unittest.TestCase):
    def test_commits_of_the_last_hours(self):
        now = 100 * HOUR
        days = [("new", now - HOUR), ("first", now - 3 * HOUR), ("before", now - 20 * HOUR), ("root", 0)]
        self.assertEqual(before_the_last_hours(days, now), "before")
        self.assertEqual(before_the_last_hours(days, now + 50 * HOUR), "before")  # looked at later
        self.assertEqual(before_the_last_hours([("ahead", now + 90 * HOUR), *days], now), "before")
        self.assertEqual(before_the_last_hours([days[0], ("copied", now - 40 * HOUR), *days[1:]], now), "before")
        self.assertIsNone(before_the_last_hours(days[:2], now))

    def test_a_branch_ahead_of_its_origin(self):
        with tempfile.TemporaryDirectory() as folder:
            def git(*words):
                who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
                return subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True, text=True).stdout.strip()

            git("init", "--quiet", "--initial-branch=main")
            git("commit", "--quiet", "--allow-empty", "-m", "one")
            first = git("rev-parse", "HEAD")
            self.assertIsNone(base_of(folder, ""))
            git("update-ref", "refs/remotes/origin/main", first)
            git("commit", "--quiet", "--allow-empty", "-m", "two")
            self.assertEqual(base_of(folder, ""), first)
            self.assertEqual(base_of(folder, "HEAD"), git("rev-parse", "HEAD"))

    def test_a_base_that_is_none_is_refused(self):
        done = subprocess.run([SOURCE / "scripts" / "touched", "--base", "nothing-of-this-name"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("nothing-of-this-name", done.stderr)


class Minutes(unittest.TestCase):
    def test_by_room_and_what_was_skipped(self):
        cases = xml.etree.ElementTree.ElementTree(xml.etree.ElementTree.fromstring("""<testsuite>
            <testcase name="A.a" time="60" status="run"/><testcase name="A.b" time="30" status="run"/>
            <testcase name="python_b_test" time="30" status="run"/><testcase name="x" time="6" status="run"/>
            <testcase name="C.c" status="notrun"><skipped/><system-out>skipped: root is needed\n</system-out></testcase>
            <testcase name="C.d" status="notrun"><skipped/><system-out>a_test.cpp:7: Skipped\nno AMX\n</system-out></testcase>
            </testsuite>"""))
        self.assertEqual(list(minutes.lines(cases, {"A.a": "train", "A.b": "train", "python_b_test": "python"}))[1:], [
            "     1.5  train (2 tests)", "     0.5  python (1 tests)", "     0.1  others (1 tests)",
            "skipped: no AMX: C.d", "skipped: root is needed: C.c"])


class ThisTree(unittest.TestCase):
    def test_the_contract_touches_every_room(self):
        change = Change(SOURCE, ["src/contract/chains.h"])
        rooms = {path.name for path in (SOURCE / "src").iterdir() if path.is_dir()} | {"python"}
        self.assertEqual(rooms - (change.rooms | change.users), set())
        self.assertTrue(change.architectures())

    def test_golden_values_touch_those_that_compare_them(self):
        change = Change(SOURCE, ["tests/golden/kernels.txt"])
        self.assertLessEqual({"golden", "kernels", "cuda"}, change.tests)
        self.assertIn("tests/train/fingerprint_test.cpp", Change(SOURCE, ["tests/golden/training.txt"]).test_files)

    def test_arrows_run_one_way(self):
        graph = {room: set(uses) for room, uses in includes(SOURCE).items()}
        while ground := {room for room, uses in graph.items() if not uses & graph.keys()}:
            graph = {room: uses for room, uses in graph.items() if room not in ground}
        self.assertEqual(graph, {})  # rooms that include each other in a circle, and those above them

    def test_every_option_of_setup_that_a_room_brings_is_one(self):
        text = (SOURCE / "scripts/setup").read_text(encoding="utf-8")
        for setup in Change(SOURCE, ["new/a"]).setups():
            self.assertIn(f"    --{setup}) packages+=", text)
        done = subprocess.run([SOURCE / "scripts/setup", "--tests", "--none-such"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--none-such", done.stderr)

    def test_a_missing_package_fails_where_it_is_required(self):
        for require, said, code in (("slurm", "slurmd is not installed", 1), ("pages", "slurmd is not installed", 77), ("slurm", "root is needed", 77)):
            with tempfile.TemporaryDirectory() as folder:
                check = tree(folder, {"scripts/slurm-local": f"#!/bin/sh\necho {said}\nexit 3\n"}) / "scripts/slurm-local"
                check.chmod(0o755)
                done = subprocess.run([sys.executable, SOURCE / "tests/slurm/slurm_local_test.py", "isobit", "print", folder],
                                      env={**os.environ, "ISOBIT_REQUIRE": require}, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, code, done.stderr)

    def test_a_person_and_a_program_are_told_the_same(self):
        words = [SOURCE / "scripts/touched", "--base", "HEAD"]
        if subprocess.run(["git", "-C", SOURCE, "rev-parse", "HEAD"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no history here")
        given = json.loads(subprocess.run([*words, "--json"], capture_output=True, text=True, check=True).stdout)
        said = subprocess.run(words, capture_output=True, text=True, check=True).stderr
        self.assertEqual(given["format"], "isobit-touched-1")
        self.assertIn(f"rooms touched: {', '.join(given['rooms']) or 'none'}\n", said)


if __name__ == "__main__":
    unittest.main()
