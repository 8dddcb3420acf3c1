"""Attention with gradients has few nodes in its graph, and all that the composition's graph gives (heads_product.h)."""

import ctypes
import math
import unittest

import torch
import torch.nn.functional as F
from cases import Case
from torch.autograd import grad
from torch.utils.checkpoint import checkpoint

import isobit


def product(a, b):
    """What torch.matmul is of four dimensions, or three, written out."""
    matrices = [x.expand(x.shape).reshape(-1, *x.shape[-2:]) for x in (a, b)]
    return torch.ops.aten._unsafe_view(torch.bmm(*matrices), (*a.shape[:-1], b.shape[-1]))


def composed(q, k, v, mask=None, dropout=0.0, causal=False):
    """PyTorch's composition, written out."""
    factor = math.sqrt(1 / math.sqrt(q.shape[-1]))
    scores = product(q * factor, k.transpose(-2, -1) * factor)
    if causal:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, -math.inf)
    if mask is not None:
        scores = scores + mask
    weights = torch._safe_softmax(scores, -1)
    return product(torch.dropout(weights, dropout, True) if dropout else weights, v)


def attention(q, k, v, mask=None, dropout=0.0, causal=False):
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal)


def nodes(tensor):
    """Names of the nodes of its graph."""
    found, open_nodes = set(), [tensor.grad_fn]
    while open_nodes:
        node = open_nodes.pop()
        if node is not None and node not in found:
            found.add(node)
            open_nodes += [following for following, _ in node.next_functions]
    return sorted(node.name() for node in found)


