"""16-bit floats (contract, section 18): widened, computed as float32, rounded once; everywhere the same bits.

PyTorch's samples of all operators: scripts/op-samples --dtype bfloat16 (float16), of which CMakeLists.txt runs some."""

import copy
import unittest

import torch
import torch.nn.functional as F
from cases import Case
from torch import nn

import isobit

TYPES = (torch.bfloat16, torch.float16)
WAYS = (("reference", 1), ("avx2", 2), ("auto", 3))


GOLDEN = {torch.bfloat16: "d5d1116ccc66ce28e2946591c51d4711", torch.float16: "5aa4f62e725d7bee0a7b1f6102ce039f",
          torch.float64: "e63c0148e79d3a3e91b2d229468b7430"}  # the contract's, by a program of their own


def numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


# Of tensors of one type; each is one operator.
OPERATORS = {
    "add": (torch.add, (5, 7), (5, 7)), "stretched": (torch.mul, (5, 7), (7,)), "number": (lambda x: x * 0.1, (33,)),
    "number plus": (lambda x: 0.3 - x, (33,)), "div": (torch.div, (40,), (40,)), "exp": (torch.exp, (100,)),
    "sum": (torch.sum, (1000,)), "mean": (lambda x: x.mean(1), (8, 99)), "softmax": (lambda x: x.softmax(1), (9, 31)),
    "mm": (torch.mm, (9, 300), (300, 5)), "bmm": (torch.bmm, (3, 4, 50), (3, 50, 6)),
    "addmm": (lambda b, x, w: torch.addmm(b, x, w, alpha=0.7, beta=0.3), (6,), (4, 70), (70, 6)),
    "linear": (F.linear, (4, 5, 64), (8, 64), (8,)), "linear of one row": (F.linear, (64,), (8, 64), (8,)),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), (2, 3, 9, 9), (4, 3, 3, 3), (4,)),
    "attention": (F.scaled_dot_product_attention, (2, 3, 9, 8), (2, 3, 9, 8), (2, 3, 9, 8)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (16,), w, b), (7, 16), (16,), (16,)),
    "group norm": (lambda x: F.group_norm(x, 2), (3, 4, 5, 5)), "max pool": (lambda x: F.max_pool2d(x, 2), (1, 2, 6, 6)),
    "cumsum": (lambda x: x.cumsum(0), (200,)), "interpolate": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
                                                               (1, 2, 6, 5)),
    "lstm": (lambda x, *w: torch.lstm(x, (torch.zeros(1, 2, 4).to(x), torch.zeros(1, 2, 4).to(x)), list(w), False, 1, 0.0, True,
                                      False, False)[0], (5, 2, 3), (16, 3), (16, 4)),
}


