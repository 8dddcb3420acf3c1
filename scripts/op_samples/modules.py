"""Every module of torch.nn under the switch: made, one forward, backward and step of SGD, in every variant.

The cases are those of PyTorch's module database (training mode, float32) and, for modules that it lacks, the ones below.
"""

import dataclasses
import warnings

import torch
from torch import nn
from torch.utils import _pytree as pytree

from op_samples import comparison
from op_samples.calls import REFUSAL, first_line
from op_samples.samples import copy
from op_samples.variants import each_variant, labels

# Bases without a computation of their own, and what is no layer.
NOT_LAYERS = {"Container", "Module", "NLLLoss2d", "RNNBase", "RNNCellBase"}


@dataclasses.dataclass
class Row:
    """works: all cases do; partly; refused: none does; fails: bits differ or an error that is no refusal."""

    name: str
    cases: int
    verdict: str
    reasons: tuple = ()


def names():
    from torch.nn import modules

    return [name for name in modules.__all__
            if name not in NOT_LAYERS and issubclass(getattr(nn, name), nn.Module)]


def _numbers(*shape):
    return torch.rand(shape) * 2 - 1


class _Mixed(nn.Module):
    """A container at work: `make` gives a module for each of its entries."""

    def __init__(self, container, entries):
        super().__init__()
        self.part = container(entries())

    def forward(self, x):
        for entry in self.part.values() if hasattr(self.part, "values") else self.part:
            x = entry(x) if isinstance(entry, nn.Module) else x * entry
        return x


class _Unpooled(nn.Module):
    def __init__(self, dimension):
        super().__init__()
        self.pool = getattr(nn, f"MaxPool{dimension}d")(2, return_indices=True)
        self.unpool = getattr(nn, f"MaxUnpool{dimension}d")(2)

    def forward(self, x):
        return self.unpool(*self.pool(x))


def _layers():
    return [nn.Linear(6, 6), nn.Tanh()]


def _factors():
    return [nn.Parameter(torch.rand(6)), nn.Parameter(torch.rand(6))]


# name: (how to make it, the inputs)
OWN = {
    "AdaptiveLogSoftmaxWithLoss": (lambda: nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10]),
                                   lambda: (_numbers(8, 16), torch.arange(8) * 2)),
    "AlphaDropout": (nn.AlphaDropout, lambda: (_numbers(4, 6),)),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), lambda: (_numbers(2, 4, 3, 3),)),
    "CosineSimilarity": (nn.CosineSimilarity, lambda: (_numbers(4, 6), _numbers(4, 6))),
    "CrossMapLRN2d": (lambda: nn.CrossMapLRN2d(3), lambda: (_numbers(2, 4, 3, 3),)),
    "Dropout": (nn.Dropout, lambda: (_numbers(4, 6),)),
    "Dropout1d": (nn.Dropout1d, lambda: (_numbers(4, 6, 5),)),
    "Dropout2d": (nn.Dropout2d, lambda: (_numbers(4, 6, 5, 5),)),
    "Dropout3d": (nn.Dropout3d, lambda: (_numbers(4, 6, 5, 5, 2),)),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(10, 5), lambda: (torch.arange(12).view(3, 4) % 10,)),
    "FeatureAlphaDropout": (nn.FeatureAlphaDropout, lambda: (_numbers(4, 6, 5),)),
    "Flatten": (nn.Flatten, lambda: (_numbers(4, 6, 5),)),
    "Fold": (lambda: nn.Fold((4, 5), (2, 2)), lambda: (_numbers(2, 12, 12),)),
    "Hardsigmoid": (nn.Hardsigmoid, lambda: (_numbers(4, 6) * 5,)),
    "Identity": (nn.Identity, lambda: (_numbers(4, 6),)),
    "LazyBatchNorm1d": (nn.LazyBatchNorm1d, lambda: (_numbers(4, 6),)),
    "LazyBatchNorm2d": (nn.LazyBatchNorm2d, lambda: (_numbers(4, 6, 3, 3),)),
    "LazyBatchNorm3d": (nn.LazyBatchNorm3d, lambda: (_numbers(4, 6, 3, 3, 2),)),
    "LazyInstanceNorm1d": (lambda: nn.LazyInstanceNorm1d(affine=True), lambda: (_numbers(4, 6, 3),)),
    "LazyInstanceNorm2d": (lambda: nn.LazyInstanceNorm2d(affine=True), lambda: (_numbers(4, 6, 3, 3),)),
    "LazyInstanceNorm3d": (lambda: nn.LazyInstanceNorm3d(affine=True), lambda: (_numbers(4, 6, 3, 3, 2),)),
    "LazyLinear": (lambda: nn.LazyLinear(5), lambda: (_numbers(4, 6),)),
    "MaxUnpool1d": (lambda: _Unpooled(1), lambda: (_numbers(2, 3, 8),)),
    "MaxUnpool2d": (lambda: _Unpooled(2), lambda: (_numbers(2, 3, 8, 6),)),
    "MaxUnpool3d": (lambda: _Unpooled(3), lambda: (_numbers(2, 3, 4, 4, 4),)),
    "ModuleDict": (lambda: _Mixed(nn.ModuleDict, lambda: dict(zip("ab", _layers(), strict=True))), lambda: (_numbers(4, 6),)),
    "ModuleList": (lambda: _Mixed(nn.ModuleList, _layers), lambda: (_numbers(4, 6),)),
    "PairwiseDistance": (nn.PairwiseDistance, lambda: (_numbers(4, 6), _numbers(4, 6))),
    "ParameterDict": (lambda: _Mixed(nn.ParameterDict, lambda: dict(zip("ab", _factors(), strict=True))),
                      lambda: (_numbers(4, 6),)),
    "ParameterList": (lambda: _Mixed(nn.ParameterList, _factors), lambda: (_numbers(4, 6),)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), lambda: (_numbers(2, 8, 3, 3),)),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), lambda: (_numbers(2, 2, 6, 6),)),
    "RReLU": (nn.RReLU, lambda: (_numbers(4, 6),)),
    "Sequential": (lambda: nn.Sequential(*_layers()), lambda: (_numbers(4, 6),)),
    "SyncBatchNorm": (lambda: nn.SyncBatchNorm(6), lambda: (_numbers(4, 6, 3),)),
    "TransformerDecoder": (lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2),
                           lambda: (_numbers(5, 3, 8), _numbers(4, 3, 8))),
    "TripletMarginLoss": (nn.TripletMarginLoss, lambda: (_numbers(4, 6), _numbers(4, 6), _numbers(4, 6))),
    "TripletMarginWithDistanceLoss": (nn.TripletMarginWithDistanceLoss,
                                      lambda: (_numbers(4, 6), _numbers(4, 6), _numbers(4, 6))),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 3)), lambda: (_numbers(4, 6),)),
    "Unfold": (lambda: nn.Unfold((2, 3), padding=1, stride=2), lambda: (_numbers(2, 3, 6, 7),)),
    "Upsample": (lambda: nn.Upsample(scale_factor=2), lambda: (_numbers(2, 3, 4, 5),)),
    "UpsamplingBilinear2d": (lambda: nn.UpsamplingBilinear2d(scale_factor=2), lambda: (_numbers(2, 3, 4, 5),)),
    "UpsamplingNearest2d": (lambda: nn.UpsamplingNearest2d(scale_factor=2), lambda: (_numbers(2, 3, 4, 5),)),
}


