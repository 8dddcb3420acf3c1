"""One operator's samples on a device against the same on the CPU, both under the switch.

pass      all results and gradients have the CPU's bits, the result lies on the device, as many random numbers were drawn
refused   the CPU computes it, the device refuses it
cpu       isobit refuses it on the CPU as well
skipped   it raises on the CPU, or its tensors have no form on the device (sparse)
large     more elements than asked for
fail      anything else; also: stock's arithmetic of the device was reached (the emulated device sees that)

The in-place variant of the operator, where it has one, is compared too (without gradients). Whether the CPU's bits are right
is op_samples.check's business.
"""

import torch
from torch.utils import _pytree as pytree

import isobit
from op_samples import comparison
from op_samples.calls import Outcome, call, first_line
from op_samples.check import UNINITIALISED, Verdict
from op_samples.samples import copy, map_tensors, tensors_of

KINDS = ("pass", "fail", "refused", "cpu", "skipped", "large")
# Their leaves describe a tensor or stay on the host, whatever the device.
HOST_RESULTS = {"to"}
# Takes its second tensor on the host, whatever the device of the first.
HOST_ARGUMENTS = {"tensor_split"}


def moved(value, device):
    """A tensor, or what else stands among arguments, on the device, strides kept."""
    if isinstance(value, torch.device):
        return torch.device(device)
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout != torch.strided:
        result = value.detach().to(device)
    elif not value.is_contiguous() and 0 not in value.stride():
        result = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
        with torch.no_grad():
            result.copy_(value)
    else:
        result = value.detach().to(device)
    return result.requires_grad_() if value.requires_grad else result


def on_device(arguments, device, name=""):
    """The arguments there; a sample without tensors is asked for its results there."""
    stay = [tensor for tensor in tensors_of(arguments[1:]) if name in HOST_ARGUMENTS]
    given, args, kwargs = map_tensors(
        lambda tensor: copy(tensor) if any(tensor is own for own in stay) else moved(tensor, device), arguments)
    kwargs = {key: device if key == "device" else value for key, value in kwargs.items()}
    return given, pytree.tree_map(lambda value: moved(value, device) if isinstance(value, torch.device) else value, args), kwargs


def in_place(sample, arguments):
    """The in-place variant's outcome; None where there is none."""
    variant = getattr(sample.operator, "inplace_variant", None)
    if variant is None or not isinstance(arguments[0], torch.Tensor):
        return None
    torch.manual_seed(11)
    given, args, kwargs = arguments
    outcome = Outcome(where="in place")
    try:
        with torch.no_grad():
            given = given.detach()
            variant(given, *args, **kwargs)
            outcome.leaves = [given]
    except Exception as error:  # the verdict is for the caller
        outcome.error = first_line(error)
    return outcome


class Pair:
    """A sample with its arguments on both sides, made with the switch off, and what came of them."""

    def __init__(self, sample, device):
        self.sample = sample
        self.error = ""
        try:
            self.sides = [[copy(sample.arguments) for _ in range(2)],
                          [on_device(sample.arguments, device, sample.operator.name) for _ in range(2)]]
        except Exception as error:  # sparse and others that the device has no form of
            self.error = first_line(error)
        self.cpu = self.there = self.cpu_in_place = self.there_in_place = None
        self.stock = ""

    def compute(self, device, most, stock_arithmetic):
        if self.error:
            return
        self.cpu = call(self.sample, self.sides[0][0])
        if self.cpu.error or self.elements() > most:
            return
        with torch.device(device if not tensors_of(self.sample.arguments) else "cpu"):
            stock_arithmetic()
            self.there = call(self.sample, self.sides[1][0])
            self.cpu_in_place = in_place(self.sample, self.sides[0][1])
            if self.cpu_in_place is not None and not self.cpu_in_place.error and not self.there.error:
                self.there_in_place = in_place(self.sample, self.sides[1][1])
            self.stock = stock_arithmetic()

    def elements(self):
        tensors = tensors_of(self.sample.arguments) + [x for x in self.cpu.leaves or [] if isinstance(x, torch.Tensor)]
        return sum(tensor.numel() for tensor in tensors)


def check(name, samples, device, most, stock_arithmetic=lambda: ""):
    """[Verdict, ...]. most: elements of arguments and results. stock_arithmetic(): names since its last call."""
    pairs = [Pair(sample, device) for sample in samples]
    with isobit.enabled():
        for pair in pairs:
            pair.compute(device, most, stock_arithmetic)
    return [_verdict(name, pair, device) for pair in pairs]


def _verdict(name, pair, device):
    if pair.error:
        return Verdict("skipped", f"no such tensors on the device: {pair.error}")
    if pair.cpu.error:
        return Verdict("cpu" if pair.cpu.refused else "skipped", pair.cpu.error)
    if pair.there is None:
        return Verdict("large")
    if pair.there.refused:
        return Verdict("refused", pair.there.error, (pair.there.where,))
    if pair.there.error:
        return Verdict("fail", f"raises ({pair.there.where}): {pair.there.error}")
    if pair.stock:
        return Verdict("fail", f"stock's arithmetic: {pair.stock}")
    different = compared(pair.cpu, pair.there, device, name)
    if different:
        return Verdict("fail", different)
    notes = ["gradients"] * (pair.there.gradients is not None)
    if pair.there_in_place is not None:
        if pair.there_in_place.refused:
            return Verdict("refused", pair.there_in_place.error, ("in place",))
        if pair.there_in_place.error:
            return Verdict("fail", f"raises (in place): {pair.there_in_place.error}")
        different = compared(pair.cpu_in_place, pair.there_in_place, device, name)
        if different:
            return Verdict("fail", f"in place: {different}")
        notes.append("in place")
    return Verdict("pass", notes=tuple(notes))


def to_host(leaves):
    return None if leaves is None else [leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def compared(cpu, there, device, name=""):
    """A text that says what is not as on the CPU, or ""."""
    if cpu.random != there.random:
        return "only one of CPU and device draws"
    elsewhere = [place for place, leaf in enumerate(there.leaves)
                 if isinstance(leaf, torch.Tensor) and leaf.device.type != torch.device(device).type]
    if elsewhere and name not in HOST_RESULTS:
        return f"result {elsewhere[0]} lies on {there.leaves[elsewhere[0]].device}"
    if name in UNINITIALISED:
        shapes = [[tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else leaf for leaf in side.leaves]
                  for side in (cpu, there)]
        return "" if shapes[0] == shapes[1] else f"shapes {shapes[0]} and {shapes[1]}"
    text = comparison.lists_differ(to_host(cpu.leaves), to_host(there.leaves))
    if text:
        return f"bits (CPU against device): {text}"
    text = comparison.lists_differ(to_host(cpu.gradients), to_host(there.gradients))
    return text and f"bits (CPU against device), gradient, {text}"


def stock_arithmetic_of(emulated_library):
    """See op_samples.emulated; on hardware nobody sees that."""
    if emulated_library is None:
        return lambda: ""
    from op_samples import emulated

    return emulated.stock_arithmetic(emulated_library)
