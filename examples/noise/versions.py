"""Three small networks on Fashion-MNIST, by stock PyTorch or by isobit, for a study of PyTorch's versions.

    python examples/noise/versions.py --model lstm --seed 1 --arithmetic stock

docs/guides/noise.md shows what comes out under two versions. Initial weights are drawn by Philox and not by PyTorch, so that both
versions start from the same ones; the order of the samples, too.
"""

import argparse
import gzip
import pathlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import isobit

SIZE = 28


class Lstm(nn.Module):
    """A convolution, then an LSTM over the columns of its result."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1)
        self.lstm = nn.LSTM(16 * 14, 64, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        out, _ = self.lstm(x.permute(0, 3, 1, 2).flatten(2))
        return self.head(out[:, -1])


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.short(x))


class Residual(nn.Sequential):
    """Three residual blocks."""

    def __init__(self):
        super().__init__(nn.Conv2d(1, 16, 3, 1, 1), Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Transformer(nn.Module):
    """Two layers of a transformer over the rows of the image."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(SIZE, 64)
        self.place = nn.Parameter(torch.zeros(SIZE, 64))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(64, 4, 128, 0.0, F.gelu, batch_first=True, norm_first=True)
                                    for _ in range(2))
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = self.enter(x.squeeze(1)) + self.place
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


MODELS = {"lstm": Lstm, "residual": Residual, "transformer": Transformer}


def read_idx(folder, name):
    data = gzip.decompress((pathlib.Path(folder) / f"{name}.gz").read_bytes())
    sizes = np.frombuffer(data, ">i4", data[3], 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(sizes)


def load(folder, part, count):
    images = torch.tensor(read_idx(folder, f"{part}-images-idx3-ubyte")[:count]).unsqueeze(1).float().div(255)
    return (images - 0.286) / 0.353, torch.tensor(read_idx(folder, f"{part}-labels-idx1-ubyte")[:count]).long()


def draw(model, generator):
    """Matrices by their fan in, uniform; vectors stay as the modules make them (ones and zeros are drawn by nobody)."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                bound = (3 / weight[0].numel()) ** 0.5
                weight.copy_(torch.tensor(generator.uniform(-bound, bound, tuple(weight.shape)).astype(np.float32)))
            elif weight.unique().numel() > 1:
                weight.zero_()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="folder of the idx files")
    parser.add_argument("--model", choices=sorted(MODELS), default="lstm")
    parser.add_argument("--arithmetic", choices=["isobit", "stock"], default="isobit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch-size", type=int, default=32)
    words = parser.parse_args()
    images, labels = load(words.data, "train", 4000)
    test_images, test_labels = load(words.data, "t10k", 2000)
    with isobit.record("runs/", arithmetic=words.arithmetic, every=10, predictions=True) as run:
        generator = np.random.Generator(np.random.Philox(words.seed))
        model = MODELS[words.model]()
        draw(model, generator)
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        for _ in range(words.steps):
            chosen = torch.tensor(generator.choice(len(images), words.batch_size, replace=False))
            optimizer.zero_grad()
            F.cross_entropy(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            said = torch.cat([model(part).argmax(1) for part in test_images.split(500)])
        run.predictions("test", said, test_labels)
        run.log("test", accuracy=(said == test_labels).float().mean())


if __name__ == "__main__":
    main()
