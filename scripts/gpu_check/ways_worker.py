"""Runs ways in a process of its own, which may die of one: gpu_check.ways then starts another one for the rest.

  python ways_worker.py --rows FILE --only 0,1,2 [--emulate LIB | --library LIB]

Each way is announced in FILE before it runs, and its row is added after, a line of JSON each.
"""

import argparse
import contextlib
import json
import os
import pathlib
import sys
import time
import warnings

import numpy
import torch

if __name__ == "__main__":  # this folder's modules must not stand before Python's own (profile)
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from gpu_check.ways_base import Unavailable

# Words by which PyTorch says that it was built without something, or that a device cannot do it.
_MISSING = (
    "not compiled with",
    "dummy base class",
    "no nvidia driver",
    "not available",
    "ed without",
    "t without",
    "not built",
    "no module named",
    "has no attribute",
    "needs cuda",
    "requires cuda",
    "not linked",
    "cuda_home",
    "could not run",
    "not implemented for",
    "is not registered",
    "cannot initialize cuda",
    "isn't supported",
    "no kernel found",
    "not installed",
    "nvidia gpu",
    "does not contain a library",
    "no such file",
    "is not supported on",
    "libcuda",
    "cannot access accelerator",
)


def refusal(error):
    """Whether isobit raised it, perhaps wrapped by what called it."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if type(error).__name__ == "RefusedError" or str(error).lstrip().startswith("isobit") or "isobit: " in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def missing(error):
    return isinstance(error, (Unavailable, ImportError, AttributeError)) or any(word in str(error).lower() for word in _MISSING)


def first_line(error):
    words = str(error).strip()
    if "isobit: " in words:
        words = words[words.index("isobit: ") :]
    return f"{type(error).__name__}: {(words.splitlines() or [''])[0][:160]}"


def flat(result):
    """The tensors, numbers and texts of a result, in order."""
    if isinstance(result, dict):
        return [part for key in sorted(result, key=str) for part in flat(result[key])]
    if isinstance(result, (list, tuple, set)):
        return [part for value in result for part in flat(value)]
    return [] if result is None else [result]


def bits(value):
    """Something that compares: bytes on the host, every NaN the same one. Call with the switch off."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    x = value.detach()
    if x.is_nested:
        return tuple(bits(part) for part in x.unbind())
    if x.layout == torch.sparse_coo:
        return bits(x._indices()), bits(x._values())
    if x.layout == torch.sparse_csr:
        return bits(x.crow_indices()), bits(x.col_indices()), bits(x.values())
    x = x.cpu().resolve_conj().resolve_neg().contiguous()
    kind = (str(x.dtype), tuple(x.shape))
    if x.is_complex():
        return *kind, bits(torch.view_as_real(x))
    if x.is_floating_point():
        nan = torch.isnan(x.double())
        raw = x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])
        return *kind, torch.where(nan, torch.zeros((), dtype=raw.dtype), raw).numpy().tobytes(), nan.numpy().tobytes()
    return *kind, x.numpy().tobytes()


def difference(expected, found):
    """None, or words for the first part that is not the same."""
    expected, found = flat(expected), flat(found)
    if len(expected) != len(found):
        return f"{len(expected)} and {len(found)} results"
    for i, (a, b) in enumerate(zip(expected, found, strict=True)):
        if bits(a) == bits(b):
            continue
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            if (a.dtype, a.shape) != (b.dtype, b.shape):
                return f"result {i}: {a.dtype} {tuple(a.shape)} and {b.dtype} {tuple(b.shape)}"
            with contextlib.suppress(Exception):
                left, right = (t.detach().cpu().flatten().double().numpy() for t in (a, b))
                apart = numpy.argwhere(
                    (left != right) & ~(numpy.isnan(left) & numpy.isnan(right))
                    | (numpy.signbit(left) != numpy.signbit(right)) & (left == right)
                ).flatten()
                return (
                    f"result {i}: {len(apart)} of {left.size} elements differ, first {apart[0]}: "
                    f"{left[apart[0]]!r} and {right[apart[0]]!r}"
                )
        return f"result {i}: {str(a)[:60]} and {str(b)[:60]}"
    return None


class Attempt:
    """A value or an error."""

    def __init__(self, call, *arguments):
        self.value, self.error = None, None
        torch.manual_seed(1)
        try:
            self.value = call(*arguments)
            if torch.cuda.is_available() and torch.version.cuda:
                torch.cuda.synchronize()
        except Exception as error:
            self.error = error

    @property
    def refused(self):
        return self.error is not None and refusal(self.error)


PLACE = "cuda:0"


def attempts(way, prepared):
    """Of the CPU and of the device. Call with the switch on."""
    cpu = Attempt(way.reference or way.call, "cpu", *prepared.get("cpu", ()))
    return cpu, Attempt(way.call, PLACE, *prepared.get(PLACE, ()))


