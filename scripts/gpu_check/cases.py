"""The operators of the sweep: name, inputs, and what is computed from them, forward and backward.

A case is (name, make) where make(scale) gives (function, tensors); scale < 1 shrinks the large shapes. Floating
inputs get gradients, from a gradient of the output that is made too.
"""

import torch
import torch.nn.functional as F

from listed_functions import listed_functions

from .data import Inputs


def _case(name, function, *tensors):
    return name, function, tensors


def _function(name):
    return getattr(torch, name, None) or getattr(torch.special, name.removeprefix("special_"))


def products(scale):
    size = lambda n: max(1, int(n * scale))
    for m, n, k in [(1, 1, 1), (1, 257, 700), (300, 1, 513), (64, 64, 0), (127, 65, 512), (size(512),) * 3,
                    (3, 5, size(20000)), (size(1000), 10, 84), (size(1024), size(768), 1537)]:
        i = Inputs(f"mm {m} {n} {k}")
        yield _case(f"mm {m}x{n}x{k}", torch.mm, i.wide(m, k), i.wide(k, n))
        yield _case(f"linear {m}x{n}x{k}", F.linear, i.normal(m, k), i.normal(n, k), i.normal(n))
    i = Inputs("bmm")
    yield _case("mm of transposes", lambda a, b: torch.mm(a.t(), b.t()), i.wide(300, 70), i.wide(90, 300))
    yield _case("bmm", torch.bmm, i.wide(7, 33, 600), i.wide(7, 600, 21))
    yield _case("bmm, one matrix for all", lambda a, b: torch.bmm(a.expand(5, 33, 65), b), i.wide(1, 33, 65),
                i.wide(5, 65, 40))
    yield _case("mv", torch.mv, i.wide(700, 1300), i.wide(1300))
    yield _case("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=-1.5), i.normal(1, 50),
                i.normal(60, 90), i.normal(90, 50))
    yield _case("mm, hostile", torch.mm, i.hostile(40, 600), i.hostile(600, 50))


def convolutions(scale):
    batch = max(1, int(8 * scale))
    for name, n, ci, h, w, co, k, options in [
            ("3x3", batch, 64, 32, 32, 64, 3, dict(padding=1)), ("3x3 on 4x4", batch, 128, 4, 4, 128, 3, dict(padding=1)),
            ("7x7 stride 2", batch, 3, 56, 56, 64, 7, dict(padding=3, stride=2)),
            ("1x1 stride 2", batch, 64, 14, 14, 128, 1, dict(stride=2)), ("5x5", batch, 1, 28, 28, 6, 5, dict(padding=2)),
            ("groups", 2, 12, 11, 13, 18, 3, dict(padding=1, groups=3)), ("depthwise", 2, 16, 15, 9, 16, 3, dict(groups=16)),
            ("dilated", 2, 5, 17, 19, 7, 3, dict(dilation=2, padding=2)), ("odd", 1, 3, 7, 5, 2, 3, dict(stride=3)),
            ("batch of none", 0, 3, 8, 8, 4, 3, dict())]:
        i = Inputs("conv " + name)
        groups = options.get("groups", 1)
        yield _case(f"conv2d {name}", lambda x, weight, bias, o=options: F.conv2d(x, weight, bias, **o),
                    i.wide(n, ci, h, w), i.wide(co, ci // groups, k, k), i.normal(co))


def attention(scale):
    size = lambda n: max(1, int(n * scale))
    i = Inputs("attention")
    for length, causal in [(size(200), False), (size(200), True), (33, True)]:
        q, k, v = (i.normal(2, 3, length, 24) for _ in range(3))
        yield _case(f"attention over {length}{', causal' if causal else ''}",
                    lambda q, k, v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c), q, k, v)


def reductions(scale):
    i = Inputs("reductions")
    n = max(100, int(300000 * scale))
    yield _case("sum", torch.sum, i.wide(n))
    yield _case("mean", torch.mean, i.wide(n))
    for dims in [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)]:
        yield _case(f"sum over {dims}", lambda x, d=dims: x.sum(d), i.wide(37, 65, 129))
    yield _case("norm", torch.linalg.vector_norm, i.wide(n))
    yield _case("var", lambda x: torch.var(x, (0, 2)), i.normal(9, 33, 700))
    yield _case("amax", lambda x: x.amax(1), i.hostile(33, 777, finite=True))
    yield _case("sum, hostile", lambda x: x.sum(0), i.hostile(2000, 9))


