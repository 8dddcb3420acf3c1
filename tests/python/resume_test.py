"""isobit.record(resume=True): a killed program that is resumed leaves the record of an unbroken one."""

import json
import os
import re
import shutil
import signal
import textwrap
import unittest

from programs import read_record
from record_test import PROGRAM, Folder

import isobit

SCRIPT = """
import os, random, signal, sys
import numpy, torch, isobit

with isobit.record("runs", every=2, resume=True) as run:
    isobit.seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.BatchNorm1d(9), torch.nn.Dropout(0.2), torch.nn.Linear(9, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.utils.data.TensorDataset(torch.randn(32, 6), torch.randint(3, (32,)))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    first, saved = 1, run.load()
    print("resumed" if saved else "new", run.steps)
    if saved:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1
    for run.epoch in range(first, 5):
        for x, y in loader:
            optimizer.zero_grad()
            scale = 1 + random.random() + float(numpy.random.rand())
            torch.nn.functional.cross_entropy(model(x) * scale, y).backward()
            optimizer.step()
            if os.environ.get("KILL") == str(run.steps):
                os.kill(os.getpid(), signal.SIGKILL)
        model.eval()
        with torch.no_grad():
            run.log("test", accuracy=(model(x).argmax(1) == y).float().mean().item())
        model.train()
        run.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": run.epoch})
print(run.path)
"""


class Resume(Folder):
    def setUp(self):
        super().setUp()
        self.write("train.py", SCRIPT)

    def logs(self, path):
        record = read_record(self.folder / path)
        return {name: record[name] for name in ("steps.jsonl", "metrics.jsonl", "evaluations.jsonl")} | {
            "weights": json.loads(record["state.json"])["weights"]}

    def only(self):
        (path,) = (path for path in (self.folder / "runs").iterdir() if path.name[0] == "2")
        return path

    def test_killed_anywhere(self):
        unbroken = self.logs(self.train()[1])
        (self.folder / "runs").rename(self.folder / "unbroken")
        self.train(KILL="3", expect=-signal.SIGKILL)  # before any checkpoint: it begins anew, in the same folder
        self.train(KILL="7", expect=-signal.SIGKILL)
        run = json.loads(self.call(PROGRAM, "log", "--json"))[0]
        self.assertEqual((run["state"], run["steps"]), ("interrupted", 7))
        self.call(PROGRAM, "verify", "last", expect=2)
        self.train(KILL="15", expect=-signal.SIGKILL)
        lines = self.train()
        self.assertEqual(lines[0], "resumed 12")
        self.assertEqual(self.logs(lines[1]), unbroken)
        self.assertEqual(sorted(path.name for path in (self.only() / "checkpoints").iterdir()), ["step-16.pt"])
        self.assertEqual(list((self.folder / "runs" / ".locks").iterdir()), [])
        shown = json.loads(self.call(PROGRAM, "show", "last", "--json"))
        self.assertTrue(shown["record"].startswith("sound: "))
        self.assertEqual(self.verify()["verdict"], "identical")
        self.call(PROGRAM, "export", "last", "--out", "run.tar")
        self.isobit("verify", "run.tar")
        self.assertEqual(self.train()[0], "new 0")  # nothing left to resume

    def test_after_the_last_step(self):
        self.write("train.py", SCRIPT.replace('"epoch": run.epoch})', '"epoch": run.epoch})\n    if "KILL" in os.environ: os._exit(3)'))
        self.train(KILL="0", expect=3)
        broken = self.logs(self.train()[1])
        (self.folder / "runs").rename(self.folder / "unbroken")
        self.assertEqual(self.logs(self.train()[1]), broken)

    def test_what_stops_it(self):
        self.train(KILL="7", expect=-signal.SIGKILL)
        steps = self.only() / "steps.jsonl"
        lines = steps.read_text()
        # A step that comes out differently than before.
        steps.write_text(re.sub('("step":6,"epoch":2,"loss":")[0-9a-f]{8}', r"\g<1>00000001", lines))
        self.assertIn("step 6 came out differently", self.failed())
        # What was before the checkpoint is proven.
        steps.write_text("x" + lines)
        self.assertIn("steps.jsonl: damaged", self.failed())
        steps.write_text(lines)
        # A script that forgot to load; one that has changed; another interval.
        self.write("train.py", SCRIPT.replace("run.load()", "None"))
        self.assertIn("train.py has changed", self.failed())
        self.write("train.py", SCRIPT.replace("every=2", "every=3"))
        self.assertIn("every=2, not 3", self.failed())
        self.write("train.py", SCRIPT)
        # Somebody writes it: this process.
        lock = self.folder / "runs" / ".locks" / self.only().name
        with isobit.record(self.folder / "other") as other:
            shutil.copy(self.folder / "other" / ".locks" / other.id, lock)
        self.assertIn(f"being written by process {os.getpid()} on this machine", self.failed())
        lock.unlink()
        self.assertEqual(self.train()[0], "resumed 4")

    def test_forgotten_load(self):
        self.write("train.py", SCRIPT.replace("first, saved = 1, run.load()", "first, saved = 1, 'LOAD' in os.environ and run.load()"))
        self.train(KILL="7", expect=-signal.SIGKILL)
        self.assertIn("did not call run.load()", self.failed())
        self.assertEqual(self.train(LOAD="1")[0], "resumed 4")

    def test_generators_of_cuda_devices(self):
        """Of made-up devices: what they hold goes into a checkpoint and back, where there are as many, or fewer."""
        text = """
            import os, signal
            import torch, isobit
            devices = [torch.full((16,), i, dtype=torch.uint8) for i in range(int(os.environ["DEVICES"]))]
            torch.cuda.is_initialized, torch.cuda.device_count = lambda: len(devices) > 0, lambda: len(devices)
            torch.cuda.get_rng_state_all = lambda: [state.clone() for state in devices]
            torch.cuda.set_rng_state = lambda state, device: devices[device].copy_(state)
            with isobit.record("runs", resume=True) as run:
                isobit.seed(1)
                model = torch.nn.Linear(2, 2)
                optimizer, loader = torch.optim.SGD(model.parameters()), torch.utils.data.DataLoader(torch.ones(4, 2))
                saved = run.load()
                for epoch in run.epochs(1):
                    for x in run.batches(loader):
                        if saved:
                            print([int(state[0]) for state in devices])
                        for i, state in enumerate(devices):
                            state.fill_(16 * run.batch + i)
                        model(x).sum().backward()
                        optimizer.step()
                        if not saved and run.batch == 2:
                            run.save(1)
                            os.kill(os.getpid(), signal.SIGKILL)
            """
        for devices, expect in (("2", ["[32, 33]", "[48, 49]"]), ("1", ["[32]", "[48]"]), ("0", ["[]", "[]"])):
            self.write("train.py", textwrap.dedent(text))
            self.train(DEVICES="2", expect=-signal.SIGKILL)
            self.assertEqual(self.train(DEVICES=devices), expect)

    def failed(self):
        status, _, told = self.run_script()
        self.assertEqual(status, 1)
        return told


if __name__ == "__main__":
    unittest.main()
