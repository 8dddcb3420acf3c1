"""`isobit run` and an ordinary Python loop give the same weights for the same network, data and order."""
import json
import os
import pathlib
import random
import struct
import subprocess
import tempfile
import unittest

import torch
from torch import nn

import isobit

PROGRAM = os.environ["ISOBIT_PROGRAM"]
SAMPLES, SIZE, BATCH, STEPS = 8, 16, 2, 6


class Transformer(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Linear(SIZE, width)
        self.position = nn.Parameter(torch.zeros(SIZE, width))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 2, 4 * width, dropout=0.0, batch_first=True) for _ in range(2))
        self.fc = nn.Linear(width, 10)

    def forward(self, x):
        x = self.embed(x.squeeze(1)) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.fc(x.mean(1))


class CnnLstm(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.lstm = nn.LSTM(32 * (SIZE // 4), width, num_layers=2)
        self.fc = nn.Linear(width, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1(x).relu(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
        return self.fc(self.lstm(x.permute(3, 0, 1, 2).flatten(2))[0][-1])


class DoubleConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())).relu()


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down0, self.down1, self.down2 = DoubleConv(1, width), DoubleConv(width, 2 * width), DoubleConv(2 * width, 4 * width)
        self.up1, self.merge1 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), DoubleConv(4 * width, 2 * width)
        self.up0, self.merge0 = nn.ConvTranspose2d(2 * width, width, 2, 2), DoubleConv(2 * width, width)
        self.head = nn.Conv2d(width, 11, 1)

    def forward(self, x):
        a = self.down0(x)
        b = self.down1(nn.functional.max_pool2d(a, 2))
        c = self.down2(nn.functional.max_pool2d(b, 2))
        x = self.merge1(torch.cat([b, self.up1(c)], 1))
        return self.head(self.merge0(torch.cat([a, self.up0(x)], 1)))


EXPERIMENT = """
seed = 3
steps = {steps}
batch = 2
[data]
path = "{folder}"
train_images = "images"
train_labels = "labels"
test_images = "images"
test_labels = "labels"
{target}
[model]
{model}
[optimizer]
name = "sgd"
lr = {lr}
momentum = 0.9
weight_decay = 0.001
[fingerprint]
every = 1
"""


class Front(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        make = random.Random(5)
        cls.pixels = bytes(make.choice((0, make.randrange(256))) for _ in range(SAMPLES * SIZE * SIZE))
        cls.labels = bytes(make.randrange(10) for _ in range(SAMPLES))
        (cls.folder / "images").write_bytes(struct.pack(">IIII", 0x803, SAMPLES, SIZE, SIZE) + cls.pixels)
        (cls.folder / "labels").write_bytes(struct.pack(">II", 0x801, SAMPLES) + cls.labels)
        torch.manual_seed(0)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def run_program(self, name, model, target, steps, lr):
        file = self.folder / f"{name}.toml"
        file.write_text(EXPERIMENT.format(folder=self.folder, model=model, target=target, steps=steps, lr=lr))
        done = subprocess.run([PROGRAM, "run", file, "--runs", self.folder / f"runs-{name}", "--threads", "2", "--json"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return pathlib.Path(json.loads(done.stdout)["folder"])

    # With a learning rate of zero the weights at the end are those at the beginning.
    def initial_weights(self, name, model, target):
        folder = self.run_program(name + "-start", model, target, 1, "0.0")
        (checkpoint,) = (folder / "checkpoints").glob("*.safetensors")
        return {key.removeprefix("weights."): value for key, value in read_safetensors(checkpoint).items() if key.startswith("weights.")}

    def batches(self, steps, per_pixel):
        """Which samples a step saw, found by the digest of its line."""
        images = torch.tensor(list(self.pixels), dtype=torch.float32).view(SAMPLES, 1, SIZE, SIZE)
        labels = torch.tensor(list(self.labels))
        if per_pixel:
            labels = torch.where(images[:, 0] > 0, labels.view(-1, 1, 1) + 1, 0)
        images = images / 255
        for line in steps:
            for pair in ((i, j) for i in range(SAMPLES) for j in range(SAMPLES) if i != j):
                chosen = torch.tensor(pair)
                batch = {"images": images[chosen], "labels": labels[chosen], "samples": chosen}
                if isobit.fingerprint(batch).split(":")[1] == line["batch"]:
                    yield batch["images"], batch["labels"]
                    break
            else:
                self.fail(f"step {line['step']}: no two samples have its digest")

    def check(self, name, net, model, target=""):
        initial = self.initial_weights(name, model, target)
        folder = self.run_program(name, model, target, STEPS, "0.1")
        steps = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
        self.assertEqual(len(steps), STEPS)
        with isobit.enabled():
            # lr 0 keeps weights; batch norm's statistics do move, and start as PyTorch's.
            missing, unexpected = net.load_state_dict({k: v for k, v in initial.items() if "running" not in k and "tracked" not in k}, strict=False)
            self.assertFalse(unexpected)
            self.assertTrue(all("running" in key or "tracked" in key for key in missing), missing)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.001)
            for line, (images, labels) in zip(steps, self.batches(steps, bool(target)), strict=True):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(images), labels)
                loss.backward()
                optimizer.step()
                self.assertEqual(struct.pack(">f", loss.item()).hex(), line["loss"], line["step"])
                self.assertEqual(isobit.fingerprint(net.state_dict()).split(":")[1], line["weights"], f"{name}, step {line['step']}")

    def test_mlp(self):
        class Mlp(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc1, self.fc2 = nn.Linear(SIZE * SIZE, 20), nn.Linear(20, 10)

            def forward(self, x):
                return self.fc2(self.fc1(x.flatten(1)).relu())
        self.check("mlp", Mlp(), 'name = "mlp"\nhidden = [20]')

    def test_transformer(self):
        self.check("transformer", Transformer(), 'name = "transformer"\nwidth = 32\ndepth = 2\nheads = 2')

    def test_cnn_lstm(self):
        self.check("cnn_lstm", CnnLstm(), 'name = "cnn_lstm"\nwidth = 24\ndepth = 2')

    def test_unet(self):
        self.check("unet", UNet(), 'name = "unet"\nwidth = 8\nclasses = 11', 'target = "silhouette"')


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    types = {"F32": torch.float32, "I64": torch.int64}
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        found[name] = torch.frombuffer(bytearray(data[8 + length + begin:8 + length + end]), dtype=types[entry["dtype"]]).view(entry["shape"])
    return found


if __name__ == "__main__":
    unittest.main()
