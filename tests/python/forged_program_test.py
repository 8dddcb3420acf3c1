"""Records of Python programs that agree with themselves and are not true: sealed anew, as anybody can, and judged end to end.

The counterpart of tests/python/forged_test.py, which does so for `isobit run`. What a sandbox holds is sandbox_test.py.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from preloaded_programs import STARTS, PreloadedPrograms
from programs import Programs
from records import (
    PROGRAM,
    altered_line,
    altered_text,
    lines_of,
    put_lines,
    put_state,
    put_state_without,
    read,
    seal_anew,
    state_of,
    without_key,
    without_line,
    write,
)

import isobit

HEX = "0123456789abcdef" * 2

SCRIPT = """
import torch, isobit
import parts

with isobit.record("runs", every=2, predictions=True) as run:
    isobit.seed(3)
    model = parts.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.randn(16, 6), torch.arange(16) % 3
    for run.epoch in (1, 2):
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            if run.steps == 3:
                with isobit.disabled():
                    float(x.sum())
            optimizer.step()
        with torch.no_grad():
            said = model(x).argmax(1)
        run.predictions("test", said, y)
        run.log("test", accuracy=(said == y).float().mean())
        run.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
"""
PARTS = """
import torch

def model():
    return torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3))
"""


def other_weights_in_a_checkpoint(run):
    """One bit of one element, in the pickle's storages."""
    path = sorted(pathlib.Path(run, "checkpoints").iterdir())[-1]
    with zipfile.ZipFile(path) as file:
        members = [(info, file.read(info)) for info in file.infolist()]
    at = next(i for i, (info, content) in enumerate(members) if "/data/" in info.filename and len(content) == 6 * 9 * 4)
    content = bytearray(members[at][1])
    content[17] ^= 1
    members[at] = (members[at][0], bytes(content))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        for info, content in members:
            file.writestr(info, content)


def put_sources(run, **changes):
    sources = json.loads(read(f"{run}/sources.json"))
    files = {name: text for name, text in {**sources["files"], **changes}.items() if text is not None}
    write(f"{run}/sources.json", json.dumps({**sources, "files": files}, indent=2) + "\n")


def with_line(name, line):
    return lambda run: write(f"{run}/{name}", read(f"{run}/{name}").decode() + line)


def one_step_less(run):
    last = state_of(run)["steps"] - 1
    for name in ("steps", "metrics", "predictions", "evaluations", "checkpoints"):
        put_lines(run, f"{name}.jsonl", [line for line in lines_of(run, f"{name}.jsonl") if line["step"] <= last])
    os.remove(f"{run}/checkpoints/step-{last + 1}.pt")
    put_state(run, steps=last)


def one_step_more(run):
    lines = lines_of(run, "steps.jsonl")
    put_lines(run, "steps.jsonl", [*lines, {**lines[-1], "step": len(lines) + 1}])
    put_state(run, steps=len(lines) + 1)


def other_predictions(run):
    lines = lines_of(run, "predictions.jsonl")
    lines[-1]["predictions"][5] = (lines[-1]["predictions"][5] + 1) % 3
    put_lines(run, "predictions.jsonl", lines)


def doubled(log, number):
    def alter(run):
        lines = lines_of(run, log)
        put_lines(run, log, [*lines[:number + 1], *lines[number:]])
    return alter


def no_steps(run):
    for name in ("steps", "metrics", "predictions", "evaluations", "checkpoints", "outside"):
        put_lines(run, f"{name}.jsonl", [])
    for name in os.listdir(f"{run}/checkpoints"):
        os.remove(f"{run}/checkpoints/{name}")
    os.rmdir(f"{run}/checkpoints")
    put_state(run, steps=0)


def of_the_first_version(run, log):
    """Without the log, as a record of version 0.1 may be, and without the digests that came later."""
    os.remove(f"{run}/{log}")
    put_state_without(run, "weights_sha256")
    lines = lines_of(run, "checkpoints.jsonl")
    for line in lines:
        del line["logs"][log], line["weights_sha256"]
    put_lines(run, "checkpoints.jsonl", lines)
    environment = json.loads(read(f"{run}/environment.json"))
    environment["program"]["version"] = "0.1.0"
    write(f"{run}/environment.json", json.dumps(environment, indent=2) + "\n")


def with_a_patch(run):
    write(f"{run}/dirty.patch", "diff --git a/train.py b/train.py\n--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-lr=0.1\n+lr=0.5\n")
    put_state(run, inputs={**state_of(run)["inputs"], "dirty.patch": {}})


COMMIT = "0123456789abcdef0123456789abcdef01234567"

