"""One operator's samples: stock's answers, ours in every variant, the verdicts.

pass      bits equal in all variants, values and gradients within the bound
refused   isobit refuses it, in every variant alike: forward, or only in backward
skipped   stock PyTorch itself raises
fail      anything else
"""

import collections
import dataclasses

import torch
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

from op_samples import comparison
from op_samples.calls import call, cotangents_for
from op_samples.samples import copy, in_float64, splits, tensors_of
from op_samples.variants import each_variant, labels, variants

# Their results are memory as it was found; only types and shapes can be compared.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_",
                 "resize_as_"}
# Stock's native functions read past arguments that do not fit together, as the halves of a batch may.
UNCHECKED = {"lu_unpack", "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"}


# Of float64 samples stock's value is no measure: its gradient multiplies by a binary32 sixth.
ROUGH_IN_FLOAT64 = {"nn.functional.hardsigmoid"}
# Of 16-bit samples: statistics stay float32, of equal numbers (there are many) stock takes any, isobit the first.
OTHERWISE_IN_16_BITS = {"native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "native_group_norm",
                        "native_layer_norm", "argsort", "mode", "msort", "sort", "topk"}
# A gradient that is exactly zero (a correlation with itself is 1): what rounding leaves of its terms has no measure in it.
CANCELS = {"corrcoef"}


@dataclasses.dataclass
class Verdict:
    kind: str  # pass, refused, skipped, fail
    reason: str = ""
    notes: tuple = ()  # what was compared besides: "batch", "strides", "values", "gradients"; "draws"


@dataclasses.dataclass
class Case:
    """A sample with all that was computed of it."""

    sample: object
    stock: object = None
    exact: object = None
    cotangents: list = None
    ways: list = dataclasses.field(default_factory=list)  # (arguments, cotangents) pairs of halves that stock confirms
    copies: list = None  # of the arguments, one for each variant: made with the switch off
    ours: list = dataclasses.field(default_factory=list)  # one outcome for each variant
    may_stride: bool = False  # stock gives the same on the sample's other strides (as_strided does not)
    strided: object = None
    halves: list = None


def check(name, samples):
    """[Verdict, ...] of one operator's samples."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    cases = [_stock(sample, name not in UNCHECKED) for sample in samples]
    torch.set_num_threads(threads)
    with each_variant() as places:
        for place in places:
            for case in cases:
                if not case.stock.error:
                    _ours(case, place)
    return [_verdict(name, case) for case in cases]


def _stock(sample, may_split):
    case = Case(sample, stock=call(sample, copy(sample.arguments)))
    if case.stock.error:
        return case
    case.exact = call(sample, in_float64(sample.arguments))
    if may_split and not case.stock.random and not case.exact.error:
        case.ways = _confirmed_splits(case)
    if sample.strided is not None:
        other = call(sample, copy(sample.strided))
        case.may_stride = not other.error and not comparison.lists_far(other.leaves, case.stock.leaves)
    case.copies = [copy(sample.arguments) for _ in variants()]
    return case


def _ours(case, place):
    case.ours.append(call(case.sample, case.copies[place]))
    if case.ours[0].error:
        return
    if place == 1 and case.may_stride:
        case.strided = call(case.sample, case.sample.strided)
    if place == 1 and case.ways:
        halves, cotangents = case.ways[0]
        case.halves = [call(case.sample, half, weights) for half, weights in zip(halves, cotangents, strict=True)]


# ---- batch splits


def _confirmed_splits(case):
    """The first way to cut the batch whose parts are, in stock's float64, the parts of the whole."""
    if not all(isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided for leaf in case.exact.leaves):
        return []
    for place, first, second in splits(case.sample.arguments):
        length = place + _length(second)
        if not all(leaf.dim() > 0 and leaf.shape[0] == length for leaf in case.exact.leaves):
            continue
        weights = None
        if case.exact.gradients is not None:
            whole = _shaped_cotangents(case.exact.leaves)
            weights = [[w[:place].clone() for w in whole], [w[place:].clone() for w in whole]]
        parts = [call(case.sample, in_float64(half), weights and weights[i]) for i, half in enumerate((first, second))]
        if any(part.error or len(part.leaves) != len(case.exact.leaves) for part in parts):
            continue
        if not _joined_close(case.exact.leaves, parts[0].leaves, parts[1].leaves):
            continue
        return [((first, second), weights or [None, None])]
    return []


def _length(arguments):
    lead = arguments[0]
    return (lead[0] if isinstance(lead, (list, tuple)) else lead).shape[0]


def _shaped_cotangents(leaves):
    floating = [leaf.clone().requires_grad_() for leaf in leaves if leaf.is_floating_point() or leaf.is_complex()]
    return cotangents_for(floating)


