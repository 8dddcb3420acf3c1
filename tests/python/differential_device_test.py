"""scripts/differential on a device: it finds nothing in some programs, and a wrong bit of the device's alone.

On the emulated device; ISOBIT_EMULATED names the library.
"""

import os
import pathlib
import runpy
import sys
import unittest
from unittest import mock

SCRIPTS = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"]) / "scripts"
sys.path.insert(0, str(SCRIPTS))
from op_samples import emulated  # noqa: E402

emulated.install(os.environ["ISOBIT_EMULATED"])

import torch  # noqa: E402

from differential_runs import programs  # noqa: E402

DIFFERENTIAL = runpy.run_path(str(SCRIPTS / "differential"))
ISAS = DIFFERENTIAL["available_isas"]()[-1:]


def report(seeds):
    return DIFFERENTIAL["run"](seeds, float("inf"), ISAS, False, "cuda:0")


class OnDevice(unittest.TestCase):
    def test_programs_agree(self):
        found = report(range(60))
        self.assertEqual((found["failed"], found["refused"], found["executions"]), ({}, 0, 60 * len(list(DIFFERENTIAL["ways"](ISAS, "cuda:0")))))

    def test_a_bit_of_the_device_alone(self):
        wrong = programs.unary(lambda x: torch.exp(x) * (1 + 2**-23 if x.is_cuda else 1))
        with mock.patch.dict(programs.OPERATORS, {"exp": wrong}):
            failed = report([seed for seed in range(200) if "exp" in programs.Program(seed).names])["failed"]
        self.assertGreater(len(failed), 5)
        for outcomes in failed.values():
            self.assertIn(["cuda:0"], [[how.partition(",")[0] for how in hows] for hows in outcomes.values()])


if __name__ == "__main__":
    unittest.main()
