"""One call of an operator, with its gradients, and what came of it."""

import dataclasses
import warnings

import numpy
import torch
from torch.utils import _pytree as pytree

from op_samples.samples import tensors_of

REFUSAL = "isobit: "


@dataclasses.dataclass
class Outcome:
    """Either an error, or the result's leaves and the gradients of the arguments that ask for one."""

    leaves: list = None
    form: object = None
    gradients: list = None  # None: nothing to differentiate
    error: str = ""         # first line
    where: str = ""         # "forward", "backward"
    random: bool = False    # it drew random numbers

    @property
    def refused(self):
        return self.error.startswith(REFUSAL)


def first_line(error):
    text = str(error).strip()
    return (text.splitlines()[0] if text else type(error).__name__)[:300]


def differentiable(leaves):
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]


def cotangents_for(leaves):
    """Numbers of their own for each result that has a gradient, whatever the switch."""
    draw = numpy.random.RandomState(7)
    made = []
    for leaf in differentiable(leaves):
        numbers = torch.from_numpy(draw.uniform(-1, 1, tuple(leaf.shape)).astype(numpy.float32))
        made.append(numbers.to(device=leaf.device, dtype=leaf.dtype))
    return made


def call(sample, arguments, cotangents=None):
    """Calls the operator on the arguments, which it may change. cotangents: a list, or None to draw them."""
    torch.manual_seed(11)
    before = torch.get_rng_state()
    outcome = Outcome(where="forward")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            given, args, kwargs = arguments
            result = sample.operator(given, *args, **kwargs)
            leaves, outcome.form = pytree.tree_flatten(result)
            outcome.leaves = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            outcome.where = "backward"
            if sample.operator.supports_autograd:
                processed = pytree.tree_leaves(sample.process(result))
                outcome.gradients = _gradients(processed, arguments, cotangents)
        except Exception as error:  # the verdict is for the caller
            outcome.error = first_line(error)
    outcome.random = not bool((torch.get_rng_state() == before).all())
    return outcome


def _gradients(leaves, arguments, cotangents):
    inputs = [tensor for tensor in tensors_of(arguments) if tensor.requires_grad]
    outputs = differentiable(leaves)
    if not inputs or not outputs:
        return None
    if cotangents is None:
        cotangents = cotangents_for(leaves)
    if [tuple(w.shape) for w in cotangents] != [tuple(o.shape) for o in outputs]:
        raise ValueError(f"results of shapes {[tuple(o.shape) for o in outputs]}, "
                         f"stock's are {[tuple(w.shape) for w in cotangents]}")
    weights = [weight.to(device=output.device, dtype=output.dtype) for weight, output in zip(cotangents, outputs, strict=True)]
    found = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
    return [None if gradient is None else gradient.detach() for gradient in found]