# (what, how, exit code of verify, part of what it says)
FORGERIES = [
    ("the accuracy at the end", altered_line("metrics.jsonl", -1, values={"accuracy": 0.999}), 1, "different at step 6: metrics"),
    ("a measurement less", without_line("metrics.jsonl", 0), 1, "metrics"),
    ("a measurement more", doubled("metrics.jsonl", 1), 1, "metrics recorded 3, recomputed 2"),
    ("a loss", altered_line("steps.jsonl", 4, loss="3f000000"), 1, "different at step 5: loss"),
    ("weights on the way", altered_line("steps.jsonl", 3, weights=HEX), 1, "different at step 4: weights"),
    ("the optimizer's state", altered_line("steps.jsonl", 5, optimizer=HEX), 1, "different at step 6: optimizer"),
    ("no weights where they are due", without_key("steps.jsonl", 1, "weights"), 1, "different at step 2: weights recorded nothing"),
    ("a step less", one_step_less, 1, "steps recorded 5, recomputed 6"),
    ("a step more", one_step_more, 1, "steps recorded 7, recomputed 6"),
    ("the final weights", lambda run: put_state(run, weights=f"isobit-0.1:{HEX}"), 1, "weights recorded isobit-0.1:0123"),
    ("their SHA-256", lambda run: put_state(run, weights_sha256=HEX * 2), 1, "SHA-256 of the final weights"),
    ("no SHA-256", lambda run: put_state_without(run, "weights_sha256"), 0, "the SHA-256 of the weights (there is none)"),
    ("a prediction", other_predictions, 1, "prediction of test sample 5"),
    ("the true classes", altered_line("predictions.jsonl", 0, targets=HEX * 2), 1, "targets of the predictions"),
    ("the count of evaluated tensors", altered_line("evaluations.jsonl", 0, tensors=2), 1, "evaluated batches"),
    ("an evaluation less", without_line("evaluations.jsonl", 1), 1, "evaluations recorded 1, recomputed 2"),
    ("what ran outside", without_line("outside.jsonl", 0), 1, "stretches outside isobit"),
    ("where it ran outside", altered_line("outside.jsonl", 0, place="__main__:99"), 1, "what ran outside isobit"),
    ("the bytes of a checkpoint", other_weights_in_a_checkpoint, 1, "different at step 6: checkpoint"),
    ("the SHA-256 of a checkpoint's weights", altered_line("checkpoints.jsonl", 0, weights_sha256=HEX * 2), 1, "at the checkpoint"),
    ("how often it fingerprints", altered_text("experiment.toml", "fingerprint_every = 2", "fingerprint_every = 3"), 1,
     "interval of the fingerprints recorded 3, recomputed 2"),
    ("so many processes", with_line("experiment.toml", "processes = 2\n"), 1, "processes that share a group recorded 2, recomputed nothing"),
    ("another name", lambda run: put_state(run, name="other", id=state_of(run)["id"].replace("-train-", "-other-")), 1, "name of the run"),
    ("how often it fingerprints gradients", with_line("experiment.toml", "fingerprint_gradients = 1\n"), 1,
     "interval of the gradients' fingerprints recorded 1, recomputed nothing"),
    ("no log of what ran outside", lambda run: of_the_first_version(run, "outside.jsonl"), 0,
     "identical, but something between steps 3 and 4 ran outside isobit (__main__:15)"),
    ("no log of what was evaluated", lambda run: of_the_first_version(run, "evaluations.jsonl"), 0, "evaluated batches (the record does not say)"),
    ("changes of no commit", with_a_patch, 0, "dirty.patch (the record names no commit)"),
    ("an isobit of its own", lambda run: put_sources(run, **{"isobit.py": ""}), 2, "import an isobit of its own (isobit.py)"),
    ("another program", lambda run: put_sources(run, **{"parts.py": PARTS.replace("9", "8")}), 1, "different at step 1"),
    ("a program more", lambda run: put_sources(run, **{"proof.py": "# accuracy 0.999"}), 0, "did not import: proof.py"),
    ("a commit", altered_text("experiment.toml", 'arguments = []', f'commit = "{COMMIT}"\ndirty = false\narguments = []'), 0,
     f"commit {COMMIT[:12]} ("),
    ("another day", lambda run: put_state(run, created="1999-01-01T00:00:00.000000Z"), 0, "date"),
    ("untouched", lambda run: None, 0, "identical, but something between steps 3 and 4 ran outside isobit (__main__:15): 6 steps"),
    # Before anything is executed.
    ("more processes than are started", with_line("experiment.toml", "processes = 65\n"), 2, "recorded by 65 processes"),
    ("no number of processes", with_line("experiment.toml", "processes = true\n"), 2, "recorded by True processes"),
    ("no source of the script", lambda run: put_sources(run, **{"train.py": None}), 2, "has no source of train.py"),
    ("another contract", lambda run: put_state(run, contract="isobit-0.2", weights=f"isobit-0.2:{HEX}"), 2, "isobit-0.2"),
    ("no steps", no_steps, 2, "no step"),
]
# Those that no run leaves: damaged for every command that reads a record.
DAMAGED = [
    ("data files", altered_text("data.json", '"files": []', '"files": [{"name": "imagenet", "size": 1, "sha256": ""}]'), "no data files"),
    ("words on the data", altered_text("data.json", '"note"', '"accuracy": 0.999, "note"'), "'accuracy' is not a key"),
    ("words in the experiment", with_line("experiment.toml", "# accuracy 0.999\n"), "not a line"),
    ("a key of its own", with_line("experiment.toml", "accuracy = 0.999\n"), "not a line"),
    ("products of another tier", with_line("experiment.toml", 'products = "exact3"\n'), "asks for products"),
    ("stock arithmetic", with_line("experiment.toml", 'arithmetic = "stock"\n'), "asks for stock PyTorch"),
    ("no predictions kept", altered_text("experiment.toml", "predictions = true\n", ""), "keeps no predictions"),
    ("a step after the last", altered_line("metrics.jsonl", -1, step=7), "not one of the run's"),
    ("steps out of order", altered_line("steps.jsonl", 3, step=3), "out of order"),
    ("a stretch that has not ended", altered_line("outside.jsonl", 0, until=9), "out of order"),
    ("a checkpoint of another step", altered_line("checkpoints.jsonl", -1, step=5), "has another name"),
    ("a checkpoint that no line names", lambda run: write(f"{run}/checkpoints/step-5.pt", "x"), "no part of the record names it"),
    ("a checkpoint outside", altered_line("checkpoints.jsonl", 0, file="../../x"), "another name"),
    ("a patch where it cannot be", lambda run: write(f"{run}/dirty.patch", "x"), "no part of the record names it"),
    ("a measurement's name that a terminal obeys", altered_line("metrics.jsonl", 0, set="\x1b[2K\ridentical"), "no run measures"),
]


