"""Sparse gradients of embeddings: the bits of the dense gradient, whatever computes; their optimizers; what is refused."""

import itertools
import unittest

import torch
from cases import Case
from torch import nn

import isobit

torch.manual_seed(5)
INDICES = torch.randint(0, 40, (70, 90)) * torch.randint(0, 2, (70, 90))  # half of them 0: more than six leaves of 512
WEIGHT = torch.randn(40, 7)


def same(a, b):
    return a.shape == b.shape and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def gradient(sparse, make=nn.Embedding, dtype=torch.float32, **arguments):
    layer = make(40, 7, sparse=sparse, _weight=WEIGHT.detach().clone().to(dtype), **arguments)
    y = layer(INDICES)
    (torch.sin(y) * torch.arange(1.0, 8.0, dtype=dtype)).sum().backward()
    return layer.weight.grad


def train(optimizer, sparse=True, make=nn.Embedding, steps=4, **arguments):
    model = make(40, 7, sparse=sparse, _weight=WEIGHT.detach().clone())
    steps_of = optimizer(model.parameters(), **arguments)
    for step in range(steps):
        steps_of.zero_grad()
        model(INDICES[step::2]).tanh().pow(2).sum().backward()
        steps_of.step()
    return model.weight.detach()


class Gradients(Case):
    def test_are_the_dense_ones(self):
        before = torch.get_num_threads()
        for arguments in ({}, {"padding_idx": 0}, {"make": nn.EmbeddingBag, "mode": "sum"}, {"make": nn.EmbeddingBag, "mode": "mean"},
                          {"make": nn.EmbeddingBag, "mode": "sum", "padding_idx": 3}, {"dtype": torch.float64}):
            with isobit.enabled(isa="reference"):
                wanted = gradient(False, **arguments)
            for isa, threads in itertools.product(("reference", "auto"), (1, 2, 3, 8)):
                torch.set_num_threads(threads)
                with self.subTest(**{k: str(v) for k, v in arguments.items()}, isa=isa, threads=threads), isobit.enabled(isa=isa):
                    found = gradient(True, **arguments)
                    self.assertTrue(found.is_sparse)
                    self.assertTrue(same(found.to_dense(), wanted))
                    whole = found.coalesce()
                    self.assertTrue(whole.is_coalesced() and same(whole.to_dense(), wanted))
                    rows = set(INDICES.flatten().tolist()) - {arguments.get("padding_idx")}
                    self.assertEqual(whole.indices().tolist(), [sorted(rows)])
            exact = gradient(False, **{**arguments, "dtype": torch.float64})
            self.assertLess((wanted.double() - exact).abs().max() / exact.abs().max(), 1e-4)
        torch.set_num_threads(before)

    def test_order_shows_in_the_bits(self):
        with isobit.enabled():
            values = torch.randn(1000, 1)
            one = torch.sparse_coo_tensor(torch.zeros(1, 1000, dtype=torch.int64), values, (3, 1))
            found = one.coalesce().values()[0, 0].item()
            chains = []
            for leaf in values[:512], values[512:]:
                total = torch.zeros(1)
                for value in leaf:
                    total = total + value
                chains.append(total)
            self.assertEqual(found, (chains[0] + chains[1]).item())
            self.assertNotEqual(found, values.double().sum().float().item() + 1)

    def test_weighted_bags(self):
        weights = torch.rand(70, 90)
        grads = []
        for sparse in (False, True):
            with isobit.enabled():
                bag = nn.EmbeddingBag(40, 7, mode="sum", sparse=sparse, _weight=WEIGHT.detach().clone())
                bag(INDICES, per_sample_weights=weights).sin().sum().backward()
                grads.append(bag.weight.grad.to_dense())
        self.assertTrue(same(*grads))

    def test_accumulate_like_dense_ones(self):
        for uses in (1, 2):  # in two calls of backward, and two uses of one weight
            found = []
            for sparse in (False, True):
                with isobit.enabled():
                    layer = nn.Embedding(40, 7, sparse=sparse, _weight=WEIGHT.detach().clone())
                    for _ in range(2):
                        total = layer(INDICES[:30]).sin().sum()
                        if uses == 2:
                            total = total + layer(INDICES[20:, :3]).exp().sum()
                        total.backward()
                    found.append(layer.weight.grad)
            self.assertTrue(found[1].is_sparse)
            self.assertTrue(same(found[0], found[1].to_dense()))

    def test_dense_and_sparse_of_a_tied_weight(self):
        found = []
        for sparse in (False, True):
            with isobit.enabled():
                layer = nn.Embedding(40, 7, sparse=sparse, _weight=WEIGHT.detach().clone())
                (layer(INDICES[:9]) @ layer.weight.t()).sin().sum().backward()
                found.append(layer.weight.grad.to_dense())
        self.assertTrue(same(*found))


