"""A small run of the program for tests of its commands: data, experiment, a finished record, calls. Takes the program from argv."""
import gzip
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))

EXPERIMENT = """
name = "small"
seed = 3
steps = 30
batch = 20
grain = 7
[data]
path = "{data}"
[model]
name = "lenet5"
[optimizer]
name = "sgd"
lr = 0.05
momentum = 0.9
[evaluate]
batch = 16
[checkpoint]
every = 4
[fingerprint]
every = 5
"""

# Everything that is random in training, and a checkpoint of megabytes after every step: a kill meets its writing.
RANDOM_EXPERIMENT = """
name = "random"
seed = 11
epochs = 12
batch = 20
grain = 7
[data]
path = "{data}"
[model]
name = "mlp"
hidden = [256, 64]
dropout = 0.3
[augment]
crop = 3
flip = true
[optimizer]
name = "adamw"
lr = 0.003
weight_decay = 0.01
[schedule]
name = "cosine"
warmup = 4
[evaluate]
batch = 16
[checkpoint]
every = 1
[fingerprint]
every = 2
"""


def idx(dims, elements):
    return bytes([0, 0, 8, len(dims)]) + b"".join(struct.pack(">I", d) for d in dims) + bytes(elements)


def write(path, content):
    with (gzip.open if path.endswith(".gz") else open)(path, "wb") as file:
        file.write(content)


def make_data(folder, train=90, test=30):
    os.makedirs(folder, exist_ok=True)
    draw = random.Random(1)
    for name, count in (("train", train), ("t10k", test)):
        write(f"{folder}/{name}-images-idx3-ubyte.gz", idx([count, 28, 28], draw.randbytes(count * 784)))
        write(f"{folder}/{name}-labels-idx1-ubyte.gz", idx([count], [draw.randrange(10) for _ in range(count)]))


def deterministic_lines(run):
    """The record but what depends on the clock: timings, environments, identifiers."""
    result = {}
    for name in ("steps.jsonl", "metrics.jsonl", "experiment.toml", "data.json"):
        with open(os.path.join(run, name)) as file:
            result[name] = file.read()
    return result


class SmallRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="isobit-test-")
        make_data(cls.scratch + "/data")
        cls.file = cls.scratch + "/small.toml"
        with open(cls.file, "w") as file:
            file.write(EXPERIMENT.format(data=cls.scratch + "/data"))
        cls.straight = cls.scratch + "/straight"
        done = cls.isobit("run", cls.file, "--runs", cls.straight, "--threads", "2")
        assert done.returncode == 0, done.stderr
        cls.weights = done.stdout.splitlines()[-1]
        cls.sha256 = re.sub(" +", " ", done.stdout.splitlines()[-2])
        cls.run_folder = cls.only_run(cls.straight)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch, ignore_errors=True)

    @staticmethod
    def isobit(*arguments, **more):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=300, check=False, **more)

    @staticmethod
    def only_run(runs):
        names = [name for name in os.listdir(runs) if not name.startswith(".") and os.path.isdir(os.path.join(runs, name))]
        assert len(names) == 1, names
        return os.path.join(runs, names[0])

    def fresh(self, name):
        path = os.path.join(self.scratch, name)
        shutil.rmtree(path, ignore_errors=True)
        return path

    def copy_of_run(self):
        path = self.fresh("copy/" + os.path.basename(self.run_folder))
        return shutil.copytree(self.run_folder, path)

    def expect_error(self, arguments, *parts, code=2, **more):
        done = self.isobit(*arguments, **more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        last = done.stderr.strip().splitlines()[-1]
        self.assertTrue(last.startswith("isobit: "), done.stderr)
        for part in parts:
            self.assertIn(part, last)
        self.assertNotIn("weights ", done.stdout)
        return done

    def steps_recorded(self, runs):
        try:
            with open(os.path.join(self.only_run(runs), "steps.jsonl")) as file:
                return sum(1 for _ in file)
        except (OSError, AssertionError):
            return 0

    def kill_when(self, runs, steps, signal_number):
        process = subprocess.Popen([PROGRAM, "run", self.file, "--runs", runs], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and self.steps_recorded(runs) < steps:
            time.sleep(0.002)
        process.send_signal(signal_number)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err
