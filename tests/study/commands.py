"""A folder with a study, and its commands; fake_run.cpp stands in for `isobit run`. Takes both programs from argv."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ISOBIT, FAKE = (os.path.abspath(path) for path in sys.argv[1:3])

STUDY = """
[study]
name = "optimizers"
experiment = "experiment.toml"
metric = "test.accuracy"
compare = "optimizer.name"

[factors]
optimizer.name = ["sgd", "adam"]
seed = "1..4"
threads = [1, 2]
"""


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="isobit-study-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "experiment.toml").write_text('name = "fake"\n')
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("ISOBIT_", "FAKE_"))}
        self.environment.update(FAKE_LOG=str(self.folder / "log"), XDG_CACHE_HOME=str(self.folder / "cache"))

    def write(self, text=STUDY):
        (self.folder / "study.toml").write_text(text)

    def call(self, *words, code=0, **environment):
        done = subprocess.run([ISOBIT, *words], cwd=self.folder, env={**self.environment, **environment}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def study(self, *words, code=0, **environment):
        return self.call("study", "study.toml", "--program", FAKE, *words, code=code, **environment)

    def begun(self):
        log = self.folder / "log"
        return [line.split(" ") for line in log.read_text().splitlines()] if log.exists() else []

    def cells(self):
        return json.loads((self.folder / "studies/optimizers/cells.json").read_text())["cells"]

    def refused(self, text, *parts):
        self.write(text)
        done = self.study("--dry-run", code=2)
        for part in parts:
            self.assertIn(part, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertFalse((self.folder / "studies").exists())
