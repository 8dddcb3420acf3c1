"""The recipe of docs/guides/large-batch.md: examples/large-batch runs, and a training with LARS is verified, killed, resumed."""

import glob
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAM, SOURCES = os.environ["ISOBIT_PROGRAM"], pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"])
SMALL = ["--set", "epochs=1", "--set", "data.train_limit=6000", "--set", "data.test_limit=500"]
LARS = [PROGRAM, "run", str(SOURCES / "examples/fashion-large-batch.toml"), *SMALL, "--set", "batch=1000"]


class LargeBatch(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="isobit-test-")
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def done(self, *command, code=0):
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder, timeout=300,
                              env={**os.environ, "XDG_CACHE_HOME": f"{self.folder}/cache"})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def test_the_four_trainings(self):
        printed = self.done(str(SOURCES / "examples/large-batch"), *SMALL, "--runs", "runs", "--threads", "2")
        names = ["small-batch", "scaled-rate", "scaled-rate-warm-up", "lars-warm-up"]
        self.assertEqual(re.findall(r"^== (.*)$", printed, re.M), names)
        weights = re.findall(r"^weights (.*)$", printed, re.M)
        self.assertEqual(len(set(weights)), 4, printed)
        guide = (SOURCES / "docs/guides/large-batch.md").read_text()
        for name in names:
            self.assertIn(f"| `{name}` |", guide)

    def test_lars_is_verified_killed_and_resumed(self):
        weights = self.done(*LARS, "--runs", "whole", "--threads", "2").splitlines()[-1]
        whole = glob.glob(f"{self.folder}/whole/2*")[0]
        verified = self.done(PROGRAM, "verify", whole, "--threads", "1", "--isa", "reference", "--grain-order", "shuffled")
        self.assertIn("identical", verified)
        process = subprocess.Popen([*LARS, "--runs", "killed", "--set", "checkpoint.every=1"], cwd=self.folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not glob.glob(f"{self.folder}/killed/2*/checkpoints/step-*"):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.assertNotEqual(process.returncode, 0)
        killed = glob.glob(f"{self.folder}/killed/2*")[0]
        resumed = self.done(PROGRAM, "run", "--resume", killed, "--runs", "killed", "--grain-order", "shuffled")
        self.assertEqual(resumed.splitlines()[-1], weights)

    def test_another_coefficient_is_noticed(self):
        """Or the comparisons could not fail."""
        weights = self.done(*LARS, "--runs", "one").splitlines()[-1]
        self.assertNotEqual(self.done(*LARS, "--runs", "other", "--set", "optimizer.eta=0.021").splitlines()[-1], weights)


if __name__ == "__main__":
    unittest.main()
