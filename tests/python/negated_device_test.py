"""Lazily negated views on a device, whose memory has the other sign: the CPU's bits.

On the emulated device; ISOBIT_EMULATED names the library.
"""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"]) / "scripts"))
from op_samples import emulated

emulated.install(os.environ["ISOBIT_EMULATED"])

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import isobit  # noqa: E402


class NegatedViewsOnADevice(unittest.TestCase):
    def test_what_reads_memory(self):
        torch.manual_seed(6)
        heads, steps, images, lstm = torch.randn(1, 2, 5, 4), torch.randn(7, 2, 4), torch.randn(2, 3, 6, 6), nn.LSTM(4, 3)
        on_device = nn.LSTM(4, 3).to("cuda")
        on_device.load_state_dict(lstm.state_dict())
        layers = {"cpu": lstm, "cuda": on_device}
        functions = {
            "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), heads),
            "lstm": (lambda x: layers[x.device.type](x)[0], steps),
            "softmax": (lambda x: x.softmax(-1), heads), "sum": (lambda x: x.sum(1), heads), "exp": (torch.exp, heads),
            "copy": (lambda x: torch.zeros_like(x).copy_(x), heads), "pooling": (lambda x: F.max_pool2d(x, 2), images),
            "channels last": (lambda x: x.contiguous(memory_format=torch.channels_last), images),
            "matmul": (lambda x: x @ x.mT, heads), "index": (lambda x: x[:, torch.tensor([1, 0], device=x.device)], heads)}
        for name, (function, x) in functions.items():
            view = torch._neg_view(x.neg().to("cuda"))
            for graph in (False, True):
                with self.subTest(name, graph=graph), isobit.enabled(), torch.set_grad_enabled(graph):
                    found = []
                    for given in (x, view):
                        leaf = given.detach().requires_grad_(graph)
                        y = function(leaf)
                        gradient = torch.autograd.grad(y.square().sum(), leaf)[0] if graph else torch.zeros(0)
                        found.append([isobit.fingerprint(result.detach().cpu().contiguous()) for result in (y, gradient)])
                    self.assertEqual(*found)


if __name__ == "__main__":
    unittest.main()
