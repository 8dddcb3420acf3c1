"""How far a model's first gradients are from stock PyTorch's in float64, and whether that is within the bound.

All gradients of a model, joined, are one vector. With g isobit's, s stock's in float32, v stock's in float64 on the same
weights:

    |g - v| <= 4 |s - v| + 2^-18 |v|        (Euclidean norms)

Less is not asked for, since a sum in another order errs otherwise; a wrong formula is beyond it. Where stock cannot run the
model in float64, s takes the place of v and the bound is 2^-10 |s|. Dropout is off, as its masks are drawn from
other numbers; a model that draws for itself (a sampled latent, masked patches) has no gradients to compare.

Two things that are no formula's fault put a model beyond the bound. Batch normalisation over the few values of a small batch
divides by variances near zero, and then neither is near v. And a ReLU's input near zero, or two candidates of a maximum, may
round to either side, which moves the gradient by more than any rounding. So where the bound is not kept, or stock's own error is
above 2^-10, the model is compared again with running statistics, and on inputs in other orders: a wrong formula is wrong there,
too. The row has the statistics and the order that it was judged by.
"""

import contextlib
import copy
import unittest.mock

import torch

import isobit
from model_runs.entries import Case
from model_runs.execute import call, outcome

# Layers that drop, by the attribute that holds how often.
_PROBABILITIES = ("p", "drop_prob", "dropout", "dropout_p", "attention_dropout", "layerdrop", "dropout_prob", "hidden_dropout")
UNCLEAR = 2**-10  # of stock's own relative error: then the bound says nothing
ORDERS = {
    "as it is": lambda tensor: tensor,
    "last dimension reversed": lambda tensor: tensor.flip(-1),
    "reversed": lambda tensor: tensor.flip(list(range(tensor.dim()))),
}
_BATCH_NORM = torch.nn.modules.batchnorm._BatchNorm


def _identity(value, *_arguments, **_keywords):
    return value


@contextlib.contextmanager
def without_dropout(model):
    for module in model.modules():
        for name in _PROBABILITIES:
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    functional = torch.nn.functional
    with contextlib.ExitStack() as stack:
        for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
            stack.enter_context(unittest.mock.patch.object(functional, name, _identity))
        yield


def gradients(case):
    """One vector in float64; None where the model draws random numbers."""
    before = torch.get_rng_state()
    case.model.zero_grad()
    call(case).backward()
    if not bool((torch.get_rng_state() == before).all()):
        return None
    found = [p.grad.detach().reshape(-1).double() for p in case.model.parameters() if p.grad is not None]
    return torch.cat(found)


def mapped(value, change):
    """The arguments with every floating-point tensor in them changed."""
    if isinstance(value, torch.Tensor):
        return change(value) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {name: mapped(part, change) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(part, change) for part in value)
    return value


def in_float64(case):
    return Case(case.model.double(), mapped(case.inputs, torch.Tensor.double), case.loss)


def compare(entry):
    """{"error": relative to |v|, "stock": stock's float32's, "against", "within", "statistics", "order"}, or {"draws": True}."""
    torch.set_num_threads(1)
    with isobit.enabled():
        isobit.seed(1)
        case = entry.make()
    found = _compare(case, False, ORDERS["as it is"])
    for order in ORDERS:
        if found.get("within") is not False and found.get("stock", 0) <= UNCLEAR:
            break
        running = any(isinstance(module, _BATCH_NORM) for module in case.model.modules())
        found = {**_compare(case, running, ORDERS[order]), "statistics": "running" if running else "batch", "order": order}
    return found


def _compare(case, running, reorder):
    case.model.train()
    for module in case.model.modules():
        if running and isinstance(module, _BATCH_NORM):
            module.eval()
    inputs = mapped(case.inputs, reorder)
    with without_dropout(case.model):
        copies = [copy.deepcopy(case.model) for _ in range(3)]
        with isobit.enabled():
            ours = gradients(Case(copies[0], inputs, case.loss))
        stock = gradients(Case(copies[1], inputs, case.loss))
        if ours is None or stock is None:
            return {"draws": True}
        exact = outcome(lambda: {"gradients": gradients(in_float64(Case(copies[2], inputs, case.loss)))}).get("gradients")
    return judge(ours, stock, exact)


def judge(ours, stock, exact):
    """The verdict over the three vectors; exact is None where stock has no float64."""
    if exact is None or exact.shape != ours.shape:
        size = float(stock.norm())
        error = float((ours - stock).norm())
        return {"error": error / size if size else error, "against": "float32", "within": error <= 2**-10 * size}
    size, error, own = float(exact.norm()), float((ours - exact).norm()), float((stock - exact).norm())
    scale = size or 1.0
    return {"error": error / scale, "stock": own / scale, "against": "float64", "within": error <= 4 * own + 2**-18 * size}
