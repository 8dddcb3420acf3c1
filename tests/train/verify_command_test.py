#!/usr/bin/env python3
"""isobit verify from outside: what it says of sound, altered and damaged records.

Usage: verify_command_test.py PROGRAM [unittest arguments]. Standard library only; data are made here.
"""
import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import unittest

from small_run import SmallRun, deterministic_lines, make_data


class VerifyCommand(SmallRun):
    def test_identical(self):
        for arguments in ([], ["--threads", "1", "--isa", "reference"], ["--threads", "8", "--isa", "avx2", "--grain-order", "shuffled"]):
            done = self.isobit("verify", self.run_folder, *arguments)
            self.assertEqual((done.returncode, done.stdout), (
                0, f"identical: 30 steps, {self.weights}, {self.sha256}\nnot recomputed: id and date of the run, times, machine\n"),
                done.stderr)

    def test_range_says_only_what_it_saw(self):
        for first, last in ((1, 3), (28, 29), (30, 30), (24, 30)):
            done = self.isobit("verify", self.run_folder, "--from", str(first), "--to", str(last))
            start = self.start_of(first)
            named = f", from the recorded checkpoint of step {start}" if start else ""
            also = f", the checkpoint of step {start}" if start else ""
            rest = f"all other steps than {first}..{last}{also}"
            self.assertEqual((done.returncode, done.stdout), (
                0, f"identical in steps {first}..{last}{named}\nnot recomputed: id and date of the run, times, machine, {rest}\n"),
                done.stderr)
        self.expect_error(["verify", self.run_folder, "--from", "31"], "1..30")
        self.expect_error(["verify", self.run_folder, "--from", "9", "--to", "8"], "9..8")

    def start_of(self, first):
        """The step of the newest checkpoint before `first` whose file is there; 0: none."""
        kept = [int(re.search(r"step-(\d+)", name)[1]) for name in os.listdir(self.run_folder + "/checkpoints")]
        return max((step for step in kept if step < first), default=0)

    def verdict(self, arguments, code):
        """The JSON of a verification, whose message is what is said without --json."""
        done = self.isobit("verify", *arguments, "--json")
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        verdict = json.loads(done.stdout)
        plain = self.isobit("verify", *arguments)
        said = plain.stdout.splitlines()[0] if code < 2 else plain.stderr.strip().splitlines()[-1]
        self.assertEqual(said.removeprefix("isobit: "), verdict["message"])
        return verdict

    @staticmethod
    def reseal(run, name, content):
        """Writes a file of a finished run and a manifest that agrees with it (docs/formats/run.md)."""
        with open(os.path.join(run, name), "wb") as file:
            file.write(content)
        path = os.path.join(run, "manifest.json")
        with open(path) as file:
            lines = file.read().splitlines(keepends=True)
        entry = json.dumps({"path": name})[1:-1]
        digest = hashlib.sha256(content).hexdigest()
        for i, line in enumerate(lines):
            if entry in line:
                lines[i] = re.sub(r'"size": \d+, "sha256": "\w+"', f'"size": {len(content)}, "sha256": "{digest}"', line)
        body = "".join(lines[:-2])
        with open(path, "w") as file:
            file.write(body + f'  "digest": "{hashlib.sha256(body.encode()).hexdigest()}"\n}}\n')

    def test_json_of_the_same(self):
        weights = self.weights.removeprefix("weights ")
        self.assertEqual(self.verdict([self.run_folder], 0), {
            "verdict": "identical", "path": self.run_folder, "from": 1, "to": 30, "whole": True, "weights": weights,
            "recorded_weights": weights, "signer": None, "weights_sha256": self.sha256.removeprefix("sha256 "), "start": 0,
            "segments": 1, "checkpoints": 5, "outside": [], "recorded_metrics": None, "repeated_metrics": None, "script_output": None, "not_recomputed": ["id and date of the run", "times", "machine"], "difference": None,
            "message": f"identical: 30 steps, {self.weights}, {self.sha256}"})
        part = self.verdict([self.run_folder, "--from", "5", "--to", "7"], 0)
        self.assertEqual((part["from"], part["to"], part["whole"], part["weights"]), (5, 7, False, None))

    def test_json_of_a_difference(self):
        """A record that is sound and untrue: a loss altered, and the manifest made to agree."""
        run = self.copy_of_run()
        with open(run + "/steps.jsonl") as file:
            lines = file.read().splitlines(keepends=True)
        true = json.loads(lines[6])["loss"]
        lines[6] = lines[6].replace(f'"loss":"{true}"', f'"loss":"{int(true, 16) ^ 1:08x}"')
        self.reseal(run, "steps.jsonl", "".join(lines).encode())
        self.assertIn("did not begin like this", self.verdict([run], 2)["message"])  # a checkpoint's line knows better
        with open(run + "/checkpoints.jsonl") as file:
            checkpoints = [json.loads(line) for line in file]
        for entry in checkpoints:
            text = "".join(lines[:entry["step"]]).encode()
            entry["logs"]["steps.jsonl"] = {"size": len(text), "sha256": hashlib.sha256(text).hexdigest()}
        self.reseal(run, "checkpoints.jsonl", "".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in checkpoints).encode())
        verdict = self.verdict([run], 1)
        self.assertEqual((verdict["verdict"], verdict["whole"], verdict["weights"]), ("different", True, None))
        self.assertEqual(verdict["difference"], {"step": 7, "what": "loss", "recorded": f"{int(true, 16) ^ 1:08x}", "recomputed": true})
        self.assertEqual(self.verdict([run, "--from", "8"], 0)["verdict"], "identical")

    def test_json_where_nothing_can_be_said(self):
        run = self.copy_of_run()
        open(run + "/extra", "w").close()
        verdict = self.verdict([run], 2)
        self.assertEqual((verdict["verdict"], verdict["path"], verdict["from"], verdict["difference"]), ("cannot-judge", run, None, None))
        self.assertIn("extra", verdict["message"])
        self.assertIsNone(self.verdict(["absent", "--runs", self.straight], 2)["path"])

    def test_data_elsewhere(self):
        moved = self.fresh("moved")
        shutil.copytree(self.scratch + "/data", moved)
        self.assertEqual(self.verdict([self.run_folder, "--data", moved], 0)["not_recomputed"][3:],
                         ["data.path of the experiment (--data names the folder)"])  # which could name any data set
        make_data(moved, train=91)
        self.expect_error(["verify", self.run_folder, "--data", moved], "not the file that was recorded", "train-images")
        self.expect_error(["verify", self.run_folder, "--data", self.scratch + "/absent"], "absent",
                          "(name the folder of the recorded files with --data)")
        self.expect_error(["trace", self.run_folder, "--steps", "1:1", "--out", self.fresh("a.trace"), "--data", self.scratch + "/absent"],
                          "absent", "(name the folder of the recorded files with --data)")

    def test_an_exported_file_verifies(self):
        moved, file = self.fresh("exported data"), self.fresh("run.tar")
        shutil.copytree(self.scratch + "/data", moved)
        with contextlib.suppress(FileNotFoundError):
            os.remove(file)
        self.assertEqual(self.isobit("export", self.run_folder, "--out", file).returncode, 0)
        verdict = self.verdict([file, "--data", moved], 0)
        self.assertEqual((verdict["verdict"], verdict["whole"], verdict["path"]), ("identical", True, file))
        self.assertEqual(verdict["weights"], self.weights.split()[-1])
        kept = self.fresh("kept")
        self.assertEqual(self.isobit("verify", file, "--into", kept, "--from", "5", "--to", "7").returncode, 0)
        self.assertEqual(deterministic_lines(self.only_run(kept)), deterministic_lines(self.run_folder))
        with open(file, "r+b") as damaged:
            content = bytearray(damaged.read())
            content[content.index(b'"loss":"') + 9] ^= 1
            damaged.seek(0)
            damaged.write(content)
        self.expect_error(["verify", file], "run.tar")

    def test_a_damaged_record_is_named(self):
        draw = random.Random(5)
        for name in ("steps.jsonl", "metrics.jsonl", "experiment.toml", "data.json", "manifest.json"):
            run = self.copy_of_run()
            path = os.path.join(run, name)
            with open(path, "r+b") as file:
                content = bytearray(file.read())
                content[draw.randrange(len(content))] ^= 1
                file.seek(0)
                file.write(content)
            self.expect_error(["verify", run], name)
        run = self.copy_of_run()
        open(run + "/extra", "w").close()
        self.expect_error(["verify", run], "extra")
        run = self.copy_of_run()
        os.remove(run + "/metrics.jsonl")
        self.expect_error(["verify", run], "metrics.jsonl")

    def test_an_unfinished_run_is_not_judged(self):
        runs = self.fresh("unfinished")
        code, _, _ = self.kill_when(runs, 2, signal.SIGKILL)
        if code != 0:
            self.expect_error(["verify", self.only_run(runs)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