def normalization(scale):
    i = Inputs("normalization")
    n = max(2, int(16 * scale))
    yield _case("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), i.normal(n, 24, 28, 28),
                i.normal(24), i.normal(24))
    yield _case("batch_norm 7x7", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), i.wide(n, 64, 7, 7),
                i.normal(64), i.normal(64))
    yield _case("batch_norm, running", lambda x: F.batch_norm(x, x.new_zeros(5), x.new_ones(5), training=False),
                i.normal(4, 5, 6, 6))
    yield _case("softmax", lambda x: F.softmax(x, 1), i.normal(65, 1000))
    yield _case("softmax over rows", lambda x: F.softmax(x, 0), i.normal(700, 33))
    yield _case("log_softmax", lambda x: F.log_softmax(x, 1), i.hostile(65, 1000, finite=True))
    labels = i.labels(10, 300)
    yield _case("cross_entropy", lambda x: F.cross_entropy(x, labels.to(x.device)), i.normal(300, 10))


def rows(scale):
    """Sorts, ranks, running values, reductions by index, and the CPU fallback."""
    i = Inputs("rows")
    size = lambda n: max(3, int(n * scale))
    for rows, n in [(size(3000), 10), (size(600), 700), (3, 2048), (2, size(100000)), (1, size(2000000))]:
        x = i.hostile(rows, n)
        for descending in (False, True):
            name = f"sort {rows}x{n}" + (", descending" if descending else "")
            yield _case(name, lambda x, d=descending: torch.sort(x, stable=True, descending=d).values, x)
            yield _case(name + ", places", lambda x, d=descending: torch.sort(x, stable=True, descending=d).indices, x)
    x = lambda: i.hostile(37, 1301)
    yield _case("sort of equals", lambda x: torch.sort(x.round(), dim=0, stable=True).indices, i.normal(5001, 9))
    yield _case("topk", lambda x: torch.topk(x, 7).values, x())
    yield _case("kthvalue", lambda x: torch.kthvalue(x, 300, 1).values, x())
    yield _case("median", lambda x: torch.median(x, 0).values, x())
    yield _case("median of all", torch.median, i.normal(size(100000)))
    yield _case("nanmedian", lambda x: torch.nanmedian(x, 1).values, x())
    for name in ["cummax", "cummin"]:
        yield _case(name, lambda x, f=getattr(torch, name): f(x, 1).values, x())
        yield _case(name + ", places", lambda x, f=getattr(torch, name): f(x, 0).indices, x())
    yield _case("logcumsumexp", lambda x: torch.logcumsumexp(x, 1), i.normal(37, 1301))
    near_one = lambda *shape: 1 + i.normal(*shape) * 0.01
    yield _case("prod", lambda x: torch.prod(x, 1), near_one(37, 1301))
    yield _case("prod over columns", lambda x: torch.prod(x, 0), near_one(1301, 37))
    yield _case("prod of all", torch.prod, near_one(size(300000)))
    yield _case("renorm", lambda x: torch.renorm(x.detach(), 3, 0, 2.0), i.normal(37, 65))
    index, row = i.labels(9, 37, 1301), i.labels(9, 1301)
    for kind in ["sum", "prod", "mean", "amax", "amin"]:
        yield _case(f"scatter_reduce {kind}", lambda a, b, k=kind: a.scatter_reduce(1, index.to(a.device), b, k), near_one(37, 9),
                    near_one(37, 1301))
        if kind != "sum":
            yield _case(f"index_reduce {kind}", lambda a, b, k=kind: a.index_reduce(1, row.to(a.device), b, k), near_one(37, 9),
                        near_one(37, 1301))
    yield _case("put", lambda a, b: a.put(row.to(a.device), b), i.normal(37, 9), i.normal(1301))
    yield _case("unique, by CPU fallback", lambda x: torch.unique(x.detach().round()), i.normal(3001))
    yield _case("mode, by CPU fallback", lambda x: torch.mode(x.round(), 1).values, i.normal(37, 65))
    yield _case("qr, by CPU fallback", lambda x: torch.linalg.qr(x.detach()).Q, i.normal(5, 65, 33))


