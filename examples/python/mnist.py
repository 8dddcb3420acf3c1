"""An ordinary Fashion-MNIST classifier plus two lines: with isobit the weights have the same bits everywhere.

    python examples/python/mnist.py --data /usr/share/datasets/fashion-mnist --epochs 1
"""

import argparse
import gzip
import pathlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import isobit  # line one


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = self.dropout1(x)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = self.dropout2(x)
        return F.log_softmax(self.fc2(x), dim=1)


def read_idx(folder, name):
    """Reads an idx file, gzipped or not. The header has the type (always bytes here) and the sizes."""
    path = pathlib.Path(folder) / name
    data = path.read_bytes() if path.exists() else gzip.decompress(pathlib.Path(f"{path}.gz").read_bytes())
    dimensions = data[3]
    sizes = np.frombuffer(data, ">i4", dimensions, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(sizes)


def load(folder, part, count):
    images = torch.tensor(read_idx(folder, f"{part}-images-idx3-ubyte")[:count]).unsqueeze(1).float().div(255)
    labels = torch.tensor(read_idx(folder, f"{part}-labels-idx1-ubyte")[:count]).long()
    return TensorDataset((images - 0.286) / 0.353, labels)


def train(args, model, train_loader, optimizer, epoch):
    model.train()
    for batch, (data, target) in enumerate(train_loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch % args.log_interval == 0:
            print(f"epoch {epoch} [{batch}/{len(train_loader)}] loss {loss.item():.6f}")


def test(model, test_loader):
    model.eval()
    loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in test_loader:
            output = model(data)
            loss += F.nll_loss(output, target, reduction="sum").item()
            correct += output.argmax(dim=1).eq(target).sum().item()
    count = len(test_loader.dataset)
    print(f"test: loss {loss / count:.4f}, {correct} of {count} correct ({100 * correct / count:.1f} %)")


def main():
    parser = argparse.ArgumentParser(description="Fashion-MNIST")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="folder of the idx files")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--count", type=int, default=60000, help="use only this many images")
    parser.add_argument("--log-interval", type=int, default=100)
    args = parser.parse_args()

    isobit.enable()  # line two
    torch.manual_seed(args.seed)
    train_loader = DataLoader(load(args.data, "train", args.count), args.batch_size, shuffle=True,
                              num_workers=args.workers)
    test_loader = DataLoader(load(args.data, "t10k", args.count), 1000, num_workers=args.workers)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(1, args.epochs + 1):
        train(args, model, train_loader, optimizer, epoch)
        test(model, test_loader)
    print("weights", isobit.fingerprint(model.state_dict()))


if __name__ == "__main__":
    main()
