"""isobit verify --workers: the verdict of one process, whatever was forged and whatever happens to a segment's process."""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import torch
from forged_test import NATIVE
from records import PROGRAM, experiment, lines_of, put_lines, put_state, read, seal_anew, state_of, write, write_images

LAST = 10  # steps; segments end after 2, 5 and 7
HONEST = "identical: 10 steps, "


def checkpoint(run, step):
    return f"{run}/checkpoints/step-{step}.safetensors"


def header_of(path):
    content = read(path)
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8:8 + size]), content[8 + size:]


def put_checkpoint(path, header, elements):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    write(path, len(text).to_bytes(8, "little") + text + elements)


def other_bit(part):
    """Of the first float32 tensor whose name begins so."""
    def alter(path):
        header, elements = header_of(path)
        begin = min(entry["data_offsets"][0] for name, entry in header.items() if name.startswith(part) and entry["dtype"] == "F32")
        changed = bytearray(elements)
        changed[begin] ^= 1
        put_checkpoint(path, header, bytes(changed))
    return alter


def other_sums(path):
    header, elements = header_of(path)
    state = json.loads(header["__metadata__"]["state"])
    state["epoch_correct"] += 1
    header["__metadata__"]["state"] = json.dumps(state, separators=(",", ":"))
    put_checkpoint(path, header, elements)


def other_step(path):
    header, elements = header_of(path)
    state = json.loads(header["__metadata__"]["state"])
    state["steps_done"] += 1
    header["__metadata__"]["state"] = json.dumps(state, separators=(",", ":"))
    put_checkpoint(path, header, elements)


def other_shape(path):
    header, elements = header_of(path)
    name = next(name for name in header if name.startswith("weights.") and len(header[name]["shape"]) == 2)
    header[name]["shape"].reverse()
    put_checkpoint(path, header, elements)


def a_tensor_more(path):
    header, elements = header_of(path)
    header["weights.more"] = {"dtype": "F32", "shape": [1], "data_offsets": [len(elements), len(elements) + 4]}
    put_checkpoint(path, header, elements + bytes(4))


def no_checkpoint(path):
    write(path, b"nothing of the kind")


# (what, how the file is altered, whether the run is continued from it, exit code, part of what is said)
FORGED = [
    ("weights, and all that follows from them", other_bit("weights."), True, 1, "different at step 5: checkpoint tensor weights."),
    ("the optimizer, and all that follows", other_bit("optimizer."), True, 1, "different at step 5: checkpoint tensor optimizer."),
    ("the epoch's sums, and its metrics", other_sums, True, 1, "different at step 7: checkpoint state"),
    ("weights alone", other_bit("weights."), False, 1, "different at step 5: checkpoint tensor weights."),
    ("the step", other_step, False, 1, "different at step 5: checkpoint state"),
    ("a shape", other_shape, False, 1, "different at step 5: checkpoint tensor weights."),
    ("a tensor more", a_tensor_more, False, 1, "different at step 5: checkpoint recorded"),
    ("no checkpoint at all", no_checkpoint, False, 2, "safetensors"),
]


def segments_of(process):
    """Processes that it has begun, and that are this program with words of their own: no copies of it any more."""
    found = []
    for task in os.listdir(f"/proc/{process}/task"):
        with contextlib.suppress(OSError):  # it ended
            children = read(f"/proc/{process}/task/{task}/children").split()
            found += [int(child) for child in children if b"--segment" in read(f"/proc/{int(child)}/cmdline")]
    return found


