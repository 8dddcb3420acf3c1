"""Small random programs: a seed makes leaves and a chain of operators, forward and backward.

A program is drawn from its seed alone; how it is executed (kernels, threads, device, memory layout of the leaves, type) is
given from outside and may not change a bit.
"""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

Pool = list[torch.Tensor]
Operator = Callable[[random.Random, Pool], torch.Tensor | None]

LAYOUTS = ("contiguous", "transposed", "strided", "offset", "channels last")
NUMBERS = torch.randn(20000, generator=torch.Generator().manual_seed(1)) / 4  # drawn by stock, at import
SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33)


def in_layout(values: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values in new memory, lying otherwise."""
    values = values.clone()
    if layout == "transposed" and values.dim() >= 2:
        return values.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "strided" and values.dim() >= 1:
        wide = values.new_zeros(*values.shape[:-1], 2 * values.shape[-1])
        wide[..., ::2] = values
        return wide[..., ::2]
    if layout == "offset":
        return torch.cat([values.new_zeros(3), values.reshape(-1)])[3:].view(values.shape)
    if layout == "channels last" and values.dim() == 4:
        return values.contiguous(memory_format=torch.channels_last)
    return values


def _pick(draw: random.Random, pool: Pool, dims: tuple[int, ...] = ()) -> torch.Tensor | None:
    fitting = [x for x in pool if x.is_floating_point() and x.numel() > 0 and (not dims or x.dim() in dims)]
    return draw.choice(fitting[-4:]) if fitting else None


def unary(function: Callable[[torch.Tensor], torch.Tensor]) -> Operator:
    def call(draw: random.Random, pool: Pool) -> torch.Tensor | None:
        x = _pick(draw, pool)
        return None if x is None else function(x)
    return call


def binary(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Operator:
    def call(draw: random.Random, pool: Pool) -> torch.Tensor | None:
        x = _pick(draw, pool)
        if x is None:
            return None
        others = [y for y in pool if y.shape == x.shape]
        y = draw.choice(others)
        if draw.random() < 0.3:
            y = y.mean(dim=draw.randrange(y.dim()), keepdim=True) if y.dim() else y
        return function(x, y)
    return call


def along(function: Callable[[torch.Tensor, int], torch.Tensor]) -> Operator:
    def call(draw: random.Random, pool: Pool) -> torch.Tensor | None:
        x = _pick(draw, pool, (1, 2, 3, 4))
        return None if x is None else function(x, draw.randrange(x.dim()))
    return call


def _constant(draw: random.Random, like: torch.Tensor, *shape: int) -> torch.Tensor:
    """A weight of the program's own, the same in every type and on every device."""
    count = torch.Size(shape).numel()
    begin = draw.randrange(len(NUMBERS) - count)
    return NUMBERS[begin:begin + count].view(shape).to(like.device, like.dtype)


def linear(draw: random.Random, pool: Pool) -> torch.Tensor | None:
    x = _pick(draw, pool, (1, 2, 3))
    if x is None or x.shape[-1] > 400:
        return None
    width = draw.choice(SIZES)
    return functional.linear(x, _constant(draw, x, width, x.shape[-1]), _constant(draw, x, width))


def matmul(draw: random.Random, pool: Pool) -> torch.Tensor | None:
    x = _pick(draw, pool, (2, 3))
    return None if x is None else x @ x.transpose(-1, -2)


def conv2d(draw: random.Random, pool: Pool) -> torch.Tensor | None:
    x = _pick(draw, pool, (4,))
    if x is None or x.shape[2] < 2 or x.shape[3] < 2:
        return None
    groups = x.shape[1] if draw.random() < 0.2 else 1
    weight = _constant(draw, x, draw.choice((1, 2, 5)) * groups, x.shape[1] // groups, 2, draw.choice((1, 2)))
    return functional.conv2d(x, weight, stride=draw.choice((1, 2)), padding=draw.choice((0, 1)), groups=groups)


def pooling(draw: random.Random, pool: Pool) -> torch.Tensor | None:
    x = _pick(draw, pool, (4,))
    if x is None or x.shape[2] < 2 or x.shape[3] < 2:
        return None
    return draw.choice((functional.max_pool2d, functional.avg_pool2d))(x, 2)


def normalisation(draw: random.Random, pool: Pool) -> torch.Tensor | None:
    x = _pick(draw, pool, (2, 3, 4))
    if x is None or x.numel() // x.shape[1] < 2:
        return None
    if draw.random() < 0.5:
        return functional.layer_norm(x, x.shape[-1:])
    return functional.batch_norm(x, None, None, training=True)


def indexing(draw: random.Random, pool: Pool) -> torch.Tensor | None:
    x = _pick(draw, pool, (1, 2, 3))
    if x is None:
        return None
    places = torch.tensor([draw.randrange(x.shape[0]) for _ in range(draw.randint(1, 9))], device=x.device)
    if draw.random() < 0.5:
        return x[places]
    return torch.zeros_like(x).index_add(0, places, x[places])


def view(draw: random.Random, pool: Pool) -> torch.Tensor | None:
    x = _pick(draw, pool)
    if x is None or x.dim() == 0:
        return None
    kind = draw.randrange(5)
    if kind == 0:
        return x.transpose(0, x.dim() - 1)
    if kind == 1:
        return x.flip(0)
    if kind == 2:
        return x.reshape(-1)[:64]
    if kind == 3 and x.shape[-1] > 1:
        return x[..., 1:]
    return torch.cat([x, x], dim=draw.randrange(x.dim())) if x.numel() < 4000 else x.reshape(-1)[::2]


def attention(draw: random.Random, pool: Pool) -> torch.Tensor | None:
    x = _pick(draw, pool, (3, 4))
    return None if x is None else functional.scaled_dot_product_attention(x, x, x, is_causal=draw.random() < 0.5)


OPERATORS: dict[str, Operator] = {
    **{name: unary(getattr(torch, name))
       for name in ("exp", "tanh", "sigmoid", "sin", "cos", "erf", "abs", "neg", "square", "relu", "expm1", "atan")},
    **{name: unary(getattr(functional, name)) for name in ("gelu", "silu", "softplus", "elu", "leaky_relu", "hardswish", "mish")},
    "log": unary(lambda x: torch.log(x.abs() + 0.1)), "sqrt": unary(lambda x: torch.sqrt(x.abs() + 0.1)),
    "rsqrt": unary(lambda x: torch.rsqrt(x.abs() + 0.1)), "pow": unary(lambda x: (x.abs() + 0.1) ** 1.5),
    "clamp": unary(lambda x: x.clamp(-1, 1)), "scale": unary(lambda x: x * 0.37 + 0.11), "mean": unary(torch.mean),
    "add": binary(torch.add), "sub": binary(lambda x, y: torch.sub(x, y, alpha=0.3)), "mul": binary(torch.mul),
    "div": binary(lambda x, y: x / (y.abs() + 0.5)), "maximum": binary(torch.maximum),
    "lerp": binary(lambda x, y: torch.lerp(x, y, 0.3)), "where": binary(lambda x, y: torch.where(x > 0, x, y)),
    "mse": binary(lambda x, y: functional.mse_loss(x, y.expand_as(x))),
    "sum": along(torch.sum), "mean along": along(torch.mean), "softmax": along(torch.softmax),
    "log_softmax": along(torch.log_softmax), "cumsum": along(torch.cumsum), "logsumexp": along(torch.logsumexp),
    "amax": along(torch.amax), "var": along(lambda x, dim: x.var(dim, correction=0)),
    "norm": along(lambda x, dim: torch.linalg.vector_norm(x, dim=dim)),
    "linear": linear, "matmul": matmul, "conv2d": conv2d, "pooling": pooling, "normalisation": normalisation,
    "indexing": indexing, "view": view, "attention": attention,
}


class Program:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        draw = random.Random(seed)
        shape = [draw.choice(SIZES) for _ in range(draw.randint(1, 4))]
        while len(shape) > 1 and torch.Size(shape).numel() > 3000:
            shape[draw.randrange(len(shape))] = draw.choice(SIZES[:5])
        generator = torch.Generator().manual_seed(seed)
        self.leaves = [torch.randn(shape, generator=generator) for _ in range(2)]
        if draw.random() < 0.2:  # values that are treated specially somewhere
            flat = self.leaves[0].view(-1)
            for special in (-0.0, 1e-41, 3e38, float("inf"), float("nan"), 65504.0):
                flat[draw.randrange(len(flat))] = special
        names = list(OPERATORS)
        self.names = [draw.choice(names) for _ in range(draw.randint(2, 7))]
        self.state = draw.getstate()

    def run(self, layout: str = "contiguous", dtype: torch.dtype = torch.float32, device: str = "cpu") -> list[torch.Tensor]:
        """Results of all operators and the leaves' gradients, in the host's memory."""
        draw = random.Random()
        draw.setstate(self.state)
        leaves = [in_layout(leaf.to(device, dtype), layout).requires_grad_() for leaf in self.leaves]
        pool: Pool = list(leaves)
        for name in self.names:
            result = OPERATORS[name](draw, pool)
            if result is not None and 0 < result.numel() < 20000:
                pool.append(result)
        results: list[Any] = pool[len(leaves):]
        if results and results[-1].requires_grad:
            # Not the plain sum: its gradient through softmax and normalisation is 0, and nothing would be seen there.
            weights = NUMBERS[:results[-1].numel()].view(results[-1].shape).to(device, dtype)
            (results[-1] * weights).sum().backward()
        return [x.detach().cpu() for x in results] + [leaf.grad.cpu() for leaf in leaves if leaf.grad is not None]
