"""Every operator of cases.py on the CPU and on the device: outputs and input gradients, bit for bit."""

import zlib

import torch

from .cases import FAMILIES, PRODUCT_FAMILIES
from .data import Inputs, first_difference


def compute(function, tensors, device):
    """Output and the floating inputs' gradients, on `device`, operators on."""
    inputs = [t.detach().clone().to(device) for t in tensors]
    for tensor in inputs:
        tensor.requires_grad_(tensor.is_floating_point())
    output = function(*inputs)
    gradients = []
    if output.requires_grad:
        seed = Inputs(f"gradient {tuple(output.shape)}").normal(*output.shape).to(device)
        gradients = torch.autograd.grad(output, inputs, seed, allow_unused=True)
    return [output, *gradients]


def checksum(tensors):
    """A short name of the CPU's bits, to compare machines by eye."""
    from .data import bits
    value = 0
    for tensor in tensors:
        if tensor is not None:
            value = zlib.crc32(bits(tensor).tobytes(), value)
    return f"{value:08x}"


def difference(expected, found):
    """None, or words for the first result or gradient that differs."""
    if len(expected) != len(found):
        return f"{len(expected)} and {len(found)} results and gradients"
    for a, b in zip(expected, found, strict=True):
        if a is None and b is None:
            continue
        if a is None or b is None:
            return f"a gradient on the {'device' if a is None else 'CPU'} only"
        if words := first_difference(a, b):
            return words
    return None


def sweep(library, device, scale, say):
    """One row per case: family, name, verdict ('equal' or words), checksum of the CPU's result."""
    rows = []
    tiers = [("ordered", family) for family in FAMILIES] + [("exact3", family) for family in PRODUCT_FAMILIES]
    for tier, family in tiers:
        for name, function, tensors in family(scale):
            row = {"family": family.__name__ if tier == "ordered" else f"{family.__name__}, {tier}", "case": name}
            try:
                with library.enabled(tier):
                    expected = compute(function, tensors, "cpu")
                    found = compute(function, tensors, device)
                row["verdict"] = difference(expected, found) or "equal"
                row["cpu"] = checksum(expected)
            except Exception as error:  # a refusal or a device's error is a finding, not the end of the sweep
                row["verdict"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            if row["verdict"] != "equal":
                say(f"DIFFERS {row['family']} / {name}: {row['verdict']}")
            rows.append(row)
    return rows
