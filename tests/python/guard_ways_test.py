"""docs/guard.md says of every way what scripts/guard-ways finds; a way that leads past the guard is found by it."""

import os
import pathlib
import runpy
import subprocess
import sys
import unittest
from unittest import mock

import torch

SCRIPTS = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"]) / "scripts"
SCRIPT = SCRIPTS / "guard-ways"


class GuardWays(unittest.TestCase):
    def test_the_page_is_true(self):
        done = subprocess.run([sys.executable, "-W", "ignore", SCRIPT, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_leak_is_found(self):
        """Bits of stock's, past the dispatcher: by another number of threads."""
        script = runpy.run_path(str(SCRIPT))
        x = torch.linspace(-1, 1, 1 << 18)
        way = script["ways"].Way("a leak", "covered", "", lambda: torch.from_numpy(x.numpy() * (1 + 2**-23 * torch.get_num_threads())))
        with mock.patch.object(script["ways"], "WAYS", [way]):
            text, _ = script["table"]()
        self.assertIn("LEAK: expected covered", text)


if __name__ == "__main__":
    unittest.main()
