"""On what the same bits are asked for: instruction sets and threads."""

import contextlib
import functools

import torch

import isobit
from isobit._base import _library


def _has(isa):
    try:
        _library.set_isa(isa)
    except ValueError:
        return False
    finally:
        _library.set_isa("auto")
    return True


@functools.cache
def variants():
    """(instruction set, threads): the first is what the others are compared with."""
    isas = [isa for isa in ("avx2", "avx512") if _has(isa)]
    best = isas[-1] if isas else "reference"
    return [("reference", 1), (best, 1), (isas[0] if isas else best, 2), (best, 3)]


def labels():
    return [f"{isa}, {count} thread{'s' * (count > 1)}" for isa, count in variants()]


@contextlib.contextmanager
def each_variant():
    """With the switch on within the block: yields a generator of the variants' places, each in force as it is yielded."""
    threads = torch.get_num_threads()

    def one_by_one():
        for place, (isa, count) in enumerate(variants()):
            _library.set_isa(isa)
            torch.set_num_threads(count)
            yield place

    try:
        with isobit.enabled():
            yield one_by_one()
    finally:
        torch.set_num_threads(threads)
        _library.set_isa("auto")
