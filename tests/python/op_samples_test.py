"""The check of PyTorch's operator samples finds what it is for: operators made wrong on purpose fail it."""

import os
import pathlib
import sys
import unittest

import torch
from cases import Case

import isobit

sys.path.insert(0, str(pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"]) / "scripts"))

from op_samples import check, comparison, samples

NEXT = torch.tensor(1.0 + 2**-23)


class Made:
    """An entry of the database with a function of the test's own."""

    supports_autograd = True

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def verdict(self, *given):
        arguments = (given[0], given[1:], {})
        strided = samples.map_tensors(lambda t: torch.stack([t, t], -1)[..., 0], arguments)
        sample = samples.Sample(self, 0, samples.copy(arguments), samples.copy(strided), lambda result: result)
        return check.check("made", [sample])[0]


def only_under_isobit(change):
    """The cosine, changed while the switch is on."""
    return Made(lambda x: change(x.cos(), x) if isobit.is_enabled() else x.cos())


def random_numbers(*shape):
    torch.manual_seed(1)
    return (torch.rand(shape) * 2 - 1).requires_grad_()


class Verdicts(Case):
    def assert_fails(self, text, made, *given):
        verdict = made.verdict(*(given or [random_numbers(5, 4)]))
        self.assertEqual(verdict.kind, "fail", verdict)
        self.assertIn(text, verdict.reason)

    def test_right(self):
        verdict = only_under_isobit(lambda y, x: y).verdict(random_numbers(5, 4))
        self.assertEqual(verdict.kind, "pass", verdict.reason)
        self.assertEqual(set(verdict.notes), {"strides", "batch", "values", "gradients"})

    def test_bits_by_threads(self):
        self.assert_fails("bits (reference, 1 thread against", only_under_isobit(
            lambda y, x: y * NEXT if torch.get_num_threads() == 3 else y))

    def test_bits_by_instruction_set(self):
        self.assert_fails("bits (reference, 1 thread against", only_under_isobit(
            lambda y, x: y if isobit.isa() == "reference" else y * NEXT))

    def test_bits_by_strides(self):
        self.assert_fails("bits (strides)", only_under_isobit(lambda y, x: y if x.is_contiguous() else y * NEXT))

    def test_bits_by_batch(self):
        self.assert_fails("bits (batch split)", only_under_isobit(lambda y, x: y if x.shape[0] == 5 else y * NEXT))

    def test_gradient_bits(self):
        class Turned(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return x * 1

            @staticmethod
            def backward(context, gradient):
                return gradient * NEXT if torch.get_num_threads() == 2 else gradient * 1

        self.assert_fails("gradient, result 0", only_under_isobit(lambda y, x: Turned.apply(y)))

    def test_values(self):
        self.assert_fails("value 0: ", only_under_isobit(lambda y, x: y * 1.0001))
        self.assert_fails("gradient 0: ", only_under_isobit(lambda y, x: y.detach() + (x - x.detach())))

    def test_shapes_and_types(self):
        self.assert_fails("value 0: ", only_under_isobit(lambda y, x: y.double()))
        self.assert_fails("stock's are", only_under_isobit(lambda y, x: y[:2]))

    def test_refusals(self):
        refused = only_under_isobit(lambda y, x: torch.special.bessel_j0(y)).verdict(random_numbers(3))
        self.assertEqual((refused.kind, refused.notes), ("refused", ("forward",)))
        self.assert_fails("raises", only_under_isobit(
            lambda y, x: torch.special.bessel_j0(y) if isobit.isa() == "reference" else y))

        def trips(y, x):
            raise ValueError("another error")

        self.assert_fails("another error", only_under_isobit(trips))

    def test_draws(self):
        verdict = Made(lambda x: x * torch.rand(x.shape)).verdict(random_numbers(5))
        self.assertEqual((verdict.kind, "draws" in verdict.notes), ("pass", True))


class Comparison(unittest.TestCase):
    def test_bits(self):
        x = torch.tensor([1.0, 0.0, float("nan")])
        self.assertEqual(comparison.bits_differ(x, x.clone()), "")
        other_nan = torch.tensor([0x3F800000, 0, 0x7FC00001], dtype=torch.int32).view(torch.float32)
        self.assertEqual(comparison.bits_differ(x, other_nan), "")
        for other in (x.neg(), x.double(), x[:2], torch.tensor([1.0, -0.0, float("nan")]), x * NEXT):
            self.assertNotEqual(comparison.bits_differ(x, other), "")

    def test_bound(self):
        exact = torch.tensor([1.0, 100.0], dtype=torch.float64)
        stock = exact.float()
        self.assertEqual(comparison.beyond_bound(stock + torch.tensor([2**-20, 0]), stock, exact), "")
        self.assertNotEqual(comparison.beyond_bound(stock + torch.tensor([2**-12, 0]), stock, exact), "")
        self.assertNotEqual(comparison.beyond_bound(stock + torch.tensor([2**-17, 0]), stock, exact, True), "")
        infinite = torch.tensor([float("inf"), 100.0])
        self.assertNotEqual(comparison.beyond_bound(stock, infinite, infinite.double()), "")
        self.assertNotEqual(comparison.beyond_bound(infinite, stock, exact), "")


if __name__ == "__main__":
    unittest.main()
