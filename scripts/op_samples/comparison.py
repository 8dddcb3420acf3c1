"""Bits against bits, and values against float64 within a stated bound.

The bound, for each element y with exact value v (stock PyTorch in float64 on the same binary32 numbers):

    |y - v| <= 2^-18 |v| + 8 E(v) + 2^-19 S

E(v): the largest error of stock's float32 among the elements that are at most twice as large as v, so an operator that
loses digits by its nature (a difference, a steep function) is not asked for more than twice stock's three bits;
S: the largest finite |v| in the tensor, since sums lose digits to each other; 0 for element-wise operators.
Where v or stock is not finite, y must be as one of them.
Integers and truth values must be as stock's, in float32 or in float64.

Of float64 samples (`wide`) v is stock's result, itself rounded:

    |y - v| <= 2^-40 |v| + 2^-46 max(1, S), S as above for every operator

Of 16-bit samples (`unit` is half of 1's distance to the next number, 2^-8 for bfloat16, 2^-11 for float16) stock's error is that
of its 16-bit result, and 4 units stand for 2^-18, 2 units for 2^-19.
"""

import math

import numpy
import torch

wide = False  # whether the samples are float64
unit = None  # of 16-bit samples


def plain(value):
    """A tensor as a dense array, NaN canonical; other leaves as they are."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout != torch.strided:
        value = value.to_dense()
    value = value.resolve_conj().resolve_neg()
    if value.dtype == torch.complex32:
        value = torch.view_as_real(value)
    if value.dtype == torch.bfloat16:
        value = value.float()
    return value.numpy(force=True)


def bits_differ(ours, other):
    """A text that says where two leaves differ, or "" where every bit is equal (any NaN is NaN)."""
    a, b = plain(ours), plain(other)
    if not isinstance(a, numpy.ndarray) or not isinstance(b, numpy.ndarray):
        if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
            return ""
        return "" if type(a) is type(b) and a == b else f"{a!r} and {b!r}"
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
    if a.size == 0 or a.tobytes() == b.tobytes():
        return ""
    a, b = numpy.ascontiguousarray(a).reshape(-1), numpy.ascontiguousarray(b).reshape(-1)
    if numpy.issubdtype(a.dtype, numpy.complexfloating):
        a, b = (x.view(numpy.float32 if x.dtype == numpy.complex64 else numpy.float64) for x in (a, b))
    same = a == b
    if numpy.issubdtype(a.dtype, numpy.floating):
        same = (same & (numpy.signbit(a) == numpy.signbit(b))) | (numpy.isnan(a) & numpy.isnan(b))
    if same.all():
        return ""
    place = int(numpy.argmin(same))
    return f"{int((~same).sum())} of {a.size} elements, first at {place}: {a[place]!r} and {b[place]!r}"


def lists_differ(ours, other):
    if (ours is None) != (other is None):
        return "one of them is missing"
    if ours is None:
        return ""
    if len(ours) != len(other):
        return f"{len(ours)} and {len(other)} results"
    for place, (a, b) in enumerate(zip(ours, other, strict=True)):
        text = bits_differ(a, b)
        if text:
            return f"result {place}: {text}"
    return ""


def _real(array):
    if numpy.issubdtype(array.dtype, numpy.complexfloating):
        array = numpy.ascontiguousarray(array).view(numpy.float32 if array.dtype == numpy.complex64 else numpy.float64)
    return array.reshape(-1)


def beyond_bound(ours, stock, exact, elementwise=False):
    """A text that says where `ours` is further from `exact` than the bound, or ""."""
    if not isinstance(ours, torch.Tensor) or not isinstance(stock, torch.Tensor):
        narrow = {"rel_tol": 4 * unit if unit else 2**-18, "abs_tol": 2**-22}
        nearness = {"rel_tol": 2**-40, "abs_tol": 2**-46} if wide else narrow
        close = isinstance(ours, float) and isinstance(exact, float) and (
            math.isclose(ours, exact, **nearness) or (math.isnan(ours) and math.isnan(exact)))
        return "" if close or ours in (stock, exact) else f"{ours!r}, stock {stock!r}, float64 {exact!r}"
    if ours.dtype != stock.dtype or ours.shape != stock.shape or ours.layout != stock.layout:
        return f"{ours.dtype}{list(ours.shape)}, stock {stock.dtype}{list(stock.shape)}"
    y, s = _real(plain(ours)), _real(plain(stock))
    v = _real(plain(exact)) if exact is not None and exact.shape == ours.shape and not wide else s.astype(numpy.float64)
    if not numpy.issubdtype(y.dtype, numpy.floating):
        wrong = (y != s) & (y != v.astype(y.dtype) if v.dtype.kind == y.dtype.kind else True)
        return _first(wrong, y, s, v)
    y, s, v = y.astype(numpy.float64), s.astype(numpy.float64), v.astype(numpy.float64)
    finite = numpy.isfinite(v) & numpy.isfinite(s)
    with numpy.errstate(all="ignore"):
        alike = (y == s) | (y == v) | (numpy.isnan(y) & (numpy.isnan(s) | numpy.isnan(v)))
        bound = _bound(s, v, finite, elementwise)
        wrong = numpy.where(finite, ~(numpy.abs(y - v) <= bound), ~alike)
    return _first(wrong, y, s, v)


def _bound(s, v, finite, elementwise):
    size = numpy.where(finite, numpy.abs(v), 0.0)
    error = numpy.where(finite, numpy.abs(s - v), 0.0)
    if size.size == 0:
        return size
    if wide:
        return 2.0**-40 * size + 2.0**-46 * max(1.0, float(size.max()))
    order = numpy.argsort(size, kind="stable")
    largest = numpy.maximum.accumulate(error[order])
    last = numpy.searchsorted(size[order], 2 * size, side="right") - 1
    relative = 4 * unit if unit else 2.0**-18
    return relative * size + 8 * largest[last] + (0 if elementwise else relative / 2 * float(size.max()))


def _first(wrong, y, s, v):
    if not wrong.any():
        return ""
    place = int(numpy.argmax(wrong))
    return (f"{int(wrong.sum())} of {wrong.size} elements, first at {place}: {y[place]!r}, "
            f"stock {s[place]!r}, float64 {v[place]!r}")


def lists_far(some, other):
    """Whether two lists of leaves are other values than rounding makes of one."""
    if len(some) != len(other):
        return True
    for a, b in zip(some, other, strict=True):
        if not isinstance(a, torch.Tensor):
            if type(a) is not type(b):
                return True
        elif a.shape != b.shape or a.dtype != b.dtype or not numpy.allclose(plain(a), plain(b), rtol=1e-3, atol=1e-3,
                                                                              equal_nan=True):
            return True
    return False