def lives(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Segments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="isobit-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        write_images(f"{cls.folder}/data", train=90, test=30)
        cls.experiment = experiment(f"{cls.folder}/data")
        write(f"{cls.folder}/small.toml", cls.experiment)
        cls.run_folder = cls.record()

    @classmethod
    def call(cls, *words, **more):
        return subprocess.run([PROGRAM, *words], cwd=cls.folder, capture_output=True, text=True, check=False, **more)

    @classmethod
    def record(cls, *words):
        done = cls.call("run", "small.toml", "--json", *words)
        assert done.returncode == 0, done.stderr
        return os.path.join(cls.folder, json.loads(done.stdout)["folder"])

    def copied(self, run=None):
        archive = tempfile.mkdtemp(dir=self.folder)
        self.addCleanup(shutil.rmtree, archive)
        run = run or self.run_folder
        return shutil.copytree(run, os.path.join(archive, state_of(run)["id"]))

    def verify(self, run, *words):
        done = self.call("verify", run, "--json", *words)
        return done.returncode, json.loads(done.stdout), done.stderr

    def expect_same_verdict(self, run, *words, workers=4, segments=4):
        """That of one process, but for the number of segments."""
        alone, together = self.verify(run, *words), self.verify(run, *words, "--workers", str(workers))
        self.assertEqual(together[0], alone[0], together)
        if alone[0] < 2:
            self.assertEqual((alone[1].pop("segments"), together[1].pop("segments")), (1, segments), together)
            together[1]["message"] = together[1]["message"].removesuffix(f" ({segments} segments side by side)")
        if alone[0] == 1:  # how far each came before
            del alone[1]["checkpoints"], together[1]["checkpoints"]
        self.assertEqual(together[1], alone[1])
        return alone[0], alone[1]["message"]

    def test_identical(self):
        for workers, segments in ((1, 1), (2, 2), (3, 2), (4, 4), (9, 4)):
            code, message = self.expect_same_verdict(self.run_folder, workers=workers, segments=segments)
            self.assertEqual((code, message[:len(HONEST)]), (0, HONEST))
        plain = self.call("verify", self.run_folder, "--workers", "2", "--threads", "2", "--isa", "reference")
        self.assertIn("isobit: 2 segments side by side, 2 threads each: steps 1..5, 6..10\n", plain.stderr)
        self.assertRegex(plain.stdout, r"^identical: 10 steps, .* \(2 segments side by side\)\nnot recomputed: id and date of")
        code, message = self.expect_same_verdict(self.run_folder, "--from", "4", "--to", "9", workers=2, segments=2)
        self.assertEqual((code, message), (0, "identical in steps 4..9, from the recorded checkpoint of step 2"))

    def test_as_many_segments_as_there_are_checkpoints(self):
        _, verdict, err = self.verify(self.run_folder, "--workers", "8")
        self.assertEqual(verdict["segments"], 4)
        self.assertIn("4 segments instead of 8: the record holds 4 checkpoints between these steps", err)
        for more, segments in ([], 1), (["--with-weights"], 4):
            file = f"{self.folder}/run-{segments}.tar"
            self.assertEqual(self.call("export", self.run_folder, "--out", file, *more).returncode, 0)
            self.expect_same_verdict(file, segments=segments)
        self.assertEqual(self.call("verify", file, "--workers", "0").returncode, 2)

    def test_records_of_earlier_versions(self):
        """They say nothing of segments, and have what they kept."""
        run = self.record("--set", "checkpoint.segments=1")
        text = read(f"{run}/experiment.toml").decode()
        self.assertIn("\nsegments = 1\n", text)
        write(f"{run}/experiment.toml", text.replace("segments = 1\n", ""))
        seal_anew(run)
        self.assertEqual(sorted(os.listdir(f"{run}/checkpoints")), ["step-10.safetensors", "step-8.safetensors"])
        self.assertEqual(self.expect_same_verdict(run, segments=2)[0], 0)

    def forged_checkpoint(self, alter, continued):
        """That of step 5, or where the epoch's sums count, 7; with all lines after it as they follow from it."""
        step = 7 if alter is other_sums else 5
        run = self.copied()
        if not continued:
            alter(checkpoint(run, step))
            seal_anew(run)
            return run
        for log in ("steps.jsonl", "metrics.jsonl", "timings.jsonl", "checkpoints.jsonl"):
            put_lines(run, log, [line for line in lines_of(run, log) if line["step"] <= step])
        for name in os.listdir(f"{run}/checkpoints"):
            if int(re.search(r"\d+", name)[0]) > step:
                os.remove(f"{run}/checkpoints/{name}")
        alter(checkpoint(run, step))
        seal_anew(run)
        os.remove(f"{run}/manifest.json")
        put_state(run, state="running", steps=step, weights="")
        state = state_of(run)
        del state["weights_sha256"]
        write(f"{run}/state.json", json.dumps(state, indent=2) + "\n")
        done = self.call("run", "--resume", run, "--runs", os.path.dirname(run))
        self.assertEqual(done.returncode, 0, done.stderr)
        return run

    def test_forged_checkpoints_between_segments(self):
        """What follows from a forged one is consistent with it: only the segment that ends on it can tell."""
        for what, alter, continued, code, because in FORGED:
            with self.subTest(what):
                run = self.forged_checkpoint(alter, continued)
                if continued:
                    step = 7 if alter is other_sums else 5
                    rest = self.verify(run, "--from", str(step + 1))
                    self.assertEqual(rest[1]["verdict"], "identical", rest)
                workers = 2 if alter is no_checkpoint else 4
                found, message = self.expect_same_verdict(run, workers=workers, segments=workers)
                self.assertEqual(found, code, message)
                self.assertIn(because, message)

    def test_forged_records(self):
        """A few of those that tests/python/forged_test.py makes: in lines, logs, the end, the experiment."""
        chosen = ("the accuracy at the end", "a loss", "the optimizer's state", "the final weights' SHA-256", "one measurement less",
                  "another learning rate", "words in the experiment", "other data")
        for what, alter, code, because in (forgery for forgery in NATIVE if forgery[0] in chosen):
            with self.subTest(what):
                run = self.copied()
                alter(run)
                seal_anew(run)
                done = self.call("verify", run, "--workers", "3")
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertIn(because, done.stdout + done.stderr)

    def test_the_first_of_several_differences(self):
        run = self.copied()
        for log, at, change in (("steps.jsonl", 8, {"loss": "3f000000"}), ("steps.jsonl", 3, {"batch": "0123456789abcdef" * 2})):
            lines = lines_of(run, log)
            lines[at].update(change)
            put_lines(run, log, lines)
        metrics = lines_of(run, "metrics.jsonl")
        put_lines(run, "metrics.jsonl", [{**metrics[0], "step": 3}, *metrics])  # which nothing recomputes
        seal_anew(run)
        self.assertIn("different at step 3: train metrics", self.expect_same_verdict(run)[1])

    def test_a_segment_judges_the_record_that_it_was_called_for(self):
        words = ("verify", self.run_folder, "--from", "3", "--to", "5", "--json")
        done = self.call(*words, "--segment", "0" * 64)
        self.assertEqual((done.returncode, json.loads(done.stdout)["verdict"]), (2, "cannot-judge"))
        self.assertIn("was changed while it was verified", done.stderr)

    def begun(self, *words):
        """A verification whose segments' processes have begun, and stand still."""
        process = subprocess.Popen([PROGRAM, "verify", self.run_folder, "--workers", "4", *words], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        children = []
        while len(children) < 4 and process.poll() is None:
            for child in set(segments_of(process.pid)) - set(children):
                os.kill(child, signal.SIGSTOP)
                children.append(child)
            time.sleep(0.001)
        return process, sorted(children)

    def expect_gone(self, processes):
        end = time.monotonic() + 60
        while any(map(lives, processes)):
            self.assertLess(time.monotonic(), end, "a segment's process outlives the verification")
            time.sleep(0.01)

    def test_killed_segments_are_no_verdict(self):
        for victim in (0, 3):
            process, children = self.begun("--json")
            os.kill(children[victim], signal.SIGKILL)
            for child in children:
                with contextlib.suppress(ProcessLookupError):  # ended with the first
                    os.kill(child, signal.SIGCONT)
            out, err = process.communicate(timeout=120)
            self.assertEqual((process.returncode, json.loads(out)["verdict"]), (2, "cannot-judge"), err)
            self.assertIn("their process was stopped by signal 9", err)
            self.expect_gone(children)

    def test_interrupted(self):
        for number, target in ((signal.SIGINT, None), (signal.SIGTERM, None), (signal.SIGINT, 1), (signal.SIGKILL, None)):
            process, children = self.begun()
            if target is not None:  # a segment's process alone
                for child in children:
                    os.kill(child, signal.SIGCONT)
                os.kill(children[target], number)
            else:
                process.send_signal(number)
            out, err = process.communicate(timeout=120)
            code = -signal.SIGKILL if number == signal.SIGKILL else 2 if target is not None else 130
            self.assertEqual((process.returncode, out), (code, ""), err)
            if code == 130:
                self.assertIn("interrupted; no verdict", err)
            self.expect_gone(children)

    def test_no_space_is_no_verdict(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "verify", self.run_folder, "--workers", "2"], stdout=full, stderr=subprocess.PIPE,
                                  text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("stdout: cannot be written", done.stderr)
        file = f"{self.folder}/whole.tar"
        self.assertEqual(self.call("export", self.run_folder, "--out", file, "--with-weights").returncode, 0)
        done = self.call("verify", file, "--workers", "2", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)

    def test_code_is_verified_by_one_process(self):
        """What it has beside its weights is in no checkpoint: here a number that forward counts."""
        class Counting(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(784, 10)
                self.calls = 0

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.calls += 1
                return self.linear(x.flatten(1)) * float(self.calls)

        network = f"{self.folder}/net.pt"
        torch.manual_seed(1)
        torch.jit.script(Counting()).save(network)
        text = self.experiment.replace('name = "mlp"\nhidden = [8]', f'name = "torchscript"\ntorchscript = "{network}"')
        write(f"{self.folder}/code.toml", text)
        done = self.call("run", "code.toml", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        run = os.path.join(self.folder, json.loads(done.stdout)["folder"])
        done = self.call("verify", run, "--trust", "--workers", "4")
        self.assertEqual((done.returncode, done.stdout[:len(HONEST)]), (0, HONEST), done.stderr)
        self.assertIn("its network is code, whose state need not all be in its checkpoints: one process verifies it", done.stderr)


if __name__ == "__main__":
    if not PROGRAM:
        sys.exit("ISOBIT_PROGRAM does not name the program")
    unittest.main()
