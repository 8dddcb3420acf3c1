"""One thing computed in several of PyTorch's forms gives one answer: fused, foreach and composed."""

import functools
import unittest

import torch
import torch.nn.functional as F
from cases import Case
from torch import nn

import isobit


class Forms(Case):
    def setUp(self):
        super().setUp()
        isobit.enable()
        torch.manual_seed(9)

    def assert_same(self, first, *others):
        for other in others:
            self.assertEqual(isobit.fingerprint(other), isobit.fingerprint(first))

    def with_gradients(self, function, *leaves):
        """The result and the gradients of copies of the leaves."""
        leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]
        result = function(*leaves)
        weights = torch.arange(result.numel()).float().view_as(result) / 7 - 3
        return [result, *torch.autograd.grad(result, leaves, weights)]

    def test_linear(self):
        x, weight, bias = torch.randn(5, 700), torch.randn(9, 700), torch.randn(9)
        self.assert_same(self.with_gradients(F.linear, x, weight, bias),
                         self.with_gradients(lambda x, w, b: x @ w.t() + b, x, weight, bias),
                         self.with_gradients(lambda x, w, b: torch.addmm(b, x, w.t()), x, weight, bias),
                         self.with_gradients(lambda x, w, b: torch.einsum("nk,ok->no", x, w) + b, x, weight, bias))

    def test_products(self):
        a, b = torch.randn(3, 20, 600), torch.randn(3, 600, 7)
        each = torch.stack([torch.mm(x, y) for x, y in zip(a, b, strict=True)])
        self.assert_same(torch.bmm(a, b), each, a @ b, torch.einsum("bik,bkj->bij", a, b))
        self.assert_same(torch.dot(a[0, 0], b[0, :, 0]), (a[0, :1] @ b[0, :, :1]).view(()), torch.inner(a[0, 0], b[0, :, 0]),
                         torch.tensordot(a[0, 0], b[0, :, 0], 1))

    def test_losses(self):
        x, y = torch.randn(30, 11), torch.randint(11, (30,))
        self.assert_same(self.with_gradients(lambda x: F.cross_entropy(x, y), x),
                         self.with_gradients(lambda x: F.nll_loss(F.log_softmax(x, 1), y), x))
        self.assert_same(F.mse_loss(x, x * 2), (x - x * 2).square().mean(), F.mse_loss(x, x * 2, reduction="none").mean())

    def test_ctc(self):
        """Loops on the host against the recurrence by operators (contract, section 8)."""
        none = float("-inf")

        def log_sum(*terms):
            largest = functools.reduce(torch.maximum, terms)
            largest = largest.masked_fill(largest == none, 0.0)
            total = functools.reduce(torch.add, ((term - largest).exp() for term in terms))
            return total.log() + largest

        def alphas(x, labels):
            states = torch.zeros(2 * len(labels) + 1, dtype=torch.long)
            states[1::2] = torch.tensor(labels)
            skips = torch.tensor([k > 1 and states[k] != 0 and states[k] != states[k - 2] for k in range(len(states))])
            found = [torch.where(torch.arange(len(states)) <= 1, x[0, states], torch.tensor(none))]
            for row in x[1:]:
                last = torch.cat([torch.full((2,), none), found[-1]])
                found.append(log_sum(last[2:], last[1:-1], torch.where(skips, last[:-2], torch.tensor(none))) + row[states])
            return torch.stack(found)

        for steps, labels in ((1, [2]), (7, [1, 1, 3]), (30, [4, 2, 2, 0, 1]), (9, [1, 2, 3, 4])):
            for special in (None, float("nan"), float("inf"), none, 1e-42):
                x = torch.randn(steps, 5).log_softmax(1)
                if special is not None:
                    x[steps // 2, 1] = special
                loss, found = torch._ctc_loss(x.unsqueeze(1), torch.tensor([labels]), [steps], [len(labels)])
                expected = alphas(x, labels)
                end = log_sum(expected[-1, -1], expected[-1, -2], torch.tensor(none))
                self.assert_same(found[0], expected)
                self.assert_same(loss[0], -end)

    def test_images_of_bytes(self):
        """Interpolated as float32, rounded and clamped (contract, section 12); nearest copies."""
        x = torch.randint(0, 256, (2, 3, 31, 29), dtype=torch.uint8)
        for size in ((17, 40), (62, 58), (1, 1)):
            for options in ({"mode": "nearest"}, {"mode": "nearest-exact"}, {"mode": "bilinear"}, {"mode": "bicubic"},
                            {"mode": "bilinear", "antialias": True}, {"mode": "bicubic", "antialias": True}):
                with self.subTest(size=size, **options):
                    found = F.interpolate(x, size=size, **options)
                    self.assertIs(found.dtype, torch.uint8)
                    expected = F.interpolate(x.float(), size=size, **options).round().clamp(0, 255).to(torch.uint8)
                    self.assertTrue(torch.equal(found, expected))

    def test_sobol_draws_are_stocks(self):
        """Integers, divided by a power of two."""
        for scramble in (False, True):
            engine = torch.quasirandom.SobolEngine(5, scramble=scramble, seed=3)
            engine.draw(3)
            engine.fast_forward(10)
            found = engine.draw(100)
            if not scramble:  # what scrambles is drawn from the contract's generator
                with isobit.disabled():
                    stock = torch.quasirandom.SobolEngine(5).fast_forward(13).draw(100)
                self.assertTrue(torch.equal(found, stock))
            self.assertLess((found.mean(0) - 0.5).abs().max().item(), 0.05)
            self.assertEqual(found.unique(dim=0).shape, found.shape)

    def test_attention(self):
        q, k, v = (torch.randn(2, 3, 17, 8) for _ in range(3))
        factor = torch.tensor(8.0).pow(-0.5).sqrt()

        def composed(q, k, v):
            return torch.softmax((q * factor) @ (k * factor).transpose(-1, -2), -1) @ v

        self.assert_same(self.with_gradients(F.scaled_dot_product_attention, q, k, v),
                         self.with_gradients(composed, q, k, v))

    def test_attention_in_graphs_of_graphs(self):
        """What one node of the graph in the place of the composition's gets wrong: keys and values made of the queries, hooks
        that run once, second derivatives of a loss whose first depend on the values, and hooks of saved tensors."""
        factor = torch.tensor(8.0).pow(-0.5).sqrt()

        def composed(q, k, v):
            weights = torch.softmax((q * factor) @ (k.transpose(-1, -2) * factor), -1)
            return torch.where((weights != weights).all(-1, True), 0.0, weights) @ v

        for attention in (F.scaled_dot_product_attention, composed):
            x = torch.randn(1, 2, 5, 8, requires_grad=True)
            y = attention(x, x * 2, x * 3).sum()
            first, = torch.autograd.grad(y, x, retain_graph=True)
            self.assert_same(torch.autograd.grad(y, x, create_graph=True)[0].detach(), first)
        found = []
        for attention in (F.scaled_dot_product_attention, composed):
            torch.manual_seed(4)
            q, k, v = (torch.randn(2, 3, 17, 8, requires_grad=True) for _ in range(3))
            met = []
            q.register_hook(met.append)
            gradients = torch.autograd.grad(attention(q, k, v).square().sum(), (q, k, v), create_graph=True)
            self.assertEqual(len(met), 1)
            second = torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), (q, k, v))
            found.append([tensor.detach() for tensor in (*gradients, *second)])
        for one, other in zip(*found, strict=True):
            self.assert_same(one, other)

    def test_negated_views(self):
        """Their memory has the other sign: what reads it must ask."""
        forms = {"attention": F.scaled_dot_product_attention, "lstm": None, "gru": None, "rnn": None}
        for name, function in forms.items():
            tensors = [torch.randn(2, 3, 5, 4) for _ in range(3)] if function else [torch.randn(7, 2, 4)]
            if function is None:
                layer = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[name](4, 3)
                function = lambda x, layer=layer: layer(x)[0]
            with isobit.disabled():
                views = [torch._neg_view(tensor.neg()) for tensor in tensors]
            for graph in (False, True):
                with self.subTest(name, graph=graph), torch.set_grad_enabled(graph):
                    plain = [tensor.detach().requires_grad_(graph) for tensor in tensors]
                    negated = [tensor.detach().requires_grad_(graph) for tensor in views]
                    expected, result = function(*plain), function(*negated)
                    self.assert_same(result, expected)
                    if graph:
                        for one, other in zip(torch.autograd.grad(result.sum(), negated),
                                              torch.autograd.grad(expected.sum(), plain), strict=True):
                            self.assert_same(one, other)
        x = torch.randn(9)
        with isobit.disabled():
            self.assertEqual(isobit.fingerprint(torch._neg_view(x.neg())), isobit.fingerprint(x))

    def test_derivatives_forwards(self):
        """By what computes without a graph; tangents must not be lost."""
        def tangent(function, value, along):
            with torch.autograd.forward_ad.dual_level():
                dual = torch.autograd.forward_ad.make_dual(value, along)
                return torch.autograd.forward_ad.unpack_dual(function(dual)).tangent

        heads, steps = torch.randn(2, 3, 5, 4), torch.randn(7, 2, 4)
        mask = torch.randn(5, 5)
        for name, function, value in (("queries", lambda q: F.scaled_dot_product_attention(q, heads, heads), torch.randn(2, 3, 5, 4)),
                                      ("mask", lambda m: F.scaled_dot_product_attention(heads, heads, heads, m), mask)):
            with self.subTest(name):
                along = torch.randn_like(value)
                found, graph = tangent(function, value, along), tangent(function, value.clone().requires_grad_(), along)
                self.assertIsNotNone(found)
                self.assert_same(found, graph.detach())
        for layer in (nn.LSTM(4, 3), nn.GRU(4, 3), nn.RNN(4, 3)):
            layer.requires_grad_(False)
            with self.subTest(type(layer).__name__):
                found = tangent(lambda x, layer=layer: layer(x)[0], steps, torch.randn_like(steps))
                self.assertIsNotNone(found)
                self.assertGreater(found.abs().sum().item(), 0)

    def test_gradients_that_a_recurrent_layer_cannot_take_as_they_are(self):
        for layer in (nn.LSTM(4, 3), nn.GRU(4, 3), nn.RNN(4, 3)):
            x = torch.randn(7, 2, 4, requires_grad=True)
            y, dy = layer(x)[0], torch.randn(7, 2, 3)
            with isobit.disabled():
                negated = torch._neg_view(dy.neg())
            expected, = torch.autograd.grad(y, x, dy, retain_graph=True)
            self.assert_same(torch.autograd.grad(y, x, negated, retain_graph=True)[0], expected)
            backward = lambda d, y=y, x=x: torch.autograd.grad(y, x, d, retain_graph=True)[0]
            with self.assertRaisesRegex(isobit.RefusedError, "no derivatives of their gradients"):
                torch.func.vmap(backward)(torch.stack([dy, dy]))
            with (torch.autograd.forward_ad.dual_level(),
                  self.assertRaisesRegex(isobit.RefusedError, "no derivatives of their gradients")):
                backward(torch.autograd.forward_ad.make_dual(dy, dy))
            layer.weight_hh_l0.data = torch.zeros(5, 5)
            with self.assertRaisesRegex(RuntimeError, "other sizes than in the forward pass"):
                backward(dy)

    def test_digests_of_tensors_without_values(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        from isobit._recording._record_files import weights_sha256

        with isobit.disabled():
            with FakeTensorMode():
                fake = torch.ones(3)
            empty = [torch._efficientzerotensor((3,)), torch.ones(3, device="meta"), fake]
        for tensor in empty:
            with self.assertRaisesRegex(TypeError, "takes tensors that have values"):
                isobit.fingerprint(tensor)
            self.assertEqual(weights_sha256([("a", tensor)]), weights_sha256([("a", torch.zeros(0))]))

    def test_recurrent_layers_and_cells(self):
        for layer, cell in ((nn.LSTM, nn.LSTMCell), (nn.GRU, nn.GRUCell), (nn.RNN, nn.RNNCell)):
            whole, single = layer(12, 20), cell(12, 20)
            for name, parameter in single.named_parameters():
                parameter.data.copy_(getattr(whole, name + "_l0").data)
            x, state, outputs = torch.randn(9, 4, 12), None, []
            for step in x:
                state = single(step, state)
                outputs.append(state[0] if isinstance(state, tuple) else state)
            self.assert_same(whole(x)[0], torch.stack(outputs))
            whole(x)[0].square().sum().backward()
            torch.stack(outputs).square().sum().backward()
            for name, parameter in single.named_parameters():
                self.assert_same(getattr(whole, name + "_l0").grad, parameter.grad)

    def test_optimizers(self):
        def trained(kind, **settings):
            torch.manual_seed(5)
            model = nn.Sequential(nn.Linear(20, 50), nn.Tanh(), nn.Linear(50, 10))
            optimizer = kind(model.parameters(), **settings)
            for _ in range(4):
                optimizer.zero_grad()
                model(torch.randn(8, 20)).square().sum().backward()
                optimizer.step()
            return model

        optim = torch.optim
        for kind, settings, fused in (
                (optim.SGD, {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}, True),
                (optim.Adam, {"weight_decay": 0.1, "amsgrad": True}, True), (optim.AdamW, {}, True), (optim.Adagrad, {}, True),
                (optim.RMSprop, {"momentum": 0.9, "centered": True}, False), (optim.Adadelta, {}, False),
                (optim.Adamax, {}, False), (optim.NAdam, {}, False), (optim.RAdam, {}, False), (optim.ASGD, {}, False),
                (optim.Rprop, {}, False), (optim.Adafactor, {}, False)):
            forms = [trained(kind, **settings, foreach=False), trained(kind, **settings, foreach=True)]
            forms += [trained(kind, **settings, fused=True)] if fused else []
            with self.subTest(kind.__name__):
                self.assert_same(*forms)


if __name__ == "__main__":
    unittest.main()
