"""Grains in Python against `isobit run`: the same weights and losses; killed and resumed; verified."""

import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import unittest

import torch
import torch.nn.functional as F
from programs import read_record
from record_test import PROGRAM, Folder
from records import write_images
from torch import nn

SOURCE = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"])
EXAMPLE = (SOURCE / "examples" / "python" / "grains.py").read_text()

RESNET = """
import sys
import torch, isobit
import torch.nn.functional as F
import grains, parts

with isobit.record("runs", every=1) as run:
    isobit.seed(1)
    model = parts.ResNet18()
    model.load_state_dict(torch.load("initial.pt"), strict=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    samples = grains.read_idx("data", "train-images-idx3-ubyte").unsqueeze(1), grains.read_idx("data", "train-labels-idx1-ubyte")
    for step in run.steps(samples, batch=10, grain=4, epochs=1):
        for images, labels in step.grains([2, 0, 1] if step.grain_count == 3 else None):
            step.backward(F.cross_entropy(model(images.float().div(255)), labels.long(), reduction="sum"))
        step.finish(optimizer)
print(isobit.fingerprint(model))
"""


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.downsample = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """With the program's small stem; names as torchvision's."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        before = 64
        for stage, after in enumerate((64, 128, 256, 512), start=1):
            stride = 1 if stage == 1 else 2
            setattr(self, f"layer{stage}", nn.Sequential(Block(before, after, stride), Block(after, after, 1)))
            before = after
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def safetensors(path):
    """name -> tensor, of float32 and int64 tensors."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    tensors = {}
    for name, entry in json.loads(content[8:8 + size]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            dtype = {"F32": torch.float32, "I64": torch.int64}.get(entry["dtype"])
            if dtype is not None and math.prod(entry["shape"]):
                data = bytearray(content[8 + size + first:8 + size + last])
                tensors[name] = torch.frombuffer(data, dtype=dtype).reshape(entry["shape"])
    return tensors


class GrainsAndProgram(Folder):
    def setUp(self):
        super().setUp()
        if not PROGRAM:
            self.skipTest("ISOBIT_PROGRAM names no program")
        write_images(self.folder / "data", train=90, test=10)
        self.write("grains.py", EXAMPLE)

    def run_program(self, *settings):
        """The record of `isobit run`; its folder."""
        experiment = 'name = "e"\nseed = 1\n[data]\npath = "data"\n[optimizer]\nname = "sgd"\nlr = 0.05\nmomentum = 0.9\n'
        self.write("e.toml", experiment)
        words = [PROGRAM, "run", "e.toml", "--runs", "program", "--json", "--set", "fingerprint.every=1"]
        for setting in settings:
            words += ["--set", setting]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        folder = max((self.folder / "program").glob("*-e-*"), key=lambda path: path.stat().st_mtime_ns, default=None)
        return folder or next((self.folder / "program").iterdir())

    def losses_and_weights(self, folder):
        record = read_record(folder)
        lines = [json.loads(line) for line in record["steps.jsonl"].splitlines()]
        return [line["loss"] for line in lines], json.loads(record["state.json"])["weights"]

    def test_lenet5_has_the_programs_bits(self):
        """Epochs whose last step is short, steps whose last grain is short, steps of one grain; dropout in each."""
        losses, weights = self.losses_and_weights(self.run_program(
            "model.name=lenet5", "model.dropout=0.5", "batch=40", "grain=16", "epochs=2"))
        for order, threads in (("ascending", "1"), ("descending", "3")):
            status, out, told = self.run_script("grains.py", "--data", "data", "--batch", "40", "--grain", "16", "--steps", "6",
                                                "--dropout", "0.5", "--order", order, "--runs", f"runs-{threads}",
                                                **self.environment(OMP_NUM_THREADS=threads))
            self.assertEqual(status, 0, out + told)
            self.assertEqual(out.splitlines()[-1], f"weights {weights}")
            folder = next((self.folder / f"runs-{threads}").glob("*grains*"))
            self.assertEqual(self.losses_and_weights(folder), (losses, weights))

    def test_resnet18_has_the_programs_bits(self):
        initial = self.run_program("model.name=resnet18", "batch=10", "grain=4", "steps=1", "optimizer.lr=0", "data.train_limit=13",
                                   "optimizer.momentum=0", "evaluate.every=0", "data.test_limit=1")
        tensors = safetensors(next((initial / "checkpoints").glob("*.safetensors")))
        names = dict(ResNet18().named_parameters())
        torch.save({name: tensors[f"weights.{name}"] for name in names}, self.folder / "initial.pt")
        losses, weights = self.losses_and_weights(self.run_program(
            "model.name=resnet18", "batch=10", "grain=4", "epochs=1", "data.train_limit=13", "evaluate.every=0", "data.test_limit=1"))
        write_images(self.folder / "data", train=90, test=10)
        model = pathlib.Path(__file__).read_text().partition("class Block")[2].partition("def safetensors")[0]
        self.write("parts.py", f"import torch.nn.functional as F\nfrom torch import nn\n\n\nclass Block{model}")
        self.write("train.py", RESNET.replace(').unsqueeze(1), grains', ')[:13].unsqueeze(1), grains').replace(
            '"train-labels-idx1-ubyte")\n', '"train-labels-idx1-ubyte")[:13]\n'))
        out = self.train()
        self.assertEqual(out[-1], weights)
        folder = next((self.folder / "runs").glob("*train*"))
        self.assertEqual(self.losses_and_weights(folder), (losses, weights))

    def test_killed_and_resumed(self):
        words = ["--data", "data", "--batch", "20", "--grain", "8", "--steps", "45", "--dropout", "0.3"]
        status, out, told = self.run_script("grains.py", *words, "--runs", "whole", **self.environment())
        self.assertEqual(status, 0, out + told)
        whole = read_record(next((self.folder / "whole").glob("*grains*")))
        self.write("grains.py", EXAMPLE.replace("            step.finish(optimizer)\n", (
            "            step.finish(optimizer)\n"
            "            import os\n"
            "            if os.environ.get('KILL') == str(step.number):\n"
            "                os.kill(os.getpid(), 9)\n")))
        for kill in ("13", "27", "44"):
            status, out, told = self.run_script("grains.py", *words, "--runs", "parts", **self.environment(KILL=kill))
            self.assertEqual(status, -signal.SIGKILL, out + told)
        status, again, told = self.run_script("grains.py", *words, "--runs", "parts", **self.environment())
        self.assertEqual(status, 0, again + told)
        self.assertNotIn("step 20", again)
        folders = list((self.folder / "parts").glob("*grains*"))
        self.assertEqual(len(folders), 1)
        parts = read_record(folders[0])
        self.assertEqual(parts["steps.jsonl"], whole["steps.jsonl"])
        self.assertEqual(json.loads(parts["state.json"])["weights"], json.loads(whole["state.json"])["weights"])

    def test_resumed_loops_are_those_of_before(self):
        script = """
import os, sys
import torch, isobit
with isobit.record("runs", every=1, resume=True) as run:
    isobit.seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Dropout(0.2), torch.nn.Linear(6, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    samples = torch.randn(30, 4), torch.randint(2, (30,))
    if saved := run.load():
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    run.log("test", before=torch.rand(1))
    for loop in (1, 2):
        for step in run.steps(samples, batch=int(os.environ.get("BATCH", 12)), grain=4, epochs=2, seed=loop):
            for x, y in step.grains():
                step.backward(torch.nn.functional.cross_entropy(model(x), y, reduction="sum"))
            step.finish(optimizer)
            if step.ends_epoch:
                run.log("test", noise=torch.rand(1))
            run.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
            if os.environ.get("KILL") == str(run.steps):
                os.kill(os.getpid(), 9)
    print(run.path)
"""
        self.write("train.py", script)
        whole = self.run_of(self.train())
        for kill in ("2", "6", "7", "11"):
            with self.subTest(kill):
                self.train(expect=-signal.SIGKILL, KILL=kill)
                parts = self.run_of(self.train())
                for log in ("steps.jsonl", "metrics.jsonl"):
                    self.assertEqual(parts[log], whole[log])
        self.train(expect=-signal.SIGKILL, KILL="3")
        status, out, told = self.run_script("train.py", **self.environment(BATCH="10"))
        self.assertEqual(status, 1, out + told)
        self.assertIn("resumes within a loop over run.steps of 30 samples, batch=12", told)

    def test_verified(self):
        words = ["--data", "data", "--batch", "20", "--grain", "8", "--steps", "7", "--order", "descending"]
        self.write("train.py", EXAMPLE)
        self.train(*words)
        self.assertEqual(self.verify("--", *words)["verdict"], "identical")
        folder = next((self.folder / "runs").glob("*grains*"))
        lines = (folder / "steps.jsonl").read_text().splitlines(keepends=True)
        line = json.loads(lines[3])
        line["loss"] = f"{int(line['loss'], 16) ^ 1:08x}"
        (folder / "steps.jsonl").write_text("".join([*lines[:3], json.dumps(line, separators=(",", ":")) + "\n", *lines[4:]]))
        self.seal(folder)
        self.assertEqual(self.verify("--", *words, expect=1)["difference"]["step"], 4)


if __name__ == "__main__":
    unittest.main()
