"""isobit calibrate and drift as a user calls them. fake_run.cpp stands in for `isobit run`.

Usage: calibrate_command_test.py ISOBIT FAKE_RUN"""
import json
import os
import shutil
import subprocess
import sys
import unittest

from commands import FAKE, Command


class Calibrate(Command):
    def calibrate(self, *words, code=0, **environment):
        return self.call("calibrate", "--program", FAKE, *words, code=code, **environment)

    def run_once(self, **environment):
        done = subprocess.run([FAKE, "run", "experiment.toml", "--json", "--runs", "runs"], cwd=self.folder, check=True,
                              env={**self.environment, **environment}, capture_output=True, text=True)
        return json.loads(done.stdout)["id"]

    def test_what_moved_and_since_when(self):
        self.assertIn("has no baselines", self.calibrate(code=2).stderr)
        run = self.run_once()
        self.call("calibrate", "--add", run, "--as", "fake")
        self.assertIn("unchanged", self.calibrate().stdout)
        moved = self.calibrate(code=1, FAKE_SHIFT="0.01").stdout
        self.assertIn("differs from step 3 on; isobit's bits must not move", moved)
        self.assertIn("test.accuracy 0.81, recorded 0.8 (+0.01)", moved)
        self.assertIn("unchanged when last calibrated, 20", moved)
        whole = json.loads(self.calibrate("--json", "--tag", "fake", code=1, FAKE_SHIFT="0.01").stdout)
        self.assertEqual(whole["claimed"], ["baselines.run", "baselines.last_unchanged", "baselines.changes", "baselines.changes_since"])
        report = whole["baselines"][0]
        self.assertEqual((report["verdict"], report["first_step"]), ("moved", 3))
        history = [json.loads(line) for line in (self.folder / "runs/calibrations.jsonl").read_text().splitlines()]
        self.assertEqual([line["verdict"] for line in history], ["unchanged", "moved", "moved"])
        self.assertEqual(report["last_unchanged"], history[0]["time"])
        # What moved stays to be looked at; what did not is no second copy. Lists pass over both.
        self.assertEqual(len([f for f in os.listdir(self.folder / "runs/.calibrations") if not f.startswith(".")]), 2)
        self.assertEqual(len(json.loads(self.call("log", "--json").stdout)), 1)
        self.assertTrue(os.path.isdir(self.folder / report["kept"]))

    def test_another_version_of_stock_with_the_same_values_moved_nothing(self):
        (self.folder / "experiment.toml").write_text('name = "fake"\n\n[arithmetic]\nkind = "stock"\n')
        old, new = {"FAKE_CONTRACT": "stock-2.13.0"}, {"FAKE_CONTRACT": "stock-2.15.0"}
        self.call("calibrate", "--add", self.run_once(**old), "--as", "fake")
        self.assertIn("unchanged", self.calibrate(**new).stdout)
        # One recorded run has no spread; a second that differs makes one, and a value outside of it has moved.
        self.assertIn("whose spread is unknown", self.calibrate(code=2, FAKE_SHIFT="0.01", **new).stdout)
        self.call("calibrate", "--add", self.run_once(FAKE_SHIFT="0.001", **old), "--as", "fake")
        self.assertIn("within the recorded spread", self.calibrate(FAKE_SHIFT="0.002", **new).stdout)
        self.assertIn("outside the recorded spread", self.calibrate(code=1, FAKE_SHIFT="0.5", **new).stdout)
        # isobit's bits under another contract are not promised: they moved, and the verdict says why.
        shutil.rmtree(self.folder / "runs")
        (self.folder / "experiment.toml").write_text('name = "fake"\n')
        self.call("calibrate", "--add", self.run_once(FAKE_CONTRACT="isobit-0.1"), "--as", "fake")
        self.assertIn("the contract is isobit-0.2 now, isobit-0.1 before",
                      self.calibrate(code=1, FAKE_CONTRACT="isobit-0.2", FAKE_SHIFT="0.01").stdout)

    def test_nobody_can_tell_when_the_run_fails(self):
        self.call("calibrate", "--add", self.run_once(), "--as", "fake")
        self.environment["FAKE_ACTS"] = ""
        (self.folder / "runs" / ".calibrations").write_text("in the way")
        self.assertIn("unknown", self.calibrate(code=2).stdout)

    def test_baselines_are_listed_removed_and_checked(self):
        run = self.run_once()
        self.call("calibrate", "--add", run, "--as", "fake")
        listed = json.loads(self.call("calibrate", "--list", "--json").stdout)
        self.assertEqual([(b["name"], b["runs"], b["claimed"]) for b in listed], [("fake", [run], ["runs", "added"])])
        self.assertIn("isobit's runs have no spread", self.call("calibrate", "--add", self.run_once(), "--as", "fake", code=2).stderr)
        self.assertIn("there is no baseline 'fkae'", self.calibrate("--tag", "fkae", code=2).stderr)
        self.assertIn("contradict", self.call("calibrate", "--add", run, code=2).stderr)
        self.call("calibrate", "--remove", "fake")
        self.assertEqual(self.call("calibrate", "--list").stdout, "")
        for text, part in (('[a]\nruns = ["../../etc"]\n', "names a run that cannot be"), ("[a]\n", "names no run"),
                           ('[a]\nruns = ["20260101-000000-a-00000000"]\n', "which is not there"),
                           ('[a]\nruns = ["b"]\nrum = 1\n', "unknown key 'rum'"), ("[a", "not TOML")):
            (self.folder / "runs/baselines.toml").write_text(text)
            self.assertIn(part, self.calibrate(code=2).stderr)

    def test_a_damaged_history_is_refused(self):
        self.call("calibrate", "--add", self.run_once(), "--as", "fake")
        self.calibrate()
        log = self.folder / "runs/calibrations.jsonl"
        line = log.read_text()
        for damaged in (line.replace('"unchanged"', '"unchangd"'), line.replace(",", ", ", 1), "{}\n"):
            log.write_text(damaged)
            self.assertIn("calibrations.jsonl:1: the line is damaged", self.calibrate(code=2).stderr)
        log.write_text(line + line[:20])  # cut off by a kill
        self.calibrate()
        self.calibrate()
        self.assertEqual(len(log.read_text().splitlines()), 3)


class Drift(Command):
    def test_from_the_command_line(self):
        ids = []
        for shift in ({}, {}, {"FAKE_SHIFT": "0.5"}):
            done = subprocess.run([FAKE, "run", "experiment.toml", "--json", "--runs", "runs"], cwd=self.folder, check=True,
                                  env={**self.environment, **shift}, capture_output=True, text=True)
            ids.append(json.loads(done.stdout)["id"])
        drift = json.loads(self.call("drift", *ids, "--json").stdout)
        self.assertEqual((drift["format"], drift["reference"], drift["runs"]), ("isobit-drift-1", ids[0], ids))
        self.assertEqual(drift["claimed"], ["reference", "runs", "cells.run", "per_step.run"])
        differences = {run: [s["loss_difference"] for s in drift["per_step"] if s["run"] == run] for run in ids}
        self.assertEqual(differences[ids[1]], [0, 0, 0, 0])
        self.assertEqual(differences[ids[2]][:2], [0, 0])
        self.assertTrue(all(d != 0 for d in differences[ids[2]][2:]))
        text = self.call("drift", *ids).stdout
        self.assertIn("the same final weights", text)
        self.assertIn("loss: parts at step 3 of 4", text)
        self.assertIn("only one is named", self.call("drift", ids[0], code=2).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
