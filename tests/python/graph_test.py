"""Backward from Python: a graph runs under the setting of the switch under which it was recorded."""

import threading
import unittest

import torch
from cases import Case, small_model

import isobit


def loss():
    return small_model()(torch.ones(4, 20)).square().sum()


class Double(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 2


class Graph(Case):
    recorded_on = "recorded with isobit on and cannot run with it off"
    recorded_off = "recorded with isobit off and cannot run with it on"

    def test_on_then_off(self):
        with isobit.enabled():
            result = loss()
        message = self.assert_refuses(self.recorded_on, result.backward)
        self.assertIn("both with isobit on", message)
        self.assert_refuses(self.recorded_on, lambda: torch.autograd.backward([result]))

    def test_off_then_on(self):
        result = loss()
        with isobit.enabled():
            self.assert_refuses(self.recorded_off, result.backward)
        result.backward()

    def test_autograd_grad(self):
        x = torch.ones(3, requires_grad=True)
        with isobit.enabled():
            y = (x * x).sum()
        self.assert_refuses(self.recorded_on, lambda: torch.autograd.grad(y, x))

    def test_part_of_a_graph(self):
        x = torch.ones(3, requires_grad=True)
        inner = x * 3
        with isobit.enabled():
            self.assert_refuses(self.recorded_off, (inner * 2).sum().backward)

    def test_same_setting_passes(self):
        for on in (False, True, False):
            if on:
                isobit.enable()
            loss().backward()
            x = torch.ones(3, requires_grad=True)
            (first,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
            first.sum().backward()
            self.assertTrue(torch.equal(x.grad, torch.full((3,), 6.0)))
            if on:
                isobit.disable()

    def test_custom_function(self):
        x = torch.ones(3, requires_grad=True)
        with isobit.enabled():
            y = Double.apply(x)
            y.sum().backward()
            y = Double.apply(x)
        self.assert_refuses(self.recorded_on, lambda: y.backward(torch.ones(3)))

    def test_checkpoint(self):
        from torch.utils.checkpoint import checkpoint

        with isobit.enabled():
            x = torch.ones(4, 20, requires_grad=True)
            for reentrant in (False, True):
                checkpoint(small_model(), x, use_reentrant=reentrant).sum().backward()

    def test_recorded_in_another_thread(self):
        results = []
        with isobit.enabled():
            thread = threading.Thread(target=lambda: results.append(loss()))
            thread.start()
            thread.join()
        self.assert_refuses(self.recorded_on, results[0].backward)

    def test_hooks_and_leaves(self):
        with isobit.enabled():
            x = torch.ones(3, requires_grad=True)
            x.sum().backward()
            seen = []
            y = x * 2
            y.register_hook(seen.append)
            y.sum().backward()
            self.assertEqual(len(seen), 1)

    def test_gradient_edge_cannot_be_checked(self):
        with isobit.enabled():
            y = torch.ones(3, requires_grad=True) * 2
            edge = torch.autograd.graph.get_gradient_edge(y)
            self.assert_refuses("GradientEdge", lambda: torch.autograd.backward([edge], [torch.ones(3)]))


if __name__ == "__main__":
    unittest.main()
