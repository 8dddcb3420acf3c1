"""isobit bench --save and scripts/saved_rows.py append the same kind of row to one file, and refuse another file."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

SOURCE = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"])
PROGRAM = os.environ["ISOBIT_PROGRAM"]
with unittest.mock.patch.object(sys, "path", [str(SOURCE / "scripts"), *sys.path]):
    import saved_rows


class SavedRows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "rows.jsonl"

    def bench(self, *words, file=None):
        return subprocess.run([PROGRAM, "bench", *words, "--save", file or self.file], capture_output=True, text=True, check=False)

    def operators(self, *words):
        return subprocess.run([sys.executable, "-W", "ignore", SOURCE / "scripts/bench-operators", *words, "--save", self.file],
                              capture_output=True, text=True, check=False)

    def script_rows(self):
        return saved_rows.SavedRows(self.file, "operator", "scripts/some", {"torch": "2"})

    def test_every_kind_of_row_of_the_program(self):
        for words, figures in ((["ops", "--filter", "mm 64x64x64"], ["stock_ms", "isobit_ms", "ratio", "spread", "median_of_ratios"]),
                               (["step", "--models", "mlp"], ["stock_ms", "isobit_ms", "ratio", "spread", "bound_ms"]),
                               (["profile", "--models", "mlp"], ["stock_ms", "isobit_ms"]),
                               (["memory", "--models", "mlp"], ["stock_mib", "isobit_mib", "ratio"]),
                               (["recording", "--models", "mlp"], ["plain_ms", "recorded_ms", "share", "spread"])):
            before = len(saved_rows.read(self.file)) if self.file.exists() else 0
            done = self.bench(*words, "--rounds", "1", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            printed, rows = json.loads(done.stdout)["rows"], saved_rows.read(self.file)[before:]
            self.assertEqual(len(rows), len(printed))
            for row, shown in zip(rows, printed, strict=True):
                self.assertEqual({key: row[key] for key in shown}, shown)  # what is printed, and what it is of:
                self.assertLessEqual({"format", "what", "command", "date_utc", "commit", "peers", "machine", "variables", "waited"}, set(row))
                self.assertLessEqual({"model", "threads", "isa", *figures}, set(row))
                self.assertEqual(row["what"], words[0])
                self.assertTrue(row["command"].startswith(f"isobit bench {words[0]} "), row["command"])
                self.assertEqual(words[0] == "memory", "rounds" not in row)
        self.assertIsNone(next(row for row in saved_rows.read(self.file) if row["what"] == "memory")["waited"])

    def test_scripts_say_the_same_of_the_machine_and_take_turns_with_the_program(self):
        self.assertEqual(self.operators("copysign", "--rounds", "2").returncode, 0)
        self.assertEqual(self.bench("ops", "--filter", "mm 64x64x64", "--rounds", "1").returncode, 0)
        self.assertEqual(self.operators("copysign", "--rounds", "1", "--isa", "reference").returncode, 0)
        ours, program, last = saved_rows.read(self.file)
        for key in ("machine", "variables", "peers"):
            self.assertEqual(ours[key], program[key])
        self.assertEqual((ours["model"], ours["what"], ours["kind"]), ("copysign", "operator", "inference"))
        self.assertEqual(ours["command"], "scripts/bench-operators copysign --threads 1 --rounds 2")
        self.assertEqual(last["isa"], "reference")
        self.assertTrue(0 <= ours["waited"] < 1)
        self.assertLessEqual(ours["lowest"], ours["ratio"])

    def test_another_file_is_refused_with_place_and_remedy_and_kept(self):
        self.file.write_text('{"format": "isobit-bench-1"}\n')
        for done in (self.bench("step"), self.operators()):
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(f"{self.file}:1: no row that isobit bench saved", done.stderr)
            self.assertIn("--save bench/results/NAME.jsonl", done.stderr)
        self.assertEqual(self.file.read_text(), '{"format": "isobit-bench-1"}\n')
        self.assertIn("no such folder", self.bench("ops", file=self.folder / "missing/rows.jsonl").stderr)
        self.assertEqual(self.bench("ops", file=self.folder).returncode, 2)

    def test_half_a_line_is_refused(self):
        self.script_rows().append({"model": "a"}, 0.5)
        whole = self.file.read_text()
        self.file.write_text(whole + whole[:-1])
        self.assertRaisesRegex(saved_rows.SavedRowsError, ":2: the line has no end", self.script_rows)
        self.assertIn(f"{self.file}:2: the line has no end", self.bench("ops").stderr)

    def test_a_row_that_does_not_fit_is_taken_back(self):
        rows = self.script_rows()
        rows.append({"model": "a"}, None)
        before = self.file.read_bytes()
        write = os.write
        with unittest.mock.patch("os.write", lambda descriptor, line: write(descriptor, line[:50])):
            self.assertRaisesRegex(saved_rows.SavedRowsError, "no space", rows.append, {"model": "b"}, None)
        self.assertEqual(self.file.read_bytes(), before)

    def test_a_figure_may_not_take_the_name_of_what_all_rows_have(self):
        self.assertRaises(ValueError, self.script_rows().append, {"machine": "mine"}, None)

    def test_a_path_in_a_variable_is_not_told(self):
        with unittest.mock.patch.dict(os.environ, {"TZ": "/home/somebody/zone", "MKL_CBWR": "AVX2"}):
            said = saved_rows.variables()
        self.assertEqual((said["TZ"], said["MKL_CBWR"]), ("(a path)", "AVX2"))


if __name__ == "__main__":
    unittest.main()