class Attention(Case):
    def setUp(self):
        super().setUp()
        isobit.enable()
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())

    def leaves(self, seed=1, heads=2, queries=9, keys=11, width=5):
        torch.manual_seed(seed)
        return [torch.randn(2, heads, rows, width, requires_grad=True) for rows in (queries, keys, keys)]

    def assert_all_same(self, first, second):
        for one, other in zip(first, second, strict=True):
            self.assertEqual(isobit.fingerprint(one.detach()), isobit.fingerprint(other.detach()))

    def test_few_nodes(self):
        ours = nodes(attention(*self.leaves()))
        self.assertEqual(ours.count("HeadsProductBackward"), 2)
        self.assertLess(len(ours), len(nodes(composed(*self.leaves()))) - 6)

    def test_three_derivatives(self):
        """Of losses that reach the inputs by several ways: shared inputs, a residual connection, two layers."""
        for seed in range(40):
            numbers = torch.Generator().manual_seed(seed)
            batch, heads, rows, width = (int(torch.randint(1, top, (1,), generator=numbers)) for top in (4, 4, 40, 20))
            keys = rows if seed % 2 else int(torch.randint(1, 40, (1,), generator=numbers))
            found = []
            for function in (attention, composed):
                torch.manual_seed(seed)
                torch.set_num_threads(1 + seed % 3)
                x = torch.randn(batch, max(rows, keys), heads * width, requires_grad=True)
                q, k, v = ((x * factor)[:, :count].unflatten(2, (heads, width)).transpose(1, 2)
                           for factor, count in ((1.1, rows), (1, keys), (0.9, keys)))
                masks = (None, torch.rand(batch, 1, rows, keys) < 0.7, torch.randn(rows, keys),
                         torch.randn(1, heads, rows, keys, requires_grad=True))
                causal = seed % 5 == 4
                y = function(q, k, v, None if causal else masks[seed % 5], 0.3 if seed % 7 == 0 else 0.0, causal)
                loss = (y.square() + y + q).sum()
                if rows == keys:
                    again = y + q
                    loss = loss + function(again, k, again).sin().sum()
                first, = grad(loss, x, create_graph=True)
                second, = grad(first.square().sum() + loss, x, create_graph=True)
                found.append([y, first, second, *grad(second.sin().sum(), x)])
            self.assert_all_same(*found)

    def test_three_derivatives_of_matmul(self):
        """A product of what is used elsewhere, too, and of a tensor with itself."""
        for seed in range(40):
            found = []
            for function in (torch.matmul, product):
                torch.manual_seed(seed)
                numbers = torch.Generator().manual_seed(seed)
                n, heads, rows, terms, columns = (int(torch.randint(1, 20, (1,), generator=numbers)) for _ in range(5))
                a, b = (torch.randn(n, heads, *shape)[:, : None if seed % 2 else 1] for shape in ((terms, rows), (terms, columns)))
                a, b = (x.squeeze(1) if seed % 4 == 0 else x for x in (a, b))
                a, b = a.transpose(-1, -2).requires_grad_(seed % 3 != 0), b.requires_grad_(seed % 3 != 1)
                leaves = [x for x in (a, b) if x.requires_grad]
                y = function(a, b)
                again = function(y, y.transpose(-1, -2))
                loss = (y * y).sum() + again.sin().sum() + a.square().sum() * b.cos().sum()
                first = grad(loss, leaves, create_graph=True)
                second = grad(sum(x.square().sum() for x in first) + loss, leaves, create_graph=True)
                third = grad(sum(x.sin().sum() for x in second), leaves)
                found.append([y, again, *first, *second, *third])
            self.assert_all_same(*found)

    def test_matmul_of_other_shapes(self):
        """Is the composition's, with its errors."""
        for one, other in (((2, 1, 3, 4), (1, 5, 4, 2)), ((3, 4), (2, 5, 4, 2)), ((2, 3, 0), (2, 0, 4)), ((2, 5, 3, 0), (2, 5, 0, 1)),
                           ((2, 0, 3, 4), (2, 0, 4, 1)), ((1, 3, 4), (5, 4, 2)), ((2, 3, 2, 3, 4), (2, 3, 2, 4, 5))):
            a, b = torch.randn(one), torch.randn(other)
            batch = torch.broadcast_shapes(one[:-2], other[:-2])
            expected = torch.bmm(*(x.expand(*batch, *x.shape[-2:]).reshape(math.prod(batch), *x.shape[-2:]) for x in (a, b)))
            self.assert_all_same([torch.matmul(a, b)], [expected.view(*batch, *expected.shape[-2:])])
        for shapes in (((2, 3, 4), (2, 5, 6)), ((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3, 4, 5), (3, 3, 5, 4))):
            with self.assertRaises(RuntimeError):
                torch.matmul(*(torch.randn(shape) for shape in shapes))

    def test_kernels_and_layouts(self):
        """Many threads' pieces, large products, turned and expanded memory, numbers that are none."""
        isobit.disable()
        torch.manual_seed(3)
        hostile = torch.randn(2, 3, 33, 16)
        hostile[0, 0, 0, 0], hostile[0, 1, 2, 3], hostile[1, 2, 3, 4] = math.inf, math.nan, 1e-42
        cases = {
            "small": [torch.randn(3, 5, 7, 4) for _ in range(3)],
            "large": [torch.randn(2, 4, 257, 64) for _ in range(3)],
            "one head": [torch.randn(1, 1, 300, 70), torch.randn(1, 1, 513, 70), torch.randn(1, 1, 513, 3)],
            "turned": [torch.randn(2, 33, 3, 16).transpose(1, 2), torch.randn(2, 3, 16, 33).transpose(2, 3),
                       torch.randn(1, 1, 33, 16).expand(2, 3, 33, 16)],
            "hostile": [hostile, hostile.flip(2), hostile * 2],
        }
        for name, tensors in cases.items():
            reference = None
            for function, threads, isa in ((composed, 1, "reference"), (attention, 1, "reference"), (attention, 1, "auto"),
                                           (attention, 3, "auto"), (attention, 2, "avx2")):
                with self.subTest(name, threads=threads, isa=isa), isobit.enabled(isa=isa):
                    torch.set_num_threads(threads)
                    q, k, v = (tensor.detach().requires_grad_() for tensor in tensors)
                    y = function(q, k, v)
                    result = [y, *grad(y, (q, k, v), torch.linspace(-1, 1, y.numel()).view_as(y))]
                    reference = reference or result
                    self.assert_all_same(result, reference)

    def test_what_asks_for_the_composition(self):
        """Transforms and observers: nothing is lost, and the bits are the same."""
        q, k, v = self.leaves()
        expected = grad(attention(q, k, v).square().sum(), (q, k, v))
        self.assert_all_same(torch.func.grad(lambda *x: attention(*x).square().sum(), (0, 1, 2))(q, k, v), expected)
        samples = torch.func.vmap(torch.func.grad(lambda *x: attention(*(y[None] for y in x)).square().sum(), (0, 1, 2)))(q, k, v)
        self.assert_all_same(samples, expected)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            observed = attention(q, k, v)
        self.assertIn("aten::bmm", {event.key for event in profile.key_averages()})
        self.assertNotIn("HeadsProductBackward", nodes(observed))
        self.assert_all_same(grad(observed.square().sum(), (q, k, v)), expected)

    def test_saved_tensors(self):
        q, k, v = self.leaves()
        expected = grad(attention(q, k, v).square().sum(), (q, k, v))
        for reentrant in (False, True):
            y = checkpoint(attention, q, k, v, use_reentrant=reentrant)
            for tensor in (q, k, v):
                tensor.grad = None
            y.square().sum().backward()
            self.assert_all_same([q.grad, k.grad, v.grad], expected)
        packed = []

        def pack(tensor):
            packed.append(tensor)
            return len(packed) - 1

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda i: packed[i].clone()):
            y = attention(q, k, v).square().sum()
        self.assertGreater(len(packed), 4)
        self.assert_all_same(grad(y, (q, k, v)), expected)

    def test_only_what_is_asked(self):
        for asked in range(1, 8):
            found = []
            for function in (attention, composed):
                leaves = self.leaves()
                for i, leaf in enumerate(leaves):
                    leaf.requires_grad_(bool(asked >> i & 1))
                found.append(grad(function(*leaves).square().sum(), [leaf for leaf in leaves if leaf.requires_grad]))
            self.assert_all_same(*found)

    def test_errors_of_graphs(self):
        q, k, v = self.leaves()
        y = attention(q, k, v).sum()
        y.backward()
        with self.assertRaisesRegex(RuntimeError, "second time"):
            y.backward()
        values = v * 1
        y = attention(q, k, values).sum()
        values.mul_(2)
        with self.assertRaisesRegex(RuntimeError, "inplace operation"):
            y.backward()
        y = attention(q, k, v).sum()
        with isobit.disabled(), self.assertRaises(isobit.RefusedError):
            y.backward()
        for other in (lambda x: x[..., :3], lambda x: x[:1], lambda x: x[0], lambda x: x.double()):
            with torch.autograd.graph.saved_tensors_hooks(lambda x: x, other):
                y = attention(q, k, v).sum()
            with self.subTest(other), self.assertRaises((RuntimeError, IndexError)):
                y.backward()

    def test_a_rounding_mode_set_between_forward_and_backward(self):
        q, k, v = (tensor.detach().mul(1e-20).requires_grad_() for tensor in self.leaves())
        expected = grad(attention(q, k, v).sum(), (q, k, v), retain_graph=True)
        y = attention(q, k, v).sum()
        library, up = ctypes.CDLL("libm.so.6"), 0x800  # FE_UPWARD on x86
        if library.fesetround(up):
            self.skipTest("no upward rounding here")
        try:
            found = grad(y, (q, k, v))
        finally:
            library.fesetround(0)
        self.assert_all_same(found, expected)

    def test_exact_products(self):
        isobit.disable()
        reference = None
        for function, threads, isa in ((composed, 1, "reference"), (attention, 1, "auto"), (attention, 3, "avx2")):
            with isobit.enabled(isa=isa, products="exact3"):
                torch.set_num_threads(threads)
                q, k, v = self.leaves(heads=3, queries=70, keys=90, width=32)
                y = function(q, k, v, causal=True)
                result = [y, *grad(y.square().sum(), (q, k, v))]
                reference = reference or result
                self.assert_all_same(result, reference)


if __name__ == "__main__":
    unittest.main()
