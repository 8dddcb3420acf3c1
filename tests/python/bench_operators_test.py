"""scripts/bench-operators measures what it is asked for, and says so where nothing is."""

import json
import os
import runpy
import subprocess
import sys
import unittest
import unittest.mock

import torch

import isobit

SCRIPT = os.path.join(os.environ["ISOBIT_SOURCE_DIR"], "scripts", "bench-operators")


def run(*arguments):
    return subprocess.run([sys.executable, "-W", "ignore", SCRIPT, *arguments], capture_output=True, text=True, timeout=300, check=False)


class BenchOperators(unittest.TestCase):
    def test_rows_that_are_named(self):
        done = run("copysign", "max_pool3d", "--rounds", "2", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(sorted((row["row"], row["kind"]) for row in rows),
                         [("copysign", "inference"), ("max_pool3d", "inference"), ("max_pool3d", "training")])
        for row in rows:
            self.assertGreater(row["isobit_ms"], 0)
            self.assertLessEqual(row["lowest"], row["ratio"])
            self.assertLessEqual(row["ratio"], row["highest"])

    def test_every_function_that_the_kernels_list(self):
        """By its line in the list; a name that PyTorch lacks, or that is taken apart wrongly, is seen here."""
        with unittest.mock.patch.object(sys, "path", [os.path.dirname(SCRIPT), *sys.path]):  # as of a script that is called
            script = runpy.run_path(SCRIPT)
        rows, listed = list(script["functions"]()), set(script["listed_functions"]())
        self.assertEqual({row[0] for row in rows}, listed - script["OTHER_ARGUMENTS"])
        self.assertGreater(len(rows), 40)
        for name, function, *tensors in rows:
            small = [tensor[:64] for tensor in tensors]
            with self.subTest(name), isobit.enabled():
                self.assertTrue(function(*small).isfinite().all())

    def test_what_is_called_every_day(self):
        """Every row computes under the switch what stock computes, so far as sums in another order may differ."""
        with unittest.mock.patch.object(sys, "path", [os.path.dirname(SCRIPT), *sys.path]):
            script = runpy.run_path(SCRIPT)
        torch.manual_seed(0)
        names = []
        for family in script["EVERYDAY"]:
            for name, function, *tensors in family():
                names.append(name)
                if any(tensor.numel() > 300_000 for tensor in tensors) or "dropout" in name or "rows of 50000" in name:
                    continue
                with self.subTest(name):
                    expected = function(*tensors)
                    with isobit.enabled():
                        torch.testing.assert_close(function(*tensors), expected, rtol=1e-4, atol=1e-4, equal_nan=True)
        self.assertEqual(len(names), len(set(names)))
        self.assertGreater(len(names), 180)

    def test_only_rows_above(self):
        done = run("nan_to_num", "--rounds", "1", "--above", "0.000001")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 rows, geometric mean", done.stderr)
        self.assertEqual(run("nan_to_num", "--rounds", "1", "--above", "1000000").stdout, "")

    def test_a_name_of_no_row(self):
        done = run("maxpool")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no row has maxpool in its name", done.stderr)

    def test_small_programs(self):
        """Each takes its steps under the switch and without it."""
        with unittest.mock.patch.object(sys, "path", [os.path.dirname(SCRIPT), *sys.path]):
            programs = runpy.run_path(SCRIPT)["FAMILIES"]["program"][0]
        for name, build in programs():
            with self.subTest(name):
                step = build()
                step()
                with isobit.enabled():
                    step()
                step()


if __name__ == "__main__":
    unittest.main()
