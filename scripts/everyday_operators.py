"""What programs call every day, for scripts/bench-operators: (name, function, tensors that get gradients).

Sizes are those of one layer of a small network. The list is for what nobody looks at: a row far above 1 is a way through the
code that nobody has measured.
"""

import torch
import torch.nn.functional as F


def reductions():
    """Each over first, middle and last dimensions, long and short."""
    shapes = [((16, 128, 256), 0), ((16, 128, 256), 1), ((16, 128, 256), 2), ((256, 3, 1024), 1), ((3, 100000), 0),
              ((100000, 3), 1), ((8, 32, 56, 56), 1), ((64, 1, 64, 64), 1), ((4096, 10), 1), ((32, 8, 64, 64), 2),
              ((2, 1000, 1000), 0)]
    kinds = {
        "sum": lambda x, d: x.sum(d), "mean": lambda x, d: x.mean(d), "var": lambda x, d: x.var(d),
        "norm": lambda x, d: x.norm(dim=d), "amax": lambda x, d: x.amax(d),
        "max": lambda x, d: x.max(d)[0], "argmax": lambda x, d: x.argmax(d),
        "softmax": lambda x, d: x.softmax(d), "logsumexp": lambda x, d: x.logsumexp(d), "cumsum": lambda x, d: x.cumsum(d),
        "prod": lambda x, d: x.prod(d),
    }
    for kind, function in kinds.items():
        for shape, dim in shapes:
            name = f"{kind} over {dim} of {' x '.join(map(str, shape))}"
            yield name, lambda x, f=function, d=dim: f(x, d), torch.rand(shape) + 0.5


def indices():
    """Graph networks, embeddings, tables of which few rows are met, losses that pick one of many."""
    messages, nodes = torch.randn(20000, 64), torch.zeros(2000, 64)
    edge = torch.randint(2000, (20000,))
    each, whole = edge[:, None].expand(20000, 64), edge[:, None].repeat(1, 64)
    yield "scatter_add of 20000 x 64 to 2000, an index a row", lambda s: nodes.scatter_add(0, each, s), messages
    yield "scatter_add of 20000 x 64 to 2000, an index each", lambda s: nodes.scatter_add(0, whole, s), messages
    for kind in ["mean", "amax", "prod"]:
        yield f"scatter_reduce {kind} of 20000 x 64 to 2000", \
            lambda s, k=kind: nodes.scatter_reduce(0, each, s, k, include_self=False), messages
    yield "index_add of 20000 x 64 to 2000", lambda s: nodes.index_add(0, edge, s), messages
    yield "gather of 20000 x 64 from 2000", lambda x: x.gather(0, each), nodes
    yield "rows by index, 20000 of 2000", lambda x: x[edge], nodes
    flat = torch.randint(20000, (200000,))
    yield "scatter_add of 200000 to 20000", lambda s: torch.zeros(20000).scatter_add(0, flat, s), torch.randn(200000)
    table, few = torch.zeros(50000, 128), torch.randint(50000, (32,))
    yield "index_add_ of 32 rows of 50000", lambda s: table.index_add_(0, few, s.detach()), torch.randn(32, 128)
    yield "index_put_ of 32 rows of 50000", lambda s: table.index_put_((few,), s.detach(), accumulate=True), torch.randn(32, 128)
    target = torch.randint(1000, (512, 1))
    yield "gather of one of 1000", lambda x: x.gather(1, target), torch.randn(512, 1000)
    tokens = torch.randint(1000, (64, 128))
    yield "embedding of 64 x 128, 1000 rows", lambda w: F.embedding(tokens, w), torch.randn(1000, 256)
    yield "embedding_bag of 64 x 128", lambda w: F.embedding_bag(tokens, w), torch.randn(1000, 256)
    columns = torch.randint(1024, (256,))
    yield "index_select of columns", lambda x: x.index_select(1, columns), torch.randn(256, 1024)
    yield "repeat_interleave", lambda x: x.repeat_interleave(3, 0), torch.randn(256, 1024)
    mask = torch.randn(256, 1024) > 0
    yield "masked rows", lambda x: x[mask], torch.randn(256, 1024)
    yield "masked_fill", lambda x: x.masked_fill(mask, 0.0), torch.randn(256, 1024)
    yield "where", lambda a, b: torch.where(mask, a, b), torch.randn(256, 1024), torch.randn(256, 1024)


