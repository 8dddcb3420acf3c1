"""tests/study/oracle.jsonl is what SciPy and statsmodels say today: nobody wrote the answers by hand."""
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"])


@unittest.skipUnless(importlib.util.find_spec("scipy") and importlib.util.find_spec("statsmodels"),
                     "needs SciPy and statsmodels: scripts/setup --tests")
class Oracle(unittest.TestCase):
    def test_kept_answers_are_those_of_the_libraries(self):
        made = subprocess.run([sys.executable, ROOT / "scripts/study-oracle"], capture_output=True, text=True, check=True).stdout
        kept = (ROOT / "tests/study/oracle.jsonl").read_text(encoding="utf-8")
        new, old = ([json.loads(line) for line in text.splitlines()] for text in (made, kept))
        self.assertEqual(len(new), len(old))
        for a, b in zip(new, old, strict=True):
            values = [case.pop("value") if isinstance(case["value"], list) else [case.pop("value")] for case in (a, b)]
            tolerance = max(a.pop("tolerance"), b.pop("tolerance"), 1e-12)
            self.assertEqual(a, b)
            for x, y in zip(*values, strict=True):
                self.assertTrue(math.isclose(x, y, rel_tol=tolerance, abs_tol=tolerance), (a, x, y))


if __name__ == "__main__":
    unittest.main()
