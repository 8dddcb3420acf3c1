"""The counts in README.md and docs/ are current, and scripts/docs-counts finds and corrects a wrong one; the figure is its data's."""

import json
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"])


def docs_counts(*arguments):
    return subprocess.run([sys.executable, SOURCE / "scripts/docs-counts", *arguments], check=False, capture_output=True, text=True)


class Counts(unittest.TestCase):
    def test_the_pages_are_current(self):
        done = docs_counts("--check")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("<!-- count:overloads -->", (SOURCE / "docs/performance.md").read_text(encoding="utf-8"))

    def test_a_wrong_count_is_named_and_mended_and_an_unknown_one_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            shutil.copytree(SOURCE / "docs", root / "docs")
            shutil.copytree(SOURCE / "tests/golden", root / "tests/golden")
            (root / "tests/fuzz").mkdir()
            shutil.copy(SOURCE / "tests/fuzz/targets.cpp", root / "tests/fuzz")
            page = root / "README.md"
            page.write_text("<!-- count:golden-kernels -->7<!-- /count --> and <!-- count:fail -->x<!-- /count -->\n")
            self.assertIn("no count is named 'fail'", docs_counts("--check", "--root", root).stderr)
            page.write_text("<!-- count:golden-kernels -->7<!-- /count --> values\n")
            done = docs_counts("--check", "--root", root)
            self.assertEqual(done.returncode, 1)
            self.assertIn("golden-kernels is ", done.stderr)
            self.assertIn("the page says 7", done.stderr)
            self.assertEqual(docs_counts("--root", root).returncode, 0)
            self.assertNotIn(">7<", page.read_text())
            # A generated table: rounds count since a target's last finding alone.
            rounds, table = root / "docs/fuzzing.jsonl", root / "docs/fuzzing.md"
            entry = {"date": "2026-01-01", "cpu": "x", "target": "csv", "executions": 6_000_000, "seconds": 60, "edges": 5}
            rounds.write_text("".join(json.dumps(line) + "\n" for line in (entry, entry, {**entry, "findings": 1}, entry)))
            self.assertIn("a generated table is not current", docs_counts("--check", "--root", root).stderr)
            self.assertEqual(docs_counts("--root", root).returncode, 0)
            self.assertIn("| `csv` | 6,000,000 | 1 | 5 | 60 % |", table.read_text())
            rounds.write_text(rounds.read_text() + json.dumps(entry) + "\n")
            docs_counts("--root", root)
            self.assertIn("| `csv` | 12,000,000 | 2 | 5 | met |", table.read_text())
            self.assertEqual(docs_counts("--check", "--root", root).returncode, 0)
            self.assertEqual(docs_counts("--check", "--root", root).returncode, 0)


class Figure(unittest.TestCase):
    def test_the_drawing_is_of_the_measured_data(self):
        images = SOURCE / "docs/images"
        draw = runpy.run_path(str(SOURCE / "scripts/figure-divergence"))["draw"]
        result = json.loads((images / "divergence.json").read_text(encoding="utf-8"))
        self.assertEqual(draw(result), (images / "divergence.svg").read_text(encoding="utf-8"))
        result["isobit"][-1]["distance"][-1] = 1e-9  # a difference would not be drawn as none
        self.assertRaises(AssertionError, draw, result)


if __name__ == "__main__":
    unittest.main()