class Formula(Case):
    def setUp(self):
        super().setUp()
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())

    def test_widened_computed_and_rounded_once(self):
        for dtype in TYPES:
            for name, (call, *shapes) in OPERATORS.items():
                arguments = [numbers(*shape).to(dtype) for shape in shapes]
                for isa, threads in WAYS:
                    torch.set_num_threads(threads)
                    with isobit.enabled(isa=isa), self.subTest(name, dtype=dtype, isa=isa):
                        expected = call(*[argument.float() for argument in arguments]).to(dtype)
                        found = call(*arguments)
                        self.assertEqual(found.dtype, dtype)
                        self.assertTrue(torch.equal(found, expected))

    def test_the_types_of_results_are_pytorchs(self):
        b, f, one = torch.ones(4, dtype=torch.bfloat16), torch.ones(4), torch.ones(())
        calls = {
            "with float32": lambda: b + f, "with float16": lambda: b * f.half(), "with a float32 of no dimension": lambda: b + one,
            "with integers": lambda: b * torch.arange(4), "with float64": lambda: b + f.double(),
            "sum in float32": lambda: b.sum(dtype=torch.float32), "softmax in float32": lambda: b.softmax(0, dtype=torch.float32),
            "sum in 16 bits": lambda: f.sum(dtype=torch.bfloat16), "in place of float32": lambda: f.clone().add_(b),
            "in place": lambda: b.clone().add_(f), "out of float32": lambda: torch.add(b, b, out=torch.empty(4)),
            "norm, weights in float32": lambda: F.layer_norm(b, (4,), f, f), "mean": lambda: b.mean(), "argmax": lambda: b.argmax(),
            "compared": lambda: b > f, "item": lambda: torch.tensor(b.exp()[0].item())}
        for name, call in calls.items():
            stock = call()
            with isobit.enabled(), self.subTest(name):
                ours = call()
                self.assertEqual(ours.dtype, stock.dtype)
                self.assertLess((ours.double() - stock.double()).abs().max().item(), 0.05)

    def test_a_sum_in_16_bits_converts_first(self):
        values = torch.tensor([1.0, 2.0**-10, 2.0**-10]) * (1 + 2.0**-12)
        with isobit.enabled():
            self.assertTrue(torch.equal(values.sum(dtype=torch.bfloat16), values.bfloat16().float().sum().bfloat16()))

    def test_results_are_written_where_they_belong(self):
        with isobit.enabled():
            for dtype in TYPES:
                a, b = numbers(3, 4).to(dtype), numbers(4, 5).to(dtype)
                whole = torch.zeros(6, 5, dtype=dtype)
                out = whole[::2]
                self.assertIs(torch.mm(a, b, out=out), out)
                self.assertTrue(torch.equal(out, a @ b))
                self.assertEqual(whole[1::2].abs().sum().item(), 0)
                resized = torch.empty(0, dtype=dtype)
                torch.mm(a, b, out=resized)
                self.assertTrue(torch.equal(resized, a @ b))
                turned = a.t()
                pointer = turned.data_ptr()
                self.assertIs(turned.mul_(2), turned)
                self.assertEqual(turned.data_ptr(), pointer)
                values, places = torch.empty(3, dtype=dtype), torch.empty(3, dtype=torch.int64)
                torch.max(a, 1, out=(values, places))
                self.assertTrue(torch.equal(values, a.max(1).values) and torch.equal(places, a.max(1).indices))

    def test_types_that_do_not_fit(self):
        b, f = torch.ones(3, 3, dtype=torch.bfloat16), torch.ones(3, 3)
        with isobit.enabled():
            for call in (lambda: b @ f, lambda: F.linear(b, f), lambda: torch.addmm(f, b, b), lambda: b @ torch.arange(9).view(3, 3),
                         lambda: F.conv1d(b, f.unsqueeze(2)), lambda: f.cumsum_(0, dtype=torch.bfloat16),
                         lambda: torch.arange(3).add_(b[0])):
                with self.assertRaises(RuntimeError):
                    call()
            self.assertTrue(torch.equal(f, torch.ones(3, 3)))
            for call in (lambda: b.to(torch.float8_e4m3fn) * 2, lambda: b * torch.ones(3, 3, dtype=torch.complex64)):
                with self.assertRaises(isobit.RefusedError):
                    call()
            ends = torch.tensor([1, 3], dtype=torch.int32)
            experts = torch.ones(2, 8, 8, dtype=torch.bfloat16)
            self.assertEqual(torch._grouped_mm(torch.ones(3, 8).bfloat16(), experts, offs=ends).dtype, torch.bfloat16)

    def test_tensors_without_values(self):
        x = torch.ones(4, 4, dtype=torch.bfloat16, device="meta")
        with isobit.enabled():
            self.assertEqual({(x * 2).dtype, (x @ x).dtype, F.linear(x, x, x[0]).dtype}, {torch.bfloat16})

    def test_rounded_beyond_the_range(self):
        with isobit.enabled():
            big = torch.full((2,), 60000.0, dtype=torch.float16)
            self.assertEqual((big + big).tolist(), [float("inf")] * 2)
            self.assertEqual((big + big - big).tolist(), [float("inf")] * 2)  # each operator rounds
            tiny = torch.full((3,), 2.0**-24, dtype=torch.float16)
            self.assertEqual((tiny * 0.5).tolist(), [0.0] * 3)  # to even
            self.assertEqual((tiny * 0.75).tolist(), [2.0**-24] * 3)

    def test_draws_stay_below_their_end(self):
        with isobit.enabled():
            for dtype in TYPES:
                x = torch.rand(100_000, dtype=dtype)
                self.assertLess(x.max().item(), 1)
                self.assertGreaterEqual(x.min().item(), 0)
                self.assertLess(abs(x.float().mean().item() - 0.5), 0.01)

    def test_integers_under_a_16_bit_default_are_refused(self):
        self.addCleanup(torch.set_default_dtype, torch.float32)
        with isobit.enabled():
            torch.set_default_dtype(torch.bfloat16)
            for call in (lambda: torch.arange(3).exp(), lambda: torch.arange(3) * 0.5):
                with self.assertRaises(isobit.RefusedError):
                    call()


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.LayerNorm(144), nn.Dropout(0.1),
                         nn.Linear(144, 16), nn.Tanh(), nn.Linear(16, 5))


