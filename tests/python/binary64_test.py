"""float64 under the switch: a model trained whole in double, values against stock's, types that meet, refusals."""

import hashlib
import math
import unittest

import numpy
import torch
from cases import Case
from torch import nn
from torch.nn import functional

import isobit


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(20, 33)
        self.norm = nn.LayerNorm(33)
        self.batch = nn.BatchNorm1d(33)
        self.outer = nn.Linear(33, 5)

    def forward(self, x):
        x = functional.gelu(self.norm(self.inner(x)))
        return self.outer(functional.dropout(torch.tanh(self.batch(x)), 0.2, self.training))


def train(optimizer=torch.optim.AdamW, steps=4, dropout=True):
    """The weights' bits after some steps in double."""
    torch.manual_seed(3)
    model = Model().double()
    model.train(dropout)
    steps_of = optimizer(model.parameters(), lr=1e-2)
    x, y = torch.randn(64, 20, dtype=torch.float64), torch.randint(0, 5, (64,))
    for _ in range(steps):
        steps_of.zero_grad()
        functional.cross_entropy(model(x), y, label_smoothing=0.1).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps_of.step()
    return [value.detach().clone() for value in model.state_dict().values()]


def digest(tensors):
    sums = hashlib.sha256()
    for tensor in tensors:
        sums.update(tensor.numpy().tobytes())
    return sums.hexdigest()


class Training(Case):
    def test_bits_do_not_depend_on_the_machine(self):
        for optimizer in (torch.optim.AdamW, torch.optim.SGD):
            found = set()
            before = torch.get_num_threads()
            for isa in ("reference", "auto"):
                for threads in (1, 2, 3):
                    torch.set_num_threads(threads)
                    with isobit.enabled(isa=isa):
                        found.add(digest(train(optimizer)))
            torch.set_num_threads(before)
            self.assertEqual(len(found), 1, optimizer)

    def test_is_near_stock(self):
        """From the same weights and data, drawn outside, without dropout."""
        torch.manual_seed(5)
        start = Model().double().eval().state_dict()
        x, y = torch.randn(64, 20, dtype=torch.float64), torch.randint(0, 5, (64,))

        def run():
            model = Model().double().eval()
            model.load_state_dict(start)
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
            losses = []
            for _ in range(5):
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            return losses, [value.detach().clone() for value in model.state_dict().values()]

        expected_losses, expected = run()
        with isobit.enabled():
            losses, ours = run()
        self.assertGreater(losses[0], losses[-1])
        for mine, stock in zip(losses, expected_losses, strict=True):
            self.assertAlmostEqual(mine, stock, delta=1e-13)
        for mine, stock in zip(ours, expected, strict=True):
            self.assertLess((mine - stock).abs().max().item(), 1e-11)


def negative_likelihood(x, y, width, scale, noise):
    """Of a Gaussian process with a squared exponential kernel."""
    distances = torch.cdist(x / width, x / width, compute_mode="donot_use_mm_for_euclid_dist")
    covariance = scale * torch.exp(-0.5 * distances**2) + noise * torch.eye(len(x), dtype=x.dtype)
    factor = torch.linalg.cholesky(covariance)
    half = torch.linalg.solve_triangular(factor, y[:, None], upper=False)
    return 0.5 * (half**2).sum() + factor.diagonal().log().sum()


