"""A study of a Python script, its records' predictions, and where two of its runs part: by executing the script again."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

from programs import NO_SANDBOX, Programs

import isobit

PROGRAM = os.environ["ISOBIT_PROGRAM"]

SCRIPT = """
import argparse
import torch, isobit

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--arithmetic")
words = parser.parse_args()
with isobit.record("elsewhere", arithmetic=words.arithmetic, every=1, predictions=True) as run:
    torch.manual_seed(words.seed)
    model = torch.nn.Sequential(torch.nn.Linear(96, 48), torch.nn.Tanh(), torch.nn.Linear(48, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    # Not torch.randn, whose numbers depend on the capability.
    x, y = torch.arange(64 * 96).remainder(23).div(23).reshape(64, 96), torch.arange(64).remainder(5)
    for _ in range(4):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        said = model(x).argmax(1)
    run.predictions("test", said, y)
    run.log("test", accuracy=(said == y).float().mean())
"""
STUDY = """
[study]
name = "script"
script = "train.py"
arguments = ["--arithmetic", "stock"]
metric = "test.accuracy"
[factors]
seed = [3]
capability = ["default", "avx2"]
"""


@unittest.skipUnless("avx2" in pathlib.Path("/proc/cpuinfo").read_text(), "this CPU has one capability")
class StudyOfAScript(Programs):
    def call(self, *words, code=0, stderr=False):
        done = subprocess.run([PROGRAM, *words], cwd=self.folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                              env={**os.environ, "PYTHONPATH": str(pathlib.Path(isobit.__file__).parents[1]),
                                   "ISOBIT_PYTHON": sys.executable, "XDG_CACHE_HOME": str(self.folder / "cache")})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if stderr else done.stdout

    def test_capabilities_part_at_an_operator_that_is_named(self):
        self.write("train.py", SCRIPT)
        self.write("study.toml", STUDY)
        results = json.loads(self.call("study", "study.toml", "--json"))
        self.assertIn("capability: weights differ in 1 of 1 groups", results["findings"][0])
        cells = json.loads((self.folder / "studies/script/cells.json").read_text())["cells"]
        runs = [self.folder / "studies/script/runs" / cell["run"] for cell in cells]
        self.assertNotIn("elsewhere", os.listdir(self.folder))
        for run, capability in zip(runs, ("DEFAULT", "AVX2"), strict=True):
            environment = json.loads((run / "environment.json").read_text())
            self.assertEqual((environment["run"]["cpu_capability"], environment["run"]["threads"]), (capability, "1"))
        drift = json.loads(self.call("drift", *map(str, runs), "--json"))
        churn = [line["churn"] for line in drift["per_step"] if line["run"] == runs[1].name and line["churn"] is not None]
        self.assertEqual(len(churn), 1)  # of the same samples, by their digest
        diff = json.loads(self.call("diff", *map(str, runs), "--json", code=1))
        if NO_SANDBOX:
            self.assertIn("sandbox", diff["not_looked_into"])
            return
        operator = diff["operator"]
        self.assertIsNotNone(operator, diff["not_looked_into"])
        # Already the initial weights: the numbers of uniform_ are others under another capability.
        self.assertEqual((operator["step"], operator["name"], operator["module"]), (1, "aten::uniform_", ""), operator)
        self.assertGreater(operator["differing"], 0)
        self.assertEqual(diff["not_looked_into"], "")

    def test_a_metric_that_the_script_does_not_log(self):
        self.write("train.py", SCRIPT)
        self.write("study.toml", STUDY.replace("test.accuracy", "test.acuracy").replace('capability = ["default", "avx2"]\n', ""))
        for words in ([], ["--resume"], ["--gather"]):
            told = self.call("study", "study.toml", *words, code=2, stderr=True)
            self.assertIn("isobit: study.toml:6:10: 'metric' is \"test.acuracy\", which no run has measured (did you mean \"test.accuracy\"? "
                          "measured: test.accuracy; correct it and call again with --resume", told)
        self.write("study.toml", (self.folder / "study.toml").read_text().replace("acuracy", "accuracy"))
        self.call("study", "study.toml", "--resume")
        self.assertEqual(len([path for path in (self.folder / "studies/script/runs").iterdir() if path.name[0] == "2"]), 1)


if __name__ == "__main__":
    unittest.main()
