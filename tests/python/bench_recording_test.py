"""isobit bench recording: masks as targets, and Ctrl-C, which leaves nothing in the folder for temporary files."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["ISOBIT_PROGRAM"]


class BenchRecording(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, *options):
        environment = dict(os.environ, TMPDIR=self.folder)
        return subprocess.Popen(
            [PROGRAM, "bench", "recording", *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def test_a_network_whose_targets_are_masks(self):
        process = self.start("--models", "unet", "--rounds", "1", "--json")
        printed, errors = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 0, errors)
        (row,) = json.loads(printed)["rows"]
        self.assertEqual(row["model"], "unet")
        self.assertGreater(row["plain_ms"], 0)
        self.assertGreater(row["recorded_ms"], 0)
        self.assertEqual(os.listdir(self.folder), [])

    def test_ctrl_c_leaves_nothing(self):
        process = self.start("--models", "lenet5", "--rounds", "100000")
        self.addCleanup(process.kill)
        while not os.listdir(self.folder):
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=600)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
