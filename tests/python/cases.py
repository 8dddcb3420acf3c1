"""What the tests of the Python package share: isobit itself, small models, processes of their own."""

import os
import subprocess
import sys
import unittest

import torch

import isobit


class Case(unittest.TestCase):
    """Each test begins and ends with the switch off."""

    def setUp(self):
        self.assertFalse(isobit.is_enabled())

    def tearDown(self):
        while isobit.is_enabled():
            isobit.disable()

    def assert_refuses(self, text, function):
        with self.assertRaises(RuntimeError) as caught:
            function()
        self.assertIn(text, str(caught.exception))
        return str(caught.exception)


def small_model():
    return torch.nn.Sequential(torch.nn.Linear(20, 33), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(33, 5))


def train(steps=5, width=20):
    """A short training from a fixed seed; the fingerprint of its weights."""
    torch.manual_seed(3)
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = torch.randn(64, width), torch.randint(0, 5, (64,))
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return isobit.fingerprint(model)


def run_python(program, **environment):
    """A fresh interpreter that sees this package; its output."""
    path = os.pathsep.join([os.path.dirname(os.path.dirname(isobit.__file__)), os.path.dirname(__file__)])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": path, **environment})
    if done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