class Tensors(Case):
    def test_arithmetic_has_the_dense_bits(self):
        torch.manual_seed(1)
        i, j = torch.randint(0, 4, (2, 30)), torch.randint(0, 4, (2, 20))
        v, w = torch.randn(30, 3), torch.randn(20, 3)
        with isobit.enabled():
            a, b = (torch.sparse_coo_tensor(*each, (4, 4, 3)) for each in ((i, v), (j, w)))
            x, y = a.to_dense(), b.to_dense()
            c = torch.randn(4, 4, 3)
            for found, wanted in ((a + b, x + y), (a.add(b, alpha=0.3), x.add(y, alpha=0.3)), (c.add(a, alpha=-0.7), c.add(x, alpha=-0.7)),
                                  (c.clone().add_(b), c + y), (c.mT.contiguous().mT.add_(b, alpha=3), c.add(y, alpha=3)),
                                  (a * 0.3, x * 0.3), (0.3 * a, x * 0.3), (a / 3, x / 3), (-a, -x), (a.clone().mul_(0.3), x * 0.3),
                                  (a.clone().add_(b, alpha=2), x.add(y, alpha=2)), (a.coalesce() + a, x + x)):
                found = found.to_dense() if found.is_sparse else found
                self.assertTrue(same(found + 0, wanted + 0))
            self.assertTrue(torch.equal(c.sparse_mask(a.coalesce()).to_dense() != 0, x != 0))
            self.assertTrue(same(a.clone().zero_().to_dense(), torch.zeros(4, 4, 3)))
            self.assertTrue(same(a._values(), v) and same(a._indices(), i))
            self.assertIn("nnz=30", repr(a))
            empty = torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0, 3), (5, 3))
            self.assertTrue(same(empty.coalesce().to_dense(), torch.zeros(5, 3)))
            self.assertTrue(same((empty + empty).to_dense(), torch.zeros(5, 3)))

    def test_not_a_number_stays_at_its_place(self):
        with isobit.enabled():
            a = torch.sparse_coo_tensor([[1, 2, 1, 3]], [torch.nan, torch.inf, 1.0, -0.0], (5,))
            dense = torch.ones(5).add_(a)
            self.assertEqual(str(dense.tolist()), "[1.0, nan, inf, 1.0, 1.0]")

    def test_what_is_refused(self):
        with isobit.enabled():
            a = torch.sparse_coo_tensor([[1, 1]], [1.0, 2.0], (3,))
            square = torch.sparse_coo_tensor([[1, 1], [0, 0]], [1.0, 2.0], (3, 3))
            for function in (lambda: a * a, lambda: torch.relu(a), lambda: torch.sparse.mm(square, torch.ones(3, 3)), lambda: a.sum()):
                message = self.assert_refuses("not certified" if function is not None else "", lambda f=function: refused(f))
                self.assertIn("isobit: aten::", message)
            self.assert_refuses("sparse=False", lambda: a * a)
            half = torch.sparse_coo_tensor([[1, 1]], torch.ones(2, dtype=torch.bfloat16), (3,))
            self.assert_refuses("BFloat16", half.coalesce)
            with self.assertRaises(IndexError):
                torch.sparse_coo_tensor([[7]], [1.0], (3,), check_invariants=False).to_dense()


def refused(function):
    """The refusal, with 'not certified' where it says so in other words."""
    try:
        function()
    except RuntimeError as error:
        raise RuntimeError(f"not certified: {error}") from error


class Optimizers(Case):
    def test_train_with_equal_bits(self):
        before = torch.get_num_threads()
        for optimizer, arguments in ((torch.optim.SparseAdam, {"lr": 0.01}), (torch.optim.SparseAdam, {"lr": 0.01, "maximize": True}),
                                     (torch.optim.SGD, {"lr": 0.1}), (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
                                     (torch.optim.Adagrad, {"lr": 0.1})):
            for make in (nn.Embedding, nn.EmbeddingBag):
                found = []
                for isa, threads in itertools.product(("reference", "auto"), (1, 2, 3, 8)):
                    torch.set_num_threads(threads)
                    with isobit.enabled(isa=isa):
                        found.append(train(optimizer, make=make, **arguments))
                self.assertTrue(all(same(found[0], each) for each in found[1:]), optimizer)
                torch.testing.assert_close(found[0], train(optimizer, make=make, **arguments), rtol=1e-3, atol=1e-4)
        torch.set_num_threads(before)

    def test_are_the_dense_ones_where_mathematics_is(self):
        for optimizer, arguments in ((torch.optim.SGD, {"lr": 0.1}), (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
                                     (torch.optim.SGD, {"lr": 0.1, "maximize": True})):
            with isobit.enabled():
                self.assertTrue(same(train(optimizer, True, **arguments), train(optimizer, False, **arguments)), (optimizer, arguments))


if __name__ == "__main__":
    unittest.main()