class Forged(Programs):
    @classmethod
    def setUpClass(cls):
        cls.preloaded = PreloadedPrograms()
        cls.addClassCleanup(cls.preloaded.close)

    def setUp(self):
        super().setUp()
        self.write("train.py", SCRIPT)
        self.write("parts.py", PARTS)
        self.packages = str(pathlib.Path(isobit.__file__).parents[1])
        code, out, told = self.run_script("train.py", XDG_CACHE_HOME=str(self.folder / "cache"))
        self.assertEqual(code, 0, out + told)
        (self.run_folder,) = (self.folder / "runs").glob("2*")
        self.work = tempfile.mkdtemp(dir=self.folder)

    def forged(self, alter):
        archive = tempfile.mkdtemp(dir=self.folder)
        self.addCleanup(shutil.rmtree, archive, ignore_errors=True)
        run = shutil.copytree(self.run_folder, os.path.join(archive, self.run_folder.name))
        alter(run)
        seal_anew(run)
        if (name := state_of(run)["id"]) != self.run_folder.name:
            run = shutil.move(run, os.path.join(archive, name))
        return run

    def verify(self, run, *options, **more):
        """Without a sandbox: what executes the program is a fork of this process."""
        environment = {**os.environ, **self.preloaded.environment, "PYTHONPATH": f"{STARTS}:{self.packages}", "ISOBIT_PYTHON": sys.executable,
                       "XDG_CACHE_HOME": str(self.folder / "cache"), **more}
        return subprocess.run([PROGRAM, "verify", run, "--trust", *options], cwd=self.work, capture_output=True, text=True, check=False,
                              env=environment, timeout=120)

    def test_forgeries(self):
        for what, alter, code, because in FORGERIES:
            with self.subTest(what):
                done = self.verify(self.forged(alter))
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertIn(because, done.stdout + done.stderr)
                self.assertNotIn("\x1b", done.stdout + done.stderr)
                if code != 0:
                    self.assertNotIn("identical", done.stdout)
        for what, alter, because in DAMAGED:
            with self.subTest(what):
                done = subprocess.run([PROGRAM, "show", self.forged(alter)], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(because, done.stderr)
                self.assertNotIn("\x1b", done.stdout + done.stderr)
        self.assertEqual(self.verify(self.forged(DAMAGED[0][1])).returncode, 2)
        done = self.verify(self.forged(altered_text("experiment.toml", "arguments = []", 'arguments = ["--lr", "0.5"]')), "--", "--lr", "0.1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("arguments --lr 0.1 in place of the recorded: --lr 0.5)", done.stdout)
        self.assertIn("the recorded arguments (--lr 0.5; it ran with --lr 0.1)", done.stdout)
        done = self.verify(self.forged(FORGERIES[0][1]), "--json")
        verdict = json.loads(done.stdout)
        self.assertEqual((done.returncode, verdict["verdict"], verdict["weights"]), (1, "different", None))

    def test_a_program_that_is_exchanged_once_the_seal_was_checked(self):
        """The record shows another text than the one that leads to its numbers, but for the moment in which it is read again."""
        run = self.forged(lambda run: put_sources(run, **{"train.py": SCRIPT.replace("lr=0.1", "lr=0.7")}))
        python = os.path.join(self.work, "python")
        write(python, f"#!/bin/sh\ncp {self.run_folder}/sources.json {run}/sources.json\nexec {sys.executable} \"$@\"\n")
        os.chmod(python, 0o755)
        done = self.verify(run, ISOBIT_PYTHON=python)
        self.assertIn(done.returncode, (1, 2), done.stdout)
        self.assertNotIn("identical", done.stdout)


if __name__ == "__main__":
    unittest.main()