def images():
    """Channels first and last."""
    first = torch.randn(8, 32, 56, 56)
    weights = {"3x3": (torch.randn(32, 32, 3, 3), 1), "1x1": (torch.randn(64, 32, 1, 1), 1),
               "depthwise": (torch.randn(32, 1, 3, 3), 32)}
    for layout, x in (("", first), (", channels last", first.to(memory_format=torch.channels_last))):
        for name, (weight, groups) in weights.items():
            yield f"conv2d {name}{layout}", lambda x, w, g=groups: F.conv2d(x, w, padding=1, groups=g), x, weight
        yield f"batch_norm{layout}", lambda x: F.batch_norm(x, None, None, training=True), x
        yield f"group_norm{layout}", lambda x: F.group_norm(x, 8), x
        yield f"max_pool2d{layout}", lambda x: F.max_pool2d(x, 2), x
        yield f"avg_pool2d{layout}", lambda x: F.avg_pool2d(x, 2), x
        yield f"contiguous{layout}", lambda x: x.contiguous(), x
        yield f"relu{layout}", F.relu, x
    labels = torch.randint(32, (8, 56, 56))
    yield "cross_entropy of images", lambda x: F.cross_entropy(x, labels), first
    yield "local_response_norm", lambda x: F.local_response_norm(x, 5), first
    yield "pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), first
    yield "interpolate with antialias", lambda x: F.interpolate(x, size=(28, 28), mode="bilinear", antialias=True), first
    for channels, size, kernel, stride in [(96, 112, 3, 2), (240, 14, 5, 1), (384, 14, 7, 1)]:
        yield f"conv2d depthwise {kernel}x{kernel}, stride {stride}, {channels} channels of {size} x {size}", \
            lambda x, w, s=stride: F.conv2d(x, w, stride=s, padding=w.shape[2] // 2, groups=w.shape[0]), \
            torch.randn(4, channels, size, size), torch.randn(channels, 1, kernel, kernel)
    yield "conv1d depthwise", lambda x, w: F.conv1d(x, w, padding=2, groups=64), torch.randn(16, 64, 512), torch.randn(64, 1, 5)
    for rows, channels in [(256, 1024), (1024, 256), (4096, 64)]:
        yield f"batch_norm of {rows} x {channels}", lambda x: F.batch_norm(x, None, None, training=True), \
            torch.randn(rows, channels)


def losses():
    x, y = torch.randn(256, 1024), torch.randn(256, 1024)
    target, mask = torch.randint(1024, (256,)), (torch.randn(256, 1024) > 0).float()
    yield "cross_entropy", lambda x: F.cross_entropy(x, target), x
    yield "cross_entropy, smoothed", lambda x: F.cross_entropy(x, target, label_smoothing=0.1), x
    yield "binary_cross_entropy_with_logits", lambda x: F.binary_cross_entropy_with_logits(x, mask), x
    for name in ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cosine_similarity", "pairwise_distance"]:
        yield name, getattr(F, name), x, y
    yield "kl_div", lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), x, y
    yield "triplet_margin_loss", F.triplet_margin_loss, x, y, x.flip(0)


def sequences():
    x = torch.randn(16, 128, 256)
    head = torch.randn(16, 8, 128, 32)
    mask = torch.zeros(16, 1, 128, 128).masked_fill(torch.rand(16, 1, 128, 128) < 0.2, float("-inf"))
    mask[..., 0] = 0
    yield "layer_norm", lambda x: F.layer_norm(x, (256,)), x
    for rows, width in [(2048, 1024), (512, 768), (6272, 96)]:
        yield f"layer_norm of {rows} x {width}, with weights", lambda x, w, b: F.layer_norm(x, w.shape, w, b), \
            torch.randn(rows, width), torch.randn(width), torch.randn(width)
    yield "rms_norm", lambda x: F.rms_norm(x, (256,)), x
    yield "attention", F.scaled_dot_product_attention, head, head, head
    yield "attention, causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), head, head, head
    yield "attention, masked", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask), head, head, head
    yield "matrix times vector", lambda a, b: a @ b, torch.randn(256, 1024), torch.randn(1024)
    yield "einsum bij,bkj->bik", lambda a, b: torch.einsum("bij,bkj->bik", a, b), torch.randn(64, 64, 64), torch.randn(64, 64, 64)
    for name in ["gelu", "silu", "mish", "elu", "softplus", "hardswish", "glu", "logsigmoid", "leaky_relu"]:
        yield name, getattr(F, name), torch.randn(256, 1024)
    yield "prelu", F.prelu, torch.randn(256, 1024), torch.tensor([0.2])
    yield "power 1.7", lambda x: x**1.7, torch.rand(256, 1024) + 0.1
    yield "power of each", torch.pow, torch.rand(256, 1024) + 0.1, torch.randn(256, 1024)
    yield "nan_to_num", torch.nan_to_num, torch.randn(256, 1024)
    yield "dropout", lambda x: F.dropout(x, 0.1), torch.randn(256, 1024)
    yield "a row added to all", lambda a, b: a + b, torch.randn(256, 1024), torch.randn(1024)
    yield "a column divides all", lambda a, b: a / b, torch.randn(256, 1024), torch.rand(256, 1) + 0.5