def cases_of(name, database):
    """[(make, (args, kwargs)), ...], tensors of floats that ask for gradients."""
    torch.manual_seed(0)
    if name in OWN:
        make, inputs = OWN[name]
        return [(make, (tuple(_differentiable(x) for x in inputs()), {}))]
    entry = database[getattr(nn, name)]
    found = entry.module_inputs_func(entry, device="cpu", dtype=torch.float32, requires_grad=True, training=True)
    return [_from_database(entry.module_cls, case) for case in found]


def _differentiable(value):
    return value.requires_grad_() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _from_database(kind, case):
    made = case.constructor_input

    def make():
        args, kwargs = copy((made.args, made.kwargs))
        return kind(*args, **kwargs)

    return make, (tuple(case.forward_input.args), dict(case.forward_input.kwargs))


def step(make, inputs, device=None):
    """Everything that one step computes, as a list of tensors."""
    args, kwargs = inputs
    torch.manual_seed(5)
    module = make().train()
    if device is not None:
        module = module.to(device)
    outputs = [leaf for leaf in pytree.tree_leaves(module(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
    trained = [output for output in outputs if output.requires_grad]
    loss = sum(output.square().sum() for output in trained)
    if trained:
        loss.backward()
    parameters = list(module.parameters())
    if parameters:
        torch.optim.SGD(parameters, lr=0.1, momentum=0.9).step()
    gradients = [leaf.grad for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    return [value.detach().clone() for value in [*outputs, *gradients, *module.state_dict().values()]
            if isinstance(value, torch.Tensor)]


def outcome(make, inputs, device=None):
    """Either step's list, or the error's first line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return step(make, inputs, device)
        except Exception as error:  # the verdict is the caller's
            return first_line(error)


def reason_of(outcomes):
    """ "" where all variants gave the same bits; else the refusal, or what is wrong (it begins with FAILS)."""
    texts = [result for result in outcomes if isinstance(result, str)]
    if len(texts) == len(outcomes) and all(text.startswith(REFUSAL) for text in texts):
        return texts[0].removeprefix(REFUSAL)
    if texts:
        return f"FAILS: {texts[0]}"
    for place, other in enumerate(outcomes[1:], 1):
        different = comparison.lists_differ(outcomes[0], other)
        if different:
            return f"FAILS: {labels()[0]} against {labels()[place]}: {different}"
    return ""


def row_of(name, reasons):
    wrong = tuple(dict.fromkeys(reason for reason in reasons if reason))
    if any(reason.startswith("FAILS") for reason in wrong):
        verdict = "fails"
    elif all(reasons):
        verdict = "refused"
    else:
        verdict = "partly" if wrong else "works"
    return Row(name, len(reasons), verdict, wrong)


def all_cases():
    """name -> cases_of it"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_modules import module_db
    database = {entry.module_cls: entry for entry in module_db}
    return {name: cases_of(name, database) for name in names()}


def table():
    cases = all_cases()
    flat = [(name, make, inputs) for name, some in cases.items() for make, inputs in some]
    copies = [[copy(inputs) for _ in labels()] for _, _, inputs in flat]
    outcomes = [[] for _ in flat]
    with each_variant() as places:
        for place in places:
            for i, (_, make, _) in enumerate(flat):
                outcomes[i].append(outcome(make, copies[i][place]))
    reasons = {name: [] for name in cases}
    for (name, _, _), found in zip(flat, outcomes, strict=True):
        reasons[name].append(reason_of(found))
    return [row_of(name, reasons[name]) for name in cases]
