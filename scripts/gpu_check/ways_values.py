"""Ways: values at which a device's arithmetic likes to differ, and tensors that lie in memory in unusual ways."""

import numpy
import torch
from torch.nn import functional

from gpu_check.ways_base import Unavailable, Way, labels, need_real, normal, on_device, paired, real, wide

_PATTERNS = (
    0x00000001,
    0x00000002,
    0x000FFFFF,
    0x007FFFFF,
    0x00800000,
    0x00800001,
    0x01000000,
    0x33800000,
    0x33800001,
    0x3EFFFFFF,
    0x3F000000,
    0x3F7FFFFF,
    0x3F800000,
    0x3F800001,
    0x40490FDB,
    0x42B17217,
    0x42B17218,
    0x42CE8ED0,
    0x4B7FFFFF,
    0x4B800000,
    0x5F000000,
    0x7E967699,
    0x7F000000,
    0x7F7FFFFF,
    0x7F800000,
    0x7FC00000,
    0x7F800001,
    0x7FEDCBA9,
    0x7FFFFFFF,
    0x00000000,
)


def hostile(place, dtype=torch.float32):
    """Both zeros, subnormals, limits, infinities and NaNs of several payloads, of both signs, and some between."""
    raw = numpy.array([*_PATTERNS, *(p | 0x80000000 for p in _PATTERNS)], numpy.uint32).view(numpy.float32)
    x = torch.from_numpy(numpy.concatenate([raw, wide("cpu", 300).numpy(), normal("cpu", 300).numpy()]))
    return x.to(dtype).to(place)


def pairs(place, dtype=torch.float32):
    x = hostile("cpu", dtype)[::3]
    return (x[:, None].expand(-1, len(x)).contiguous().to(place), x[None].expand(len(x), -1).contiguous().to(place))


def printed(x):
    """Without the device's name, and the lines that its length breaks."""
    return "".join(str(x).replace("device='cuda:0'", "").split()).replace(",)", ")")


def function(name):
    for holder in (torch, functional, torch.special):
        if hasattr(holder, name):
            return getattr(holder, name)
    raise Unavailable(f"no {name} in this PyTorch")


_UNARY = """
 abs neg sign sgn signbit floor ceil round trunc frac exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal square sin
 cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid logit erf erfc erfinv gelu silu mish elu selu celu relu relu6
 leaky_relu hardtanh hardswish hardsigmoid hardshrink softshrink softplus softsign tanhshrink logsigmoid sinc lgamma digamma
 i0 i0e i1 i1e
 entr ndtr ndtri log_ndtr bessel_j0 bessel_j1 bessel_y0 modified_bessel_i0 modified_bessel_k0 spherical_bessel_j0 airy_ai
 nan_to_num deg2rad rad2deg isfinite isnan positive frexp"""
_BINARY = """
 add sub mul div true_divide floor_divide remainder fmod pow atan2 maximum minimum fmax fmin hypot copysign nextafter
 logaddexp logaddexp2 xlogy xlog1py heaviside ldexp float_power gt eq isclose zeta"""
_HOW = {"": lambda x: x, " of a view with steps": lambda x: x.repeat_interleave(3)[1::3]}

