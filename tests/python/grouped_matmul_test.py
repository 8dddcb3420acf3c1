"""One product per group, as mixtures of experts call it: each group has the bits of its own mm, gradients too. And running sums,
sums and products of floats into integers."""

import itertools
import unittest

import torch
from cases import Case
from torch.nn import functional

import isobit

ENDS = [7, 7, 40, 61]  # of four groups, one without rows; 64 rows, the last three in no group
GROUPS = list(zip([0, *ENDS[:-1]], ENDS, strict=True))
OFFSETS = torch.tensor(ENDS, dtype=torch.int32)


def tensors(*sizes, seed=0):
    torch.manual_seed(seed)
    return [torch.randn(size, requires_grad=True) for size in sizes]


def by_groups(a, b):
    """The same by one mm for each group."""
    if a.dim() == 2 and b.dim() == 3:
        parts = [a[begin:end] @ b[g] for g, (begin, end) in enumerate(GROUPS)]
        return torch.cat([*parts, a.new_zeros(a.shape[0] - ENDS[-1], b.shape[2])])
    if a.dim() == 3:
        parts = [a[g] @ b[:, begin:end] for g, (begin, end) in enumerate(GROUPS)]
        return torch.cat([*parts, a.new_zeros(a.shape[1], b.shape[1] - ENDS[-1])], 1)
    return torch.stack([a[:, begin:end] @ b[begin:end] for begin, end in GROUPS])


FORMS = {
    "rows": ((64, 600), (4, 600, 12)),
    "columns": ((4, 12, 600), (600, 64)),
    "k": ((12, 64), (64, 20)),
}


def with_gradients(function, a, b):
    a, b = (x.detach().requires_grad_() for x in (a, b))
    y = function(a, b)
    return [y, *torch.autograd.grad((y * torch.cos(y.detach())).sum(), (a, b))]


def grouped(a, b):
    return functional.grouped_mm(a, b, offs=OFFSETS)


class Grouped(Case):
    def assert_same(self, found, wanted):
        for x, y in zip(found, wanted, strict=True):
            self.assertEqual(x.shape, y.shape)
            self.assertTrue(torch.equal(x.view(torch.int32), y.view(torch.int32)))

    def test_has_the_bits_of_each_groups_product(self):
        before = torch.get_num_threads()
        for name, sizes in FORMS.items():
            a, b = tensors(*sizes)
            with isobit.enabled(isa="reference"):
                wanted = [x.detach() for x in with_gradients(by_groups, a, b)]
            for isa, threads in itertools.product(("reference", "auto"), (1, 2, 3, 8)):
                torch.set_num_threads(threads)
                with self.subTest(form=name, isa=isa, threads=threads), isobit.enabled(isa=isa):
                    found = with_gradients(grouped, a, b)
                    # (rows without a group: +0 where the sum's gradient gives the zero a sign)
                    self.assert_same([x.detach() + 0 for x in found], [x + 0 for x in wanted])
        torch.set_num_threads(before)

    def test_is_near_float64(self):
        for name, sizes in FORMS.items():
            a, b = tensors(*sizes)
            with isobit.enabled():
                found = with_gradients(grouped, a, b)
            for x, y in zip(found, with_gradients(by_groups, a.double(), b.double()), strict=True):
                torch.testing.assert_close(x.double(), y, rtol=1e-4, atol=2e-4, msg=name)

    def test_strides_and_batches(self):
        a, b = tensors((600, 64), (4, 12, 600))
        with isobit.enabled():
            self.assert_same([grouped(a.t(), b.transpose(1, 2))], [grouped(a.t().contiguous(), b.transpose(1, 2).contiguous())])
            c = torch.randn(4, 5, 12)
            self.assert_same([functional.grouped_mm(c, b)], [torch.bmm(c, b)])

    def test_not_a_number_stays_in_its_group(self):
        a, b = (x.detach() for x in tensors((64, 8), (4, 8, 4)))
        a[3, 2], b[1] = torch.nan, torch.inf  # no row has group 1
        with isobit.enabled():
            y = grouped(a, b)
        self.assertEqual(y.isnan().sum(1).nonzero().flatten().tolist(), [3])
        self.assertFalse(y.isinf().any())
        self.assertTrue((y[61:].view(torch.int32) == 0).all())

    def test_what_is_refused(self):
        a, b = (x.detach() for x in tensors((64, 8), (4, 8, 4)))
        with isobit.enabled():
            self.assert_refuses("float32 only", lambda: torch.ops.aten._grouped_mm(a.double(), b.double(), OFFSETS))
            for text, ends in (("never decrease", [7, 5, 9, 10]), ("below 64", [7, 7, 9, 65]), ("never decrease", [-1, 0, 1, 2])):
                self.assert_refuses(text, lambda ends=ends: functional.grouped_mm(a, b, offs=torch.tensor(ends, dtype=torch.int32)))
            self.assert_refuses("offsets are needed", lambda: functional.grouped_mm(a, b))
            self.assert_refuses("3 offsets", lambda: functional.grouped_mm(a, b, offs=OFFSETS[:3]))


class IntoIntegers(Case):
    def test_floats_are_converted_first(self):
        x = torch.tensor([[0.9, -1.7, 3.5], [2.0, 1.0, -0.2]])
        whole = x.to(torch.int32)
        with isobit.enabled():
            for name in ("sum", "cumsum", "prod", "cumprod"):
                function = getattr(torch, name)
                for kind in (torch.int32, torch.int64, torch.int16):
                    found = function(x, 1, dtype=kind)
                    self.assertEqual(found.dtype, kind)
                    self.assertTrue(torch.equal(found, function(whole, 1, dtype=kind)), name)
                    out = torch.empty(0, dtype=kind)
                    self.assertTrue(torch.equal(function(x, 1, out=out, dtype=kind), found), name)
            self.assertEqual(x.prod(dtype=torch.int64).item(), whole.prod().item())
            self.assertEqual(x.sum(dtype=torch.int64).item(), whole.sum().item())
            self.assertEqual(torch.tensor([torch.nan, 1e30, 1.5]).cumsum(0, dtype=torch.int64)[0].item(), 0)


if __name__ == "__main__":
    unittest.main()