def systems():
    """Gaussian processes, whitening, Kalman filters, distances of Mahalanobis."""
    for n in [32, 128, 512]:
        a, b = torch.randn(n, n) / n**0.5 + 2 * torch.eye(n), torch.randn(n, 8)  # far from singular: digits are compared, too
        definite = a @ a.T + torch.eye(n)
        lower = torch.linalg.cholesky(definite)
        yield f"cholesky of {n}", torch.linalg.cholesky, definite
        yield f"solve of {n}, 8 sides", torch.linalg.solve, a, b
        yield f"inverse of {n}", torch.linalg.inv, a
        yield f"log-determinant of {n}", lambda x: torch.linalg.slogdet(x)[1], definite
        yield f"triangle of {n} solved, 8 sides", lambda x, y: torch.linalg.solve_triangular(x, y, upper=False), lower, b
        yield f"cholesky_solve of {n}, 8 sides", lambda y, x: torch.cholesky_solve(y, x), b, lower
        yield f"cholesky_inverse of {n}", torch.cholesky_inverse, lower
        yield f"QR of {n}", lambda x: torch.linalg.qr(x)[1], a
    batch = torch.randn(256, 22, 22)
    batch = batch @ batch.mT / 22 + torch.eye(22)
    yield "cholesky of 256 covariances of 22 channels", torch.linalg.cholesky, batch
    yield "solve of 256 covariances of 22 channels", torch.linalg.solve, batch, torch.randn(256, 22, 1)


def wide():
    """float64, as physics, statistics and checks of gradients have it; names begin with it."""
    wide = torch.float64
    x, y = torch.randn(256, 256, dtype=wide), torch.randn(256, 256, dtype=wide)
    positive = x.abs() + 0.1
    functions = {
        "exp": torch.exp, "sin": torch.sin, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "erf": torch.erf, "GELU": F.gelu,
        "softplus": F.softplus, "softmax": lambda x: x.softmax(1), "square": lambda x: x**2, "tan": torch.tan,
        "sum over 0": lambda x: x.sum(0), "sum over 1": lambda x: x.sum(1), "norm": lambda x: x.norm(),
        "amax": lambda x: x.amax(1), "var": lambda x: x.var(), "layer norm": lambda x: F.layer_norm(x, (256,)),
        "cumsum": lambda x: x.cumsum(1),
    }
    for name, function in functions.items():
        yield f"float64 {name}", function, x
    yield "float64 log", torch.log, positive
    yield "float64 log1p", torch.log1p, positive
    yield "float64 power 1.7", lambda x: x**1.7, positive
    yield "float64 atan2", torch.atan2, x, y
    for n in [64, 256, 1024]:
        a, b = torch.randn(n, n, dtype=wide), torch.randn(n, n, dtype=wide)
        yield f"float64 product of {n} cubed", torch.mm, a, b
    yield "float64 matrix times vector, 1024", torch.mv, torch.randn(1024, 1024, dtype=wide), torch.randn(1024, dtype=wide)
    yield "float64 linear, 500 x 64 to 64", F.linear, torch.randn(500, 64, dtype=wide), torch.randn(64, 64, dtype=wide), y[0, :64]
    yield "float64 batch norm of 256 x 256", lambda x: F.batch_norm(x, None, None, training=True), x
    definite = x @ x.T / 256 + torch.eye(256, dtype=wide)
    yield "float64 cholesky of 256", torch.linalg.cholesky, definite
    yield "float64 solve of 256", torch.linalg.solve, definite, y[:, :8]
    yield "float64 inverse of 256", torch.linalg.inv, definite
    yield "float64 log-determinant of 256", lambda x: torch.linalg.slogdet(x)[1], definite


FAMILIES = [reductions, indices, images, losses, sequences, systems, wide]