WAYS = [
    Way(f"hostile values: {name}{how}", lambda p, name=name, view=view: function(name)(view(hostile(p))))
    for name in _UNARY.split()
    for how, view in _HOW.items()
]
WAYS += [
    Way(f"hostile values, in place: {name}_", lambda p, name=name: getattr(hostile(p), name + "_")())
    for name in ("exp", "log", "sqrt", "tanh", "sigmoid", "rsqrt", "reciprocal", "erf", "frac", "neg", "round")
]
WAYS += [
    Way(f"hostile values, float64: {name}", lambda p, name=name: function(name)(hostile(p, torch.float64)))
    for name in ("exp", "log", "sqrt", "tanh", "sin", "sigmoid", "reciprocal", "abs", "floor", "gelu")
]
WAYS += [Way(f"hostile pairs: {name}", lambda p, name=name: function(name)(*pairs(p))) for name in _BINARY.split()]
WAYS += [
    Way(f"hostile pairs, float64: {name}", lambda p, name=name: function(name)(*pairs(p, torch.float64)))
    for name in ("add", "mul", "div", "pow")
]
WAYS += [
    Way(f"hostile pairs with a number: {name}", lambda p, call=call: call(hostile(p)))
    for name, call in {
        "x + 1e-45": lambda x: x + 1e-45,
        "x * 1e-40": lambda x: x * 1e-40,
        "x / 3": lambda x: x / 3,
        "3 / x": lambda x: 3 / x,
        "x ** 0.5": lambda x: x**0.5,
        "x ** 3": lambda x: x**3,
        "2 ** x": lambda x: 2**x,
        "x % 0.1": lambda x: x % 0.1,
        "x // 0.1": lambda x: x // 0.1,
        "1 - x": lambda x: 1 - x,
        "add alpha": lambda x: torch.add(x, x, alpha=0.1),
        "addcmul": lambda x: torch.addcmul(x, x, x.flip(0), value=0.1),
        "addcdiv": lambda x: torch.addcdiv(x, x, x.flip(0), value=0.1),
        "lerp": lambda x: torch.lerp(x, x.flip(0), 0.3),
        "clamp": lambda x: x.clamp(-1e-40, 1e38),
        "where": lambda x: torch.where(x > 0, x, -x),
        "cumsum": lambda x: x.nan_to_num().cumsum(0),
        "cumprod": lambda x: x.cumprod(0),
        "sum": lambda x: x.nan_to_num(posinf=1.0, neginf=0.0).sum(),
        "max": lambda x: x.max(0),
        "amax": lambda x: x.amax(),
        "sort": lambda x: x.sort(),
        "topk": lambda x: x.topk(9),
        "argmax": lambda x: x.argmax(),
        "unique": lambda x: x.unique(),
        "median": lambda x: x.median(),
        "softmax": lambda x: x.clamp(-80, 80).softmax(0),
        "norm": lambda x: x.norm(),
        "var": lambda x: x.nan_to_num().clamp(-9, 9).var(),
        "dot": lambda x: x.dot(x),
        "prod": lambda x: x.nan_to_num().clamp(0.5, 2).prod(),
        "logsumexp": lambda x: x.clamp(-80, 80).logsumexp(0),
        "mm of subnormals": lambda x: (x[:30].nan_to_num()[:, None] * 1e-20) @ x[None, :30].nan_to_num(),
        "to int32": lambda x: x.to(torch.int32),
        "to uint8": lambda x: x.to(torch.uint8),
        "to int64": lambda x: x.long(),
        "to half": lambda x: x.half(),
        "to bfloat16": lambda x: x.bfloat16(),
        "to double": lambda x: x.double(),
        "double to float": lambda x: (x.double() * 1.1).float(),
        "to float8": lambda x: x.to(torch.float8_e4m3fn).view(torch.uint8),
        "to complex": lambda x: x.to(torch.complex64),
        "to bool": lambda x: x.bool(),
        "half to float": lambda x: x.half().float(),
        "seen as int32": lambda x: x.view(torch.int32),
        "nan_to_num": lambda x: x.nan_to_num(1.5),
        "canonical NaN made, then seen as int32": lambda x: (x * 0).view(torch.int32),
        "printed": printed,
        "quantile": lambda x: x[x.isfinite()].quantile(0.3),
        "histc": lambda x: x.histc(10, -1, 1),
        "bucketize": lambda x: torch.bucketize(x, torch.linspace(-1, 1, 9, device=x.device)),
        "allclose": lambda x: torch.allclose(x, x, equal_nan=True),
        "item": lambda x: x[40].item(),
    }.items()
]


def overlapping(call):
    """PyTorch's CPU kernels refuse most of these; a device must give what it would with a copy of what is read, or refuse, too.

    The call gets a tensor and what makes of a view of it the operand that is read.
    """
    return lambda place: call(wide(place, 24, 24), (lambda view: view) if on_device(place) else torch.clone)


def copied(x, read):
    need_real(str(x.device))  # the emulated device's own copy does not look
    return x[1:].copy_(read(x[:-1]))


def where_into(x, read):
    need_real(str(x.device))  # nor does its selection
    return torch.where(x > 1, read(x.t()), read(x), out=x)


def zeros_of(x):
    return (torch.zeros(24, dtype=torch.long, device=x.device),)


def into(size, stride, dtype=torch.float32):
    def call(place):
        x = wide(place, 6, 6)
        out = torch.zeros(300, device=place, dtype=dtype).as_strided(size, stride)
        torch.add(x, x.t(), out=out)
        return out

    return call


