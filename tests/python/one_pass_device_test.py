"""Optimizers' steps of tensors on a device: one launch for many parameters, with the CPU's bits.

On the emulated device; ISOBIT_EMULATED names the library.
"""

import os
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"]) / "scripts"))
from op_samples import emulated

emulated.install(os.environ["ISOBIT_EMULATED"])

import torch  # noqa: E402

import isobit  # noqa: E402
from isobit._base import _library  # noqa: E402

ADAM, ADAMW, SGD = torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD
FORMS = [(ADAM, {"lr": 3e-3, "weight_decay": 0.1}), (ADAMW, {"lr": 3e-3, "betas": (0.8, 0.99), "eps": 1e-6}),
         (SGD, {"lr": 0.1}), (SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True})]
STEPS = 4


def tensors(seed):
    torch.manual_seed(seed)
    made = [torch.randn(size % 90 if size % 11 else 0) for size in range(140)]  # more than one launch takes, some empty
    made[5].view(-1)[:5] = torch.tensor([-0.0, 1e-45, 3e38, float("inf"), float("nan")])
    return [*made, torch.randn(9, 30).t(), torch.randn(33, 1021), torch.randn(50)[3:]]


def same_memory(tensor, device):
    """On the device with the same strides, and as far from a vector's boundary."""
    base = torch.empty_strided((tensor.storage_offset() + tensor.numel(),), (1,), device=device)
    copy = base.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    return copy.copy_(tensor)


class OnePassOnADevice(unittest.TestCase):
    def setUp(self):
        isobit.enable()
        self.addCleanup(isobit.disable)

    def steps(self, device, make, settings, between=None):
        """Bits of parameters and states, and how often the one pass was taken."""
        parameters = [same_memory(tensor, device).requires_grad_() for tensor in tensors(1)]
        optimizer, taken = make(parameters, **settings), []
        names = ("adam_in_one_pass", "sgd_in_one_pass")
        functions = {name: getattr(_library, name) for name in names}

        def spy(name):
            def call(*arguments):
                taken.append(functions[name](*arguments))
                return taken[-1]
            return call

        with mock.patch.multiple(_library, **{name: spy(name) for name in names}):
            for step in range(STEPS):
                for place, (parameter, gradient) in enumerate(zip(parameters, tensors(10 + step), strict=True)):
                    skipped = step == 1 and place % 5 == 0  # from here on its number of steps is another
                    parameter.grad = None if skipped else same_memory(gradient, device)
                if between is not None:
                    between(parameters)
                optimizer.step()
        states = [value for parameter in parameters for value in optimizer.state[parameter].values()
                  if isinstance(value, torch.Tensor)]
        return [isobit.fingerprint(value.detach().cpu()) for value in [*parameters, *states]], taken.count(True)

    def test_the_bits_of_the_cpu(self):
        for make, settings in FORMS:
            for form in ({"foreach": True}, {"foreach": False}, {"fused": True}):
                with self.subTest(make.__name__, **settings, **form):
                    expected, _ = self.steps("cpu", make, {**settings, **form})
                    found, taken = self.steps("cuda", make, {**settings, **form})
                    self.assertEqual(found, expected)
                    first = "momentum" in settings  # makes the buffers
                    self.assertEqual(taken, 0 if "fused" in form else STEPS - first)

    def test_what_lies_on_each_other_takes_the_sequence(self):
        """Of two parameters: no launch for both."""
        def share(parameters):
            for place in (2, 3):
                parameters[place].data = memory[place - 2: 2 * place - 2]  # of two and three elements, one of them common

        for make, settings in (FORMS[1], FORMS[2]):
            for form in ({"foreach": False}, {"fused": True}):
                found = []
                for device in ("cpu", "cuda"):
                    memory = torch.arange(4.0, device=device)
                    bits, taken = self.steps(device, make, {**settings, **form}, between=share)
                    found.append(bits)
                self.assertEqual(taken, 0)
                self.assertEqual(*found)


if __name__ == "__main__":
    unittest.main()