def trained(kind, optimizer=torch.optim.AdamW):
    net, dtype = network(), torch.float32
    if kind in TYPES:
        net, dtype = net.to(kind), kind
    steps = optimizer(net.parameters(), lr=1e-2) if optimizer is not torch.optim.Muon else optimizer(
        [p for p in net.parameters() if p.dim() == 2], lr=1e-2)
    x, y = numbers(16, 1, 8, 8), torch.arange(16) % 5
    torch.manual_seed(5)
    for _ in range(6):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "autocast"):
            loss = F.cross_entropy(net(x.to(dtype)), y)
        steps.zero_grad()
        loss.backward()
        steps.step()
    return [p.detach().clone() for p in net.state_dict().values()], loss.item()


class Fingerprints(Case):
    def test_types_and_numbers(self):
        """Of the number in float32; the type is part of it, and NaN is one."""
        values = numbers(3, 5)
        seen = set()
        for dtype in (torch.float32, torch.float64, *TYPES):
            x = values.to(dtype)
            found = isobit.fingerprint(x)
            self.assertEqual(found, isobit.fingerprint(x.t().contiguous().t()))
            changed = x.clone()
            changed[2, 4] += 1
            negative = torch.zeros(3, 5, dtype=dtype).neg()
            seen |= {found, isobit.fingerprint(changed), isobit.fingerprint(negative), isobit.fingerprint(-negative)}
            nan = {isobit.fingerprint(torch.tensor([nan], dtype=dtype)) for nan in (float("nan"), -float("nan"))}
            self.assertEqual(len(nan), 1)
        self.assertEqual(len(seen), 16)
        for dtype, golden in GOLDEN.items():
            self.assertEqual(isobit.fingerprint(torch.tensor([1.5, -0.0, float("nan")], dtype=dtype)), f"isobit-0.1:{golden}")


class Training(Case):
    def setUp(self):
        super().setUp()
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())

    def assert_one_answer(self, train):
        found = []
        for isa, threads in WAYS:
            torch.set_num_threads(threads)
            with isobit.enabled(isa=isa):
                found.append(train())
        for other, _ in found[1:]:
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(other, found[0][0], strict=True)))
        return found[0]

    def test_autocast_and_whole_models(self):
        for kind in ("autocast", torch.bfloat16, torch.float16):
            optimizer = torch.optim.SGD if kind is torch.float16 else torch.optim.AdamW  # AdamW's eps is 0 there
            _, stock = trained(kind, optimizer)
            with self.subTest(kind=kind):
                weights, loss = self.assert_one_answer(lambda kind=kind, optimizer=optimizer: trained(kind, optimizer))
                self.assertLess(abs(loss - stock), 0.2)  # draws of dropout differ
                self.assertEqual(weights[0].dtype, kind if kind in TYPES else torch.float32)

    @unittest.skipUnless(hasattr(torch.optim, "Muon"), "this PyTorch has no Muon")
    def test_muon(self):
        self.assert_one_answer(lambda: trained("float32", torch.optim.Muon))

    def test_running_statistics(self):
        norm = nn.BatchNorm1d(4).bfloat16()
        with isobit.enabled():
            norm(numbers(32, 4).bfloat16() + 3)
        self.assertEqual(norm.running_mean.dtype, torch.bfloat16)
        self.assertGreater(norm.running_mean.min().item(), 0.2)

    def test_gradients_of_mixed_norms_keep_their_precision(self):
        norm, x = nn.LayerNorm(16), numbers(64, 16).bfloat16().requires_grad_()
        with isobit.enabled():
            y = norm(x)
            y.float().square().sum().backward()
            exact = copy.deepcopy(norm)
            exact.zero_grad()
            exact(x.detach().float()).square().sum().backward()
        self.assertEqual((y.dtype, x.grad.dtype, norm.weight.grad.dtype), (torch.bfloat16, torch.bfloat16, torch.float32))
        self.assertLess((norm.weight.grad - exact.weight.grad).abs().max().item(), 0.5)
        self.assertFalse(torch.equal(norm.weight.grad, norm.weight.grad.bfloat16().float()))

    def test_second_derivatives_and_transforms(self):
        x = numbers(5).bfloat16().requires_grad_()
        with isobit.enabled():
            first, = torch.autograd.grad(x.tanh().sum(), x, create_graph=True)
            second, = torch.autograd.grad(first.sum(), x)
            mapped = torch.func.vmap(torch.func.grad(lambda v: v.tanh().sum()))(x.detach().unsqueeze(0))
            _, pushed = torch.func.jvp(torch.tanh, (x.detach(),), (torch.ones_like(x),))
        self.assertEqual((second.dtype, pushed.dtype), (torch.bfloat16, torch.bfloat16))
        self.assertTrue(torch.equal(mapped[0], first.detach()))


if __name__ == "__main__":
    unittest.main()
