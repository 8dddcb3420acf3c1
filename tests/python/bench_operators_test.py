"""scripts/bench-operators measures what it is asked for, and says so where nothing is."""

import json
import os
import subprocess
import sys
import unittest

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

    def test_a_name_of_no_row(self):
        done = run("maxpool")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no row has maxpool in its name", done.stderr)


if __name__ == "__main__":
    unittest.main()