def _joined(first, second):
    return [torch.cat([a, b]) for a, b in zip(first, second, strict=True)]


def _joined_close(whole, first, second):
    try:
        joined = _joined(first, second)
    except RuntimeError:
        return False
    return all(a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, rtol=1e-9, atol=1e-11, equal_nan=True)
               for a, b in zip(joined, whole, strict=True))


# ---- verdicts


def _verdict(name, case):
    if case.stock.error:
        return Verdict("skipped", f"stock: {case.stock.error}")
    refused = [outcome.refused for outcome in case.ours]
    if all(refused):
        return Verdict("refused", case.ours[0].error, (case.ours[0].where,))
    label = labels()
    for place, outcome in enumerate(case.ours):
        if outcome.error:
            return Verdict("fail", f"raises ({label[place]}, {outcome.where}): {outcome.error}")
    if name in UNINITIALISED:
        return Verdict("pass", notes=("uninitialised",))
    for place, outcome in enumerate(case.ours[1:], 1):
        different = _differ(case.ours[0], outcome)
        if different:
            return Verdict("fail", f"bits ({label[0]} against {label[place]}): {different}")
    notes = []
    for compared in (_strides, _batch, _values):
        different = compared(case, notes)
        if different:
            return Verdict("fail", different, tuple(notes))
    return Verdict("pass", notes=tuple(notes))


def _differ(ours, other):
    text = comparison.lists_differ(ours.leaves, other.leaves)
    if text:
        return text
    text = comparison.lists_differ(ours.gradients, other.gradients)
    return text and f"gradient, {text}"


def _strides(case, notes):
    if case.strided is None:
        return ""
    if case.strided.error:
        return f"raises on other strides: {case.strided.error}"
    if case.strided.random != case.ours[0].random:
        return "draws depend on strides"
    notes.append("strides")
    different = _differ(case.ours[1], case.strided)
    return different and f"bits (strides): {different}"


def _batch(case, notes):
    if case.halves is None:
        return ""
    for half in case.halves:
        if half.error:
            return "" if half.refused else f"raises on part of a batch: {half.error}"
    notes.append("batch")
    if len(case.halves[0].leaves) != len(case.halves[1].leaves):
        return "parts of a batch give different numbers of results"
    whole = case.ours[1]
    different = comparison.lists_differ(whole.leaves, _joined(case.halves[0].leaves, case.halves[1].leaves))
    return different and f"bits (batch split): {different}"


def _values(case, notes):
    if comparison.wide and case.sample.operator.name in ROUGH_IN_FLOAT64:
        return ""
    if comparison.unit and case.sample.operator.name in OTHERWISE_IN_16_BITS:
        return ""
    if case.ours[0].random:
        notes.append("draws")
        return ""
    exact = case.exact if not case.exact.error and len(case.exact.leaves) == len(case.stock.leaves) else case.stock
    notes.append("values" if exact is case.exact else "values against stock")
    if case.ours[0].form != case.stock.form:
        return f"result {case.ours[0].form}, stock {case.stock.form}"
    for place, leaves in enumerate(zip(case.ours[0].leaves, case.stock.leaves, exact.leaves, strict=True)):
        different = comparison.beyond_bound(*leaves, _elementwise(case))
        if different:
            return f"value {place}: {different}"
    return _gradients(case, exact, notes)


def _gradients(case, exact, notes):
    ours, stock = case.ours[0].gradients, case.stock.gradients
    if (ours is None) != (stock is None):
        return "gradients: only one of isobit and stock has them"
    if ours is None:
        return ""
    notes.append("gradients")
    for place, (a, b, v) in enumerate(zip(ours, stock, exact.gradients or stock, strict=True)):
        if a is None and b is None:
            continue
        if a is None or b is None:
            if _all_zero(a) and _all_zero(b):
                continue
            return f"gradient {place}: only one of isobit and stock has it"
        if getattr(case.sample.operator, "name", "") in CANCELS and _all_zero(v) and float(a.abs().max()) < 2.0**-20:
            continue
        different = comparison.beyond_bound(a, b, v if v is not None else b, _elementwise(case))
        if different:
            return f"gradient {place}: {different}"
    return ""


def _elementwise(case):
    shapes = {tensor.shape for tensor in tensors_of(case.sample.arguments)}  # broadcasting sums gradients
    return isinstance(case.sample.operator, (UnaryUfuncInfo, BinaryUfuncInfo)) and len(shapes) == 1


def _all_zero(gradient):
    return gradient is None or not bool(gradient.to_dense().count_nonzero())


def count(verdicts):
    return collections.Counter(verdict.kind for verdict in verdicts)
