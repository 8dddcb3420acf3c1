"""How far a model's first gradients are from stock PyTorch's in float64, and whether that is within the bound.

All gradients of a model, joined, are one vector. With g isobit's, s stock's in float32, v stock's in float64 on the same
weights:

    |g - v| <= 4 |s - v| + 2^-18 |v|        (Euclidean norms)

Less is not asked for, since a sum in another order errs otherwise; a wrong formula is beyond it. Where stock cannot run the
model in float64, s takes the place of v and the bound is 2^-10 |s|. Dropout is off, as its masks are drawn from
other numbers; a model that draws for itself (a sampled latent, masked patches) has no gradients to compare.

Batch normalisation over the few values of a small batch divides by variances near zero, and then neither is near v. Where the
bound is not kept, or stock's own error is above 2^-10, such a model is compared again with running statistics, and its row says
so.
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


def converted(value, dtype):
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {name: converted(part, dtype) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(converted(part, dtype) for part in value)
    return value.to(dtype) if hasattr(value, "to") else value


def in_float64(case):
    return Case(case.model.double(), converted(case.inputs, torch.float64), case.loss)


def compare(entry):
    """{"error": relative to |v|, "stock": that of stock's float32, "against", "within", "statistics"} or {"draws": True}."""
    torch.set_num_threads(1)
    with isobit.enabled():
        isobit.seed(1)
        case = entry.make()
    found = _compare(case, running=False)
    unclear = found.get("within") is False or found.get("stock", 0) > UNCLEAR
    if unclear and any(isinstance(module, _BATCH_NORM) for module in case.model.modules()):
        found = {**_compare(case, running=True), "statistics": "running"}
    return found


def _compare(case, running):
    case.model.train()
    for module in case.model.modules():
        if running and isinstance(module, _BATCH_NORM):
            module.eval()
    with without_dropout(case.model):
        copies = [copy.deepcopy(case.model) for _ in range(2)]
        with isobit.enabled():
            ours = gradients(Case(copy.deepcopy(case.model), case.inputs, case.loss))
        stock = gradients(Case(copies[0], case.inputs, case.loss))
        if ours is None or stock is None:
            return {"draws": True}
        exact = outcome(lambda: {"gradients": gradients(in_float64(Case(copies[1], case.inputs, case.loss)))}).get("gradients")
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
