"""isobit verify --workers of Python programs: segments from checkpoint to checkpoint, and one process where they prove nothing."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

import torch
from record_test import PROGRAM
from records import lines_of, put_lines, read, seal_anew
from sandbox_test import Sandbox

STEPS = 20  # saved after 2, 4, 6 ...
SCRIPT = """
import os, random, signal
import torch, isobit
import torch.nn.functional as F

calls = 0
with isobit.record("runs", every=3, resume=RESUME) as run:
    isobit.seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.BatchNorm1d(9), torch.nn.Dropout(0.2), torch.nn.Linear(9, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.randn(40, 6), torch.randint(3, (40,))
    saved = run.load()
    if saved:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    BEGIN
    for step in run.steps(data, batch=10, grain=5, epochs=5):
        for x, y in step.grains():
            FACTOR
            step.backward(F.cross_entropy(model(x) * factor, y, reduction="sum"))
        step.finish(optimizer)
        if os.environ.get("KILL") == str(run.steps):
            os.kill(os.getpid(), signal.SIGKILL)
        if step.number % 4 == 0:
            model.eval()
            with torch.no_grad():
                run.log("test", accuracy=(model(data[0]).argmax(1) == data[1]).float().mean().item())
            model.train()
        if step.number % 2 == 0:
            run.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
"""
HONEST = {"RESUME": "True", "BEGIN": "pass", "FACTOR": "factor = 1 + random.random()"}


def script(**parts):
    text = SCRIPT
    for name, code in {**HONEST, **parts}.items():
        text = text.replace(name, code)
    return text


def kept(run):
    return sorted(int(path.stem.partition("-")[2]) for path in (run / "checkpoints").iterdir())


class Segments(Sandbox):
    def recorded(self, **parts):
        self.write("train.py", script(**parts))
        self.train()
        return self.record()

    def verified(self, *options, workers=3, expect=0):
        return self.judge("--workers", str(workers), *options, expect=expect)

    def expect_one_process(self, because, verdict="identical"):
        """Segments were tried and proved nothing; what one process says counts."""
        judged, told = self.verified(expect=0 if verdict == "identical" else 1)
        self.assertIn(because, told)
        self.assertIn("one process verifies it", told)
        self.assertEqual((judged["verdict"], judged["segments"]), (verdict, 1))
        self.assertFalse(any("interruption" in part for part in judged["not_recomputed"]))
        return judged


class Honest(Segments):
    def test_identical(self):
        run = self.recorded()
        self.assertEqual(kept(run), [4, 8, 12, 16, 18, 20])  # every second of ten, and the two newest
        whole, _ = self.judge()
        judged, told = self.verified("--threads", "1", "--isa", "reference")
        self.assertEqual({key: judged[key] for key in ("verdict", "from", "to", "whole", "weights", "weights_sha256", "start")},
                         {key: whole[key] for key in ("verdict", "from", "to", "whole", "weights", "weights_sha256", "start")})
        self.assertEqual(judged["segments"], 3)
        self.assertIn("3 segments side by side, 1 thread each: steps 1..8, 9..16, 17..20", told)
        self.assertEqual(set(judged["not_recomputed"]) - set(whole["not_recomputed"]),
                         {"the run without interruption (it was resumed after steps 8, 16)"})
        self.assertIn("(3 segments side by side, 1 thread, reference each, resumed after steps 8, 16)", judged["message"])

    def test_exported(self):
        self.recorded()
        file = self.folder / "run.tar"
        self.call(PROGRAM, "export", "last", "--out", file, "--with-weights")
        done = subprocess.run([PROGRAM, "verify", file, "--workers", "2", "--json"], cwd=self.folder, capture_output=True, text=True,
                              check=False, env={**os.environ, **self.environment()})
        self.assertEqual((done.returncode, json.loads(done.stdout)["segments"]), (0, 2), done.stderr)

    def test_a_killed_run_keeps_the_checkpoints_of_an_unbroken_one(self):
        run = self.recorded()
        unbroken = kept(run), {path.name: read(path) for path in (run / "checkpoints").iterdir()}
        for kills in ((3,), (9, 13), (20,)):
            shutil.rmtree(run)
            for step in kills:
                self.train(expect=-signal.SIGKILL, KILL=str(step))
            self.train()
            run = self.record()
            self.assertEqual((kept(run), {path.name: read(path) for path in (run / "checkpoints").iterdir()}), unbroken, kills)

    def test_few_checkpoints(self):
        self.write("train.py", script().replace("resume=True", "resume=True, segments=1"))
        self.train()
        self.assertEqual(kept(self.record()), [18, 20])
        judged, told = self.verified()
        self.assertIn("2 segments instead of 3: the record holds 1 checkpoint between these steps (segments of isobit.record", told)
        self.assertEqual((judged["verdict"], judged["segments"]), ("identical", 2))


class OneProcess(Segments):
    def test_state_that_is_in_no_checkpoint(self):
        """A number that the program counts: the segments differ, and nothing is wrong with the record."""
        self.recorded(FACTOR="calls += 1; factor = float(calls)")
        self.expect_one_process("resumed after steps 8, 16, it differs at step 10 (what was written until its checkpoint)")

    def test_a_program_that_does_not_resume(self):
        self.recorded(RESUME="False")
        self.expect_one_process("resumed after steps 8, 16, it failed")

    def test_a_program_that_is_another_one_when_it_resumes(self):
        self.recorded(FACTOR="factor = 2.0 if saved else 1.0")
        self.expect_one_process("it differs at step 10")

    def test_a_program_that_leaves_something_else_than_it_says(self):
        """In its sandbox it alters what it wrote, once that was said to be complete."""
        run = self.recorded()
        for name in ("checkpoints/step-8.pt", "steps.jsonl"):
            tamper = ("if 'ISOBIT_RERUN' in os.environ:\n"
                      "        import isobit._jobs._job\n"
                      "        def end():\n"
                      f"            with open(run.path / {name!r}, 'r+b') as file:\n"
                      "                byte = file.read(1)\n"
                      "                file.seek(0)\n"
                      "                file.write(bytes([byte[0] ^ 1]))\n"
                      "            os._exit(0)\n"
                      "        isobit._jobs._job.end_segment = end")
            shutil.rmtree(run)
            run = self.recorded(BEGIN=tamper)
            self.expect_one_process("resumed after steps 8, 16, it differs at step")

    def test_trust(self):
        self.recorded()
        judged, told = self.verified("--trust")
        self.assertIn("segments run in sandboxes, and --trust in none: one process verifies it", told)
        self.assertEqual((judged["verdict"], judged["segments"]), ("identical", 1))


class Forged(Segments):
    def test_the_second_half_of_another_run(self):
        """From step 9 on, checkpoint included, lines and weights of a run with another seed: each segment but the first is sound."""
        run = self.recorded()
        honest = run.rename(self.folder / "honest")
        self.write("train.py", script().replace("isobit.seed(3)", "isobit.seed(4)"))
        self.train()
        other = self.record().rename(self.folder / "other")
        forged = honest.rename(run)
        for log in ("steps.jsonl", "metrics.jsonl", "checkpoints.jsonl"):
            put_lines(forged, log, [line for line in lines_of(forged, log) if line["step"] < 8]
                      + [line for line in lines_of(other, log) if line["step"] >= 8])
        for step in kept(other):
            if step >= 8:
                shutil.copy(other / f"checkpoints/step-{step}.pt", forged / "checkpoints")
        state = json.loads(read(forged / "state.json")) | {key: json.loads(read(other / "state.json"))[key]
                                                           for key in ("weights", "weights_sha256")}
        (forged / "state.json").write_text(json.dumps(state, indent=2) + "\n")
        self.seal(forged)
        judged = self.expect_one_process("it differs at step 8 (what was written until its checkpoint)", "different")
        self.assertEqual((judged["difference"]["step"], judged["difference"]["what"]), (8, "batch"))

    def test_a_bit_of_a_checkpoint(self):
        run = self.recorded()
        path = run / "checkpoints/step-8.pt"
        saved = torch.load(path, weights_only=False)
        saved["state"]["model"]["0.weight"].view(torch.int32)[0, 0] ^= 1
        torch.save(saved, path)
        self.seal(run)
        judged = self.expect_one_process("it differs at step 8", "different")
        self.assertEqual(judged["difference"]["step"], 8)

    def test_a_line_after_each_boundary(self):
        run = self.recorded()
        before = read(run / "steps.jsonl")
        for number in (8, 16):
            lines = lines_of(run, "steps.jsonl")
            lines[number]["loss"] = "3f000000"
            put_lines(run, "steps.jsonl", lines)
            self.seal(run)
            judged = self.expect_one_process("it differs at step", "different")
            self.assertEqual(judged["difference"]["step"], number + 1)
            (run / "steps.jsonl").write_bytes(before)
        seal_anew(run)


class Interrupted(Segments):
    def test_no_verdict(self):
        self.recorded(BEGIN="if 'ISOBIT_RERUN' in os.environ: import time; print('waits', flush=True); time.sleep(600)")
        process = subprocess.Popen([PROGRAM, "verify", "last", "--workers", "2"], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env={**os.environ, **self.environment()})
        time.sleep(5)
        process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=120)
        self.assertEqual((process.returncode, out), (130, ""), told)
        self.assertIn("interrupted; no verdict", told)
        left = [pid for pid in os.listdir("/proc") if pid.isdigit() and str(self.folder).encode() in self.command_of(pid)]
        self.assertEqual(left, [])

    @staticmethod
    def command_of(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return b""


if __name__ == "__main__":
    unittest.main()
