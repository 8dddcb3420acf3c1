"""MLP, LeNet-5, ResNet-18 and a GPT as ordinary torch modules, and their data."""

import torch
import torch.nn.functional as F
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


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """Of GPT-2's form; with 12 blocks of 768 and 12 heads its 124 million parameters."""

    def __init__(self, blocks, words, tokens, width, heads):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.blocks = nn.Sequential(*[GptBlock(width, heads) for _ in range(blocks)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        y = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        return F.linear(self.norm(self.blocks(y)), self.words.weight)


def batches(name, shape, classes=10):
    """Step -> (x, labels) on the host, made by Philox."""
    def batch(step):
        inputs = Inputs(f"{name} batch {step}")
        return inputs.normal(*shape), inputs.labels(classes, shape[0])
    return batch
