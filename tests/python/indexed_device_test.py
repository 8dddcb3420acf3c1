"""Sums and reductions by index of tensors on a device, whose lists are sorted there: the CPU's bits.

On the emulated device; ISOBIT_EMULATED names the library.
"""

import os
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"]) / "scripts"))
from op_samples import emulated

emulated.install(os.environ["ISOBIT_EMULATED"])

import torch  # noqa: E402
from torch import nn  # noqa: E402

import isobit  # noqa: E402


def fingerprints(results):
    return [isobit.fingerprint(result.detach().cpu().contiguous().view(torch.uint8)) for result in results]


class ByIndexOnADevice(unittest.TestCase):
    def setUp(self):
        isobit.enable()
        self.addCleanup(isobit.disable)
        torch.manual_seed(2)

    def assert_cpus_bits(self, function, *tensors):
        """function(tensors...) gives a list of results."""
        expected = fingerprints(function(*tensors))
        self.assertEqual(fingerprints(function(*(tensor.to("cuda") for tensor in tensors))), expected)

    def test_gradients_of_embeddings(self):
        for options in ({}, {"padding_idx": 3}, {"scale_grad_by_freq": True}, {"padding_idx": 0, "scale_grad_by_freq": True}):
            for shape in ((700,), (3, 41), (), (0,)):
                weight, index = torch.randn(50, 9), torch.randint(0, 50, shape) // 3

                def gradient(weight, index, options=options):
                    weight = weight.clone().requires_grad_()
                    nn.functional.embedding(index, weight, **options).square().sum().backward()
                    return [weight.grad]

                with self.subTest(shape=shape, **options):
                    self.assert_cpus_bits(gradient, weight, index)
                    self.assert_cpus_bits(gradient, weight, index.int())

    def test_random_sums_and_reductions(self):
        choose = random.Random(5)
        for _ in range(150):
            rank = choose.randint(1, 3)
            sizes = [choose.randint(1, 12) for _ in range(rank)]
            dim = choose.randrange(-rank, rank)
            of_index = [choose.randint(0, size) for size in sizes]
            of_index[dim] = choose.randint(0, 40)
            to, source = torch.randn(sizes), torch.randn([size + choose.randint(0, 2) for size in of_index])
            index = torch.randint(0, sizes[dim], of_index)
            reduce, kept = choose.choice(["sum", "mean", "prod", "amax", "amin"]), choose.random() < 0.5
            rows = torch.randint(0, sizes[dim], (choose.randint(0, 30),))
            of_rows = list(sizes)
            of_rows[dim] = rows.numel()
            added = torch.randn(of_rows)

            def results(to, index, source, rows, added, dim=dim, reduce=reduce, kept=kept):
                return [to.scatter_add(dim, index, source),
                        to.scatter_reduce(dim, index, source, reduce, include_self=kept),
                        to.index_add(dim, rows, added, alpha=0.3)]

            with self.subTest(sizes=sizes, dim=dim, index=of_index, reduce=reduce, kept=kept):
                self.assert_cpus_bits(results, to, index, source, rows, added)

    def test_whole_rows_of_an_expanded_index(self):
        to, source, index = torch.randn(30, 7), torch.randn(400, 7), torch.randint(0, 30, (400, 1))
        self.assert_cpus_bits(lambda to, source, index: [to.scatter_add(0, index.expand(400, 7), source)], to, source, index)

    def test_few_places_of_very_many(self):
        """Lists of all rows would take more memory than they are worth."""
        source, index = torch.randn(50), torch.randint(0, 5_000_000, (50,)) // 1000 * 1000
        self.assert_cpus_bits(lambda source, index: [torch.zeros(5_000_000, device=source.device).scatter_add(0, index, source)],
                              source, index)

    def test_indices_that_are_out_of_bounds(self):
        to, source = torch.zeros(5, device="cuda"), torch.ones(3, device="cuda")
        for bad in (5, -1, 2**40):
            index = torch.tensor([0, bad, 1], device="cuda")
            for name in ("scatter_add", "index_add"):
                with self.assertRaisesRegex((IndexError, RuntimeError), f"index {bad} is out of bounds for 5"):
                    getattr(to, name)(0, index, source)
            with self.assertRaisesRegex(RuntimeError, "out of bounds"):
                torch.ops.aten.embedding_dense_backward(torch.ones(3, 2, device="cuda"), index, 5, -1, False)


if __name__ == "__main__":
    unittest.main()