def fit(steps=4):
    x = torch.linspace(0, 6, 70, dtype=torch.float64)[:, None]
    y = torch.sin(x[:, 0]) + 0.1 * torch.cos(17 * x[:, 0])
    parameters = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (0.1, 0.0, -2.0)]
    optimizer = torch.optim.Adam(parameters, lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = negative_likelihood(x, y, *(p.exp() for p in parameters))
        loss.backward()
        optimizer.step()
    return [p.item() for p in parameters] + [loss.item()]


class LinearSystems(Case):
    def test_a_gaussian_process_has_one_answer(self):
        with isobit.enabled():
            first = fit()
        for isa, threads in (("reference", 1), ("auto", 3)):
            torch.set_num_threads(threads)
            try:
                with isobit.enabled(isa=isa):
                    self.assertEqual(fit(), first, f"{isa}, {threads} threads")
            finally:
                torch.set_num_threads(1)
        for ours, stock in zip(first, fit(), strict=True):
            self.assertAlmostEqual(ours, stock, delta=1e-9 * max(1.0, abs(stock)))

    def test_gradients(self):
        torch.manual_seed(6)
        a = torch.randn(2, 4, 4, dtype=torch.float64)
        given = (a @ a.mT + torch.eye(4, dtype=torch.float64)).requires_grad_()
        b = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
        functions = {
            "cholesky": lambda m, _: torch.linalg.cholesky((m + m.mT) / 2),
            "solve": torch.linalg.solve,
            "inv": lambda m, _: torch.linalg.inv(m),
            "logdet": lambda m, _: torch.logdet(m),
            "solve_triangular": lambda m, x: torch.linalg.solve_triangular(m.tril(), x, upper=False),
            "qr": lambda m, _: torch.linalg.qr(m)[1],
        }
        with isobit.enabled():
            for name, function in functions.items():
                with self.subTest(name):
                    self.assertTrue(torch.autograd.gradcheck(function, (given, b)))


class Values(Case):
    def test_against_stock(self):
        torch.manual_seed(1)
        x, w = torch.randn(40, 1100, dtype=torch.float64), torch.randn(1100, 7, dtype=torch.float64)
        positive, index = x.abs() + 0.1, torch.randint(0, 40, (40,))
        bound = 1e-13
        cases = {
            "sum": lambda: x.sum(1), "mean": lambda: x.mean(0), "var": lambda: x.var(1), "std": lambda: x.std(0),
            "norm": lambda: torch.linalg.vector_norm(x, dim=1), "norm 3": lambda: x.norm(3),
            "prod": lambda: (1 + x / 100).prod(1), "cumsum": lambda: x.cumsum(1), "cumprod": lambda: (1 + x / 100).cumprod(1),
            "mm": lambda: x @ w, "mv": lambda: x @ w[:, 0], "dot": lambda: x[0] @ w[:, 0], "addmm": lambda: torch.addmm(w[:40], x, w, beta=0.3, alpha=1.7),
            "bmm": lambda: torch.bmm(x.view(4, 10, 1100), w.expand(4, 1100, 7)),
            "exp": lambda: x.exp(), "log": lambda: positive.log(), "expm1": lambda: x.expm1(), "log1p": lambda: positive.log1p(),
            "sigmoid": lambda: x.sigmoid(), "tanh": lambda: x.tanh(), "erf": lambda: x.erf(), "sin": lambda: (100 * x).sin(),
            "cos": lambda: (1e9 * x[:2]).cos(), "gelu": lambda: functional.gelu(x), "silu": lambda: functional.silu(x),
            "gelu tanh": lambda: functional.gelu(x, approximate="tanh"), "elu": lambda: functional.elu(x), "softplus": lambda: functional.softplus(x),
            "mish": lambda: functional.mish(x), "pow 2": lambda: x.pow(2), "pow 0.5": lambda: positive.pow(0.5), "pow 0.3": lambda: positive[:2].pow(0.3),
            "pow tensor": lambda: positive[:2].pow(x[:2]), "sqrt": lambda: positive.sqrt(), "rsqrt": lambda: positive.rsqrt(),
            "addcmul": lambda: torch.addcmul(x, x, x, value=0.3), "addcdiv": lambda: torch.addcdiv(x, x, positive, value=0.3),
            "lerp": lambda: torch.lerp(x, positive, 0.3), "lerp tensor": lambda: torch.lerp(x, positive, x), "add": lambda: torch.add(x, x, alpha=0.3),
            "softmax": lambda: x.softmax(1), "log_softmax": lambda: x.log_softmax(1), "logsumexp": lambda: x.logsumexp(1),
            "layer_norm": lambda: functional.layer_norm(x, (1100,)), "group_norm": lambda: functional.group_norm(x.view(4, 10, 1100), 5),
            "mse": lambda: functional.mse_loss(x, positive), "huber": lambda: functional.huber_loss(x, positive),
            "bce": lambda: functional.binary_cross_entropy(x.sigmoid(), positive.clamp(0, 1)),
            "bce logits": lambda: functional.binary_cross_entropy_with_logits(x, positive.clamp(0, 1)),
            "renorm": lambda: x.renorm(2, 0, 1.5), "index_add": lambda: x.index_add(0, index, x), "embedding": lambda: functional.embedding(index, x),
            "scatter_add": lambda: x.scatter_add(0, index[:, None].expand(40, 1100), x), "linspace": lambda: torch.linspace(-1, 3, 1001, dtype=torch.float64),
            "arange": lambda: torch.arange(-1, 3, 0.01, dtype=torch.float64), "attention": lambda: functional.scaled_dot_product_attention(x.view(1, 40, 1100), x.view(1, 40, 1100), x.view(1, 40, 1100)),
            "clip": lambda: x.clamp(-0.3, 0.7), "median": lambda: x.median(1).values, "topk": lambda: x.topk(3).values, "kthvalue": lambda: x.kthvalue(5).values,
            "sort": lambda: x.sort(1).values, "argmax": lambda: x.argmax(1), "argmin": lambda: x.argmin(0), "amax": lambda: x.amax(1),
            "scatter_reduce": lambda: x.scatter_reduce(0, index[:, None].expand(40, 1100), x, "mean"), "log2": lambda: positive[:2].log2(), "tan": lambda: x[:2].tan(),
            "cummax": lambda: x.cummax(1).values, "max": lambda: x.max(1).values, "min": lambda: x.min(), "relu": lambda: x.relu(),
        }
        stock = {name: case() for name, case in cases.items()}
        with isobit.enabled():
            ours = {name: case() for name, case in cases.items()}
        for name, expected in stock.items():
            with self.subTest(name):
                self.assertEqual(ours[name].dtype, expected.dtype)
                largest = expected.abs().max().item()
                self.assertLessEqual((ours[name] - expected).abs().max().item(), bound * largest)

    def test_the_order_is_the_contracts(self):
        """A sum and a product written out: lanes, leaves of 512 and their tree; one chain of fma is beyond Python."""
        torch.manual_seed(2)
        x = torch.randn(1300, dtype=torch.float64) * 10.0 ** torch.randint(-8, 8, (1300,))
        leaves = []
        for begin in range(0, 1300, 512):
            lanes = [numpy.float64(0.0)] * 32
            for i, value in enumerate(x[begin:begin + 512].numpy()):
                lanes[i % 32] = lanes[i % 32] + value
            width = 16
            while width:
                lanes = [lanes[j] + lanes[j + width] for j in range(width)]
                width //= 2
            leaves.append(lanes[0])
        total = (leaves[0] + leaves[1]) + leaves[2]
        with isobit.enabled():
            self.assertEqual(x.sum().item(), float(total))
            self.assertEqual(x.mean().item(), float(total / 1300))
            ones = torch.ones(1300, dtype=torch.float64)
            chain = [numpy.float64(0.0)] * 3
            for i, value in enumerate(x.numpy()):
                chain[i // 512] = chain[i // 512] + value
            self.assertEqual(torch.dot(x, ones).item(), float((chain[0] + chain[1]) + chain[2]))
        self.assertNotEqual(float(total), float(x.numpy().cumsum()[-1]))

    def test_hostile_values(self):
        nan, inf = float("nan"), float("inf")
        x = torch.tensor([-0.0, 0.0, 5e-324, -inf, 1.0], dtype=torch.float64)
        with isobit.enabled():
            zero = torch.tensor([-0.0, -0.0], dtype=torch.float64).sum()
            self.assertEqual((1 / zero).item(), inf)
            self.assertEqual(torch.empty(0, dtype=torch.float64).sum().item(), 0.0)
            self.assertTrue(torch.empty(0, dtype=torch.float64).mean().isnan().item())
            self.assertEqual(x.argmin().item(), 3)
            self.assertEqual(torch.tensor([1.0, nan, 3.0], dtype=torch.float64).argmax().item(), 1)
            self.assertTrue(torch.tensor([1.0, nan], dtype=torch.float64).max().isnan().item())
            self.assertEqual((x[2] * 1).item(), 5e-324)
            self.assertEqual(x.exp()[3].item(), 0.0)
            self.assertTrue(torch.full((3,), -inf, dtype=torch.float64).softmax(0).isnan().all().item())
            self.assertTrue((x @ torch.zeros(5, dtype=torch.float64)).isnan().item())


class Types(Case):
    def test_dtype_asks_for_double(self):
        x = torch.tensor([1e8, 1.0, -1e8], dtype=torch.float32)
        with isobit.enabled():
            self.assertEqual(x.sum(dtype=torch.float64).item(), 1.0)
            self.assertEqual(x.mean(dtype=torch.float64).dtype, torch.float64)
            self.assertEqual(x.double().sum(dtype=torch.float32).dtype, torch.float32)
            self.assertEqual(torch.tensor([1, 2]).cumsum(0, dtype=torch.float64).tolist(), [1.0, 3.0])
            out = torch.empty((), dtype=torch.float64)
            self.assertEqual(torch.linalg.vector_norm(x, dtype=torch.float64, out=out).item(), out.item())

    def test_types_that_meet(self):
        """A float32 and a float64 tensor give float64, as in torch; in place the result is rounded once."""
        a, b = torch.tensor([0.1, 0.7]), torch.tensor([0.3, 0.9], dtype=torch.float64)
        with isobit.enabled():
            self.assertEqual(torch.maximum(a, b).dtype, torch.float64)
            self.assertTrue(torch.addcmul(b, a, b).equal(torch.addcmul(b, a.double(), b)))
            self.assertTrue(a.clone().addcmul_(a, b).equal(torch.addcmul(a.double(), a.double(), b).float()))
            self.assert_refuses("takes tensors of one type", lambda: a @ b)

    def test_default_type(self):
        torch.set_default_dtype(torch.float64)
        try:
            with isobit.enabled():
                self.assertEqual(torch.arange(3).exp().dtype, torch.float64)
                self.assertEqual(torch.linspace(0, 1, 5).dtype, torch.float64)
                self.assertEqual(torch.randn(3).dtype, torch.float64)
        finally:
            torch.set_default_dtype(torch.float32)

    def test_sequences(self):
        expected = torch.linspace(3, 40, 9, dtype=torch.int64), torch.linspace(-7, 7, 4, dtype=torch.int16)
        with isobit.enabled():
            self.assertEqual(torch.linspace(3, 40, 9, dtype=torch.int64).tolist(), expected[0].tolist())
            self.assertEqual(torch.linspace(-7, 7, 4, dtype=torch.int16).tolist(), expected[1].tolist())
            self.assertEqual(torch.arange(0.0, 10.0, 2.0, dtype=torch.int64).tolist(), [0, 2, 4, 6, 8])
            self.assert_refuses("whole numbers for an integer type", lambda: torch.arange(0, 5, 0.5, dtype=torch.int64))

    def test_random_numbers(self):
        with isobit.enabled():
            torch.manual_seed(7)
            u = torch.rand(100000, dtype=torch.float64)
            self.assertTrue(((u >= 0) & (u < 1)).all().item())
            self.assertLess(abs(u.mean().item() - 0.5), 0.005)
            self.assertGreater((u * 2**32 != (u * 2**32).floor()).double().mean().item(), 0.99)  # more than 32 bits
            z = torch.randn(100001, dtype=torch.float64)
            self.assertLess(abs(z.mean().item()), 0.02)
            self.assertLess(abs(z.std().item() - 1), 0.01)
            e = torch.empty(100000, dtype=torch.float64).exponential_(2.0)
            self.assertTrue((e > 0).all().item())
            self.assertLess(abs(e.mean().item() - 0.5), 0.01)
            torch.manual_seed(7)
            mask = torch.bernoulli(torch.full((1000,), 0.3, dtype=torch.float32))
            torch.manual_seed(7)
            self.assertTrue(mask.double().equal(torch.empty(1000, dtype=torch.float64).bernoulli_(0.3)))

    def test_gradient_of_embedding(self):
        torch.manual_seed(1)
        table, index = torch.randn(9, 4, dtype=torch.float64), torch.randint(0, 9, (700,))

        def gradient():
            leaf = table.clone().requires_grad_()
            functional.embedding(index, leaf).square().sum().backward()
            return leaf.grad

        expected = gradient()
        with isobit.enabled():
            mine = gradient()
        self.assertLess((mine - expected).abs().max().item(), 1e-11)

    def test_gradient_of_renorm(self):
        torch.manual_seed(1)
        for dtype in (torch.float64, torch.float32):
            x = torch.randn(6, 4, 5, dtype=dtype)

            def gradient(x=x):
                leaf = x.clone().requires_grad_()
                leaf.renorm(2, 0, 1.0).square().sum().backward()
                return leaf.grad

            expected = gradient()
            with isobit.enabled():
                mine = gradient()
            self.assertLess((mine - expected).abs().max().item(), 1e-13 if dtype == torch.float64 else 1e-5)

    def test_angles_and_remainders(self):
        torch.manual_seed(4)
        special = torch.tensor([0.0, -0.0, 1, -1, 1.5, math.nan, math.inf, -math.inf, 1e-300, 1e300], dtype=torch.float64)
        x, y = torch.cat([torch.rand(900).double() * 2 - 1, special]), torch.randn(910, dtype=torch.float64)
        calls = {"acos": x.acos, "asin": x.asin, "atan": (x * 50).atan, "atan2": lambda: torch.atan2(y, x), "fmod": lambda: torch.fmod(x, y),
                 "remainder": lambda: torch.remainder(x, y), "by a number": lambda: x % 2.5, "of a number": lambda: torch.remainder(2.5, y),
                 "in place": lambda: x.clone().acos_(), "out": lambda: torch.atan2(y, x, out=torch.empty(0, dtype=torch.float64))}
        stock, before = {name: call() for name, call in calls.items()}, torch.get_num_threads()
        for name, call in calls.items():
            found = []
            for isa in ("reference", "auto"):
                for threads in (1, 2, 3, 8):
                    torch.set_num_threads(threads)
                    with isobit.enabled(isa=isa):
                        found.append(call())
            torch.set_num_threads(before)
            self.assertEqual(len({digest([each.nan_to_num(nan=7.0)]) for each in found}), 1, name)
            torch.testing.assert_close(found[0], stock[name], rtol=1e-15, atol=0, equal_nan=True)
        parameter = torch.tensor([0.3, -0.7], dtype=torch.float64, requires_grad=True)
        with isobit.enabled():
            (parameter.acos() + 2 * parameter.asin() + parameter.atan() + torch.atan2(parameter, parameter**2)).sum().backward()
        given = parameter.grad
        parameter.grad = None
        (parameter.acos() + 2 * parameter.asin() + parameter.atan() + torch.atan2(parameter, parameter**2)).sum().backward()
        torch.testing.assert_close(given, parameter.grad, rtol=1e-14, atol=0)

    def test_selections_and_quotients(self):
        """float32's rules, of numbers that both types hold; stock's values, but for the zeros and NaN that the contract decides."""
        nan, inf = math.nan, math.inf
        numbers = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.375, 7.0, -7.0, 3.0, 2.0**-100, inf, -inf, nan]
        pairs = torch.tensor([(a, b) for a in numbers for b in numbers], dtype=torch.float64)
        a, b = pairs[:, 0].contiguous(), pairs[:, 1].contiguous()
        functions = {
            "floor": torch.floor_divide, "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "copysign": torch.copysign,
            "fmax": torch.fmax, "fmin": torch.fmin, "heaviside": torch.heaviside, "signbit": lambda a, _: torch.signbit(a),
            "nan_to_num": lambda a, _: torch.nan_to_num(a, 1.0, 2.0, 3.0),
        }
        for name, function in functions.items():
            with self.subTest(name):
                with isobit.enabled():
                    wide, narrow = function(a, b).double(), function(a.float(), b.float()).double()
                self.assertTrue(torch.equal(wide.nan_to_num(9.0), narrow.nan_to_num(9.0)))
                self.assertTrue(torch.equal(torch.signbit(wide.nan_to_num(9.0)), torch.signbit(narrow.nan_to_num(9.0))))
                if name != "heaviside":
                    self.assertTrue(torch.equal(wide.nan_to_num(9.0), function(a, b).double().nan_to_num(9.0)))
        with isobit.enabled():
            up = torch.nextafter(a, b)
        self.assertTrue(torch.equal(up.nan_to_num(9.0), torch.nextafter(a, b).nan_to_num(9.0)))

    def test_refusals_name_the_type(self):
        x = torch.randn(1, 1, 8, 8, dtype=torch.float64)
        with isobit.enabled():
            for call in (lambda: functional.conv2d(x, x), lambda: functional.max_pool2d(x, 2), lambda: torch.acosh(x)):
                self.assert_refuses("certified for float32 only, got Double", call)
            self.assert_refuses("float64", lambda: x.cfloat().exp())


if __name__ == "__main__":
    unittest.main()