def judge(way, switch, place=PLACE):
    """(verdict, words)"""
    prepared = {}
    for side in ("cpu", place) if way.before is not None else ():
        made = Attempt(way.before, side)
        if made.error is not None and (side == place or way.reference is None):
            return "unavailable", f"before the switch: {first_line(made.error)}"  # PyTorch's own: nothing of isobit's is on
        prepared[side] = (made.value,)
    try:
        cpu = device = None
        try:
            with switch(way.products):
                cpu, device = attempts(way, prepared)
        except Exception as error:  # turning it off raises where a library has replaced a kernel
            if refusal(error) and device is not None:
                return "refused", "with the switch's end: " + first_line(error)
            return "UNEXPECTED", first_line(error)
        return verdict(way, cpu, device, prepared)
    finally:
        for made in prepared.values():
            if way.after is not None:
                way.after(*made)


def verdict(way, cpu, device, prepared):
    """(verdict, words). Call with the switch off."""
    if device.refused:
        return "refused", first_line(device.error)
    if isinstance(device.error, Unavailable):
        return "unavailable", str(device.error)
    if device.error is None and way.outside:
        return "outside", way.outside
    stock = Attempt(way.call, PLACE, *prepared.get(PLACE, ())) if way.stock else None
    if device.error is not None:
        for other, words in ((cpu, "as on the CPU"), (stock, "as without the switch")):
            if other is not None and type(other.error) is type(device.error):
                found = "unavailable" if missing(device.error) else "PyTorch refuses"
                return found, f"{words}: {first_line(device.error)}"
        if stock is None and missing(device.error):
            return "unavailable", first_line(device.error)
        return "UNEXPECTED", first_line(device.error)
    same_as_stock = stock is not None and stock.error is None and difference(stock.value, device.value) is None
    if cpu.error is None:
        words = difference(cpu.value, device.value)
        if words is None:
            return "CPU's bits", "stock's too" if same_as_stock else "stock has others"
    else:
        words = f"the CPU: {first_line(cpu.error)}"
    if cpu.refused or same_as_stock:
        return "LEAK", ("stock's bits; " if same_as_stock else "") + words
    return "DIFFERS", words


def usable():
    return Attempt(lambda: torch.ones(3, device=PLACE).cpu()).error


def groups(indices, ways):
    """Those that may run together, by two dozens; the others alone."""
    group = []
    for i in indices:
        if group and (len(group) == 24 or not (ways[i].together and ways[group[-1]].together)):
            yield group
            group = []
        group.append(i)
    if group:
        yield group


def judged(group, ways, switch, begins):
    """Index, verdict and words of each. Turning the switch takes longer than most ways: a group does it once."""
    if len(group) == 1:
        begins(group[0])
        yield group[0], *judge(ways[group[0]], switch)
        return
    found = {}
    with switch("ordered"):
        for i in group:
            begins(i)
            found[i] = attempts(ways[i], {})
            if usable() is not None:
                os._exit(3)  # the last one that began is to blame
    for i in group:
        yield i, *verdict(ways[i], *found.pop(i), {})


def switch_of(options):
    """(what turns it on for a block, by the tier's name; its name)"""
    if options.emulate:
        from op_samples import emulated

        with contextlib.suppress(ImportError):  # without a package the device is there all the same
            emulated.install(options.emulate)
    try:
        import isobit

        isobit.is_enabled()
        return (lambda products: isobit.enabled(products=products)), "the package"
    except ImportError as error:
        from gpu_check.library import Library

        if options.library is None and options.emulate is None:
            raise
        return Library(options.emulate or options.library).enabled, f"the library alone ({error})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", required=True)
    parser.add_argument("--only", required=True)
    parser.add_argument("--emulate")
    parser.add_argument("--library")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    switch, name = switch_of(options)
    from gpu_check.ways import every_way

    ways = every_way()
    with open(options.rows, "a", encoding="utf-8") as file:

        def write(line):
            file.write(json.dumps(line) + "\n")
            file.flush()

        write({"switch": name})
        begins = lambda i: write({"begins": i, "seconds": ways[i].seconds})
        for group in groups(list(map(int, options.only.split(","))), ways):
            begin = time.monotonic()
            for i, found, words in judged(group, ways, switch, begins):
                error = usable()
                if error is not None:  # the device's context is gone: so is this process, with the row
                    words += f"; the device was unusable after it: {first_line(error)}"
                    found = found if found in ("LEAK", "DIFFERS") else "UNEXPECTED"
                took = round(time.monotonic() - begin, 3)
                write({"way": i, "name": ways[i].name, "verdict": found, "words": words, "seconds": took})
                if error is not None:
                    return 3
                begin = time.monotonic()
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # what a way has left half closed must not end in a crash that nobody asks about
