"""The example: the same weights whatever the threads, the instruction set and the workers that load."""

import os
import pathlib
import tempfile
import unittest

from cases import Case, run_python

SCRIPT = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"]) / "examples" / "python" / "mnist.py"


def weights(before="", threads=1, workers=0, seed=1):
    program = f"""
import runpy, sys
import isobit
{before}
sys.argv = ["mnist.py", "--count", "192", "--workers", "{workers}", "--seed", "{seed}"]
runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
"""
    return run_python(program, OMP_NUM_THREADS=str(threads)).splitlines()[-1]


class Example(Case):
    def test_same_weights(self):
        if not pathlib.Path("/usr/share/datasets/fashion-mnist").exists():
            self.skipTest("Debian's dataset-fashion-mnist is not installed")
        expected = weights()
        self.assertRegex(expected, "^weights isobit-[0-9.]+:[0-9a-f]{32}$")
        self.assertEqual(weights(before="isobit.enable(isa='reference')", threads=3, workers=2), expected)
        self.assertNotEqual(weights(seed=2), expected)

    def test_trainer_with_hooks(self):
        def lines(threads, *arguments):
            program = f"""
import runpy, sys
sys.argv = ["lightning_style.py", "--epochs", "2", "--runs", sys.argv[1], *{arguments!r}]
runpy.run_path({str(SCRIPT.with_name("lightning_style.py"))!r}, run_name="__main__")
"""
            with tempfile.TemporaryDirectory() as runs:
                return run_python(program.replace("sys.argv[1]", repr(runs)), OMP_NUM_THREADS=str(threads)).splitlines()

        expected = lines(1)
        self.assertRegex(expected[-1], "^weights isobit-[0-9.]+:[0-9a-f]{32}$")
        self.assertEqual(lines(3, "--workers", "2"), expected)


if __name__ == "__main__":
    unittest.main()
