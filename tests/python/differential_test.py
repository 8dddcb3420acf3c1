"""scripts/differential finds what it is for, and finds nothing in some hundred programs."""

import os
import pathlib
import runpy
import sys
import unittest
from unittest import mock

import torch

SCRIPTS = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"]) / "scripts"
sys.path.insert(0, str(SCRIPTS))
from differential_runs import programs  # noqa: E402

DIFFERENTIAL = runpy.run_path(str(SCRIPTS / "differential"))
ISAS = DIFFERENTIAL["available_isas"]()
EVER_FAILED = [
    3340,  # an infinity under attention's mask: 0 times it is NaN, but stock's fused kernel skips it
    31180,  # the gradient of a normalisation's plain sum is 0: to the bit in stock, a rounding of the mean in isobit
    91600,  # elu's gradient at NaN: NaN in isobit; in stock a number of one element, NaN of many
]


def report(seeds):
    return DIFFERENTIAL["run"](seeds, float("inf"), ISAS, progress=False)


class Differential(unittest.TestCase):
    def test_programs_agree(self):
        for seed in EVER_FAILED:  # each the first of its batch: every twentieth is compared with binary64
            found = report([seed])
            self.assertEqual((found["failed"], found["compared with binary64"]), ({}, 1), seed)
        found = report(range(300))
        self.assertEqual(found["failed"], {})
        self.assertEqual(found["refused"], 0)
        self.assertGreater(len(found["operators"]), 50)

    def planted(self, operator):
        """What a wrong operator leads to, in programs that call it."""
        with mock.patch.dict(programs.OPERATORS, {"exp": programs.unary(operator)}):
            return report([seed for seed in range(600) if "exp" in programs.Program(seed).names])["failed"]

    def test_a_bit_that_depends_on_threads(self):
        failed = self.planted(lambda x: torch.exp(x) * (1 if torch.get_num_threads() < 3 else 1 + 2**-23))
        self.assertGreater(len(failed), 5)

    def test_a_bit_that_depends_on_the_layout(self):
        failed = self.planted(lambda x: torch.exp(x) if x.is_contiguous() else torch.exp(x) * (1 + 2**-23))
        self.assertGreater(len(failed), 5)

    def test_what_is_too_far_off(self):
        failed = self.planted(lambda x: torch.exp(x) * (1.001 if x.dtype == torch.float32 and on() else 1))
        self.assertTrue(any("off by" in str(why) for why in failed.values()), failed)


def on():
    """Whether the switch is on: what nobody has written is NaN then."""
    return bool(torch.empty(1).isnan())


if __name__ == "__main__":
    unittest.main()
