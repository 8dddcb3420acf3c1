"""Grains of tensors on a device: the CPU's bits. On the emulated device; ISOBIT_EMULATED names the library.

That library has no records, so the loop is driven over what stands for one here.
"""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"]) / "scripts"))
from op_samples import emulated

emulated.install(os.environ["ISOBIT_EMULATED"])

import torch  # noqa: E402
from torch import nn  # noqa: E402

import isobit  # noqa: E402
from isobit._loops._steps import Steps  # noqa: E402


class Progress:
    def steps_begin(self, _steps):
        return 1

    def step_begins(self, _step):
        pass

    def body_ended(self, _what, _remedy):
        pass

    def steps_end(self):
        pass


class Run:
    """As much of a record as the loop asks for."""

    def __init__(self):
        self._progress, self._batch, self._evaluated, self._tracked, self._models = Progress(), [], [], {}, []
        self._step = self._job = None


def train(device, order=None):
    isobit.seed(3)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(48, 4)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    x, y = torch.randn(20, 1, 6, 6), torch.arange(20) % 4
    run, losses = Run(), []
    for step in Steps(run, (x, y), 10, 4, 2, None, True, 5, None, None):
        for part, target in step.grains(order):
            step._entered(model)
            step.backward(nn.functional.cross_entropy(model(part.to(device)), target.to(device), reduction="sum"))
        step.finish(optimizer)
        losses.append(step.loss)
    return losses, [tensor.cpu() for tensor in model.state_dict().values()]


class GrainsOnADevice(unittest.TestCase):
    def test_the_bits_are_the_cpus(self):
        with isobit.enabled():
            losses, expected = train("cpu")
            for order in (None, [2, 0, 1]):
                found, state = train("cuda:0", order)
                self.assertEqual(found, losses)
                self.assertTrue(all(torch.equal(a, b) for a, b in zip(state, expected, strict=True)))


if __name__ == "__main__":
    unittest.main()
