"""PyTorch's operators written in Python: compositions of certified operators, whose parts the guard sees one by one."""

import unittest

import torch
from cases import Case
from torch.nn.functional import linear_cross_entropy

import isobit

try:
    from torch.nn import LinearCrossEntropyOptions
except ImportError:  # an older PyTorch
    LinearCrossEntropyOptions = None


@unittest.skipIf(LinearCrossEntropyOptions is None, "this PyTorch has no chunked linear_cross_entropy")
class LinearCrossEntropy(Case):
    REDUCTIONS = ("mean", "sum", "none")

    def setUp(self):
        super().setUp()
        torch.manual_seed(5)
        self.samples = torch.randn(37, 12), torch.randn(50, 12), torch.randn(50), torch.rand(50)

    def results(self, reduction, dtype=torch.float32, bias=True, **options):
        """Loss and gradients of a batch with an ignored target and weighted classes."""
        x, w, b, weight = self.samples
        target = torch.arange(37) * 11 % 50
        target[3] = -100
        inputs = [t.detach().to(dtype, copy=True).requires_grad_() for t in ((x, w, b) if bias else (x, w))]
        loss = linear_cross_entropy(inputs[0], inputs[1], target, linear_bias=inputs[2] if bias else None, weight=weight.to(dtype),
                                    reduction=reduction, options=LinearCrossEntropyOptions(**options))
        loss.backward(torch.arange(loss.numel(), dtype=dtype).view(loss.shape) / 8 - 1)
        return [loss.detach(), *(t.grad for t in inputs)]

    def fingerprints(self, *arguments, **options):
        return tuple(isobit.fingerprint(t) for t in self.results(*arguments, **options))

    def test_bits_are_those_of_every_machine_and_near_float64(self):
        before = torch.get_num_threads()
        try:
            for reduction in self.REDUCTIONS:
                for options in ({}, {"batch_chunk_size": 5}, {"acc_policy": "accurate", "bias": False}):
                    seen = set()
                    for isa, threads in (("auto", 1), ("auto", 3), ("avx2", 2), ("reference", 1)):
                        torch.set_num_threads(threads)
                        with isobit.enabled(isa=isa):
                            seen.add(self.fingerprints(reduction, **options))
                    self.assertEqual(len(seen), 1, (reduction, options))
                    with isobit.enabled():
                        ours = self.results(reduction, **options)
                    for mine, wide in zip(ours, self.results(reduction, dtype=torch.float64, **options), strict=True):
                        self.assertLess((mine - wide).abs().max().item(), 1e-5 * wide.abs().max().item())
        finally:
            torch.set_num_threads(before)

    def test_chunks_are_part_of_the_formula(self):
        with isobit.enabled():
            self.assertNotEqual(self.fingerprints("sum", batch_chunk_size=5), self.fingerprints("sum", batch_chunk_size=37))

    def test_other_types_are_the_operators_business(self):
        with isobit.enabled():
            self.assertEqual({result.dtype for result in self.results("mean", dtype=torch.bfloat16)}, {torch.bfloat16})


if __name__ == "__main__":
    unittest.main()
