"""MLP, LeNet-5 and ResNet-18 as ordinary torch modules, and their data."""

from torch import nn

from .data import Inputs


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 10))


def lenet5():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU()
        self.shortcut = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + self.shortcut(x))


def resnet18(channels=3, width=64, small=False, classes=10):
    stem = [nn.Conv2d(channels, width, 3, 1, 1, bias=False) if small else nn.Conv2d(channels, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width), nn.ReLU()] + ([] if small else [nn.MaxPool2d(3, 2, 1)])
    blocks, before = [], width
    for stage in range(4):
        for stride in (1 if stage == 0 else 2, 1):
            blocks.append(Block(before, width << stage, stride))
            before = width << stage
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def batches(name, shape, classes=10):
    """Step -> (x, labels) on the host, made by Philox."""
    def batch(step):
        inputs = Inputs(f"{name} batch {step}")
        return inputs.normal(*shape), inputs.labels(classes, shape[0])
    return batch
