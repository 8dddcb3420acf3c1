"""Inputs made by Philox: the same on every machine, nothing to download."""

import hashlib

import numpy
import torch


class Inputs:
    """Each call gives the next tensor of a named stream."""

    def __init__(self, name):
        key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "little")
        self._random = numpy.random.Generator(numpy.random.Philox(key=key))

    def normal(self, *shape):
        return torch.from_numpy(self._random.standard_normal(shape, dtype=numpy.float32))

    def unit(self, *shape):
        """In [0, 1)."""
        return torch.from_numpy(self._random.random(shape, dtype=numpy.float32))

    def wide(self, *shape):
        """Magnitudes over 2^-20 .. 2^20: a wrong order of additions shows."""
        exponent = self._random.integers(-20, 21, shape)
        values = numpy.ldexp(self._random.uniform(1, 2, shape), exponent) * self._random.choice([-1.0, 1.0], shape)
        return torch.from_numpy(values.astype(numpy.float32).reshape(shape))

    def hostile(self, *shape, finite=False):
        """Wide values with zeros of both signs, subnormals and (unless finite) infinities and NaN among them."""
        x = self.wide(*shape).numpy().copy()
        tame = numpy.array([0.0, -0.0, 1e-45, -1e-45, 2e-39, -5e-39], numpy.float32)
        wild = numpy.array([numpy.inf, -numpy.inf, numpy.nan], numpy.float32)
        x = numpy.where(self._random.random(shape) < 0.2, self._random.choice(tame, shape), x)
        if not finite:
            x = numpy.where(self._random.random(shape) < 0.02, self._random.choice(wild, shape), x)
        return torch.from_numpy(x.astype(numpy.float32))

    def labels(self, classes, *shape):
        return torch.from_numpy(self._random.integers(0, classes, shape, dtype=numpy.int64))


def bits(tensor):
    """The tensor's bits on the host, every NaN the same one. Call with the operators off."""
    array = tensor.detach().cpu().contiguous().numpy()
    if array.dtype == numpy.float32:
        return numpy.where(numpy.isnan(array), numpy.float32(numpy.nan), array).view(numpy.uint32)
    return array


def first_difference(left, right):
    """None, or words for the first element that differs."""
    a, b = bits(left), bits(right)
    if a.shape != b.shape:
        return f"shapes {a.shape} and {b.shape}"
    places = numpy.argwhere(numpy.asarray(a != b))
    if len(places) == 0:
        return None
    place = tuple(int(i) for i in places[0])
    return (f"{len(places)} of {a.size} elements differ, first {place}: "
            f"{left.detach().cpu()[place].item()!r} and {right.detach().cpu()[place].item()!r}")
