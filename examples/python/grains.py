"""LeNet-5 in steps of several grains: the weights that `isobit run` gives for the same experiment, bit for bit.

    isobit run examples/fashion-lenet5.toml --set batch=64 --set grain=16 --set steps=100
    python examples/python/grains.py --batch 64 --grain 16 --steps 100
    python -m isobit launch --workers 2 examples/python/grains.py --batch 64 --grain 16 --steps 100     # in two processes

Killed and started again, it goes on where it saved.
"""

import argparse
import gzip
import math
import pathlib

import torch
import torch.nn.functional as F
from torch import nn

import isobit

INITIAL_WEIGHTS = 0x696E6974  # the contract's purpose of keys for them (docs/contract.md, section 5)
WORD = 0xFFFFFFFF


class LeNet5(nn.Module):
    """LeCun, Bottou, Bengio, Haffner, 1998; with ReLU and max pooling."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)
        self.dropout = dropout

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc2(F.relu(self.fc1(x.flatten(1)))))
        return self.fc3(F.dropout(x, self.dropout, self.training))


def philox(key, counters):
    """Philox4x32-10 of int64 tensors: the four words of each counter's block (docs/contract.md, section 5)."""
    c0, c1, c2, c3 = counters
    k0, k1 = key & WORD, key >> 32
    for _ in range(10):
        low, high = c0 * 0xD2511F53, c2 * 0xCD9E8D57  # 64 bits each; shifted and masked, their sign does not matter
        c0, c1, c2, c3 = (high >> 32 & WORD) ^ c1 ^ k0, high & WORD, (low >> 32 & WORD) ^ c3 ^ k1, low & WORD
        k0, k1 = k0 + 0x9E3779B9 & WORD, k1 + 0xBB67AE85 & WORD
    return torch.stack((c0, c1, c2, c3), -1)


def derive_key(seed, purpose, a, b):
    words = philox(seed, torch.tensor([a & WORD, a >> 32, b, 0x80000000 | purpose])).tolist()
    return words[0] | words[1] << 32


def set_initial_weights(model, seed):
    """As `isobit run` does: parameter i by sorted name is uniform in (-b, b) under key i, b = 1 / sqrt(fan in)."""
    parameters = dict(model.named_parameters())
    for i, (name, parameter) in enumerate(sorted(parameters.items())):
        weight = parameters[name.replace("bias", "weight")]
        bound = torch.tensor(1 / math.sqrt(weight[0].numel())).double()  # binary32, as are the words' 24 bits:
        blocks = torch.arange(-(-parameter.numel() // 4))
        zero = torch.zeros_like(blocks)
        words = philox(derive_key(seed, INITIAL_WEIGHTS, i, 0), (blocks, zero, zero, zero)).flatten()[:parameter.numel()]
        exact = (words >> 8).double() * 2**-24 * (bound * 2) - bound  # exact in binary64, and rounded once
        parameter.data.copy_(exact.reshape(parameter.shape))


def read_idx(folder, name):
    data = gzip.decompress((pathlib.Path(folder) / f"{name}.gz").read_bytes())
    sizes = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
    return torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--grain", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--order", choices=("ascending", "descending"), default="ascending", help="of the grains; changes no bit")
    parser.add_argument("--runs", default="runs")
    args = parser.parse_args()

    with isobit.record(args.runs, name="grains", every=20, resume=True) as run:
        isobit.seed(args.seed)
        model = LeNet5(args.dropout)
        set_initial_weights(model, args.seed)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        samples = read_idx(args.data, "train-images-idx3-ubyte").unsqueeze(1), read_idx(args.data, "train-labels-idx1-ubyte")
        if saved := run.load():
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
        for step in run.steps(samples, batch=args.batch, grain=args.grain, steps=args.steps, seed=args.seed):
            order = range(step.grain_count)
            for images, labels in step.grains(order if args.order == "ascending" else order[::-1]):
                logits = model(images.float().div(255))
                step.backward(F.cross_entropy(logits, labels.long(), reduction="sum"))
            step.finish(optimizer)
            if step.number % 20 == 0:
                print(f"step {step.number}  loss {step.loss:.4f}", flush=True)
                run.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    print(f"weights {isobit.fingerprint(model)}")


if __name__ == "__main__":
    main()