def pooling(_):
    i = Inputs("pooling")
    x = lambda: i.hostile(3, 7, 29, 31)
    yield _case("max_pool2d", lambda x: F.max_pool2d(x, 2), x())
    yield _case("max_pool2d 3 stride 2", lambda x: F.max_pool2d(x, 3, 2, 1), x())
    yield _case("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), i.wide(3, 7, 29, 31))
    yield _case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (5, 3)), i.wide(3, 7, 29, 31))
    yield _case("global average", lambda x: F.adaptive_avg_pool2d(x, 1), i.wide(4, 64, 7, 7))
    body = lambda: i.wide(2, 5, 9, 17, 19)
    yield _case("max_pool3d", lambda x: F.max_pool3d(x, 3, 2, 1), i.hostile(2, 5, 9, 17, 19))
    yield _case("max_pool3d of equals", lambda x: F.max_pool3d(x * 0, 3, 1, 1), body())
    yield _case("avg_pool3d", lambda x: F.avg_pool3d(x, 3, 2, 1), body())
    yield _case("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, (4, 5, 3)), body())
    yield _case("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (5, 3)), i.wide(3, 7, 29, 31))
    places = i.unit(2, 5, 3)
    yield _case("fractional_max_pool3d",
                lambda x: F.fractional_max_pool3d(x, 2, (4, 8, 9), _random_samples=places.to(x.device)), body())

    def unpooled(x):
        y, index = F.max_pool2d(x, 2, 1, return_indices=True)
        return F.max_unpool2d(y, index, 2, 1)
    yield _case("max_unpool2d, places met often", unpooled, i.wide(2, 5, 17, 19))


def sampling(scale):
    batch = max(1, int(4 * scale))
    for mode in ["bilinear", "nearest", "bicubic"]:
        for padding in ["zeros", "border", "reflection"]:
            i = Inputs(f"grid {mode} {padding}")
            yield _case(f"grid_sample {mode} {padding}",
                        lambda x, g, m=mode, p=padding: F.grid_sample(x, g, m, p, align_corners=p == "border"),
                        i.wide(batch, 13, 31, 29), i.normal(batch, 37, 23, 2))
    i = Inputs("sampling")
    yield _case("grid_sample, one place for all", lambda x, g: F.grid_sample(x, g * 0, align_corners=False), i.wide(2, 3, 9, 9),
                i.normal(2, 40, 40, 2))
    yield _case("grid_sample, 700 channels", lambda x, g: F.grid_sample(x, g, align_corners=False), i.wide(1, 700, 5, 5),
                i.normal(1, 7, 5, 2))
    yield _case("grid_sample in three dimensions", lambda x, g: F.grid_sample(x, g, align_corners=True), i.wide(2, 5, 7, 9, 8),
                i.normal(2, 6, 11, 7, 3))
    yield _case("affine_grid", lambda t: F.affine_grid(t, (3, 2, 17, 13), align_corners=False), i.normal(3, 2, 3))
    for mode in ["bilinear", "bicubic", "nearest"]:
        yield _case(f"interpolate {mode}", lambda x, m=mode: F.interpolate(x, scale_factor=1.7, mode=m), i.wide(2, 5, 17, 13))


def pointwise(_):
    i = Inputs("pointwise")
    x = lambda: i.hostile(100003)
    for name in ["exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "relu", "rsqrt", "sqrt", "neg",
                 "abs", "reciprocal", "square"]:
        yield _case(name, getattr(torch, name), x())
    for name in ["silu", "gelu", "leaky_relu", "hardtanh"]:
        yield _case(name, getattr(F, name), x())
    yield _case("gelu tanh", lambda v: F.gelu(v, approximate="tanh"), x())
    for name in ["add", "sub", "mul", "div", "maximum", "minimum"]:
        yield _case(name, getattr(torch, name), x(), x())
    yield _case("add, broadcast", torch.add, i.normal(33, 1, 65), i.normal(7, 1))
    yield _case("div by a number", lambda v: v / 3.0, x())
    yield _case("mul by a number", lambda v: v * 0.1, x())
    yield _case("add with alpha", lambda a, b: torch.add(a, b, alpha=0.3), x(), x())
    yield _case("lerp", lambda a, b: torch.lerp(a, b, 0.3), x(), x())
    yield _case("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=0.7), x(), x(), x())
    yield _case("addcdiv", lambda a, b, c: torch.addcdiv(a, b, c, value=0.7), x(), x(), x())
    yield _case("pow 3", lambda v: v.pow(3), x())
    yield _case("clamp", lambda v: v.clamp(-1, 2), x())
    yield from _listed(i, x)
    yield _case("signbit, frexp", lambda v: torch.where(v.signbit(), *torch.frexp(v.detach())), x())
    yield _case("div towards zero", lambda a, b: torch.div(a.detach(), b.detach(), rounding_mode="trunc"), x(), x())


def _listed(i, x):
    """The functions that the kernels' list names, on hostile and on everyday values."""
    slow = {"igamma", "igammac", "special_zeta", "_standard_gamma_grad"}  # near 1 is where their series are long
    for name, arguments in listed_functions().items():
        if name == "polygamma":
            for order in 1, 4:
                yield _case(f"polygamma {order}", lambda v, n=order: torch.polygamma(n, v), x())
                yield _case(f"polygamma {order} near 0", lambda v, n=order: torch.polygamma(n, v), i.normal(1009))
        elif name == "logit_backward":
            yield _case(name, lambda dy, v: torch.ops.aten.logit_backward(dy.detach(), v.detach()), i.wide(1009), i.unit(1009))
        elif arguments == 1:
            function = _function(name)
            yield _case(name, function, x())
            yield _case(name + " near 0", function, i.normal(10007))
            yield _case(name + " without gradient", lambda v, f=function: f(v.detach()), i.normal(10007))
        else:
            function = _function(name)
            yield _case(name, lambda a, b, f=function: f(a.detach(), b.detach()), x(), x())
            if name in slow:
                yield _case(name + " near 1", lambda a, b, f=function: f(a.detach(), b.detach()), i.unit(1009) + 0.5,
                            i.unit(1009) * 3)


def drawn(_):
    """From the default CPU generator, on any device."""
    i = Inputs("drawn")

    def seeded(function):
        def call(*tensors):
            torch.manual_seed(7)
            return function(*tensors)
        return call

    yield _case("dropout", seeded(lambda x: F.dropout(x, 0.3)), i.normal(10007))
    yield _case("uniform_", seeded(lambda x: x.detach().clone().uniform_(-1, 3)), i.normal(10007))
    yield _case("normal_", seeded(lambda x: x.detach().clone().normal_(1, 2)), i.normal(10007))
    chances = torch.linspace(0, 1, 10007)
    yield _case("bernoulli of each", seeded(lambda p: torch.bernoulli(p.detach())), chances)
    yield _case("normal of each", seeded(lambda m, d: torch.normal(m.detach(), d.detach())), i.normal(10007), chances)
    yield _case("exponential_", seeded(lambda x: x.detach().clone().exponential_(2.0)), i.normal(10007))
    yield _case("geometric_", seeded(lambda x: x.detach().clone().geometric_(0.3)), i.normal(10007))
    yield _case("log_normal_", seeded(lambda x: x.detach().clone().log_normal_(0.1, 0.5)), i.normal(10007))
    shapes = i.unit(301, 7) * 5
    yield _case("gamma", seeded(lambda a: torch._standard_gamma(a.detach())), shapes)
    yield _case("dirichlet", seeded(lambda a: torch._sample_dirichlet(a.detach())), shapes)
    yield _case("poisson", seeded(lambda a: torch.poisson(a.detach() * 9)), shapes)
    yield _case("binomial", seeded(lambda a, p: torch.binomial(a.detach().ceil() * 9, p.detach())), shapes, i.unit(301, 7))
    yield _case("multinomial", seeded(lambda p: torch.multinomial(p.detach(), 300, True)), chances)
    yield _case("multinomial without replacement", seeded(lambda p: torch.multinomial(p.detach(), 300)), chances)


def systems(_):
    """Factorisations and solvers, by CPU fallback."""
    i = Inputs("systems")
    a, b = i.normal(3, 20, 20), i.normal(3, 20, 4)
    square = a @ a.mT + torch.eye(20)
    yield _case("cholesky", torch.linalg.cholesky, square)
    yield _case("solve", torch.linalg.solve, square, b)
    yield _case("solve_triangular", lambda m, v: torch.linalg.solve_triangular(m, v, upper=False), square, b)
    yield _case("inverse, logdet", lambda m: torch.inverse(m) + torch.logdet(m)[:, None, None], square)


def placing(_):
    """Writes by index, of two to one place the later; sums by index."""
    i = Inputs("placing")
    index, mask = i.labels(301, 5000), i.unit(301, 17).gt(0.5)

    def put(x, v):
        y = x.clone()
        y[index.to(x.device)] = v
        return y

    def masked(x):
        y = x.clone()
        y[mask.to(x.device)] = 0.25
        return y
    yield _case("x[index] = v", lambda x, v: put(x.detach(), v.detach()), i.normal(301, 17), i.normal(5000, 17))
    yield _case("x[mask] = number", lambda x: masked(x.detach()), i.normal(301, 17))
    yield _case("index_copy", lambda x, v: x.detach().index_copy(1, index.to(x.device), v.detach()), i.normal(7, 301, 3),
                i.normal(7, 5000, 3))
    yield _case("index_add", lambda x, v: x.index_add(0, index.to(x.device), v, alpha=0.7), i.wide(301, 17), i.wide(5000, 17))
    yield _case("x[index]", lambda x: x[index.to(x.device)], i.wide(301, 17))
    yield _case("scatter_add", lambda x, v: x.scatter_add(0, index[:, None].expand(-1, 17).to(x.device), v), i.wide(301, 17),
                i.wide(5000, 17))


FAMILIES = [products, convolutions, attention, reductions, normalization, rows, pooling, sampling, placing, systems, pointwise,
            drawn]
# What multiplies, which the exact tier computes in its own way.
PRODUCT_FAMILIES = [products, convolutions, attention]
