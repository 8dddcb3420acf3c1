#!/usr/bin/env python3
"""--device from outside: runs recorded on one side verify on the other; what is not there is named.

Usage: device_command_line_test.py PROGRAM PROGRAM_ON_FAKE_CUDA [unittest arguments]
"""
import os
import subprocess
import sys
import tempfile
import unittest

PLAIN, FAKE = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.argv.insert(1, PLAIN)
import small_run as common  # noqa: E402  (takes the program from argv)


def isobit(program, *arguments, memory=None):
    environment = dict(os.environ)
    if memory is not None:
        environment["ISOBIT_FAKE_CUDA_MEMORY"] = str(memory)
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300, env=environment, check=False)


class Device(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="isobit-test-")
        cls.scratch = cls.folder.name
        common.make_data(cls.scratch + "/data")
        cls.file = cls.scratch + "/small.toml"
        with open(cls.file, "w") as file:
            file.write(common.EXPERIMENT.format(data=cls.scratch + "/data"))
        cls.few = ["--set", "steps=6"]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_a_run_on_one_side_verifies_on_the_other(self):
        weights = {}
        for name, program, device, other in (("cpu", PLAIN, "cpu", "cuda:0"), ("cuda", FAKE, "cuda", "cpu")):
            runs = f"{self.scratch}/{name}"
            done = isobit(program, "run", self.file, *self.few, "--runs", runs, "--device", device)
            self.assertEqual(done.returncode, 0, done.stderr)
            weights[name] = done.stdout.splitlines()[-1]
            verified = isobit(FAKE, "verify", "last", "--runs", runs, "--device", other)
            self.assertEqual(verified.returncode, 0, verified.stderr + verified.stdout)
            self.assertRegex(verified.stdout, "^identical: 6 steps, weights isobit-")
        self.assertEqual(weights["cpu"], weights["cuda"])
        shown = isobit(PLAIN, "show", "last", "--runs", f"{self.scratch}/cuda", "--json")
        self.assertIn("cuda:0 (", shown.stdout)

    def test_a_resumed_run_may_change_sides(self):
        runs = self.scratch + "/resumed"
        straight = isobit(PLAIN, "run", self.file, *self.few, "--runs", self.scratch + "/straight")
        first = isobit(FAKE, "run", self.file, *self.few, "--runs", runs, "--device", "cuda", memory=1)
        self.assertEqual(first.returncode, 2, first.stdout)  # not even the weights fit
        self.assertFalse([name for name in os.listdir(runs) if not name.startswith(".")] if os.path.isdir(runs) else [])
        full = isobit(FAKE, "run", self.file, *self.few, "--runs", runs, "--device", "cuda")
        self.assertEqual(full.stdout, straight.stdout, full.stderr)

    def test_out_of_memory_is_one_line_with_a_grain_and_a_sound_archive(self):
        runs = self.scratch + "/memory"
        done = isobit(FAKE, "run", self.file, *self.few, "--runs", runs, "--device", "cuda", memory=1_200_000)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        last = done.stderr.splitlines()[-1]
        self.assertRegex(last, r"^isobit: --device cuda:0: out of memory in step \d+ with grain 7: asked for .*, .* free \(start a new run with --set grain=\d, which should fit")
        shown = isobit(PLAIN, "log", "--runs", runs, "--json")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn('"failed"', shown.stdout)

    def test_what_is_not_there_is_named(self):
        def line(program, device):
            done = isobit(program, "run", self.file, "--runs", self.scratch + "/none", "--device", device)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            return done.stderr

        self.assertIn("--device gpu: unknown device (use cpu, cuda or cuda:INDEX)", line(PLAIN, "gpu"))
        self.assertIn("--device cuda:9: there is no such device; there are cuda:0, emulated", line(FAKE, "cuda:9"))
        self.assertRegex(line(PLAIN, "cuda"), r"^isobit: --device cuda: .*(no kernels|without CUDA|no NVIDIA GPU).* \(.*use the CPU\)$")
        self.assertFalse(os.path.exists(self.scratch + "/none"))


if __name__ == "__main__":
    unittest.main()