WAYS += [
    Way(f"memory: {name}", call)
    for name, call in {
        "x.mul_(x.t())": overlapping(lambda x, read: x.mul_(read(x.t()))),
        "where into itself": overlapping(where_into),
        "div_, pow_, lerp_ of x.t()": overlapping(lambda x, read: x.div_(read(x.t())).pow_(read(x.t())).lerp_(read(x.t()), 0.3)),
        "addcmul_ of shifted": overlapping(lambda x, read: x[1:].addcmul_(read(x[:-1]), read(x[:-1]), value=0.3)),
        "scatter_add_ of itself": overlapping(lambda x, read: x.scatter_add_(0, labels(str(x.device), 24, 24, 24), read(x))),
        "_foreach_add_ of x.t()": overlapping(lambda x, read: [torch._foreach_add_([x], [read(x.t())]), x][1]),
        "x.add_(x[0])": overlapping(lambda x, read: x.add_(read(x[0]))),
        "x[1:].add_(x[:-1])": overlapping(lambda x, read: x[1:].add_(read(x[:-1]))),
        "expanded.add_": overlapping(lambda x, _read: x[:1].expand(9, 24).add_(1)),
        "cumsum into itself": overlapping(lambda x, read: torch.cumsum(read(x), 0, out=x)),
        "mm into a factor": overlapping(lambda x, read: torch.mm(read(x), read(x), out=x)),
        "softmax into itself": overlapping(lambda x, read: torch.softmax(read(x), 0, out=x)),
        "unfold in place": overlapping(lambda x, _read: x.flatten().unfold(0, 4, 2).exp_()),
        "copy_ of an overlapping view": overlapping(copied),
        "addmm_ of itself": overlapping(lambda x, read: x.addmm_(read(x), read(x.t()))),
        "x[:, ::2] += x[:, 1::2]": overlapping(lambda x, read: x[:, ::2].add_(read(x[:, 1::2]))),
        "index_put_ of duplicates": overlapping(lambda x, read: x.index_put_(zeros_of(x), read(x))),
        "index_put_, accumulating": overlapping(lambda x, read: x.index_put_(zeros_of(x), read(x), True)),
        "out= with other strides": into((6, 6), (1, 6)),
        "out= with gaps": into((6, 6), (20, 3)),
        "out= that overlaps": into((6, 6), (1, 1)),
        "out= of another shape": into((4, 9), (9, 1)),
        "out= of float64": into((6, 6), (6, 1), torch.float64),
        "out= of half": into((6, 6), (6, 1), torch.float16),
        "out= of int32": into((6, 6), (6, 1), torch.int32),
        "out= on the other device": lambda p: torch.add(
            wide(p, 5), 1, out=torch.zeros(5, device="cpu" if p != "cpu" else "meta")
        ),
        "channels last": lambda p: (
            functional.conv2d(
                normal(p, 2, 8, 9, 9).to(memory_format=torch.channels_last),
                normal(p, 4, 8, 3, 3).to(memory_format=torch.channels_last),
            )
            .exp()
            .sum((2, 3))
        ),
        "channels last 3d": lambda p: functional.avg_pool3d(normal(p, 1, 4, 6, 6, 6).to(memory_format=torch.channels_last_3d), 2),
        "batch_norm, channels last": lambda p: functional.batch_norm(
            wide(p, 3, 8, 5, 5).to(memory_format=torch.channels_last), None, None, training=True
        ),
        "flipped": lambda p: wide(p, 99).flip(0).sum(),
        "conjugated view": lambda p: paired(p, 9).conj() * 2,
        "negative view": lambda p: paired(p, 9).conj().imag + 1,
        "negative view, summed": lambda p: paired(p, 999).conj().imag.sum(),
        "transposed products": lambda p: wide(p, 70, 33).t() @ wide(p, 50, 70).t(),
        "expanded factor": lambda p: wide(p, 1, 70).expand(40, 70) @ wide(p, 70, 9),
        "empty products": lambda p: (
            torch.ones(3, 0, device=p) @ torch.ones(0, 4, device=p),
            torch.ones(0, device=p).sum(),
            torch.ones(0, 3, device=p).mean(0),
        ),
        "storage offset 1": lambda p: wide(p, 1001)[1:].view(10, 100).softmax(1),
        "set_ to a storage": lambda p: torch.tensor([], device=p).set_(wide(p, 64).untyped_storage(), 3, (5, 6), (7, 2)).exp(),
    }.items()
]


def huge(index):
    """More elements than 31 bits count, known but for a few: the result is known without computing it again."""

    def call(place):
        count = 2**31 + 8
        if place == "cpu":
            tail = torch.tensor([0.1, -0.2, 3e-40])
            return [tail.exp(), tail[1:2].sum(), torch.tensor(count - 3), torch.tensor(0.1), tail.mul(0.1)][index]
        if not real(place) or torch.cuda.mem_get_info()[0] < 40 * 2**30:
            raise Unavailable("needs 40 GB of a device's memory")
        x = torch.zeros(count, device=place)
        x[-3:] = torch.tensor([0.1, -0.2, 3e-40], device=place)
        if index == 0:
            return x.exp_()[-3:]
        if index == 1:
            x[-3], x[-1] = 0, 0
            return x.sum().reshape(1)[0]
        if index == 2:
            return x.argmax()
        if index == 3:
            return x.view(-1, 8).amax(1)[-1]
        return x.mul_(0.1)[-3:]

    return call


for way in WAYS:
    way.together = True
WAYS += [
    Way(f"2^31 + 8 elements: {name}", huge(i), stock=False, seconds=60)
    for i, name in enumerate(("exp_", "sum", "argmax", "amax of rows", "mul_"))
]
