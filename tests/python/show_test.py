"""isobit.show and isobit.tables: records in a notebook, without torch."""

import html
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import isobit

PROGRAM = os.environ["ISOBIT_PROGRAM"]


class Show(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """One small run, of isobit's own demonstration images."""
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.runs = cls.folder / "runs"
        experiment = cls.folder / "small.toml"
        experiment.write_text('name = "small"\nseed = 1\nepochs = 1\nbatch = 8\n\n[data]\nformat = "csv"\npath = "."\ntrain = "train.csv"\ntest = "train.csv"\n'
                              '\n[model]\nname = "mlp"\nhidden = [4]\nclasses = 2\n\n[optimizer]\nname = "sgd"\nlr = 0.1\n')
        (cls.folder / "train.csv").write_text("a,b,y\n" + "".join(f"{i % 7},{i % 3},{i % 2}\n" for i in range(64)))
        done = subprocess.run([PROGRAM, "run", experiment, "--runs", cls.runs], cwd=cls.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_show(self):
        page = isobit.show("last", runs=self.runs)
        program = subprocess.run([PROGRAM, "report", "last", "--runs", self.runs, "--redact", "--out", "-"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(page.text, program)  # one writer
        frame = page._repr_html_()
        self.assertTrue(frame.startswith('<iframe title="isobit report" sandbox="allow-scripts"'))
        inside = frame.split('srcdoc="', 1)[1].removesuffix('"></iframe>')
        self.assertNotIn("<", inside)
        self.assertEqual(html.unescape(inside), page.text)
        saved = page.save(self.folder / "page.html")
        self.assertEqual(saved.read_text(encoding="utf-8"), page.text)
        folder = next(path for path in self.runs.iterdir() if not path.name.startswith("."))
        self.assertIn(folder.name, isobit.show(folder).text)

    def test_tables(self):
        tables = isobit.tables("last", runs=self.runs)
        self.assertIn("timings.seconds", tables.claimed)
        steps = tables["steps"]
        self.assertEqual(steps["step"], list(range(1, 9)))
        folder = next(path for path in self.runs.iterdir() if not path.name.startswith("."))
        bits = [json.loads(line)["loss"] for line in (folder / "steps.jsonl").read_text().splitlines()]
        self.assertEqual(steps["loss_bits"], bits)
        self.assertTrue(all(isinstance(loss, float) and math.isfinite(loss) for loss in steps["loss"]))

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "pyarrow is not installed")
    def test_parquet_has_what_the_tables_have(self):
        from pyarrow import parquet
        tables = isobit.tables("last", runs=self.runs)
        tables["steps"]["loss"][0] = math.inf
        files = tables.to_parquet(self.folder / "tables")
        self.assertEqual({file.stem for file in files}, set(tables))
        for file in files:
            read = parquet.read_table(file)
            self.assertEqual(read.to_pydict(), tables[file.stem])
            self.assertEqual(read.schema.metadata[b"isobit.table"].decode(), file.stem)
        steps = parquet.read_table(self.folder / "tables" / "steps.parquet").schema
        self.assertEqual([str(steps.field(name).type) for name in ("step", "loss", "loss_bits")], ["int64", "double", "string"])
        self.assertEqual(list((self.folder / "tables").glob(".*")), [])

    def test_parquet_without_pyarrow_says_what_to_do(self):
        tables, folder = isobit.tables("last", runs=self.runs), self.folder / "none"
        with unittest.mock.patch.dict(sys.modules, {"pyarrow": None}):
            for write in (lambda: tables.to_parquet(folder), lambda: tables["steps"].to_parquet(folder / "steps.parquet")):
                with self.assertRaisesRegex(isobit.RecordError, "needs pyarrow.*\n  do     pip install pyarrow"):
                    write()
        self.assertFalse(folder.exists())

    def test_errors_are_the_program_s(self):
        for call in (lambda: isobit.show("nothing", runs=self.runs), lambda: isobit.tables("nothing", runs=self.runs), lambda: isobit.show("--help"), lambda: isobit.show(7)):
            with self.assertRaisesRegex(isobit.RecordError, "^isobit: "):
                call()

    def test_loads_no_torch(self):
        program = f"import sys, isobit\nisobit.show('last', runs={str(self.runs)!r})\nassert 'torch' not in sys.modules"
        subprocess.run([sys.executable, "-c", program], check=True)


if __name__ == "__main__":
    unittest.main()
